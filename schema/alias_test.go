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
		// Nothing is renamed if that isn't enough, or would overwrite what was sent.
		`{"type":"a","name":"b"}`:   ``,
		`{"type":"a","name":null}`:  ``,
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
		renamed, all, _ := s.Rename([]byte(value))
		if got := fmt.Sprintf("%s %v", renamed, all); got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
	if _, all, _ := schema.Written(`{"type":"object","properties":{"name":{}},"additionalProperties":false}`).Rename([]byte(`{"type":"a"}`)); all != nil {
		t.Errorf("%v", all)
	}
}
