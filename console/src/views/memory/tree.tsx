// The keys as a tree: each folder is read when it is opened, a page at a time.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "../../core/rpc";
import { Waiting } from "../../parts/waiting";
import { changed, keyLink } from "./store";

const pageSize = 200;

export function Folder({ prefix, chosen, empty }: { prefix: string; chosen: string; empty?(): any }) {
  const names = useSignal<string[] | undefined>(undefined), cursor = useSignal<string | undefined>(undefined), failure = useSignal("");
  const load = async (after?: string) => {
    try {
      const page = await ask<{ keys: string[]; cursor?: string }>("memory_list", [{ prefix: prefix || undefined, cursor: after, limit: pageSize }]);
      names.value = after ? [...(names.peek() ?? []), ...page.keys] : page.keys;
      cursor.value = page.cursor;
      failure.value = "";
    } catch (error) { failure.value = (error as Error).message; }
  };
  useEffect(() => { void load(); }, [prefix, changed.value]);
  if (failure.value) return <p class="problem body" role="alert">{failure.value}</p>;
  if (!names.value) return empty ? <Waiting /> : null;
  if (!names.value.length) return empty?.() ?? null;
  return (
    <ul data-testid="keys">
      {names.value.map((name) => (name.endsWith("/")
        ? <Branch key={name} name={name} chosen={chosen} />
        : <li key={name}><a class="mono" href={keyLink(name)} aria-current={name === chosen ? "page" : undefined} data-testid="key">{last(name)}</a></li>))}
      {cursor.value && <li><button class="small" onClick={() => void load(cursor.peek())}>More</button></li>}
    </ul>
  );
}

function Branch({ name, chosen }: { name: string; chosen: string }) {
  const within = chosen.startsWith(name), open = useSignal(within);
  useEffect(() => { if (within) open.value = true; }, [within]);
  return (
    <li>
      <button class="plain folder mono" aria-expanded={open.value} data-testid="folder" onClick={() => { open.value = !open.value; }}><svg width="8" height="8" aria-hidden="true"><path d={open.value ? "M0 2h8L4 7z" : "M2 0v8l5-4z"} fill="currentColor" /></svg> {last(name.slice(0, -1))}/</button>
      {open.value && <Folder prefix={name.slice(0, -1)} chosen={chosen} />}
    </li>
  );
}

const last = (name: string) => name.slice(name.lastIndexOf("/") + 1);
