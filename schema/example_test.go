package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"kernos/schema"
)

func TestExamplesThatADescriptionGives(t *testing.T) {
	for description, want := range map[string]string{
		"Path (e.g., '/notes/123', 'vault/x'). More.": `"/notes/123"`,
		"Path, for example 'notes/1' or '/notes/1'.":  `"notes/1"`,
		"URL. Example: https://example.com/data.":     `"https://example.com/data"`,
		"File, for example os://notes/1.md. More.":    `"os://notes/1.md"`,
		"A name.": `"name"`,
	} {
		property, _ := json.Marshal(map[string]string{"type": "string", "description": description})
		s, err := schema.Parse(fmt.Appendf(nil, `{"type":"object","properties":{"name":%s},"required":["name"]}`, property))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := schema.ExampleOf(s); string(got) != `{"name":`+want+`}` {
			t.Errorf("%s: got %s", description, got)
		}
	}
}
