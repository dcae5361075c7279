// The latest workflows, for choosing one: what has led to more than one request, or has a name, and single calls if they are asked for.
// They are shown as they begin.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { entriesOf, type Entry } from "../../core/message";
import { link, note, place } from "../../core/route";
import { ask } from "../../core/rpc";
import { clock } from "../../core/time";
import { watch } from "../../core/watch";
import { roving } from "../../parts/roving";
import { Waiting } from "../../parts/waiting";

const most = 100;
const known = 1000; // requests that are looked through at first, and workflows that are known
const mostPages = 4; // that are asked for at first, each of at most 32 MB

interface Workflow { name: string; kind: string; type: string; seq: number; at: number; named: boolean; requests: number }

export function Recent() {
  const found = useSignal<Workflow[] | undefined>(undefined), failure = useSignal("");
  useEffect(() => {
    const all = new Map<string, Workflow>(), nameOf = new Map<string, string>(); // and the workflow of each request
    let over = false, scheduled = false, unwatch = () => {};
    const fail = (text: string) => { failure.value = text; };
    const take = ({ seq, at, message: { kind, type, metadata: { id, correlation, causation } } }: Entry) => {
      if (type.startsWith("Message.")) return; // questions about the journal, most of them this page's own
      const name = correlation ?? nameOf.get(causation ?? "") ?? id;
      const before = all.get(name) ?? { name, kind, type, seq, at, named: false, requests: 0 };
      all.set(name, { ...before, named: before.named || name === correlation, requests: before.requests + 1 });
      nameOf.set(id, name);
      if (!scheduled) { scheduled = true; requestAnimationFrame(show); }
    };
    const show = () => {
      scheduled = false;
      const latest = [...all.values()].sort((a, b) => b.seq - a.seq);
      for (const { name } of latest.splice(known)) all.delete(name);
      for (const id of nameOf.keys()) if (nameOf.size > 10 * known) nameOf.delete(id); else break;
      found.value = latest;
    };
    void (async () => {
      const requests: Entry[] = [];
      for (let cursor: string | undefined, pages = 0; pages === 0 || (cursor && requests.length < known && pages < mostPages); pages++) { // a page ends by its bytes, too
        const page = await ask("message_list", [{ kind: "command,query", order: "desc", limit: known - requests.length, records: true, cursor }]);
        if (over) return;
        requests.push(...entriesOf(page).map((entry) => ({ ...entry, message: { ...entry.message, data: undefined } })));
        cursor = page.cursor;
      }
      requests.reverse().forEach(take);
      show();
      unwatch = watch({ kind: "command,query" }, requests.at(-1)?.seq, { entry: take, problem: fail });
    })().catch((error: Error) => fail(error.message));
    return () => { over = true; unwatch(); };
  }, []);
  if (failure.value) return <p class="problem body" role="alert">{failure.value}</p>;
  if (!found.value) return <Waiting />;
  const single = place.value.query.has("single"), listed = found.value.filter(({ named, requests }) => single || named || requests > 1).slice(0, most);
  return (
    <>
      <div class="bar"><h2 class="spread">Latest workflows</h2><button aria-pressed={single} data-testid="single" onClick={() => note(link("workflows", [], { single: single ? undefined : "1" }))}>Single calls</button></div>
      {!listed.length && <div class="empty"><p>What one message led to will be drawn here.</p><a class="button" href={link("call")}>Call something</a></div>}
      <ul class="recent" ref={roving} data-testid="recent">
        {listed.map(({ name, kind, type, at, requests }) => (
          <li key={name}><a class="message" href={link("workflows", [name])}>
            <span class="faint mono">{clock(at)}</span>
            <span class={`kind ${kind}`}>{kind}</span><span class="mono type">{type}</span>
            <span class="faint mono clip">{requests > 1 && `${requests} requests, `}{name}</span>
          </a></li>
        ))}
      </ul>
    </>
  );
}
