package client

import (
	"encoding/json"
	"fmt"
	"slices"

	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
)

// A Module is a namespace of a server.
type Module struct {
	Namespace   string   `json:"namespace"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	Methods     []string `json:"methods"`
}

// A document is the schema of a module, taken apart once for all its methods.
type document struct {
	module   *Module
	text     json.RawMessage
	root     jsonvalue.Object
	variants []json.RawMessage
	at       map[string]int // index of each method in the module's list
}

func readDocument(module *Module, text json.RawMessage) (*document, error) {
	root := jsonvalue.Members(text)
	if root == nil {
		return nil, &Broken{fmt.Sprintf("the schema of %s isn't a JSON object", module.Namespace)}
	}
	d := &document{module: module, text: text, root: root, at: make(map[string]int, len(module.Methods))}
	root.Read("oneOf", &d.variants)
	for i, name := range module.Methods {
		d.at[name] = i
	}
	return d, nil
}

// method finds a method. By the protocol it stands where it stands in the list of methods.
func (d *document) method(name string) (*Method, error) {
	index := d.at[name]
	r := &resolver{document: d.text}
	if index >= len(d.variants) || !named(r, d.variants[index], name) {
		index = slices.IndexFunc(d.variants, func(v json.RawMessage) bool { return named(r, v, name) })
	}
	if index < 0 {
		return nil, &Broken{fmt.Sprintf("the schema of %s has no form for %s", d.module.Namespace, name)}
	}
	m := &Method{Module: d.module.Namespace, Name: name}
	m.Schema = parameters(resolved(r, d.variants[index]), d.root)
	m.Field = *r.field("", m.Schema, 0)
	about := jsonvalue.Members(m.Schema)
	about.Read("x-presentation", &m.Presentation)
	about.Read("title", &m.Title)
	m.Description, m.Field.Description = m.Field.Description, ""
	return m, nil
}

// called returns the methods that people call by a word.
func (d *document) called(word string) (names []string) {
	for _, name := range d.module.Methods {
		if m, err := d.method(name); err == nil && nearest.Lists(m.Words, word) {
			names = append(names, name)
		}
	}
	return names
}

// resolved follows the reference that stands in the place of a whole variant.
func resolved(r *resolver, variant json.RawMessage) json.RawMessage {
	for range maxDepth {
		ref, ok := jsonvalue.String(jsonvalue.Members(variant).Get("$ref"))
		if !ok {
			break
		}
		variant = r.find(ref)
	}
	return variant
}

// named reports whether a variant is that of a method.
func named(r *resolver, variant json.RawMessage, name string) bool {
	properties := jsonvalue.Members(jsonvalue.Members(resolved(r, variant)).Get("properties"))
	constant, ok := jsonvalue.String(jsonvalue.Members(properties.Get("method")).Get("const"))
	return ok && constant == name
}

// parameters makes the schema of a method's parameters from its variant: without the name
// of the method, which stands elsewhere in a request, and with what it refers to.
func parameters(text json.RawMessage, root jsonvalue.Object) json.RawMessage {
	variant := jsonvalue.Members(text)
	variant = variant.Set("properties", jsonvalue.Members(variant.Get("properties")).Without("method").Text())
	var required []string
	if variant.Read("required", &required) {
		text, _ := json.Marshal(slices.DeleteFunc(required, func(r string) bool { return r == "method" }))
		variant = variant.Set("required", text)
	}
	for _, keyword := range []string{"$schema", "$defs", "definitions"} {
		if v := root.Get(keyword); v != nil && variant.Get(keyword) == nil {
			variant = variant.Set(keyword, v)
		}
	}
	return variant.Text()
}
