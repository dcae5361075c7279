// The module kernos:schema: JSON Schemas, written short.
//
//	export const InputSchema = z.object({ city: z.string().min(1), days: z.integer().optional() })

class Schema {
  #schema;
  #optional;
  constructor(schema, optional = false) {
    this.#schema = schema;
    this.#optional = optional;
  }
  #with(more, optional = this.#optional) { return new Schema({ ...this.#schema, ...more }, optional); }
  toJSON() { return this.#schema; }
  get isOptional() { return this.#optional; }

  optional() { return this.#with({}, true); }
  default(value) { return this.#with({ default: value }, true); }
  nullable() { return typeof this.#schema.type === "string" ? this.#with({ type: [this.#schema.type, "null"] }) : new Schema({ anyOf: [this.#schema, { type: "null" }] }, this.#optional); }
  describe(description) { return this.#with({ description }); }
  min(n) { return this.#with({ [this.#bound("min")]: n }); }
  max(n) { return this.#with({ [this.#bound("max")]: n }); }
  length(n) { return this.min(n).max(n); }
  #bound(end) { return end + ({ string: "Length", array: "Items" }[[this.#schema.type].flat()[0]] ?? "imum"); }
  int() { return this.#with({ type: "integer" }); }
  positive() { return this.#with({ exclusiveMinimum: 0 }); }
  nonnegative() { return this.#with({ minimum: 0 }); }
  multipleOf(n) { return this.#with({ multipleOf: n }); }
  regex(r) { return this.#with({ pattern: r instanceof RegExp ? r.source : `${r}` }); }
  format(format) { return this.#with({ format }); }
  email() { return this.format("email"); }
  url() { return this.format("uri"); }
  uuid() { return this.format("uuid"); }
  datetime() { return this.format("date-time"); }
  strict() { return this.#with({ additionalProperties: false }); }
  sensitive() { return this.#with({ writeOnly: true }); }
}

const of = (type) => (more = {}) => new Schema({ type, ...more });

export const z = {
  string: of("string"), number: of("number"), integer: of("integer"), boolean: of("boolean"), null: of("null"),
  any: () => new Schema({}), unknown: () => new Schema({}),
  literal: (value) => new Schema({ const: value }),
  enum: (values) => new Schema({ enum: values }),
  array: (items) => new Schema({ type: "array", items }),
  tuple: (items) => new Schema({ type: "array", prefixItems: items, minItems: items.length, maxItems: items.length }),
  record: (values) => new Schema({ type: "object", additionalProperties: values }),
  union: (anyOf) => new Schema({ anyOf }),
  object: (properties) => {
    const required = Object.keys(properties).filter((k) => !properties[k].isOptional);
    return new Schema({ type: "object", properties, ...(required.length > 0 ? { required } : {}) });
  },
  schema: (schema) => new Schema(schema),
};
