// Links to the blobs that data refers to.

export function Blobs({ data }: { data: unknown }) {
  const found: { name: string; id: string }[] = [];
  const visit = (value: any, name: string) => {
    if (!value || typeof value !== "object" || found.length > 20) return;
    const id = typeof value.path === "string" && (value.scheme === "file" || value.scheme === "https") && /([0-9a-f]{64})$/.exec(value.path)?.[1];
    if (id) found.push({ name, id });
    else Object.entries(value).forEach(([key, inner]) => visit(inner, key));
  };
  visit(data, "data");
  if (!found.length) return null;
  return <p>{found.map(({ name, id }) => <a key={id} class="button" href={`v1/blobs/${id}`} download={id}>Download {name}</a>)}</p>;
}
