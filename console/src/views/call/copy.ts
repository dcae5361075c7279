// A call in other languages, so that what was tried here can be typed elsewhere. What the form hides
// is not copied.
import { isExact } from "../../core/json";
import { isSecret, itemOf, resolve, type Schema } from "../../core/schema";
import { chooseVariant, variantsOf } from "./value";

export interface Written { name: string; text: string }

/** A value without what a form hides. */
export function withoutSecrets(value: any, schema: Schema | boolean | undefined, root: Schema): any {
  const s = resolve(schema, root), variants = variantsOf(s);
  if (isSecret(s)) return undefined;
  if (variants) return withoutSecrets(value, variants[chooseVariant(variants, root, value)], root);
  if (Array.isArray(value)) return value.map((item, i) => withoutSecrets(item, itemOf(s, i, root), root));
  if (!value || typeof value !== "object" || isExact(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutSecrets(inner, s.properties?.[name] ?? s.additionalProperties, root)]).filter(([, inner]) => inner !== undefined));
}

const shell = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);

/** A call as it is written elsewhere. The true name and the kind come from the schema. */
export function writings(module: string, method: string, data: unknown, about: { type?: string; kind?: string }): Written[] {
  const json = JSON.stringify(data), origin = location.origin + location.pathname.replace(/\/$/, "");
  const command = `kernos call ${about.type ?? `${module}.${method}`} --data ${shell(json)}`;
  const all: Written[] = [
    { name: "CLI", text: command },
    { name: "curl", text: `curl -s -H "Authorization: Bearer $(kernos token)" ${origin}/v1/call/${module}/${method} -d ${shell(json)}` },
    { name: "JSON-RPC", text: JSON.stringify({ jsonrpc: "2.0", id: 1, method: `${module}_${method}`, params: [data] }) },
  ];
  if (about.type) {
    all.push({ name: "NDJSON", text: JSON.stringify({ kind: about.kind ?? "command", type: about.type, data, metadata: { id: crypto.randomUUID(), timestamp: Date.now() } }) });
  }
  all.push({ name: "Go", text: program(origin + "/", `${module}_${method}`, json.includes("`") ? JSON.stringify(json) : "`" + json + "`") });
  return all;
}

const program = (address: string, method: string, data: string) => `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"kernos/client"
)

func main() {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Target{URL: "${address}", Token: os.Getenv("KERNOS_TOKEN")}) // kernos token prints one
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	answer, err := c.Call(ctx, "${method}", json.RawMessage(${data}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(answer))
}
`;
