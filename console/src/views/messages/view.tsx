// The messages of the journal, live and back in time, and the one that is looked at.
import { computed, effect, type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { bind } from "../../core/keys";
import { link, note, place } from "../../core/route";
import { clock } from "../../core/time";
import { Inspector } from "../../parts/inspector";
import { Rows } from "../../parts/rows";
import { Waiting } from "../../parts/waiting";
import { earlier, type Line, lines, loadEarlier, loading, most, problem, show, stop } from "./store";

const filter = computed(() => place.value.query.get("filter") ?? "");
const chosen = computed(() => place.value.rest[0] ?? "");

const address = (id?: string, line = filter.peek()) => link("messages", id ? [id] : [], { filter: line });

export default function Messages() {
  const following = useSignal(true);
  useEffect(() => {
    const end = effect(() => { void show(filter.value); });
    return () => { end(); stop(); };
  }, []);
  const move = (by: number) => {
    const all = lines.peek(), at = all.findIndex((line) => line.id === chosen.peek());
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? all.length - 1 : at + by))];
    if (next?.id) { following.value = false; note(address(next.id)); }
  };
  useEffect(() => bind(
    { keys: "/", does: "filter the messages", run: () => document.querySelector<HTMLElement>("[data-testid=filter]")?.focus() },
    { keys: "j", does: "the next message", run: () => move(1) },
    { keys: "k", does: "the message before", run: () => move(-1) },
    { keys: "f", does: "follow new messages, or stop", run: () => { following.value = !following.peek(); } },
  ), []);
  return (
    <div class="panes wide" data-testid="messages">
      <div class="column">
        <div class="bar">
          <Filter />
          <button aria-pressed={following.value} title="Follow new messages (f)" onClick={() => { following.value = !following.value; }}>{following.value ? "Following" : "Follow"}</button>
        </div>
        {problem.value && <p class="problem body" role="alert" data-testid="problem">{problem.value}</p>}
        <List following={following} />
        <Foot following={following} />
      </div>
      <div>{chosen.value ? <Inspector id={chosen.value} /> : <div class="empty"><p>Choose a message to see all of it.</p></div>}</div>
    </div>
  );
}

/** The filter line. It is a part of its own: a letter that is typed draws nothing else. */
function Filter() {
  const typed = useSignal(filter.peek());
  useEffect(() => effect(() => { typed.value = filter.value; }), []); // a link has another one
  useEffect(() => { // what is typed becomes the filter when the typing pauses
    if (typed.value === filter.peek()) return;
    const timer = setTimeout(() => note(address(undefined, typed.peek())), 150);
    return () => clearTimeout(timer);
  }, [typed.value]);
  return (
    <input class="spread mono" type="search" aria-label="Filter messages" placeholder="kind:error type:Http.* corr:… since:5m milk" aria-invalid={!!problem.value} data-testid="filter" spellcheck={false}
      value={typed.value} onInput={(event) => { typed.value = event.currentTarget.value; }}
      onKeyDown={(event) => { if (event.key === "Enter") note(address(undefined, typed.peek())); }} />
  );
}

function List({ following }: { following: Signal<boolean> }) {
  const all = lines.value, id = chosen.value;
  if (all.length) {
    return (
      <Rows rows={all} label="Messages" follow={following.value} selection={id} selected={id ? all.findIndex((line) => line.id === id) : -1} row={(line) => <Row line={line} chosen={line.id === id} />}
        onTop={() => { if (earlier.peek()) void loadEarlier(filter.peek()); }}
        onScroll={(atEnd) => { if (!atEnd) following.value = false; }} />
    );
  }
  if (loading.value || problem.value) return <div class="spread">{!problem.value && <Waiting />}</div>;
  return filter.value
    ? <div class="empty spread"><p>No message matches the filter.</p><button onClick={() => note(address(undefined, ""))}>Clear the filter</button></div>
    : <div class="empty spread"><p>Nothing has been recorded yet.</p><a class="button" href={link("call")}>Call something</a></div>;
}

function Foot({ following }: { following: Signal<boolean> }) {
  const all = lines.value, seen = useSignal<Line | undefined>(undefined);
  if (following.value) seen.value = all.at(-1);
  const fresh = all.length - 1 - all.lastIndexOf(seen.value!);
  return (
    <div class="foot faint" role="status">
      {all.length.toLocaleString()} shown{earlier.value && (all.length < most ? ", more before" : "; until: in the filter reaches earlier ones")}
      {fresh > 0 && <button class="small" data-testid="new" onClick={() => { following.value = true; }}>{fresh.toLocaleString()} new</button>}
    </div>
  );
}

function Row({ line: { at, id, kind, type, text, gap }, chosen }: { line: Line; chosen: boolean }) {
  if (gap) return <span class="gap">{text}</span>;
  return (
    <a class="message" href={address(id)} aria-current={chosen ? "true" : undefined} onClick={(event) => { event.preventDefault(); note(address(id)); }}>
      <span class="faint mono">{clock(at)}</span>
      <span class={`kind ${kind}`}>{kind}</span>
      <span class="mono type">{type}</span>
      <span class="faint mono clip">{text}</span>
    </a>
  );
}
