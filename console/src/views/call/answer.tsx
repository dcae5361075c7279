// What a call answers, as it comes: progress in one line, data, guidance that mends the call, and
// how it ended.
import { typeName, typeOf } from "../../core/catalog";
import { isSealed } from "../../core/json";
import type { Item } from "../../core/rpc";
import { lasted, span } from "../../core/time";
import { Blobs } from "../../parts/blobs";
import { Json } from "../../parts/json";
import type { Run } from "./runs";

export interface AnswerProps { run: Run; cancel?(): void; mend(method: string, params?: unknown): void }

export function Answer({ run, cancel, mend }: AnswerProps) {
  const progress = run.items.findLast((item) => item.type === "progress");
  const rest = run.items.filter((item) => item.type !== "progress");
  const data = rest.filter((item) => item.type === "data").length;
  const words = { running: "Running", done: "Done", failed: "Failed", canceled: "Canceled", lost: "Connection lost" }[run.state];
  return (
    <section class="answer" data-testid="answer" data-status={run.state} aria-live="polite">
      <div class="bar">
        <code>{typeName(run.module, run.method)}</code>
        <span class={run.state === "failed" ? "error" : "quiet"}>{words}{run.state === "running" ? `, ${lasted(run.at)}` : run.took !== undefined && `, ${span(run.took)}`}{data > 1 && `, ${data} data`}</span>
        <span class="spread" />
        {run.mismatch && <span class="chip error" title={run.mismatch} data-testid="mismatch">does not match its schema</span>}
        {cancel && run.state === "running" && <button onClick={cancel} title="Cancel (Esc)">Cancel</button>}
      </div>
      {progress && run.state === "running" && (
        <div class="progress" data-testid="progress">
          <span>{progress.message}{from(progress)}</span>
          {progress.percentage !== undefined && <progress value={progress.percentage} max={1} aria-label={progress.message} />}
        </div>
      )}
      {rest.map((item, i) => <Row key={i} item={item} mend={mend} />)}
    </section>
  );
}

/** The modules that an item came through, if it comes from a call within the call. */
const from = ({ provenance }: Item) => provenance.length > 1 && <span class="faint mono" data-testid="provenance"> · {provenance.join(" > ")}</span>;

function Row({ item, mend }: { item: Item; mend: AnswerProps["mend"] }) {
  if (item.type === "guidance") return <Guidance item={item} mend={mend} />;
  if (item.type === "error") {
    return <div class="outcome" data-testid="error"><span class="kind error">error</span> {item.code && <code>{item.code}</code>} <span>{item.error}</span>{from(item)}</div>;
  }
  return (
    <div class="outcome" data-testid="data">
      <div class="faint mono">{typeOf(item.content_type)}{from(item)}</div>
      <Blobs data={item.data} />
      {typeof item.data === "string" && !isSealed(item.data) ? <pre class="json" tabIndex={0} role="region" aria-label="Text">{item.data}</pre> : <Json value={item.data} />}
    </div>
  );
}

/** One sentence about what was wrong, and the mended call as a button. It never runs by itself. */
function Guidance({ item, mend }: { item: Item; mend: AnswerProps["mend"] }) {
  const wrong: Record<string, string> = {
    module_not_found: `There is no module ${item.module}.`,
    method_not_found: `There is no ${typeName(item.module ?? "", item.method ?? "")}.`,
    invalid_params: item.reason ? `The parameters do not fit: ${item.reason}.` : "The parameters do not fit.",
  };
  const named = (name: string) => typeOf(name.includes(".") ? name : `${item.module ?? item.provenance[0]}.${name}`);
  const names: string[] = (item.available_methods ?? []).filter((name: string) => name !== item.suggested_method);
  return (
    <div class="guidance" data-testid="guidance">
      <p>{item.message ?? wrong[item.error_kind] ?? "The call can be mended."}</p>
      <div class="row">
        {item.action === "try_method" && item.suggested_method && (
          <button class="primary" data-testid="mend" onClick={() => mend(item.suggested_method, item.example_params)}>Try {named(item.suggested_method)}</button>
        )}
        {names.slice(0, 12).map((name) => <button key={name} onClick={() => mend(`${item.module ?? item.provenance[0]}.${name}`)}>{named(name)}</button>)}
      </div>
    </div>
  );
}
