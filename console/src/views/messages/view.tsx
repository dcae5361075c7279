// The messages of the journal, live and back in time, and the one that is looked at.
import { computed, effect, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { bind } from "../../core/keys";
import { isSealed } from "../../core/json";
import type { Entry } from "../../core/message";
import { link, note, place } from "../../core/route";
import { Inspector } from "../../parts/inspector";
import { Rows } from "../../parts/rows";
import { earlier, entries, loadEarlier, loading, problem, show, stop } from "./store";

const line = computed(() => place.value.query.get("filter") ?? "");
const chosen = computed(() => place.value.rest[0] ?? "");

const address = (id?: string, filter = line.peek()) => link("messages", id ? [id] : [], { filter });

export default function Messages() {
  const typed = useSignal(line.peek()), following = useSignal(true), seen = useSignal(0);
  useEffect(() => {
    const end = effect(() => { void show(line.value); });
    return () => { end(); stop(); };
  }, []);
  useEffect(() => { // what is typed becomes the filter when the typing pauses
    if (typed.value === line.peek()) return;
    const timer = setTimeout(() => note(address(undefined, typed.peek())), 150);
    return () => clearTimeout(timer);
  }, [typed.value]);
  const move = (by: number) => {
    const all = entries.peek(), at = all.findIndex((entry) => entry.message?.metadata.id === chosen.peek());
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? all.length - 1 : at + by))];
    if (next?.message) { following.value = false; note(address(next.message.metadata.id)); }
  };
  useEffect(() => bind(
    { keys: "/", does: "filter the messages", run: () => document.querySelector<HTMLElement>("[data-testid=filter]")?.focus() },
    { keys: "j", does: "the next message", run: () => move(1) },
    { keys: "k", does: "the message before", run: () => move(-1) },
    { keys: "f", does: "follow new messages, or stop", run: () => { following.value = !following.peek(); } },
  ), []);
  const all = entries.value;
  const index = chosen.value ? all.findIndex((entry) => entry.message?.metadata.id === chosen.value) : -1;
  const fresh = following.value ? 0 : Math.max(0, all.length - seen.value);
  if (following.value) seen.value = all.length;
  return (
    <div class="panes wide" data-testid="messages">
      <div class="column">
        <div class="bar">
          <input class="spread mono" type="search" aria-label="Filter messages" placeholder="kind:error type:Http.* corr:… since:5m milk" data-testid="filter" spellcheck={false}
            value={typed.value} onInput={(event) => { typed.value = event.currentTarget.value; }}
            onKeyDown={(event) => { if (event.key === "Enter") note(address(undefined, typed.peek())); }} />
          <button aria-pressed={following.value} title="Follow new messages (f)" onClick={() => { following.value = !following.value; }}>{following.value ? "Following" : "Follow"}</button>
        </div>
        {problem.value && <p class="problem body" role="alert" data-testid="problem">{problem.value}</p>}
        {all.length ? (
          <Rows rows={all} label="Messages" follow={following.value} selected={index} row={(entry) => <Row entry={entry} chosen={chosen.value} />}
            onTop={() => { if (earlier.peek()) void loadEarlier(line.peek()); }}
            onScroll={(atEnd) => { if (!atEnd) following.value = false; }} />
        ) : !loading.value && !problem.value && (
          <div class="empty"><p>{line.value ? "No message matches the filter." : "Nothing has been recorded yet."}</p>
            {line.value ? <button onClick={() => { typed.value = ""; note(address(undefined, "")); }}>Clear the filter</button> : <a href={link("call")}>Call something</a>}</div>
        )}
        <div class="foot faint" role="status">
          {all.length.toLocaleString()} shown{earlier.value && ", more before"}
          {fresh > 0 && <button class="small" data-testid="new" onClick={() => { following.value = true; }}>{fresh.toLocaleString()} new</button>}
        </div>
      </div>
      <div>{chosen.value ? <Inspector id={chosen.value} /> : <div class="empty"><p>Choose a message to see all of it.</p></div>}</div>
    </div>
  );
}

const hours = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" }); // made once: making one takes as long as drawing a row
const clock = (at: number) => `${hours.format(at)}.${String(at % 1000).padStart(3, "0")}`;

function Row({ entry, chosen }: { entry: Entry; chosen: string }) {
  if (entry.gap) return <span class="gap">{entry.gap}</span>;
  const { kind, type, data, metadata } = entry.message;
  return (
    <a class="message" href={address(metadata.id)} aria-current={metadata.id === chosen ? "true" : undefined} onClick={(event) => { event.preventDefault(); note(address(metadata.id)); }}>
      <span class="faint mono">{clock(entry.at)}</span>
      <span class={`kind ${kind}`}>{kind}</span>
      <span class="mono type">{type}</span>
      <span class="faint mono clip">{entry.claim && "claim "}{preview(data)}</span>
    </a>
  );
}

/** The beginning of a value, for one line. Long values are not written out whole first. */
function preview(value: unknown): string {
  if (value && typeof value === "object" && "message" in value && "code" in value) return `${(value as any).code} ${(value as any).message}`.slice(0, 200);
  return (JSON.stringify(value, (_, inner) => (isSealed(inner) ? "sealed" : inner)) ?? "").slice(0, 200);
}
