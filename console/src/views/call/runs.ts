// Calls that were made, and methods that are pinned. They survive a reload of the page: names, and
// the data that the kernel has recorded, are kept in the browser, without answers.
import { signal } from "@preact/signals";
import { keep, kept } from "../../core/recent";
import type { Item } from "../../core/rpc";

export interface Run {
  id: string; // of the request
  module: string;
  method: string;
  data?: any; // as the kernel has recorded it; undefined if it may not be kept
  at: number;
  took?: number;
  state: "running" | "done" | "failed" | "canceled" | "lost";
  items: Item[];
  mismatch?: string; // why the answer does not match its schema
}

const most = 50, pinKey = "kernos.pinned";

export const runs = signal<Run[]>(kept().map((run: Run) => ({ ...run, items: [], state: run.state === "running" ? "lost" : run.state })));
export const pinned = signal<string[]>(JSON.parse(localStorage.getItem(pinKey) ?? "[]"));

/** Adds or replaces a run. */
export function remember(run: Run) {
  const earlier = runs.peek();
  runs.value = earlier.some(({ id }) => id === run.id) ? earlier.map((other) => (other.id === run.id ? run : other)) : [run, ...earlier].slice(0, most);
  keep(runs.peek().map(({ items, mismatch, ...rest }) => rest)); // a mismatch may repeat the answer
}

export function pin(name: string) {
  pinned.value = pinned.peek().includes(name) ? pinned.peek().filter((other) => other !== name) : [...pinned.peek(), name];
  localStorage.setItem(pinKey, JSON.stringify(pinned.peek()));
}
