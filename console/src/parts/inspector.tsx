// One message: both sides of its call, pretty and raw, and what leads on from it.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { has } from "../core/catalog";
import { asks, callOf, entriesOf, type Entry, find } from "../core/message";
import { link, place } from "../core/route";
import { ask } from "../core/rpc";
import { date } from "../core/time";
import { SendAgain } from "./again";
import { Blobs } from "./blobs";
import { Json } from "./json";
import { Waiting } from "./waiting";

export function Inspector({ id }: { id: string }) {
  const entry = useSignal<Entry | undefined>(undefined), other = useSignal<Entry[]>([]), failure = useSignal(""), raw = useSignal(false);
  useEffect(() => {
    let here = true;
    entry.value = undefined;
    other.value = [];
    failure.value = "";
    void (async () => {
      try {
        const found = await find(id);
        if (!here) return;
        entry.value = found;
        if (!found) { failure.value = `The journal has no message ${id}.`; return; }
        const { kind, metadata: { causation } } = found.message;
        const cause = (kind === "reply" || kind === "error") && causation ? await find(causation) : undefined;
        const around = asks(kind) ? entriesOf(await ask("message_list", [{ causation: id, kind: "reply,error", limit: 5, records: true }])) : cause ? [cause] : [];
        if (here) other.value = around;
      } catch (error) {
        if (here && !entry.peek()) failure.value = (error as Error).message;
      }
    })();
    return () => { here = false; };
  }, [id]);
  if (failure.value) return <p class="problem body" role="alert">{failure.value}</p>;
  if (!entry.value) return <Waiting />;
  return (
    <div data-testid="inspector">
      <One entry={entry.value} raw={raw.value} toggle={() => { raw.value = !raw.value; }} first />
      {other.value.map((one) => <One key={one.seq} entry={one} raw={raw.value} />)}
    </div>
  );
}

function One({ entry: { at, message }, raw, toggle, first }: { entry: Entry; raw: boolean; toggle?(): void; first?: boolean }) {
  const { kind, type, data, metadata } = message;
  const workflow = metadata.correlation ?? metadata.id;
  return (
    <section class="one">
      <div class="bar">
        <span class={`kind ${kind}`}>{kind}</span><h2 class="mono">{type}</h2>
        <span class="row choices">
          {toggle && <button onClick={toggle} aria-pressed={raw}>Raw</button>}
          {first && has("message_graph") && place.value.view !== "workflows" && <a class="button" href={link("workflows", [workflow], { at: metadata.id })}>Workflow</a>}
          {first && asks(kind) && <SendAgain key={metadata.id} message={message} />}
          {first && asks(kind) && <a class="button" href={link("call", callOf(type), { data: JSON.stringify(data) })} title="Fill the form with it">Edit</a>}
        </span>
      </div>
      {raw ? <pre class="json body" tabIndex={0}>{JSON.stringify(message)}</pre> : (
        <div class="body">
          <dl class="facts">
            <dt>id</dt><dd class="mono"><a href={link("messages", [metadata.id])}>{metadata.id}</a></dd>
            <dt>time</dt><dd>{date(at)}</dd>
            {metadata.correlation && <><dt>workflow</dt><dd class="mono"><a href={link("messages", [], { filter: `corr:${metadata.correlation}` })}>{metadata.correlation}</a></dd></>}
            {metadata.causation && <><dt>cause</dt><dd class="mono"><a href={link("messages", [metadata.causation])}>{metadata.causation}</a></dd></>}
          </dl>
          <Blobs data={data} />
          <Json value={data} />
        </div>
      )}
    </section>
  );
}
