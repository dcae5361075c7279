// Validation before a call is sent. The server has the last word. The validator is fetched when a
// form is first shown.
import { rounded } from "./json";
import type { Schema } from "./schema";

const validator = () => import("@cfworker/json-schema").catch(() => undefined);

/** Fetches the validator, so that it is there when there is no connection. */
export const prepare = () => void validator();

/** What is wrong with a value, by pointers into it; nothing if the validator can't be had. */
export async function problems(schema: Schema, value: unknown): Promise<Record<string, string>> {
  const found = await validator();
  if (!found) return {};
  const result = new found.Validator(schema as any, "2020-12", false).validate(rounded(value ?? {}));
  const all: Record<string, string> = {};
  for (const error of result.errors) {
    if (/^(properties|items|additionalProperties|\$ref|allOf|anyOf|oneOf|false)$/.test(error.keyword) && result.errors.length > 1 && error.keyword !== "oneOf") continue;
    let at = decodeURIComponent(error.instanceLocation.replace(/^#/, "")), text = error.error;
    const missing = error.keyword === "required" && /"([^"]+)"\.$/.exec(error.error);
    if (missing) { at += "/" + missing[1]; text = "This is required."; }
    all[at] ??= text;
  }
  return all;
}
