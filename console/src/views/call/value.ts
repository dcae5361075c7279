// Values that a form edits. A value that is undefined is not sent.
import { isExact } from "../../core/json";
import { resolve, type Schema } from "../../core/schema";

export type Path = (string | number)[];

/** A value with another one at a path; undefined takes what is there away. */
export function put(value: any, path: Path, next: unknown): any {
  if (!path.length) return next;
  const [step, ...rest] = path;
  if (typeof step === "number") {
    const list = Array.isArray(value) ? [...value] : [];
    if (!rest.length && next === undefined) list.splice(step, 1);
    else list[step] = put(list[step], rest, next);
    return list;
  }
  const object = value && typeof value === "object" && !Array.isArray(value) ? { ...value } : {};
  const inner = put(object[step], rest, next);
  if (inner === undefined) delete object[step];
  else object[step] = inner;
  return object;
}

/** What a form begins with: constants, which are hidden, and required objects. */
export function blank(schema: Schema, root: Schema, depth = 0): any {
  const s = resolve(schema, root);
  if (s.const !== undefined) return s.const;
  if (s.default !== undefined) return s.default;
  if (depth > 8) return undefined;
  const variants = variantsOf(s);
  if (variants) return blank(variants[0], root, depth + 1);
  if (typeOf(s) === "object") {
    const object: Record<string, unknown> = {};
    for (const name of s.required ?? []) {
      const inner = blank(s.properties?.[name] ?? {}, root, depth + 1);
      if (inner !== undefined) object[name] = inner;
    }
    return object;
  }
  if (typeOf(s) === "array") return [];
  return undefined;
}

/** The type that a form shows a field as; "" for any JSON value. */
export function typeOf(s: Schema): string {
  const types = [s.type ?? []].flat().filter((type) => type !== "null");
  if (types.length === 1) return types[0];
  if (!types.length && (s.properties || s.additionalProperties)) return "object";
  return "";
}

/** Whether null is a value of its own beside others. */
export const nullable = (s: Schema) => Array.isArray(s.type) && s.type.includes("null");

/** The variants that a reader chooses from, if there are any. */
export function variantsOf(s: Schema): Schema[] | undefined {
  const variants = s.oneOf ?? s.anyOf;
  if (!variants?.length) return undefined;
  // Variants that only list required fields belong to the object itself.
  if (s.properties && variants.every((v) => !v.properties && !v.type && !v.$ref && v.const === undefined)) return undefined;
  return variants;
}

/** The names by which variants are told apart. */
export function variantName(variant: Schema, root: Schema, index: number): string {
  const s = resolve(variant, root);
  if (s.const !== undefined) return String(s.const);
  for (const property of Object.values(s.properties ?? {})) {
    const constant = resolve(property, root).const;
    if (constant !== undefined) return String(constant);
  }
  return s.title ?? typeOf(s) ?? `variant ${index + 1}`;
}

/** Which variant a value is of: the one whose constants it has, or else whose type and fields it has. */
export function chooseVariant(variants: Schema[], root: Schema, value: unknown): number {
  if (value === undefined) return 0;
  let best = 0, most = -1;
  variants.forEach((variant, i) => {
    const score = fit(resolve(variant, root), root, value);
    if (score > most) { best = i; most = score; }
  });
  return best;
}

function fit(s: Schema, root: Schema, value: unknown): number {
  if (s.const !== undefined) return s.const === value ? 100 : -1;
  const type = value === null ? "null" : Array.isArray(value) ? "array" : isExact(value) ? "number" : typeof value;
  const wanted = [s.type ?? []].flat();
  if (wanted.length && !wanted.includes(type) && !(type === "number" && wanted.includes("integer"))) return -1;
  if (type !== "object") return 1;
  let score = 1;
  for (const [name, property] of Object.entries(s.properties ?? {})) {
    const constant = resolve(property, root).const, given = (value as any)[name];
    if (constant !== undefined) {
      if (given !== undefined && given !== constant) return -1;
      if (given === constant) score += 100;
    } else if (given !== undefined) score++;
  }
  return score;
}

/** A pointer such as /a/0 for a path. */
export const pointer = (path: Path) => path.map((step) => "/" + String(step).replace(/~/g, "~0").replace(/\//g, "~1")).join("");
