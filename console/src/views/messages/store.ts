// The messages that the view shows: those of the journal that match a filter, the latest of them
// and then each as it is recorded. The page keeps a bounded number.
import { signal } from "@preact/signals";
import type { Entry, Message } from "../../core/message";
import { ask, open, type Stream } from "../../core/rpc";

/** How many messages the page keeps. The first ones leave when more come. */
export const most = 100_000;
const pageSize = 500;
const readable = 50; // messages of one frame that an eye could follow
const pause = 500; // before a watch that has ended begins again, in milliseconds

export const entries = signal<Entry[]>([]);
export const problem = signal("");
export const loading = signal(false);
/** Whether there are earlier messages than the first one. */
export const earlier = signal(false);

let cursor: string | undefined;
let stream: Stream | undefined;
let generation = 0;
let incoming: Entry[] = [];
let scheduled = false;
let flood = false; // more came at once than can be read

/** Shows the messages of a filter line. */
export async function show(line: string) {
  const mine = ++generation;
  stream?.cancel();
  stream = undefined;
  incoming = [];
  loading.value = true;
  problem.value = "";
  try {
    const page = await list(line);
    if (mine !== generation) return;
    entries.value = page;
    follow(line, mine, page.at(-1)?.seq);
  } catch (failure) {
    if (mine !== generation) return;
    problem.value = (failure as Error).message;
  } finally {
    if (mine === generation) loading.value = false;
  }
}

async function list(line: string, after?: string): Promise<Entry[]> {
  const answer = await ask("message_list", [{ filter: line || undefined, order: "desc", limit: pageSize, records: true, cursor: after }]);
  cursor = answer.cursor;
  earlier.value = !!cursor;
  const messages = (answer.messages ?? []) as Message[];
  return messages.map((message, i) => ({ ...answer.records[i], message })).reverse();
}

/** Adds a page of earlier messages. */
export async function loadEarlier(line: string) {
  if (loading.peek() || !cursor) return;
  const mine = generation;
  loading.value = true;
  try {
    const page = await list(line, cursor);
    if (mine === generation) entries.value = [...page, ...entries.peek()].slice(0, most);
  } catch (failure) {
    problem.value = (failure as Error).message;
  } finally {
    loading.value = false;
  }
}

/** Follows what is recorded behind a message. */
function follow(line: string, mine: number, after?: number) {
  stream = open("message_watch", [{ filter: withoutTimes(line) || undefined, after }], {
    item(item) {
      if (mine !== generation) return;
      if (item.type === "data" && item.data?.message) add(item.data);
      else if (item.type === "data" && item.data?.count !== undefined) add({ gap: `${item.data.count} messages are missing here` } as Entry);
      else if (item.type === "error") problem.value = item.error;
    },
    end() { // the kernel was stopped, or has not kept the stream: the journal has what came meanwhile, or says what it has dropped
      setTimeout(() => {
        if (mine === generation) follow(line, mine, entries.peek().findLast((entry) => entry.seq)?.seq ?? after);
      }, pause);
    },
  });
}

/** A filter without an end in time: new messages are later than any. */
const withoutTimes = (line: string) => line.replace(/(^|\s)until:\S+/g, "$1").trim();

/** Shows what has come, once per frame; when more comes than can be read, ten times per second. */
function add(entry: Entry) {
  incoming.push(entry);
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => requestAnimationFrame(() => {
    scheduled = false;
    flood = incoming.length > readable;
    const all = entries.peek().concat(incoming);
    incoming = [];
    if (all.length > most) earlier.value = true;
    entries.value = all.length > most ? all.slice(all.length - most) : all;
  }), flood ? 100 : 0);
}

/** Stops following. */
export function stop() {
  generation++;
  stream?.cancel();
  stream = undefined;
}
