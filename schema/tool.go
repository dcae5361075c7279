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
// its top. It accepts more than the schema does; the answer to a call that doesn't fit names the choice.
// A schema that has this form already comes back as it is.
func OfTool(text json.RawMessage) json.RawMessage {
	object, fields, choice := false, false, false
	if len(text) > 0 && text[0] == '{' {
		jsonscan.Members(text, 0, func(name, value []byte) bool {
			switch keyword := string(jsonscan.Content(name)); keyword {
			case "type":
				object = string(value) == `"object"`
			case "properties":
				fields = true
			default:
				choice = choice || slices.Contains(choices, keyword)
			}
			return true
		})
	}
	if object && fields && !choice {
		return text
	}
	all := jsonvalue.Members(text)
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

// anyType is what a parameter is listed with that takes any value: some clients refuse one without a type, or a list of what
// isn't said.
const anyType = `[{"type":"object"},{"type":"array","items":{"anyOf":[{"type":"object"},{"type":"string"},{"type":"number"},{"type":"boolean"}]}},{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"}]`

// Typed returns the schema of a tool in which each parameter has a type, or a choice of some.
func Typed(text json.RawMessage) json.RawMessage {
	all := jsonvalue.Members(text)
	fields := jsonvalue.Members(all.Get("properties"))
	changed := false
	for i, f := range fields {
		if f.Value[0] != '{' {
			continue
		}
		of := jsonvalue.Members(f.Value)
		if slices.ContainsFunc([]string{"type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"}, func(keyword string) bool { return of.Get(keyword) != nil }) {
			continue
		}
		fields[i].Value, changed = of.Set("anyOf", json.RawMessage(anyType)).Text(), true
	}
	if !changed {
		return text
	}
	return all.Set("properties", fields.Text()).Text()
}

// WithoutReferences returns a schema of the kernel's own with its definitions in the places that refer to them: some
// clients don't resolve references. Such definitions don't contain themselves, since a Go type that does has no schema.
func WithoutReferences(text json.RawMessage) json.RawMessage {
	all := jsonvalue.Members(text)
	definitions := all.Get("$defs")
	if definitions == nil {
		return text
	}
	return resolved(all.Without("$defs").Text(), jsonvalue.Members(definitions))
}

func resolved(text json.RawMessage, definitions jsonvalue.Object) json.RawMessage {
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
			all = all.Set(m.Name, resolved(m.Value, definitions))
		}
		return all.Text()
	case '[':
		list := []byte{'['}
		for i, e := range jsonvalue.Elements(text) {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, resolved(e, definitions)...)
		}
		return append(list, ']')
	}
	return text
}
