// The blobs that data refers to: each can be shown here, or downloaded.
import { useSignal } from "@preact/signals";
import { parse } from "../core/json";
import { Json } from "./json";

const most = 256 << 10; // bytes of a text that are shown

export function Blobs({ data }: { data: unknown }) {
  const found: { name: string; id: string }[] = [];
  const visit = (value: any, path: string[]) => {
    if (!value || typeof value !== "object" || found.length > 20) return;
    const id = typeof value.path === "string" && (value.scheme === "file" || value.scheme === "https") && /([0-9a-f]{64})$/.exec(value.path)?.[1];
    if (id) found.push({ name: path.join(".") || "data", id });
    else Object.entries(value).forEach(([key, inner]) => visit(inner, [...path, key]));
  };
  visit(data, []);
  return <>{found.map(({ name, id }) => <Blob key={name + id} name={name} id={id} />)}</>;
}

interface Content { text?: string; json?: unknown; cut?: boolean; failure?: string }

function Blob({ name, id }: { name: string; id: string }) {
  const content = useSignal<Content | undefined>(undefined), address = `v1/blobs/${id}`, now = content.value;
  const toggle = async () => {
    if (content.peek()) { content.value = undefined; return; }
    try { content.value = await read(address); } catch (failure) { content.value = { failure: (failure as Error).message }; }
  };
  return (
    <div class="blob" data-testid="blob">
      <div class="row"><button aria-expanded={!!now} onClick={() => void toggle()}>{now ? "Hide" : "Show"} {name}</button><a class="button" href={address} download={id}>Download {name}</a></div>
      {now && (now.failure !== undefined ? <p class="problem" role="alert">{now.failure}</p>
        : now.json !== undefined ? <Json value={now.json} />
        : now.text !== undefined ? <pre class="json" tabIndex={0} role="region" aria-label={name}>{now.text}</pre>
        : <img src={address} alt={name} onError={() => { content.value = { failure: "This is neither a text nor a picture. Download it to see it." }; }} />)}
      {now?.cut && <p class="quiet">This is the beginning. Download it to see all of it.</p>}
    </div>
  );
}

/** The content of a blob, as far as it is shown; {} if it isn't a text. */
async function read(address: string): Promise<Content> {
  const answer = await fetch(address, { headers: { Range: `bytes=0-${most - 1}` } });
  if (!answer.ok) throw new Error((await answer.json()).message);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await answer.arrayBuffer(), { stream: true }); // the end may be half a letter
  } catch { return {}; }
  const cut = answer.status === 206 && Number(answer.headers.get("Content-Range")?.split("/")[1]) > most;
  if (cut) return { text, cut };
  try { return { json: parse(text) }; } catch { return { text }; }
}
