// Calls that were made, and methods that are pinned. They survive a reload of the page: their
// names and parameters are kept in the browser, without write-only fields and without answers.
import { signal } from "@preact/signals";
import { isExact } from "../../core/json";
import { keep, kept } from "../../core/recent";
import type { Item } from "../../core/rpc";
import { resolve, type Schema } from "../../core/schema";

export interface Run {
  id: number;
  module: string;
  method: string;
  data: any;
  at: number;
  took?: number;
  state: "running" | "done" | "failed" | "canceled" | "lost";
  items: Item[];
  mismatch?: string; // why the answer does not match its schema
}

const most = 50, pinKey = "kernos.pinned";

export const runs = signal<Run[]>(kept().map((run: Run) => ({ ...run, items: run.items ?? [], state: run.state === "running" ? "lost" : run.state })));
export const pinned = signal<string[]>(JSON.parse(localStorage.getItem(pinKey) ?? "[]"));

/** Adds or replaces a run. */
export function remember(run: Run, schema?: Schema) {
  const others = runs.peek().filter((other) => other.id !== run.id);
  runs.value = [run, ...others].slice(0, most);
  const written = runs.peek().map(({ items, ...rest }) => ({ ...rest, data: schema && rest.id === run.id ? withoutSecrets(rest.data, schema, schema) : rest.data }));
  keep(written);
}

/** A value without its write-only fields. */
export function withoutSecrets(value: any, schema: Schema, root: Schema): any {
  const s = resolve(schema, root);
  if (s.writeOnly) return undefined;
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, s.items ?? {}, root));
  if (!value || typeof value !== "object" || isExact(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutSecrets(inner, s.properties?.[name] ?? {}, root)]).filter(([, inner]) => inner !== undefined));
}

export function pin(name: string) {
  pinned.value = pinned.peek().includes(name) ? pinned.peek().filter((other) => other !== name) : [...pinned.peek(), name];
  localStorage.setItem(pinKey, JSON.stringify(pinned.peek()));
}
