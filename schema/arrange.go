package schema

import (
	"encoding/json"
	"slices"

	"kernos/internal/jsonvalue"
)

// order is the order in which the keywords of a schema are shown: first the type of the value, then
// its meaning, its parts, and the conditions that it must meet.
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

// arrange returns a schema with its keywords in order. A closed object always lists which
// properties it has and which are required, if only that there are none. A schema that allows
// everything is {}: some providers of models refuse true.
func arrange(text json.RawMessage) json.RawMessage {
	if string(text) == "true" {
		return json.RawMessage("{}")
	}
	keywords := jsonvalue.Members(text)
	if keywords == nil {
		return text
	}
	if string(keywords.Get("additionalProperties")) == "false" {
		if !keywords.Has("properties") {
			keywords = keywords.Set("properties", json.RawMessage("{}"))
		}
		if !keywords.Has("required") {
			keywords = keywords.Set("required", json.RawMessage("[]"))
		}
	}
	slices.SortStableFunc(keywords, func(a, b jsonvalue.Member) int { return rank(a.Name) - rank(b.Name) })
	for i, k := range keywords {
		switch k.Name {
		case "properties", "patternProperties", "$defs":
			inner := jsonvalue.Members(k.Value)
			for j := range inner {
				inner[j].Value = arrange(inner[j].Value)
			}
			keywords[i].Value = inner.Text()
		case "items", "not", "propertyNames":
			keywords[i].Value = arrange(k.Value)
		case "additionalProperties":
			if string(k.Value) != "true" {
				keywords[i].Value = arrange(k.Value)
			}
		}
	}
	return keywords.Text()
}
