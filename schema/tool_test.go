package schema_test

import (
	"encoding/json"
	"testing"

	"kernos/schema"
)

// Programs write schemas of their own, with references to themselves, to nothing, or to much: a provider of models gets them as they are.
func TestOfToolKeepsReferences(t *testing.T) {
	for _, text := range []string{
		`{"type":"object","properties":{"tree":{"$ref":"#/$defs/Tree"}},"$defs":{"Tree":{"type":"object","properties":{"next":{"$ref":"#/$defs/Tree"}}}}}`,
		`{"type":"object","properties":{"all":{"$ref":"#"}},"$defs":{}}`,
		`{"type":"object","properties":{"gone":{"$ref":"#/$defs/Gone"}},"$defs":{"Other":{}}}`,
	} {
		if got := schema.OfTool(json.RawMessage(text)); string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestWithoutReferences(t *testing.T) {
	const text = `{"type":"object","properties":{"file":{"$ref":"#/$defs/Pointer","description":"Where."},"all":{"type":"array","items":{"$ref":"#/$defs/Pointer"}}},"$defs":{"Pointer":{"type":"object","properties":{"path":{"$ref":"#/$defs/Path"}}},"Path":{"type":"string"}}}`
	const want = `{"type":"object","properties":{"file":{"type":"object","properties":{"path":{"type":"string"}},"description":"Where."},"all":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"}}}}}}`
	if got := schema.WithoutReferences(json.RawMessage(text)); string(got) != want {
		t.Errorf("got %s", got)
	}
	const plain = `{"type":"object", "properties":{}}`
	if got := schema.WithoutReferences(json.RawMessage(plain)); string(got) != plain {
		t.Errorf("got %s", got)
	}
}
