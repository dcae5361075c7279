// JSON Schema as a form needs it.

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  prefixItems?: Schema[];
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  examples?: unknown[];
  format?: string;
  writeOnly?: boolean;
  minimum?: number;
  maximum?: number;
  $ref?: string;
  $defs?: Record<string, Schema>;
  [keyword: string]: any;
}

/** Whether a schema marks what it describes as a secret. */
export const isSecret = (s: Schema) => !!s.writeOnly || s.format === "password";

/** A schema with its reference followed, and the parts of allOf in one. */
export function resolve(schema: Schema | boolean | undefined, root: Schema): Schema {
  if (!schema || schema === true) return {};
  let found = schema;
  for (let depth = 0; found.$ref && depth < 32; depth++) {
    const { $ref, ...beside } = found;
    found = { ...lookUp($ref, root), ...beside };
  }
  if (!found.allOf) return found;
  const { allOf, ...rest } = found;
  return allOf.map((part) => resolve(part, root)).reduce(merge, rest);
}

function merge(a: Schema, b: Schema): Schema {
  return { ...b, ...a, properties: { ...b.properties, ...a.properties }, required: [...(a.required ?? []), ...(b.required ?? [])] };
}

function lookUp(reference: string, root: Schema): Schema {
  let at: any = root;
  for (const step of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    at = at?.[decodeURIComponent(step).replace(/~1/g, "/").replace(/~0/g, "~")];
  }
  return at ?? {};
}

/** The schema of an item of a list. */
export const itemOf = (list: Schema, index: number, root: Schema) => resolve(list.prefixItems?.[index] ?? list.items, root);
