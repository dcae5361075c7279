package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"kernos/internal/jsonvalue"
)

// TypeScript returns the type of the values that a schema describes, as TypeScript writes it. Lines
// after the first begin with the indent. What a type can't express, such as the length of a text, is
// left out: a value that has the type may still break the schema.
func TypeScript(text json.RawMessage, indent string) string {
	w := typeWriter{definitions: jsonvalue.Members(jsonvalue.Members(text).Get("$defs"))}
	return w.typeOf(text, indent)
}

// A typeWriter writes the types of one schema.
type typeWriter struct {
	definitions jsonvalue.Object
	within      []string // the definitions that are being written
}

// scalarTypes are the scalar types of JSON Schema, in TypeScript.
var scalarTypes = map[string]string{"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}

func (w *typeWriter) typeOf(text json.RawMessage, indent string) string {
	keywords := jsonvalue.Members(text)
	switch {
	case len(keywords) == 0:
		return "unknown"
	case keywords.Has("$ref"):
		return w.referred(keywords.Get("$ref"), indent)
	case keywords.Has("const"):
		return string(keywords.Get("const"))
	case keywords.Has("enum"):
		var all []string
		for _, v := range jsonvalue.Elements(keywords.Get("enum")) {
			all = append(all, string(v))
		}
		return strings.Join(all, " | ")
	}
	for _, union := range []string{"anyOf", "oneOf"} {
		if forms := jsonvalue.Elements(keywords.Get(union)); len(forms) > 0 && !keywords.Has("properties") {
			return w.types(forms, " | ", indent)
		}
	}
	var types []string
	if one, ok := jsonvalue.String(keywords.Get("type")); ok {
		types = []string{one}
	} else {
		keywords.Read("type", &types)
	}
	if len(types) == 0 && keywords.Has("properties") {
		types = []string{"object"}
	}
	var all []string
	for _, t := range types {
		switch {
		case t == "object":
			all = append(all, w.object(keywords, indent))
		case t == "array":
			all = append(all, w.list(keywords, indent))
		default:
			all = append(all, scalarTypes[t])
		}
	}
	if len(all) == 0 {
		return "unknown"
	}
	return strings.Join(all, " | ")
}

// referred returns the type of a definition. One that refers to itself is unknown there.
func (w *typeWriter) referred(pointer json.RawMessage, indent string) string {
	text, _ := jsonvalue.String(pointer)
	name, ok := strings.CutPrefix(text, "#/$defs/")
	if !ok || slices.Contains(w.within, name) || !w.definitions.Has(name) {
		return "unknown"
	}
	w.within = append(w.within, name)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	return w.typeOf(w.definitions.Get(name), indent)
}

func (w *typeWriter) types(schemas []json.RawMessage, separator, indent string) string {
	all := make([]string, len(schemas))
	for i, s := range schemas {
		all[i] = w.typeOf(s, indent)
	}
	return strings.Join(all, separator)
}

func (w *typeWriter) list(keywords jsonvalue.Object, indent string) string {
	if items := jsonvalue.Elements(keywords.Get("prefixItems")); len(items) > 0 {
		return "[" + w.types(items, ", ", indent) + "]"
	}
	return "Array<" + w.typeOf(keywords.Get("items"), indent) + ">"
}

var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`) })

func (w *typeWriter) object(keywords jsonvalue.Object, indent string) string {
	inner := indent + "  "
	var required []string
	keywords.Read("required", &required)
	var b strings.Builder
	for _, p := range jsonvalue.Members(keywords.Get("properties")) {
		name, mark := p.Name, "?"
		if slices.Contains(required, name) {
			mark = ""
		}
		if !plainName().MatchString(name) {
			quoted, _ := json.Marshal(name)
			name = string(quoted)
		}
		if about, ok := jsonvalue.String(jsonvalue.Members(p.Value).Get("description")); ok {
			fmt.Fprintf(&b, "%s%s\n", inner, Comment(about))
		}
		fmt.Fprintf(&b, "%s%s%s: %s;\n", inner, name, mark, w.typeOf(p.Value, inner))
	}
	switch more := keywords.Get("additionalProperties"); {
	case len(jsonvalue.Members(more)) > 0 && b.Len() == 0:
		return "Record<string, " + w.typeOf(more, indent) + ">"
	case b.Len() == 0 && string(more) == "false":
		return "Record<string, never>"
	case b.Len() == 0:
		return "Record<string, unknown>"
	}
	return "{\n" + b.String() + indent + "}"
}

// Comment returns a text as a comment for readers of TypeScript, on one line.
func Comment(text string) string {
	return "/** " + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "*/", "*\u200b/") + " */"
}
