// Times as the page writes them: in the reader's zone and order, and with 24 hours everywhere.
import { signal } from "@preact/signals";

// Made once: making one takes as long as drawing a row.
const times = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** 17:31:09.318 */
export const clock = (at: number) => `${times.format(at)}.${String(at % 1000).padStart(3, "0")}`;

/** Nov 16, 2026, 17:31:09 */
export const date = (at: number) => dates.format(at);

/** How long something took. */
export const span = (ms: number) => (ms < 1000 ? `${ms.toFixed(0)} ms` : ms < 100_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`);

/** The present, every second. */
export const now = signal(Date.now());
setInterval(() => { now.value = Date.now(); }, 1000);

/** How long something has lasted up to now. */
export function lasted(since: number): string {
  const seconds = Math.max(0, Math.round((now.value - since) / 1000));
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
}
