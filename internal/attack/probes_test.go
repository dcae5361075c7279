package attack

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"kernos/internal/when"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// A probe is a call with one parameter that may lead out of the kernel.
type probe struct {
	Type  message.Type
	Param string // its path: files/[]/dataRef; "" for a call that has none
	Data  string
}

func (p probe) String() string {
	return fmt.Sprintf("%s %s: %s", p.Type, p.Param, message.Clip(p.Data, 300))
}

// bases are valid data for syscalls whose examples lead nowhere; the first that can have a parameter is used.
func (c *canaries) bases(s *kernel.Syscall) (all []string) {
	theirs := fmt.Sprintf(`{"collection":"theirs","owner":%q`, c.owner)
	switch s.Type {
	case "Job.Start":
		all = []string{`{"name":"Ping","payload":{"payload":1}}`, `{"steps":[{"id":"a","name":"Ping","payload":{"payload":1}}]}`}
	case "Job.Pause", "Job.Resume":
		all = []string{`{}`}
	case "Memory.Set":
		all = []string{`{"key":"notes/probe"}`, `{"key":"notes/probe","value":1}`}
	case "Vector.Query":
		all = []string{theirs + `,"text":"theirs"}`}
	case "Vector.Upsert":
		all = []string{theirs + `,"items":[{"id":"2","text":"Ours."}]}`}
	case "Vector.Delete":
		all = []string{theirs + `,"ids":["2"]}`}
	case "Syscall.Register":
		all = []string{`{"name":"Probe.Run","kind":"query","inputSchema":{},"outputSchema":{}}`, `{"name":"Probe.Run","kind":"query","inputSchema":{},"outputSchema":{},"code":"export const handler = () => 1"}`,
			`{"name":"Probe.Run","kind":"query","inputSchema":{},"outputSchema":{},"emits":[{"type":"Probe.Ran"}]}`}
	case "VFS.Write":
		all = []string{`{"uri":"os://memory/notes/probe","content":"x"}`, `{"uri":"os://memory/notes/probe"}`}
	case "Model.Generate":
		hello := `{"model":"openai","messages":[{"type":"input","text":"Hello"}]`
		all = []string{hello + `}`, hello + `,"tools":[{"name":"Ping"}]}`}
	case "Syscall.Test":
		all = []string{`{"data":{}}`}
	case "Session.Create":
		all = []string{`{"model":"openai"}`, `{"tools":[{"name":"elsewhere"}]}`, `{"policy":[{"match":"Ping","decide":"allow"}]}`}
	case "Mcp.Ask":
		all = []string{`{"requests":{"any":{"method":"roots/list"}}}`}
	case "Mcp.Add":
		all = []string{fmt.Sprintf(`{"name":"probe","url":"http://%s/mcp"}`, c.address), fmt.Sprintf(`{"name":"probe","url":"http://%s/mcp","client":{"id":"x"}}`, c.address), `{"name":"probe","command":["true"]}`}
	case "Kernel.Backup":
		all = []string{`{}`}
	case "Session.Send":
		all = []string{fmt.Sprintf(`{"session":%q,"files":[{"filename":"a"}]}`, c.session)}
	}
	if example, ok := schema.ExampleOf(s.Input); ok {
		all = append(all, string(example))
	}
	return append(all, `{}`)
}

// probes are the calls of all syscalls with all parameters that could lead somewhere. Parameters that no probe
// could be made for are returned too.
func (c *canaries) probes(t testing.TB, calls []*kernel.Syscall) (all []probe, none []string) {
	t.Helper()
	for _, s := range calls {
		before := len(all)
		for _, data := range c.bases(s) {
			if s.Input.Validate(json.RawMessage(data)) == nil {
				all = append(all, probe{s.Type, "", data})
				break
			}
		}
		if len(all) == before {
			none = append(none, string(s.Type))
		}
		for _, p := range parametersOf(t, s) {
			found := false
			for _, value := range c.values(p.schema) {
				if data, ok := c.with(s, p.path, value); ok {
					all = append(all, probe{s.Type, strings.Join(p.path, "/"), data})
					found = true
				}
			}
			if !found {
				none = append(none, fmt.Sprintf("%s %s", s.Type, strings.Join(p.path, "/")))
			}
		}
	}
	return append(all, c.nested()...), none
}

// nested are probes of references within parameters whose schema describes no members.
func (c *canaries) nested() (all []probe) {
	for _, reference := range c.references() {
		said := fmt.Sprintf(`{"type":"input","text":"Hello","files":[{"dataRef":%s,"mimeType":"text/plain"}]}`, reference)
		all = append(all,
			probe{"Session.Append", "message/files/[]/dataRef", fmt.Sprintf(`{"session":%q,"message":%s}`, c.own, said)},
			probe{"Model.Generate", "messages/[]/files/[]/dataRef", fmt.Sprintf(`{"model":"openai","messages":[%s]}`, said)})
	}
	return append(all, probe{"Notify.Send", "to", `{"text":"Hello","to":"canary"}`})
}

// A parameter is a place in the data of a syscall, with the schema of what belongs there.
type parameter struct {
	path   []string // names of members; [] is any element of a list, * any other member
	schema map[string]any
}

// parametersOf returns the parameters that take a text, a reference, or anything.
func parametersOf(t testing.TB, s *kernel.Syscall) (all []parameter) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(s.Input.JSON(), &root); err != nil {
		t.Fatalf("%s: %v", s.Type, err)
	}
	var walk func(node any, path []string, depth int)
	walk = func(node any, path []string, depth int) {
		m, _ := node.(map[string]any)
		if m == nil || depth > 12 {
			return
		}
		path = slices.Clip(path)
		if ref, ok := m["$ref"].(string); ok {
			name := ref[strings.LastIndexByte(ref, '/')+1:]
			defs, _ := root["$defs"].(map[string]any)
			if name == "BlobPointer" {
				all = append(all, parameter{path, map[string]any{"reference": true}})
				return
			}
			walk(defs[name], path, depth+1)
			return
		}
		if m["format"] == when.FormatTime || m["format"] == when.FormatSpan {
			return // the schema takes no text there but a time
		}
		for _, choice := range []string{"oneOf", "anyOf", "allOf"} {
			list, _ := m[choice].([]any)
			for _, one := range list {
				walk(one, path, depth+1)
			}
		}
		properties, _ := m["properties"].(map[string]any)
		names := make([]string, 0, len(properties))
		for name := range properties {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			walk(properties[name], append(path, name), depth+1)
		}
		walk(m["additionalProperties"], append(path, "*"), depth+1)
		walk(m["items"], append(path, "[]"), depth+1)
		switch m["type"] {
		case "string":
			if m["enum"] == nil && m["const"] == nil {
				all = append(all, parameter{path, m})
			}
		case nil:
			if len(path) > 0 && m["oneOf"] == nil && m["anyOf"] == nil && m["enum"] == nil && m["required"] == nil {
				all = append(all, parameter{path, map[string]any{"any": true}})
			}
		case "object":
			if more, _ := m["additionalProperties"].(map[string]any); len(path) > 0 && len(properties) == 0 && more == nil {
				all = append(all, parameter{path, map[string]any{"any": true}})
			}
		}
	}
	walk(root, nil, 0)
	return all
}

// values are what a parameter is given.
func (c *canaries) values(of map[string]any) (all []any) {
	add := func(list []string, wrap string) {
		for _, text := range list {
			var v any
			if json.Unmarshal([]byte(fmt.Sprintf(wrap, text)), &v) == nil {
				all = append(all, v)
			}
		}
	}
	switch {
	case of["reference"] != nil:
		add(c.references(), `%s`)
	case of["any"] != nil:
		add(c.references(), `{"dataRef":%s,"size":1}`)
		add(c.references(), `{"fooRef":%s}`)
		all = append(all, "https://"+c.address+"/any", c.file)
	default:
		for _, text := range c.texts() {
			all = append(all, text)
		}
	}
	return all
}

// with returns data for a syscall with a value at a path.
func (c *canaries) with(s *kernel.Syscall, path []string, value any) (string, bool) {
	for _, base := range c.bases(s) {
		var data any
		if json.Unmarshal([]byte(base), &data) != nil {
			continue
		}
		text, err := json.Marshal(put(data, path, value))
		if err == nil && s.Input.Validate(text) == nil {
			c.made++
			return strings.ReplaceAll(string(text), "Probe.Run", fmt.Sprintf("Probe.Run%d", c.made)), true
		}
	}
	return "", false
}

// put puts a value at a path, and makes what is missing on the way.
func put(data any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "[]" {
		list, _ := data.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = put(list[0], path[1:], value)
		return list
	}
	m, _ := data.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	name := path[0]
	if name == "*" {
		name = "any"
	}
	m[name] = put(m[name], path[1:], value)
	return m
}
