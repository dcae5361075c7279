package rpc

import (
	"bytes"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
)

// definitions are the types that the schemas of a document share. Each stands there once,
// under a name, and the schemas refer to it.
type definitions struct {
	prefix string // of references to them
	names  []string
	texts  map[string][]byte
}

func newDefinitions(prefix string) *definitions {
	return &definitions{prefix: prefix, texts: make(map[string][]byte)}
}

// definitionKeywords are where a schema has the types that it refers to.
var definitionKeywords = []string{"$defs", "definitions"}

// take returns a schema without its own definitions, which are added to the shared ones,
// and with its references pointing there. at is where the schema will stand: a reference to
// all of it becomes one to there.
func (d *definitions) take(schema []byte, at string) []byte {
	if len(schema) == 0 || schema[0] != '{' {
		return schema
	}
	// Names first: definitions may refer to each other.
	renames := make(map[string]string)
	type definition struct {
		name string
		text []byte
	}
	var own []definition
	for _, keyword := range definitionKeywords {
		if defs := jsonscan.Member(schema, keyword); len(defs) > 0 && defs[0] == '{' {
			jsonscan.Members(defs, 0, func(token, value []byte) bool {
				name := jsonscan.Unquote(token)
				own = append(own, definition{d.choose(name, value), value})
				renames["#/"+keyword+"/"+escapePointer(name)] = own[len(own)-1].name
				return true
			})
		}
	}
	target := func(ref string) string {
		for from, name := range renames {
			if rest, ok := strings.CutPrefix(ref, from); ok && (rest == "" || rest[0] == '/') {
				return d.prefix + escapePointer(name) + rest
			}
		}
		if rest, ok := strings.CutPrefix(ref, "#"); ok && (rest == "" || rest[0] == '/') {
			return at + rest
		}
		return ref
	}
	for _, one := range own {
		d.texts[one.name] = rewritten(nil, one.text, target)
	}
	out := []byte{'{'}
	jsonscan.Members(schema, 0, func(token, value []byte) bool {
		name := jsonscan.Unquote(token)
		if name == definitionKeywords[0] || name == definitionKeywords[1] {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, token...), ':')
		if name == "$ref" && value[0] == '"' {
			out = jsonscan.AppendQuoted(out, target(jsonscan.Unquote(value)))
		} else {
			out = rewritten(out, value, target)
		}
		return true
	})
	return append(out, '}')
}

// choose finds a name for a definition: its own, unless another one has it already.
func (d *definitions) choose(name string, text []byte) string {
	chosen := name
	for n := 2; ; n++ {
		source, taken := d.texts[sourceOf(chosen)]
		if !taken {
			d.texts[sourceOf(chosen)] = text
			d.names = append(d.names, chosen)
			return chosen
		}
		if bytes.Equal(source, text) {
			return chosen
		}
		chosen = name + strconv.Itoa(n)
	}
}

// sourceOf is the key of a definition as it came. No name of a definition begins so.
func sourceOf(name string) string { return "\x00" + name }

// append appends the definitions as an object, in the order in which they came.
func (d *definitions) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, name := range d.names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(jsonscan.AppendQuoted(dst, name), ':'), d.texts[name]...)
	}
	return append(dst, '}')
}

// rewritten appends a schema with its references changed. Values that are no schemas stay as
// they are.
func rewritten(dst, text []byte, target func(string) string) []byte {
	switch text[0] {
	case '{':
		dst = append(dst, '{')
		began := false
		jsonscan.Members(text, 0, func(token, value []byte) bool {
			if began {
				dst = append(dst, ',')
			}
			began = true
			dst = append(append(dst, token...), ':')
			switch name := string(token); {
			case name == `"$ref"` && value[0] == '"':
				dst = jsonscan.AppendQuoted(dst, target(jsonscan.Unquote(value)))
			case name == `"const"`, name == `"enum"`, name == `"default"`, name == `"examples"`:
				dst = append(dst, value...)
			default:
				dst = rewritten(dst, value, target)
			}
			return true
		})
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		began := false
		jsonscan.Elements(text, 0, func(value []byte) bool {
			if began {
				dst = append(dst, ',')
			}
			began = true
			dst = rewritten(dst, value, target)
			return true
		})
		return append(dst, ']')
	}
	return append(dst, text...)
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
