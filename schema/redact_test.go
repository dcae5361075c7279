package schema

import (
	"encoding/json"
	"strings"
	"testing"
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
		{"by pattern", `{"patternProperties":{"^x":{"writeOnly":true}}}`, `{"x1":1}`, `{"x1":"[redacted]"}`},
		{"in one of several", `{"oneOf":[{"properties":{"a":{"writeOnly":true}}},{"properties":{"b":{"writeOnly":true}}}]}`, `{"a":1,"b":2,"c":3}`, `{"a":"[redacted]","b":"[redacted]","c":3}`},
		{"by reference", `{"properties":{"in":{"$ref":"#/$defs/s~1x"}},"$defs":{"s/x":{"properties":{"pin":{"writeOnly":true}}}}}`, `{"in":{"pin":1}}`, `{"in":{"pin":"[redacted]"}}`},
		{"in a circle", `{"properties":{"pin":{"writeOnly":true},"next":{"$ref":"#"}}}`, `{"next":{"next":{"pin":1}}}`, `{"next":{"next":{"pin":"[redacted]"}}}`},
		{"a circle without end", `{"$ref":"#","properties":{"pin":{"writeOnly":true}}}`, `{"pin":1}`, `{"pin":"[redacted]"}`},
	} {
		s, err := Parse(json.RawMessage(c.schema))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, found := s.Redact(json.RawMessage(c.data))
		if string(got) != c.want || found != (c.data != c.want) {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, found, c.want)
		}
		if s.Sensitive() != strings.Contains(c.schema, "writeOnly") && !strings.Contains(c.schema, "password\"}") {
			t.Errorf("%s: sensitive is %v", c.name, s.Sensitive())
		}
	}
}

func TestDerivedSecretsAreRedacted(t *testing.T) {
	s := Input[struct {
		Name string `json:"name"`
		Pins []int  `json:"pins" jsonschema:"writeOnly=true"`
	}]()
	if got, found := s.Redact(json.RawMessage(`{"name":"a","pins":[1,2]}`)); !found || string(got) != `{"name":"a","pins":"[redacted]"}` {
		t.Errorf("got %s, %v", got, found)
	}
	if Any.Sensitive() {
		t.Error("anything is a secret")
	}
}

// Whatever the data is, a marked secret is not in what is left, and what is left is JSON.
func FuzzRedact(f *testing.F) {
	s, err := Parse(json.RawMessage(`{"properties":{"pin":{"writeOnly":true},"in":{"$ref":"#"},"all":{"items":{"$ref":"#"}}}}`))
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
