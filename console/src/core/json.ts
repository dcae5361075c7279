// JSON that loses nothing. A number that JavaScript can't hold, such as 2^53 + 1, is kept as it is
// written: as an object that JSON.stringify writes out again, where the browser has that.

interface Exact { rawJSON: string }
const { rawJSON, isRawJSON } = JSON as unknown as { rawJSON?(text: string): Exact; isRawJSON?(value: unknown): value is Exact };

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const mayBeLossy = /\d[\d.]{15}|\d[eE]/; // of a text: looking at each number takes several times as long

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
