// The calls that this browser remembers. The palette ranks their methods first, before the view of calls
// is loaded.
import { parse } from "./json";

const key = "kernos.recent";
localStorage.removeItem("kernos.calls"); // earlier versions kept secrets there

/** What an earlier visit has kept; [] if there is nothing, or nothing that can be read. */
export function kept(): any[] {
  try { return parse(localStorage.getItem(key) ?? "[]"); } catch { return []; }
}

export function keep(calls: object[]) { localStorage.setItem(key, JSON.stringify(calls)); }

/** The names of the methods that were called last. */
export const recent = () => new Set(kept().slice(0, 10).map((call) => `${call.module}.${call.method}`));
