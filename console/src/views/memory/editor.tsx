// Writing a key: what is typed, how it differs from what is stored, and what to do when that has
// changed meanwhile. Nothing is written over unseen.
import { useSignal } from "@preact/signals";
import { CallError } from "../../core/rpc";
import { Diff } from "../../parts/diff";
import { parsed, read, type Value, write, written } from "./store";

export interface EditorProps {
  name: string; // the key
  stored?: Value; // absent for a key that doesn't exist
  draft?: unknown; // what the editor begins with, if it isn't what is stored: it is shown as a difference at once
  ready?(): string; // what keeps it from being written now, or ""
  done(): void;
  cancel(): void;
}

export function Editor({ name, stored, draft, ready, done, cancel }: EditorProps) {
  const begin = draft === undefined ? stored?.value : draft;
  const as = useSignal<"json" | "text">(typeof begin === "string" || !stored ? "text" : "json");
  const text = useSignal(begin === undefined ? "" : written(begin, as.peek())), ttl = useSignal(left(stored?.expires));
  const base = useSignal(stored), theirs = useSignal(false); // what it is compared with, and whether that is newer than what the editor began with
  const reviewing = useSignal(draft !== undefined), failure = useSignal("");
  const before = base.value ? written(base.value.value, as.value) : "";

  const review = () => {
    try { parsed(text.peek(), as.peek()); failure.value = ready?.() ?? ""; } catch (error) { failure.value = (error as Error).message; }
    reviewing.value = !failure.peek();
  };
  const save = async () => {
    try {
      await write(name, parsed(text.peek(), as.peek()), base.peek()?.revision ?? 0, ttl.peek());
      done();
    } catch (error) {
      failure.value = (error as Error).message;
      if ((error as CallError).code !== 409) return;
      try { base.value = await read(name); } catch { base.value = undefined; } // it has been deleted
      theirs.value = true;
    }
  };
  const change = (to: "json" | "text") => {
    if (to === as.peek()) return;
    try { text.value = written(parsed(text.peek(), as.peek()), to); as.value = to; failure.value = ""; } catch (error) { failure.value = (error as Error).message; }
  };
  return (
    <div class="body editor" data-testid="editor">
      {theirs.value && (
        <div class="guidance" role="alert" data-testid="conflict">
          <p>{base.value ? `${name} was changed meanwhile, to revision ${base.value.revision}. Lines with - are what it has now, lines with + are yours.` : `${name} was deleted meanwhile.`}</p>
          <button data-testid="theirs" onClick={done}>Keep what is stored</button>
        </div>
      )}
      {reviewing.value ? <Diff before={before} after={text.value} label="What will change" /> : (
        <textarea class="whole" rows={14} aria-label="Value" data-testid="value" spellcheck={false} value={text.value} onInput={(event) => { text.value = event.currentTarget.value; }} />
      )}
      {failure.value && !theirs.value && <p class="problem" role="alert" data-testid="problem">{failure.value}</p>}
      <div class="row actions">
        {reviewing.value ? (
          <>
            <button class="primary" data-testid="save" onClick={() => void save()}>{theirs.value ? "Save mine over it" : "Save"}</button>
            <button data-testid="edit-more" onClick={() => { reviewing.value = false; }}>Edit more</button>
          </>
        ) : (
          <>
            <button class="primary" data-testid="review" onClick={review}>Review</button>
            <div class="segments" role="group" aria-label="JSON or text">
              {(["json", "text"] as const).map((one) => <button key={one} aria-pressed={as.value === one} data-testid={`as-${one}`} onClick={() => change(one)}>{one === "json" ? "JSON" : "Text"}</button>)}
            </div>
            <label class="row">expires in <input class="ttl mono" aria-label="Expires in" data-testid="ttl" placeholder="never, or 90s, 1h, 7d" value={ttl.value} onInput={(event) => { ttl.value = event.currentTarget.value.trim(); }} /></label>
          </>
        )}
        <button class="plain" onClick={cancel}>Cancel</button>
      </div>
    </div>
  );
}

/** How long a key has until it expires, as it is written in the form: saving keeps it. */
const left = (expires?: number) => (expires ? `${Math.max(1, Math.round((expires - Date.now()) / 1000))}s` : "");
