// A JSON value, for reading: indented, with long lists and texts folded.
import { useState } from "preact/hooks";
import { isExact, isSealed } from "../core/json";

const most = 100, longest = 2000;

export function Json({ value, open = true }: { value: unknown; open?: boolean }) {
  return <pre class="json" tabIndex={0} aria-label="JSON"><Value value={value} depth={0} open={open} /></pre>;
}

function Value({ value, depth, open }: { value: unknown; depth: number; open: boolean }) {
  const [shown, show] = useState(open && depth < 4);
  const [limit, raise] = useState(most);
  if (value === null || typeof value !== "object" || isExact(value)) return <Scalar value={value} />;
  const list = Array.isArray(value), names = Object.keys(value);
  if (!names.length) return <>{list ? "[]" : "{}"}</>;
  if (!shown) return <button class="fold" onClick={() => show(true)}>{list ? `[ ${names.length} ]` : `{ ${names.slice(0, 4).join(", ")}${names.length > 4 ? ", …" : ""} }`}</button>;
  const pad = "  ".repeat(depth + 1);
  return (
    <>
      {list ? "[" : "{"}{"\n"}
      {names.slice(0, limit).map((name, i) => (
        <span key={name}>{pad}{!list && <><span class="name">{JSON.stringify(name)}</span>: </>}<Value value={(value as any)[name]} depth={depth + 1} open={open} />{i < names.length - 1 ? "," : ""}{"\n"}</span>
      ))}
      {names.length > limit && <>{pad}<button class="fold" onClick={() => raise(limit * 10)}>{names.length - limit} more</button>{"\n"}</>}
      {"  ".repeat(depth)}{list ? "]" : "}"}
    </>
  );
}

function Scalar({ value }: { value: unknown }) {
  const [whole, show] = useState(false);
  if (isSealed(value)) return <span class="chip" data-testid="sealed">sealed, {value.length} characters</span>;
  const text = JSON.stringify(value) ?? "undefined";
  if (text.length > longest && !whole) return <>{text.slice(0, longest)}<button class="fold" onClick={() => show(true)}>… {text.length - longest} more characters</button></>;
  return <span class={typeof value === "string" ? "text" : ""}>{text}</span>;
}
