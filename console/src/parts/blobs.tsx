// The blobs that data refers to: each can be shown here, or downloaded.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { parse } from "../core/json";
import { blobOf, fetchBlob } from "../core/reference";
import { Json } from "./json";

const most = 256 << 10; // bytes of a text that are shown

export function Blobs({ data }: { data: unknown }) {
  const found: { name: string; id: string }[] = [];
  const visit = (value: any, path: string[]) => {
    if (!value || typeof value !== "object" || found.length > 20) return;
    const id = blobOf(value);
    if (id) found.push({ name: path.join(".") || "data", id });
    else Object.entries(value).forEach(([key, inner]) => visit(inner, [...path, key]));
  };
  visit(data, []);
  return <>{found.map(({ name, id }) => <Blob key={name + id} name={name} id={id} />)}</>;
}

interface Content { text?: string; json?: unknown; image?: string; cut?: boolean; failure?: string }

/** All of a blob, at an address in this page: an element that loads something itself can't prove who it is. */
const whole = async (path: string) => URL.createObjectURL(await (await fetchBlob(path)).blob());

async function download(path: string, name: string) {
  const address = await whole(path);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}

function Blob({ name, id }: { name: string; id: string }) {
  const content = useSignal<Content | undefined>(undefined), path = `v1/blobs/${id}`, now = content.value;
  const show = async (next: () => Promise<Content | undefined>) => {
    try { content.value = await next(); } catch (failure) { content.value = { failure: (failure as Error).message }; }
  };
  const toggle = () => show(async () => (content.peek() ? undefined : read(path)));
  useEffect(() => () => { if (now?.image) URL.revokeObjectURL(now.image); }, [now]);
  return (
    <div class="blob" data-testid="blob">
      <div class="row"><button aria-expanded={!!now} onClick={() => void toggle()}>{now ? "Hide" : "Show"} {name}</button><button onClick={() => void show(async () => { await download(path, id); return content.peek(); })}>Download {name}</button></div>
      {now && (now.failure !== undefined ? <p class="problem" role="alert">{now.failure}</p>
        : now.json !== undefined ? <Json value={now.json} />
        : now.text !== undefined ? <pre class="json" tabIndex={0} role="region" aria-label={name}>{now.text}</pre>
        : <img src={now.image} alt={name} onError={() => { content.value = { failure: "This is neither a text nor a picture. Download it to see it." }; }} />)}
      {now?.cut && <p class="quiet">This is the beginning. Download it to see all of it.</p>}
    </div>
  );
}

/** The content of a blob, as far as it is shown; what isn't a text may be a picture. */
async function read(path: string): Promise<Content> {
  const answer = await fetchBlob(path, { Range: `bytes=0-${most - 1}` });
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await answer.arrayBuffer(), { stream: true }); // the end may be half a letter
  } catch { return { image: await whole(path) }; }
  const cut = answer.status === 206 && Number(answer.headers.get("Content-Range")?.split("/")[1]) > most;
  if (cut) return { text, cut };
  try { return { json: parse(text) }; } catch { return { text }; }
}
