// What the memory view knows of a key, and how it changes one.
import { signal } from "@preact/signals";
import { parse } from "../../core/json";
import { link } from "../../core/route";
import { ask, command } from "../../core/rpc";

/** A value as it was read. A computed value has revision 0, and can't be written. */
export interface Value { value: unknown; revision: number; updated: number; expires?: number }

/** Grows when the view has changed a key: lists of keys are read again. */
export const changed = signal(0);

export const read = (key: string) => ask<Value>("memory_get", [{ key, withRevision: true }]);

/** Writes a key that is still at a revision; 0 is a key that doesn't exist. */
export async function write(key: string, value: unknown, revision: number, ttl: string) {
  await command("memory_set", [{ key, value, ifRevision: revision, ttl: ttl || undefined }]);
  changed.value++;
}

export async function remove(key: string, revision: number) {
  await command("memory_delete", [{ key, ifRevision: revision }]);
  changed.value++;
}

/** The address of a key. */
export const keyLink = (key: string) => link("memory", key.split("/"));

/** A value as a person edits it. */
export const written = (value: unknown, as: "json" | "text") => (as === "text" && typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** The value of what a person has written. */
export function parsed(text: string, as: "json" | "text"): unknown {
  if (as === "text") return text;
  try { return parse(text); } catch (failure) { throw new Error(`This is not JSON: ${(failure as Error).message}`); }
}
