package schema_test

import (
	"encoding/json"
	"testing"

	"kernos/schema"
)

func TestTypeScript(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                              "unknown",
		`true`:                            "unknown",
		`{"type":"string","minLength":1}`: "string",
		`{"type":["integer","null"]}`:     "number | null",
		`{"enum":["a",1]}`:                `"a" | 1`,
		`{"const":true}`:                  "true",
		`{"type":"array","items":{"type":"number"}}`:                                       "Array<number>",
		`{"type":"array","prefixItems":[{"type":"number"},{}]}`:                            "[number, unknown]",
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`:                                    "string | null",
		`{"type":"object","additionalProperties":{"type":"number"}}`:                       "Record<string, number>",
		`{"type":"object","properties":{},"additionalProperties":false}`:                   "Record<string, never>",
		`{"$ref":"#/$defs/A","$defs":{"A":{"type":"array","items":{"$ref":"#/$defs/A"}}}}`: "Array<unknown>",
		`{"type":"object","properties":{"a":{"type":"string","description":"The a */ of it."},"b-c":{"type":"object","properties":{"d":{"type":"boolean"}}}},"required":["a"]}`: "{\n  /** The a *\u200b/ of it. */\n  a: string;\n  \"b-c\"?: {\n    d?: boolean;\n  };\n}",
	} {
		if got := schema.TypeScript(json.RawMessage(text), ""); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
