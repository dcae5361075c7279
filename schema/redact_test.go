package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/schema"
)

func TestRedact(t *testing.T) {
	const account = `{"type":"object","properties":{"user":{"type":"string"},"password":{"type":"string","writeOnly":true}}}`
	for _, c := range []struct{ name, schema, data, want string }{
		{"nothing to hide", `{"type":"object","properties":{"user":{"type":"string"}}}`, `{"user":"ada"}`, `{"user":"ada"}`},
		{"a field", account, `{"user":"ada","password":"hunter2"}`, `{"user":"ada","password":"[redacted]"}`},
		{"spelled with escapes", account, `{"p\u0061ssword":"hunter2"}`, `{"p\u0061ssword":"[redacted]"}`},
		{"of another kind", account, `{"password":{"pin":["hunter2"]}}`, `{"password":"[redacted]"}`},
		{"absent", account, `{ "user": "ada" }`, `{ "user": "ada" }`},
		{"null", account, `{"password":null}`, `{"password":null}`},
		{"not an object", account, `["hunter2"]`, `["hunter2"]`},
		{"by its format", `{"properties":{"pin":{"format":"password"}}}`, `{"pin":1234}`, `{"pin":"[redacted]"}`},
		{"all of it", `{"type":"string","writeOnly":true}`, `"hunter2"`, `"[redacted]"`},
		{"in a list", `{"type":"array","items":` + account + `}`, `[{"password":"a"},{"password":"b"}]`, `[{"password":"[redacted]"},{"password":"[redacted]"}]`},
		{"under any name", `{"additionalProperties":{"writeOnly":true}}`, `{"a":1,"b":[2]}`, `{"a":"[redacted]","b":"[redacted]"}`},
		{"named or not", `{"properties":{"open":{}},"additionalProperties":{"writeOnly":true}}`, `{"open":1,"b":2}`, `{"open":1,"b":"[redacted]"}`},
		{"by pattern", `{"patternProperties":{"^x":{"writeOnly":true}}}`, `{"x1":1,"y":2}`, `{"x1":"[redacted]","y":2}`},
		{"neither named nor by pattern", `{"properties":{"a":true},"patternProperties":{"^x":{}},"additionalProperties":{"writeOnly":true}}`, `{"a":1,"x1":2,"b":3}`, `{"a":1,"x1":2,"b":"[redacted]"}`},
		{"not looked at", `{"properties":{"a":{}},"unevaluatedProperties":{"writeOnly":true}}`, `{"a":1,"b":2}`, `{"a":1,"b":"[redacted]"}`},
		{"by place", `{"prefixItems":[{},{"writeOnly":true}]}`, `["a","b","c"]`, `["a","[redacted]","c"]`},
		{"by place, in an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{},{"writeOnly":true}]}`, `["a","b","c"]`, `["a","[redacted]","c"]`},
		{"behind others", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":{"writeOnly":true}}`, `["a"]`, `["[redacted]"]`},
		{"contained", `{"contains":{"properties":{"pin":{"writeOnly":true}}}}`, `[1,{"pin":2}]`, `[1,{"pin":"[redacted]"}]`},
		{"in one of several", `{"oneOf":[{"properties":{"a":{"writeOnly":true}}},{"properties":{"b":{"writeOnly":true}}}]}`, `{"a":1,"b":2,"c":3}`, `{"a":"[redacted]","b":"[redacted]","c":3}`},
		{"in any of several", `{"anyOf":[{"type":"null"},{"properties":{"a":{"writeOnly":true}}}]}`, `{"a":1}`, `{"a":"[redacted]"}`},
		{"in all of several", `{"allOf":[{"properties":{"a":{"writeOnly":true}}}],"properties":{"a":{}}}`, `{"a":1}`, `{"a":"[redacted]"}`},
		{"if", `{"if":{"properties":{"k":{"const":1}}},"then":{"properties":{"a":{"writeOnly":true}}},"else":{"properties":{"b":{"writeOnly":true}}}}`, `{"a":1,"b":2}`, `{"a":"[redacted]","b":"[redacted]"}`},
		{"if another is there", `{"dependentSchemas":{"k":{"properties":{"a":{"writeOnly":true}}}}}`, `{"a":1}`, `{"a":"[redacted]"}`},
		{"if another is there, in an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"j":["k"],"k":{"properties":{"a":{"writeOnly":true}}}}}`, `{"a":1}`, `{"a":"[redacted]"}`},
		{"by reference", `{"properties":{"in":{"$ref":"#/$defs/s~1x"}},"$defs":{"s/x":{"properties":{"pin":{"writeOnly":true}}}}}`, `{"in":{"pin":1}}`, `{"in":{"pin":"[redacted]"}}`},
		{"by a reference into a list", `{"anyOf":[{"properties":{"pin":{"writeOnly":true}}}],"properties":{"in":{"$ref":"#/anyOf/0"}}}`, `{"in":{"pin":1}}`, `{"in":{"pin":"[redacted]"}}`},
		{"by a reference with escapes", `{"$ref":"#/$defs/a%20b","$defs":{"a b":{"writeOnly":true}}}`, `1`, `"[redacted]"`},
		{"by anchor", `{"$ref":"#t","$defs":{"a":{"$anchor":"t","properties":{"pin":{"writeOnly":true}}}}}`, `{"pin":1}`, `{"pin":"[redacted]"}`},
		{"by anchor, in an older draft", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"in":{"$ref":"#t"}},"definitions":{"a":{"$id":"#t","properties":{"pin":{"writeOnly":true}}}}}`, `{"in":{"pin":1}}`, `{"in":{"pin":"[redacted]"}}`},
		{"by a dynamic anchor", `{"$dynamicAnchor":"t","properties":{"pin":{"writeOnly":true},"next":{"$dynamicRef":"#t"}}}`, `{"next":{"pin":1}}`, `{"next":{"pin":"[redacted]"}}`},
		{"by recursion", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"pin":{"writeOnly":true},"next":{"$recursiveRef":"#"}}}`, `{"next":{"pin":1}}`, `{"next":{"pin":"[redacted]"}}`},
		{"by id", `{"$id":"https://example.com/a","properties":{"in":{"$ref":"b"}},"$defs":{"b":{"$id":"b","$ref":"#/$defs/c","$defs":{"c":{"properties":{"pin":{"writeOnly":true}}}}}}}`, `{"in":{"pin":1,"x":2}}`, `{"in":{"pin":"[redacted]","x":2}}`},
		{"by a whole id", `{"$id":"https://example.com/a","properties":{"in":{"$ref":"https://example.com/b#/$defs/c"}},"$defs":{"b":{"$id":"b","$defs":{"c":{"properties":{"pin":{"writeOnly":true}}}}}}}`, `{"in":{"pin":1,"x":2}}`, `{"in":{"pin":"[redacted]","x":2}}`},
		{"in a circle", `{"properties":{"pin":{"writeOnly":true},"next":{"$ref":"#"}}}`, `{"next":{"next":{"pin":1}}}`, `{"next":{"next":{"pin":"[redacted]"}}}`},
		{"a circle without end", `{"$ref":"#","properties":{"pin":{"writeOnly":true}}}`, `{"pin":1}`, `{"pin":"[redacted]"}`},
		{"a circle around nothing", `{"$ref":"#"}`, `{"pin":1}`, `{"pin":1}`},
		{"marked with escapes", `{"properties":{"pin":{"write\u004fnly":true}}}`, `{"pin":1}`, `{"pin":"[redacted]"}`},
		{"beside null", `{"properties":{"a":{"writeOnly":true},"b":{"writeOnly":true}}}`, `{"a":null,"b":1}`, `{"a":null,"b":"[redacted]"}`},
		{"between spaces", account, ` { "user" : "ada" , "password" : [ 1 ] } `, ` { "user" : "ada" , "password" : "[redacted]" } `},
		{"nothing", account, ``, ``},
	} {
		s, err := schema.Parse(json.RawMessage(c.schema))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, found := s.Redact(json.RawMessage(c.data))
		if string(got) != c.want || found != (c.data != c.want) {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, found, c.want)
		}
		if marked := strings.Contains(c.schema, "nly\":true") || strings.Contains(c.schema, `"format":"password"`); s.Sensitive() != marked {
			t.Errorf("%s: sensitive is %v", c.name, s.Sensitive())
		}
	}
}

func TestDerivedSecretsAreRedacted(t *testing.T) {
	s := schema.Input[struct {
		Name string `json:"name"`
		Pins []int  `json:"pins" jsonschema_extras:"writeOnly=true"`
	}]()
	if got, found := s.Redact(json.RawMessage(`{"name":"a","pins":[1,2]}`)); !found || string(got) != `{"name":"a","pins":"[redacted]"}` {
		t.Errorf("got %s, %v", got, found)
	}
	if schema.Any.Sensitive() {
		t.Error("anything is a secret")
	}
}

// Whatever the data is, a marked secret is not in what is left, and what is left is JSON.
func FuzzRedact(f *testing.F) {
	s, err := schema.Parse(json.RawMessage(`{"properties":{"pin":{"writeOnly":true},"in":{"$ref":"#"},"all":{"items":{"$ref":"#"}}}}`))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{}`, `{"pin":"x"}`, `{"in":{"pin":[1]},"all":[{"pin":{}},2]}`, ` [ {"pin" : 1} ] `, `"pin"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if !json.Valid([]byte(data)) {
			return
		}
		var before any
		if json.Unmarshal([]byte(data), &before) != nil {
			return
		}
		got, _ := s.Redact(json.RawMessage(data))
		var after any
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", data, got, err)
		}
		if hidden(after) {
			t.Errorf("%q became %q", data, got)
		}
	})
}

// hidden looks for a secret where the schema of FuzzRedact has one.
func hidden(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	if pin, ok := m["pin"]; ok && pin != nil && pin != "[redacted]" {
		return true
	}
	if hidden(m["in"]) {
		return true
	}
	if list, ok := m["all"].([]any); ok {
		for _, e := range list {
			if hidden(e) {
				return true
			}
		}
	}
	return false
}
