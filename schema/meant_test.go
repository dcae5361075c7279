package schema_test

import (
	"fmt"
	"testing"

	"kernos/schema"
)

func TestMembersUnderOtherNames(t *testing.T) {
	type inner struct {
		Name string `json:"name" aliases:"type"`
	}
	type base struct {
		ID string `json:"jobId,omitempty" aliases:"job_id,id"`
	}
	type input struct {
		base
		Name  string  `json:"name,omitempty" aliases:"type" jsonschema:"maxLength=5"`
		Text  string  `json:"text,omitempty" aliases:"content"`
		Steps []inner `json:"steps,omitempty"`
		One   *inner  `json:"one,omitempty"`
	}
	s := schema.Input[input]()
	for value, want := range map[string]string{
		`{"type":"a"}`:             `{"name":"a"} [{type name}]`,
		`{"ty\u0070e":"a"}`:        `{"name":"a"} [{type name}]`,
		`{"id":"1","content":"x"}`: `{"jobId":"1","text":"x"} [{id jobId} {content text}]`,
		`{"steps":[{"type":"a"},{"name":"b"}],"one":{"type":"c"}}`: `{"steps":[{"name":"a"},{"name":"b"}],"one":{"name":"c"}} [{type name} {type name}]`,
		`{"type":"a","name":null}`:                                 `{"name":"a"} [{type name}]`,
		// Nothing is renamed if that isn't enough, or would overwrite what was sent.
		`{"type":"a","name":"b"}`:   ``,
		`{"id":"1","job_id":"2"}`:   ``,
		`{"type":"a","nonsense":1}`: ``,
		`{"type":"too long"}`:       ``,
		`{"type":1}`:                ``,
		`{"title":"a"}`:             ``,
		`[{"type":"a"}]`:            ``,
		`"type"`:                    ``,
	} {
		if want == "" {
			want = value + " []"
		}
		renamed, all, _ := s.Meant([]byte(value))
		if got := fmt.Sprintf("%s %v", renamed, all); got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
	if _, all, _ := schema.Written(`{"type":"object","properties":{"name":{}},"additionalProperties":false}`).Meant([]byte(`{"type":"a"}`)); all != nil {
		t.Errorf("%v", all)
	}
}

// An optional member that is null is absent, wherever it is, and whatever else has to be mended. A required one isn't, nor is
// the null of a member that takes it, or of one that the schema doesn't know.
func TestOptionalMembersThatAreNull(t *testing.T) {
	s := schema.Written(`{"type":"object","properties":{
		"key":{"type":"string"},"limit":{"type":"integer"},"kind":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},"value":{},
		"ref":{"anyOf":[{"type":"object","properties":{"path":{"type":"string"},"query":{"type":"string"}},"required":["path"],"additionalProperties":false},{"type":"string"}]},
		"list":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"],"additionalProperties":false}},
		"map":{"type":"object","additionalProperties":{"type":"string"}}
	},"required":["key"],"additionalProperties":false}`)
	for value, want := range map[string]string{
		`{"key":"a","limit":null,"kind":null}`:                      `{"key":"a"}`,
		`{"key":"a","value":null}`:                                  `{"key":"a","value":null}`,
		`{"key":"a","limit":null,"value":{"x":null}}`:               `{"key":"a","value":{"x":null}}`,
		`{"key":"a","list":[{"id":"1","n":null},{"id":"2","n":2}]}`: `{"key":"a","list":[{"id":"1"},{"id":"2","n":2}]}`,
		`{"key":"a","ref":{"path":"p","query":null}}`:               `{"key":"a","ref":{"path":"p"}}`,
		`{"key":"a","map":{"x":null,"y":"z"}}`:                      `{"key":"a","map":{"y":"z"}}`,
		`{"key":null}`:                                              `key: expected a string, got null`,
		`{"key":null,"limit":null}`:                                 `key: expected a string, got null`,
		`{"key":"a","limit":"x","kind":null}`:                       `limit: expected a whole number, got "x"`,
		`{"key":"a","limit":null,"list":[{"id":null}],"nope":null}`: `list[0].id: expected a string, got null; unknown field: nope (it may have key, kind, limit, list, map, ref, value)`,
		`{"key":"a","list":[null]}`:                                 `list[0]: expected an object, got null`,
		`null`:                                                      `the value: expected an object, got null`,
	} {
		meant, _, invalid := s.Meant([]byte(value))
		got := string(meant)
		if invalid != nil {
			if got != value {
				t.Errorf("%s is refused, and changed to %s", value, got)
			}
			got = invalid.Error()
		}
		if got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
}
