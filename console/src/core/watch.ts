// What is recorded from now on. A watch goes on after the kernel was stopped, and after a stream that it hasn't kept: the journal
// has what came meanwhile, or says what it has dropped.
import type { Entry } from "./message";
import { whole } from "./reference";
import { type Item, open, type Stream } from "./rpc";

/** What a watch tells of: each message, in the order of the journal, how many are missing, and what fails. */
export interface Watcher {
  /** The watch begins, or begins again. */
  begins?(): void;
  entry(entry: Entry): void;
  missing?(count: number): void;
  problem?(text: string): void;
}

const pause = 500; // before a watch that has ended begins again, in milliseconds

/** Watches the messages that a query describes: those behind the message with the number `after`, or those from now on. It returns what ends the watch. */
export function watch(query: object, after: number | undefined, watcher: Watcher): () => void {
  let over = false, stream: Stream;
  let held: Promise<void> | undefined; // what comes while an entry is fetched waits for it
  const tell = ({ type, data, error }: Item) => {
    if (over) return;
    if (type === "error") watcher.problem?.(error);
    if (type !== "data") return;
    if (data.message) { after = data.seq; watcher.entry(data); }
    else if (data.count) { after = data.to; watcher.missing?.(data.count); }
    else if (data.next) after = data.next - 1;
  };
  const begin = () => {
    watcher.begins?.();
    stream = open("message_watch", [{ ...query, from: after === undefined ? undefined : after + 1 }], {
      item(item) {
        if (!held && !item.data?.dataRef) { tell(item); return; }
        const mine = held = (held ?? Promise.resolve())
          .then(async () => tell(item.data?.dataRef ? { ...item, data: await whole(item.data) } : item))
          .catch((failure: Error) => watcher.problem?.(failure.message))
          .then(() => { if (held === mine) held = undefined; });
      },
      end() { void Promise.resolve(held).then(() => setTimeout(() => { if (!over) begin(); }, pause)); },
    });
  };
  begin();
  return () => { over = true; stream.cancel(); };
}
