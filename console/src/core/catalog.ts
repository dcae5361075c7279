// What can be called, as the service describes it. Schemas of modules are fetched when they are
// needed, and kept with the hash that they are of.
import { effect, signal } from "@preact/signals";
import { browser, look } from "./door";
import { rounded } from "./json";
import { ask, question, serviceHash, status } from "./rpc";
import type { Schema } from "./schema";

export interface Module { namespace: string; version: string; description: string; methods: string[] }

export const modules = signal<Module[]>([]);
/** Why the list of modules may be old; "" if it is not. */
export const stale = signal("");
/** What has changed since the page was opened, for the reader to see. */
export const changes = signal<Change[]>([]);

export interface Change { method: string; what: "new" | "gone" | "changed" }

let listed = ""; // the hash that modules is of
let schemas = new Map<string, Promise<Schema>>();

/** The name of a method on the wire. */
export const wireName = (module: string, method: string) => `${module}_${method}`;

/** The name of a method as it stands in messages: Memory.Get. */
export function typeName(module: string, method: string): string {
  const pascal = (text: string) => text.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return browser.value?.types[wireName(module, method)] ?? `${pascal(module)}.${pascal(method)}`;
}

/** The same, of a name with a full stop between its parts; what isn't such a name stays as it is. */
export const typeOf = (name: string) => (/^\w+\.\w+$/.test(name) ? typeName(...(name.split(".") as [string, string])) : name);

/** Whether the service has a method. */
export function has(name: string): boolean {
  return modules.value.some((module) => module.methods.some((method) => wireName(module.namespace, method) === name));
}

/** The schema of a module: oneOf[i] is that of methods[i]. */
export function moduleSchema(namespace: string): Promise<Schema> {
  let schema = schemas.get(namespace);
  if (!schema) {
    schema = ask<Schema>("service_module_schema", [namespace]);
    schemas.set(namespace, schema);
    schema.catch(() => schemas.delete(namespace));
  }
  return schema;
}

/** The schema of a method, with the definitions that it refers to. */
export async function methodSchema(namespace: string, method: string): Promise<Schema | undefined> {
  const module = modules.peek().find((m) => m.namespace === namespace);
  const index = module?.methods.indexOf(method) ?? -1;
  if (index < 0) return undefined;
  const whole = await moduleSchema(namespace);
  const variant = whole.oneOf?.[index];
  return variant && { ...variant, $defs: whole.$defs };
}

/** What the service says of a method beside its input. */
export interface About { type?: string; kind?: string; asks?: boolean; output?: Schema }

let described: { hash: string; document: Promise<any> } | undefined;

/** The document that describes the service; it is fetched once for each hash. */
function description(): Promise<any> {
  const hash = serviceHash.peek();
  if (described?.hash !== hash) {
    described = { hash, document: question("rpc.discover").then(rounded) };
    described.document.catch(() => { described = undefined; });
  }
  return described.document;
}

/** What people call a method: its title, and other words that find it. */
export interface Called { title?: string; words?: string }

const called = signal(new Map<string, Called>());

/** Learns what people call the methods. Without it, they are found by their names alone. */
export async function learnNames() {
  const document = await description();
  called.value = new Map(document.methods.map((m: any) => [m.name, { title: m["x-title"], words: m["x-words"] }]));
}

export const titleOf = (module: string, method: string) => called.value.get(wireName(module, method))?.title;

/** Whether a method may be meant by what was typed. */
export function mayMean(module: string, method: string, typed: string): boolean {
  const { title = "", words = "" } = called.value.get(wireName(module, method)) ?? {}, text = typed.toLowerCase();
  return `${module}.${method}`.includes(text) || typeName(module, method).toLowerCase().includes(text) || text.length > 2 && `${title}, ${words}`.toLowerCase().includes(text);
}

/** Whether what was typed is all of what people call a method. */
export const isCalled = (module: string, method: string, typed: string) => `${called.value.get(wireName(module, method))?.words}`.split(", ").includes(typed.toLowerCase());

/** What the document that describes the service says of a method. */
export async function about(namespace: string, method: string): Promise<About> {
  const document = await description();
  const found = document.methods.find((m: any) => m.name === wireName(namespace, method));
  if (!found) return {};
  return { type: found["x-type"], kind: found["x-kind"], asks: found["x-asks"], output: found["x-stream"] && { ...found["x-stream"].data, components: document.components } };
}

const cacheKey = "kernos.catalog";

async function refresh(hash: string) {
  if (!listed) { // the first time, what an earlier visit has kept is enough if the hash is the same
    const kept = JSON.parse(localStorage.getItem(cacheKey) ?? "null");
    if (kept?.hash === hash) { listed = hash; modules.value = kept.modules; return; }
  }
  const before = modules.peek(), old = schemas, first = !listed;
  try {
    const answer = await ask<{ modules: Module[] }>("service_schema");
    schemas = new Map();
    listed = hash;
    modules.value = answer.modules;
    stale.value = "";
    localStorage.setItem(cacheKey, JSON.stringify({ hash, modules: answer.modules }));
    if (!first) void look().catch(() => {}); // what is hidden has changed too; the next connection asks again
    if (!first) changes.value = [...changes.peek(), ...await compare(before, answer.modules, old)];
  } catch (failure) {
    stale.value = String((failure as Error).message);
  }
}

/** What differs between two lists of modules; of the modules whose schema was known, the schemas too. */
async function compare(before: Module[], now: Module[], old: Map<string, Promise<Schema>>): Promise<Change[]> {
  const names = (list: Module[]) => new Set(list.flatMap((m) => m.methods.map((method) => wireName(m.namespace, method))));
  const then = names(before), today = names(now);
  const found: Change[] = [
    ...[...today].filter((name) => !then.has(name)).map((method): Change => ({ method, what: "new" })),
    ...[...then].filter((name) => !today.has(name)).map((method): Change => ({ method, what: "gone" })),
  ];
  for (const [namespace, schema] of old) {
    const module = now.find((m) => m.namespace === namespace), was = before.find((m) => m.namespace === namespace);
    if (!module || !was) continue;
    try {
      const [a, b] = [await schema, await moduleSchema(namespace)];
      module.methods.forEach((method, i) => {
        const j = was.methods.indexOf(method);
        if (j >= 0 && whole(a.oneOf?.[j], a) !== whole(b.oneOf?.[i], b)) found.push({ method: wireName(namespace, method), what: "changed" });
      });
    } catch { /* the schema can't be had; the form says so */ }
  }
  return found;
}

/** A schema as text, with the definitions that it refers to. */
function whole(schema: Schema | undefined, root: Schema): string {
  const texts = new Set([JSON.stringify(schema)]);
  for (const text of texts) for (const [, name] of text?.matchAll(/"#\/\$defs\/([^"]+)"/g) ?? []) texts.add(`${name} ${JSON.stringify(root.$defs?.[name])}`);
  return [...texts].join("\n");
}

effect(() => {
  const hash = serviceHash.value;
  if (hash && hash !== listed && status.value === "online") void refresh(hash);
});
