package mcp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kernos/kernel/kerneltest"
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
				Name, Title string
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
		if tool.Title == "" || strings.ContainsAny(tool.Title, "._") {
			t.Errorf("%s has the title %q", tool.Name, tool.Title)
		}
		fields, _ := tool.InputSchema["properties"].(map[string]any)
		for name, field := range fields {
			if of, _ := field.(map[string]any); of["type"] == nil && of["anyOf"] == nil && of["oneOf"] == nil && of["enum"] == nil {
				t.Errorf("%s: %s has no type: %v", tool.Name, name, field)
			}
		}
	}
}

// The default list stays short when others register code, which is shown as theirs and as one line of visible text. What
// the caller registers itself is always listed.
func TestCodeOfOthersInTheDefaultList(t *testing.T) {
	d, _ := serve(t, nil)
	other := kerneltest.Principal(t, principal.DefaultID, "other", principal.Grant{Preset: principal.Agent})
	me := agent(t, principal.Grant{Preset: principal.Agent})
	register := func(c *peer, name string) {
		t.Helper()
		text := `Ignore\n\nthis\u001b[2J: ` + strings.Repeat("x", 100)
		check(t, name, c.ask(2, "tools/call", fmt.Sprintf(`"name":"Syscall_Register","arguments":{"name":%q,"kind":"query","inputSchema":{},"outputSchema":{},"description":"%s","code":"export const handler = () => 1"}`, name, text)), "!isError")
	}
	theirs, mine, owners := connect(t, d, other, ""), connect(t, d, me, ""), connect(t, d, nil, "")
	for i := range 10 { // the rate is limited
		register(theirs, fmt.Sprintf("Theirs.Tool%02d", i))
		register(owners, fmt.Sprintf("Theirs.Tool%02d", 10+i))
	}
	for _, meta := range []string{``, modernMeta} {
		list := mine.ask(3, "tools/list", meta)
		check(t, "the list", list, `"description":"Registered by owner: Ignore this␛[2J: xxx`, `"name":"Theirs_Tool10"`, "!Theirs_Tool09", `"name":"Syscall_Search"`)
		if len(list) >= 13_000 {
			t.Errorf("tools/list has %d bytes", len(list))
		}
		check(t, "their own list", theirs.ask(3, "tools/list", meta), `"name":"Theirs_Tool00"`, `"name":"Theirs_Tool09"`, `"description":"Ignore this␛[2J: xxx`, "!Registered by other")
	}
	for i := range 10 {
		register(mine, fmt.Sprintf("Mine.Tool%02d", i))
	}
	check(t, "my list", mine.ask(4, "tools/list", ``), `"name":"Mine_Tool00"`, `"name":"Mine_Tool09"`, `"name":"Theirs_Tool10"`, "!Theirs_Tool09")
	check(t, "the instructions", connect(t, d, me, "").ask(6, "initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}`), "more operations aren't listed as tools: Syscall_Search finds them")
	check(t, "a tool that isn't listed", mine.ask(5, "tools/call", `"name":"Theirs_Tool19","arguments":{}`), "!Unknown tool")
}

// The hints are those of the protocol: an idempotent tool has no further effect when it is called again with the same
// arguments, and a retry that is safe isn't that.
func TestHints(t *testing.T) {
	d, _ := serve(t, nil)
	c := connect(t, d, nil, "all")
	c.initialize(`{}`)
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				Annotations json.RawMessage
			}
		}
	}
	if err := json.Unmarshal([]byte(c.ask(1, "tools/list", "")), &list); err != nil {
		t.Fatal(err)
	}
	hints := make(map[string]string)
	for _, tool := range list.Result.Tools {
		hints[tool.Name] = string(tool.Annotations)
	}
	for name, want := range map[string]string{
		"Memory_Get":     `{"readOnlyHint":true,"openWorldHint":false}`,
		"Memory_Set":     `{"readOnlyHint":false,"idempotentHint":true,"openWorldHint":false}`,
		"Memory_Delete":  `{"readOnlyHint":false,"idempotentHint":true,"openWorldHint":false}`,
		"Vector_Delete":  `{"readOnlyHint":false,"openWorldHint":false}`, // of many items, each call deletes some
		"Token_Rotate":   `{"readOnlyHint":false,"openWorldHint":false}`,
		"Agent_Ask":      `{"readOnlyHint":false}`,
		"Model_Generate": `{"readOnlyHint":false}`,
	} {
		if hints[name] != want {
			t.Errorf("%s: got %s, want %s", name, hints[name], want)
		}
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
		"Xyzzy.*, a\r\n": `No tool matches \"Xyzzy.*\"; kernos ls lists the syscalls. No tool matches \"a\"`,
		"Http.Fetch":     `No tool matches \"Http.Fetch\" of those that \"tester\" may call`,
	} {
		c := connect(t, d, reader, tools)
		c.initialize(`{}`)
		check(t, tools, strings.ReplaceAll(c.ask(1, "tools/list", ""), `\\"`, `\"`), want)
	}
}
