package line

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/client"
)

func TestTheLikeliestValueIsSuggested(t *testing.T) {
	m := plantMethod()
	m.Schema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"kind":{"enum":["oak",3]}},"required":["name"],"additionalProperties":false}`)
	if got := Correct(m, json.RawMessage(`{"kind":"oka","name":"x"}`), nil); string(got) != `{"name":"x","kind":"oak"}` {
		t.Errorf("got %s", got)
	}
	if got := Correct(m, json.RawMessage(`{"kind":"spruce","name":"x"}`), nil); string(got) != `{"name":"x"}` {
		t.Errorf("got %s", got)
	}
}

func TestHelpForAlternatives(t *testing.T) {
	m := plantMethod()
	m.Schema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"maxHeight":{"type":"number"}},"required":["name"],"oneOf":[{"required":["maxHeight"]},{"required":["owner","tags"]}]}`)
	m.Forms = []*client.Field{{Needs: []string{"maxHeight"}}, {Needs: []string{"owner", "tags"}}}
	if text := MethodHelp(m, []string{"kernos", "garden", "plant"}, 0); !strings.Contains(text, "One of these is required: --maxHeight, or --owner and --tags.") || !strings.Contains(text, "kernos garden plant name --maxHeight 1") {
		t.Errorf("got %s", text)
	}
	m.Forms[0].Needs = nil
	if text := MethodHelp(m, []string{"kernos", "garden", "plant"}, 0); strings.Contains(text, "One of these") {
		t.Errorf("got %s", text)
	}
}

// What is written as it is in the usage line can be run.
func TestHelpOfAParameterThatIsNamedLikeAFlag(t *testing.T) {
	for name, want := range map[string]string{"data": "data=STRING", "key": "--key STRING"} {
		if got := flagOf(&client.Field{Name: name, Types: []string{"string"}}, name); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
