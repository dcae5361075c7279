package conformance

import "encoding/json"

// generated is what generate reads of a schema.
type generated struct {
	Properties map[string]struct {
		Type any   `json:"type"`
		Enum []any `json:"enum"`
	} `json:"properties"`
	Required []string `json:"required"`
}

func (s *generated) read(text []byte) error { return json.Unmarshal(text, s) }

// texts are values for strings: keys, names, patterns, formats, and what breaks them.
var texts = []string{
	`"default"`, `"/notes/1/1"`, `"notes/0/3"`, `"notes"`, `""`, `"Memory.*"`, `"Memory.Get"`, `"Echo"`, `"Ping"`, `"Syscall.List"`,
	`"mermaid"`, `"json"`, `"tree"`, `"dot"`, `"asc"`, `"desc"`, `"query"`, `"reply"`, `"error"`, `"1h"`, `"note"`,
	`"os://notes.txt"`, `"os://agents/writer.md"`, `"os://skills/spell"`, `"os://memory/notes/1/1"`, `"os://memory"`, `"os://proc/uptime"`, `"os://sys/test"`, `"os://"`, `"writer.md"`,
	`"known"`, `"known"`, `"flow"`, `"flow"`, `"vault/x"`, `"proc/uptime"`, `"sys/log"`, `"../x"`, `"\u0000"`, `"ünïcode"`, `"*"`, `"MTIz"`,
}

// value makes a value for a property.
func (g generator) value(s *generated, name string) []byte {
	p, random := s.Properties[name], g.random
	if len(p.Enum) > 0 && random.IntN(10) > 0 {
		text, _ := json.Marshal(p.Enum[random.IntN(len(p.Enum))])
		return text
	}
	kind, _ := p.Type.(string)
	if random.IntN(20) == 0 {
		kind = []string{"string", "integer", "boolean", "object", ""}[random.IntN(5)]
	}
	switch kind {
	case "string":
		return []byte(g.texts[random.IntN(len(g.texts))])
	case "integer", "number":
		return []byte([]string{"0", "1", "2", "10", "404", "1735000000000", "-1"}[random.IntN(7)])
	case "boolean":
		return []byte([]string{"true", "false"}[random.IntN(2)])
	case "object":
		return []byte(`{"scheme":"data","path":"text/plain,hi"}`)
	case "array":
		return []byte(`["a"]`)
	}
	return []byte([]string{`null`, `1`, `"x"`, `{"a":[1]}`}[random.IntN(4)])
}
