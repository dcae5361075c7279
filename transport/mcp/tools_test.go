package mcp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"kernos/kernel/principal"
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
			if items, _ := v["items"].(map[string]any); v["type"] == "array" && len(items) == 0 {
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

// Patterns that match no tool aren't passed over in silence.
func TestPatternsWithoutTools(t *testing.T) {
	d, _ := serve(t, nil)
	reader := agent(t, principal.Grant{Preset: principal.Agent, Deny: []string{"Http.*"}})
	for tools, want := range map[string]string{
		"Memory.*":       `"name":"Memory_Get"`,
		"Nope.*,Echo":    `"name":"Echo"`, // something is listed
		"Memry.*":        `"code":-32602,"message":"Invalid params: tools: No tool matches \"Memry.*\"; did you mean Memory.*?"`,
		"memory_get":     `did you mean Memory.Get?`,
		"cor":            `did you mean core?`,
		"Xyzzy.*, a\r\n": `No tool matches \"Xyzzy.*\"; kernos ls lists what there is. No tool matches \"a\"`,
		"Http.Fetch":     `No tool matches \"Http.Fetch\" of those that \"tester\" may call`,
	} {
		c := connect(t, d, reader, tools)
		c.initialize(`{}`)
		check(t, tools, strings.ReplaceAll(c.ask(1, "tools/list", ""), `\\"`, `\"`), want)
	}
}
