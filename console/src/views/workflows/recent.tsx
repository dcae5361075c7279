// The latest workflows, for choosing one.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Message } from "../../core/message";
import { link } from "../../core/route";
import { ask } from "../../core/rpc";
import { clock } from "../../core/time";

const most = 100;

export function Recent() {
  const found = useSignal<Message[] | undefined>(undefined), failure = useSignal("");
  useEffect(() => {
    ask("message_list", [{ kind: "command,query", order: "desc", limit: 1000 }]).then((answer) => {
      const first = new Map<string, Message>(); // of each workflow, the request that began it
      const asked = ((answer.messages ?? []) as Message[]).filter((message) => !message.type.startsWith("Message.")); // questions about the journal, most of them this page's own
      for (const message of asked) first.set(message.metadata.correlation ?? message.metadata.id, message);
      found.value = [...first.values()].slice(0, most);
    }, (error) => { failure.value = error.message; });
  }, []);
  if (failure.value) return <p class="problem body" role="alert">{failure.value}</p>;
  if (!found.value) return null;
  if (!found.value.length) return <div class="empty"><p>What one message led to will be drawn here.</p><a class="button" href={link("call")}>Call something</a></div>;
  return (
    <>
      <div class="bar"><h2>Latest workflows</h2></div>
      <ul class="recent" data-testid="recent">
        {found.value.map(({ kind, type, metadata }) => (
          <li key={metadata.id}><a class="message" href={link("workflows", [metadata.correlation ?? metadata.id])}>
            <span class="faint mono">{clock(metadata.timestamp)}</span>
            <span class={`kind ${kind}`}>{kind}</span><span class="mono type">{type}</span><span class="faint mono clip">{metadata.correlation ?? metadata.id}</span>
          </a></li>
        ))}
      </ul>
    </>
  );
}
