package schema

import (
	"slices"

	"kernos/internal/jsonscan"
)

// order is how the keywords of a schema are shown: what a value is, what it means,
// what is in it, what must be.
var order = []string{
	"$schema", "$id", "$anchor", "$ref", "$dynamicRef", "$defs", "$comment", "title",
	"type", "enum", "const", "format", "pattern", "minLength", "maxLength",
	"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf",
	"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	"description", "default", "examples", "deprecated", "readOnly", "writeOnly",
	"properties", "patternProperties", "propertyNames", "items", "prefixItems",
	"allOf", "anyOf", "oneOf", "not", "if", "then", "else",
	"required", "additionalProperties",
}

func rank(keyword string) int {
	if i := slices.Index(order, keyword); i >= 0 {
		return i
	}
	return len(order)
}

// arrange appends a schema with its keywords in order. A closed object always says
// which properties it has and which are required, if only that there are none.
func arrange(dst, text []byte) []byte {
	if text[0] != '{' {
		return append(dst, text...)
	}
	type keyword struct {
		name  string
		value []byte
	}
	var keywords []keyword
	has := func(name string) bool {
		return slices.ContainsFunc(keywords, func(k keyword) bool { return k.name == name })
	}
	jsonscan.Members(text, 0, func(name, value []byte) bool {
		keywords = append(keywords, keyword{jsonscan.Unquote(name), value})
		return true
	})
	closed := func(k keyword) bool { return k.name == "additionalProperties" && string(k.value) == "false" }
	if slices.ContainsFunc(keywords, closed) {
		for name, empty := range map[string]string{"properties": "{}", "required": "[]"} {
			if !has(name) {
				keywords = append(keywords, keyword{name, []byte(empty)})
			}
		}
	}
	slices.SortStableFunc(keywords, func(a, b keyword) int { return rank(a.name) - rank(b.name) })

	dst = append(dst, '{')
	for i, k := range keywords {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonscan.AppendQuoted(dst, k.name), ':')
		switch k.name {
		case "properties", "patternProperties", "$defs":
			dst = append(dst, '{')
			first := true
			jsonscan.Members(k.value, 0, func(name, value []byte) bool {
				if !first {
					dst = append(dst, ',')
				}
				first = false
				dst = arrange(append(append(dst, name...), ':'), value)
				return true
			})
			dst = append(dst, '}')
		case "items", "additionalProperties", "not", "propertyNames":
			dst = arrange(dst, k.value)
		default:
			dst = append(dst, k.value...)
		}
	}
	return append(dst, '}')
}
