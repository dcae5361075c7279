package mcp_test

import (
	"encoding/json"
	"slices"
	"testing"
)

// A listed schema of the kernel's own tools has nothing that clients of models refuse or don't understand: each list
// says what is in it, a type is one type, references are replaced by their definitions, and the top has no choice.
func TestToolsAreForEveryClient(t *testing.T) {
	d, _ := serve(t, nil)
	c := connect(t, d, nil, "all")
	c.initialize(`{}`)
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema map[string]any
			}
		}
	}
	if err := json.Unmarshal([]byte(c.ask(1, "tools/list", "")), &list); err != nil || len(list.Result.Tools) < 80 {
		t.Fatalf("%v: %d tools", err, len(list.Result.Tools))
	}
	var look func(tool, path string, value any)
	look = func(tool, path string, value any) {
		switch v := value.(type) {
		case []any:
			for _, e := range v {
				look(tool, path, e)
			}
		case map[string]any:
			if _, several := v["type"].([]any); several {
				t.Errorf("%s %s has several types", tool, path)
			}
			if v["type"] == "array" && v["items"] == nil {
				t.Errorf("%s %s doesn't say what is in the list", tool, path)
			}
			for name, part := range v {
				if slices.Contains([]string{"$ref", "$defs"}, name) || path == "" && slices.Contains([]string{"anyOf", "oneOf", "allOf", "not", "enum"}, name) {
					t.Errorf("%s %s has %s", tool, path, name)
				}
				if name != "examples" && name != "default" && name != "enum" {
					look(tool, path+"/"+name, part)
				}
			}
		}
	}
	for _, tool := range list.Result.Tools {
		look(tool.Name, "", tool.InputSchema)
	}
}
