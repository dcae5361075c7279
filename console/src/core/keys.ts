// Keys: one table, which the sheet of keys shows too. Single keys don't count while typing.
import { signal } from "@preact/signals";

export interface Key { keys: string; does: string; run(event: KeyboardEvent): void }

const table = signal<Key[]>([]);

/** Adds keys; the result takes them away again. A sequence such as "g m" is two keys. */
export function bind(...keys: Key[]): () => void {
  table.value = [...table.peek(), ...keys];
  return () => { table.value = table.peek().filter((key) => !keys.includes(key)); };
}

export const keys = table;

let prefix = "";

addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  const typing = target.matches?.("input, textarea, select, [contenteditable]");
  const control = event.ctrlKey || event.metaKey;
  if (!control && !event.altKey && typing && event.key !== "Escape") return;
  let pressed = (control ? "Ctrl " : "") + (event.altKey ? "Alt " : "") + event.key;
  if (prefix) pressed = `${prefix} ${event.key}`;
  prefix = "";
  const found = table.peek().findLast((key) => key.keys === pressed);
  if (found) {
    event.preventDefault();
    found.run(event);
  } else if (table.peek().some((key) => key.keys.startsWith(event.key + " "))) {
    prefix = event.key;
  }
});
