// The messages that the view shows: those of the journal that match a filter, the latest of them
// and then each as it is recorded. The page keeps a bounded number, and of each what its line shows.
import { signal } from "@preact/signals";
import { brief } from "../../core/json";
import { entriesOf, type Entry } from "../../core/message";
import { ask } from "../../core/rpc";
import { watch } from "../../core/watch";

/** A line of the list: a message, or in place of some what is missing there. */
export interface Line { seq: number; at: number; id: string; kind: string; type: string; text: string; gap?: boolean }

/** How many lines the page keeps. The first ones leave when more come. */
export const most = 100_000;
const pageSize = 200;
const widest = 200; // characters of a line's text
const readable = 50; // messages of one frame that an eye could follow

export const lines = signal<Line[]>([]);
export const problem = signal("");
export const loading = signal(true); // until the first answer: the list isn't known to be empty
/** Whether there are earlier messages than the first one. */
export const earlier = signal(false);

let cursor: string | undefined;
let unwatch = () => {};
let current = new AbortController(); // what is asked for the filter that is shown
let incoming: Line[] = [];
let scheduled = false;
let flood = false; // more came at once than can be read

/** Shows the messages of a filter line. */
export async function show(filter: string) {
  stop();
  const { signal } = (current = new AbortController());
  loading.value = true;
  problem.value = "";
  try {
    // What is recorded from here on is followed, also when no message matches yet.
    const { lastSeq = 0 } = await ask("message_stats", [{}], signal);
    const page = await list(filter, signal);
    lines.value = page;
    follow(filter, page.at(-1)?.seq ?? lastSeq);
  } catch (failure) {
    if (!signal.aborted) problem.value = (failure as Error).message;
  } finally {
    if (!signal.aborted) loading.value = false;
  }
}

async function list(filter: string, signal: AbortSignal, after?: string): Promise<Line[]> {
  const answer = await ask("message_list", [{ filter: filter || undefined, order: "desc", limit: pageSize, records: true, cursor: after }], signal);
  cursor = answer.cursor;
  earlier.value = !!cursor;
  return entriesOf(answer).map(lineOf).reverse();
}

function lineOf({ seq, at, claim, message: { kind, type, data, metadata } }: Entry): Line {
  const text = kind === "error" && data?.code ? `${data.code} ${data.message}` : brief(data, widest);
  return { seq, at, id: metadata.id, kind, type, text: ((claim ? "claim " : "") + text).slice(0, widest) };
}

/** Adds a page of earlier messages, if the page has room for them. */
export async function loadEarlier(filter: string) {
  if (loading.peek() || !cursor || lines.peek().length + pageSize > most) return;
  const { signal } = current;
  loading.value = true;
  try {
    lines.value = [...await list(filter, signal, cursor), ...lines.peek()];
  } catch (failure) {
    if (!signal.aborted) problem.value = (failure as Error).message;
  } finally {
    if (!signal.aborted) loading.value = false;
  }
}

/** Follows what is recorded behind a message. */
function follow(filter: string, after: number) {
  unwatch = watch({ filter: withoutEnd(filter) || undefined }, after, {
    entry(entry) { add(lineOf(entry)); },
    missing(count) { add({ gap: true, text: `${count.toLocaleString()} ${count === 1 ? "message is" : "messages are"} missing here` } as Line); },
    problem(text) { problem.value = text; },
  });
}

/** A filter without an end in time: new messages are later than any. */
const withoutEnd = (filter: string) => filter.replace(/(^|\s)until:\S+/g, "$1").trim();

/** Shows what has come, once per frame; when more comes than can be read, ten times per second. */
function add(line: Line) {
  incoming.push(line);
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => requestAnimationFrame(() => {
    scheduled = false;
    flood = incoming.length > readable;
    const all = lines.peek().concat(incoming);
    incoming = [];
    if (all.length > most) earlier.value = true;
    lines.value = all.length > most ? all.slice(all.length - most) : all;
  }), flood ? 100 : 0);
}

/** Stops following. */
export function stop() {
  current.abort();
  unwatch();
  incoming = [];
}
