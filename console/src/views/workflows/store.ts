// The workflow that the view shows, and its messages as they are recorded.
import { signal } from "@preact/signals";
import type { Entry } from "../../core/message";
import { ask } from "../../core/rpc";
import { watch } from "../../core/watch";
import { add, type Forest, forest } from "./graph";

export const shown = signal<Forest | undefined>(undefined);
export const problem = signal("");
/** What the graph does not have, in words. */
export const missing = signal("");

let watches: (() => void)[] = [];
let generation = 0;
let incoming: Entry[] = [];
let scheduled = false;

/** Shows a workflow by its correlation, and follows it. */
export async function show(correlation: string) {
  stop();
  const mine = generation;
  shown.value = undefined;
  problem.value = missing.value = "";
  if (!correlation) return;
  try {
    const graph = await ask("message_graph", [{ correlation, format: "json" }]);
    if (mine !== generation) return;
    shown.value = forest(graph);
    if (graph.more) missing.value = "The workflow has more messages than are drawn.";
    else if (graph.dropped) missing.value = "The journal no longer has all messages of that time.";
    const after = shown.peek()!.nodes.findLast((node) => node.seq)?.seq ?? 0;
    follow({ correlation }, after);
    // A message that begins a workflow need not name it, and neither does its answer then.
    if (shown.peek()!.byId.has(correlation)) follow({ causation: correlation }, after);
  } catch (failure) {
    if (mine === generation) problem.value = (failure as Error).message;
  }
}

function follow(query: { correlation?: string; causation?: string }, after: number) {
  watches.push(watch(query, after, {
    entry: take,
    missing(count) { missing.value = `${count} messages are missing.`; },
    problem(text) { problem.value = text; },
  }));
}

/** Messages are drawn together, once per frame. */
function take(entry: Entry) {
  incoming.push(entry);
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const now = shown.peek();
    if (now) {
      for (const entry of incoming) add(now, entry);
      shown.value = { ...now };
    }
    incoming = [];
  });
}

export function stop() {
  generation++;
  watches.forEach((end) => end());
  watches = [];
  incoming = [];
}
