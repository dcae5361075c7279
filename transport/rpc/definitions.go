package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
)

// definitions are the types that the schemas of a document share. Each stands there once,
// under a name, and the schemas refer to it.
type definitions struct {
	prefix string                     // begins each reference to a definition
	came   map[string]json.RawMessage // definitions as the schemas had them, by their names here
	shared jsonvalue.Object           // definitions with their references rewritten, in order of arrival
}

func newDefinitions(prefix string) *definitions {
	return &definitions{prefix: prefix, came: make(map[string]json.RawMessage), shared: jsonvalue.Object{}}
}

// take returns a schema without its own definitions, which are added to the shared ones,
// and with its references pointing there. at is where the schema will stand: a reference to
// all of it becomes one to there.
func (d *definitions) take(schema json.RawMessage, at string) json.RawMessage {
	own := members(schema)
	if len(own) == 0 {
		return schema
	}
	// Names first: definitions may refer to each other.
	names := make(map[string]string) // new names by the old references
	var taken jsonvalue.Object
	for _, keyword := range []string{"$defs", "definitions"} {
		for _, m := range members(own.Get(keyword)) {
			name := d.choose(m.Name, m.Value)
			names["#/"+keyword+"/"+escapePointer(m.Name)] = name
			taken = taken.Set(name, m.Value)
		}
	}
	target := func(ref string) string {
		for from, name := range names {
			if rest, ok := strings.CutPrefix(ref, from); ok && (rest == "" || rest[0] == '/') {
				return d.prefix + escapePointer(name) + rest
			}
		}
		if rest, ok := strings.CutPrefix(ref, "#"); ok && (rest == "" || rest[0] == '/') {
			return at + rest
		}
		return ref
	}
	for _, m := range taken {
		d.shared = d.shared.Set(m.Name, retarget(m.Value, target))
	}
	if rest := own.Without("$defs").Without("definitions"); len(rest) < len(own) {
		schema = rest.Text()
	}
	return retarget(schema, target)
}

// choose finds a name for a definition: its own, unless another one has it already.
func (d *definitions) choose(name string, text json.RawMessage) string {
	chosen := name
	for n := 2; ; n++ {
		other, taken := d.came[chosen]
		if !taken {
			d.came[chosen] = text
			return chosen
		}
		if bytes.Equal(other, text) {
			return chosen
		}
		chosen = name + strconv.Itoa(n)
	}
}

// retarget returns a schema with its references changed. Values that aren't schemas stay as
// they are.
func retarget(schema json.RawMessage, target func(string) string) json.RawMessage {
	w := jsonscan.Rewrite(schema)
	var visit func(i int) int
	visit = func(i int) int {
		switch schema[i] {
		case '{':
			return w.Object(i, func(name []byte, at int) int {
				switch string(name) {
				case "$ref":
					if schema[at] == '"' {
						end := jsonscan.Skip(schema, at)
						w.Replace(at, end, string(jsonString(target(jsonscan.Unquote(schema[at:end])))))
						return end
					}
				case "const", "enum", "default", "examples":
					return jsonscan.Skip(schema, at)
				}
				return visit(at)
			})
		case '[':
			return w.Array(i, func(_, at int) int { return visit(at) })
		}
		return jsonscan.Skip(schema, i)
	}
	visit(0)
	out, _ := w.Result()
	return out
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
