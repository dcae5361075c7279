// JSON that loses nothing. A number that JavaScript can't hold, such as 2^53 + 1, is kept as it is
// written: as an object that JSON.stringify writes out again, where the browser has that.

interface Exact { rawJSON: string }
const { rawJSON, isRawJSON } = JSON as unknown as { rawJSON?(text: string): Exact; isRawJSON?(value: unknown): value is Exact };

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const mayBeLossy = /[^\w.]\d[\d.]{15}|[^\w.]\d[\d.]*[eE][-+\d]/; // of a text, but not in its ids: looking at each number takes several times as long

/** Whether a value is a number that JavaScript can't hold. */
export const isExact = (value: unknown): value is Exact => !!isRawJSON?.(value);

/** The number that a text is, exactly; undefined if it isn't one. */
export function exact(text: string): number | Exact | undefined {
  if (!number.test(text)) return undefined;
  const value = Number(text);
  const lossy = !Number.isFinite(value) || (text.replace(/e.*|\D/gi, "").length > 15 && String(value) !== text);
  return lossy && rawJSON ? rawJSON(text) : value;
}

export function parse(text: string): any {
  if (!rawJSON || !mayBeLossy.test(text)) return JSON.parse(text);
  return JSON.parse(text, ((_: string, value: unknown, context?: { source: string }) => (typeof value === "number" && context ? exact(context.source) : value)) as any);
}

/** A value with numbers that JavaScript can hold, for what computes with them. */
export const rounded = (value: unknown): any => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));

/** A sealed text is encrypted: only a program that has its passphrase can read it. */
export const isSealed = (value: unknown): value is string => typeof value === "string" && value.startsWith("pwenc:");

/** The beginning of a value as JSON, on one line. It takes no longer for a large value, and keeps nothing of it. */
export function brief(value: unknown, most: number): string {
  if (isSealed(value)) return `"sealed"`;
  if (typeof value === "string") return JSON.stringify((value as string).slice(0, most));
  if (value === null || typeof value !== "object" || isExact(value)) return JSON.stringify(value) ?? "";
  let inner = "";
  for (const [name, item] of Object.entries(value)) {
    if (inner.length >= most) break;
    inner += (inner && ",") + (Array.isArray(value) ? "" : JSON.stringify(name) + ":") + brief(item, most - inner.length);
  }
  return Array.isArray(value) ? `[${inner}]` : `{${inner}}`;
}
