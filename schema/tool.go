package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
)

// choices are the keywords that providers of models refuse at the top of a tool's schema. One tool with
// such a schema makes them refuse the whole request.
var choices = []string{"anyOf", "oneOf", "allOf", "enum", "const", "not", "if", "then", "else"}

// OfTool returns the schema of a tool as providers of models take it: of an object, without a choice at
// its top, and without references, which some clients don't resolve. It accepts more than the schema does; the answer to a call that doesn't fit names the choice.
// A schema that has this form already comes back as it is.
func OfTool(text json.RawMessage) json.RawMessage {
	object, fields, choice, refers := false, false, false, false
	if len(text) > 0 && text[0] == '{' {
		jsonscan.Members(text, 0, func(name, value []byte) bool {
			switch keyword := string(jsonscan.Content(name)); keyword {
			case "type":
				object = string(value) == `"object"`
			case "properties":
				fields = true
			case "$defs":
				refers = true
			default:
				choice = choice || slices.Contains(choices, keyword)
			}
			return true
		})
	}
	if object && fields && !choice && !refers {
		return text
	}
	all := jsonvalue.Members(text)
	if refers {
		all = jsonvalue.Members(writtenOut(all.Without("$defs").Text(), jsonvalue.Members(all.Get("$defs"))))
	}
	for _, keyword := range choices {
		all = all.Without(keyword)
	}
	if !object {
		all = all.Set("type", json.RawMessage(`"object"`))
	}
	if !fields {
		all = all.Set("properties", json.RawMessage(`{}`))
	}
	return all.Text()
}

// writtenOut replaces references to definitions by what they refer to. Definitions don't contain themselves: a Go type
// that does has no schema.
func writtenOut(text json.RawMessage, definitions jsonvalue.Object) json.RawMessage {
	switch text[0] {
	case '{':
		all := jsonvalue.Members(text)
		if ref, ok := jsonvalue.String(all.Get("$ref")); ok {
			whole := jsonvalue.Members(definitions.Get(strings.TrimPrefix(ref, definitionPrefix)))
			for _, m := range all.Without("$ref") {
				whole = whole.Set(m.Name, m.Value)
			}
			all = whole
		}
		for _, m := range all {
			all = all.Set(m.Name, writtenOut(m.Value, definitions))
		}
		return all.Text()
	case '[':
		list := []byte{'['}
		for i, e := range jsonvalue.Elements(text) {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, writtenOut(e, definitions)...)
		}
		return append(list, ']')
	}
	return text
}
