// One message: both sides of its call, pretty and raw, and what leads on from it.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { has } from "../core/catalog";
import { asks, callOf, type Message } from "../core/message";
import { link, place } from "../core/route";
import { ask } from "../core/rpc";
import { date } from "../core/time";
import { SendAgain } from "./again";
import { Blobs } from "./blobs";
import { Json } from "./json";

export function Inspector({ id }: { id: string }) {
  const message = useSignal<Message | undefined>(undefined), other = useSignal<Message[]>([]), failure = useSignal(""), raw = useSignal(false);
  useEffect(() => {
    let here = true;
    message.value = undefined;
    other.value = [];
    failure.value = "";
    void (async () => {
      try {
        const found = await ask<Message>("message_get", [{ id }]);
        if (!here) return;
        message.value = found;
        const answers = found.kind === "reply" || found.kind === "error";
        if (answers && found.metadata.causation) other.value = [await ask<Message>("message_get", [{ id: found.metadata.causation }])];
        else if (asks(found.kind)) other.value = (await ask("message_list", [{ causation: id, kind: "reply,error", limit: 5 }])).messages ?? [];
      } catch (error) {
        if (here && !message.peek()) failure.value = (error as Error).message;
      }
    })();
    return () => { here = false; };
  }, [id]);
  if (failure.value) return <p class="problem body" role="alert">{failure.value}</p>;
  if (!message.value) return null;
  return (
    <div data-testid="inspector">
      <One message={message.value} raw={raw.value} toggle={() => { raw.value = !raw.value; }} first />
      {other.value.map((m) => <One key={m.metadata.id} message={m} raw={raw.value} />)}
    </div>
  );
}

function One({ message, raw, toggle, first }: { message: Message; raw: boolean; toggle?(): void; first?: boolean }) {
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
            <dt>time</dt><dd>{date(metadata.timestamp)}</dd>
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
