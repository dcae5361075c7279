// The views. Adding one is a folder and a line here.
import type { ComponentType } from "preact";
import { find } from "../core/message";
import { go, link } from "../core/route";
import { ask } from "../core/rpc";
import type { Finder } from "../parts/palette";

export interface View {
  name: string; // in the address
  title: string;
  key: string; // which opens it
  needs?: string; // a method: without it the view isn't there
  load(): Promise<{ default: ComponentType }>;
  find?: Finder; // what of the view the palette reaches, and the sign that asks for it alone
  sign?: string;
}

export const views: View[] = [
  { name: "call", title: "Call", key: "g c", load: () => import("./call/view") },
  { name: "messages", title: "Messages", key: "g m", needs: "message_list", load: () => import("./messages/view"), find: messages, sign: "#" },
  { name: "workflows", title: "Workflows", key: "g w", needs: "message_graph", load: () => import("./workflows/view") },
  { name: "memory", title: "Memory", key: "g k", needs: "memory_list", load: () => import("./memory/view"), find: keys, sign: ":" },
];

/** The message whose id was typed, or pasted. */
async function messages(typed: string) {
  if (typed.length < 3 || /\s/.test(typed)) return [];
  const found = (await find(typed))?.message;
  return found ? [{ name: found.metadata.id, hint: found.type, mark: "message", run: () => go(link("messages", [found.metadata.id])) }] : [];
}

let listed: { prefix: string; keys: Promise<{ keys: string[] }> } | undefined; // since the palette was opened: not each letter asks again

/** The keys that have what was typed in them, of the folder that it names. */
async function keys(typed: string) {
  if (!typed) { listed = undefined; return []; }
  const text = typed.replace(/^\/+/, ""), prefix = text.slice(0, Math.max(0, text.lastIndexOf("/")));
  if (listed?.prefix !== prefix) listed = { prefix, keys: ask("memory_list", [{ prefix, recursive: true, limit: 1000 }]) };
  const found = await listed.keys;
  return found.keys.filter((key) => key.includes(text)).map((key) => ({ name: key, hint: "", mark: "memory", run: () => go(link("memory", key.split("/"))) }));
}
