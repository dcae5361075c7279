package client

import (
	"encoding/json"
	"fmt"
	"slices"

	"kernos/internal/jsonvalue"
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
	root, err := jsonvalue.ReadObject(text)
	if err != nil {
		return nil, &Broken{fmt.Sprintf("the schema of %s can't be read: %v", module.Namespace, err)}
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
	index, listed := d.at[name]
	r := &resolver{document: d.text}
	if !listed || index >= len(d.variants) || !named(r, d.variants[index], name) {
		index = slices.IndexFunc(d.variants, func(v json.RawMessage) bool { return named(r, v, name) })
	}
	if index < 0 {
		return nil, &Broken{fmt.Sprintf("the schema of %s has no form for %s", d.module.Namespace, name)}
	}
	variant, err := jsonvalue.ReadObject(resolved(r, d.variants[index]))
	if err != nil {
		return nil, &Broken{fmt.Sprintf("the schema of %s_%s can't be read: %v", d.module.Namespace, name, err)}
	}
	m := &Method{Module: d.module.Namespace, Name: name}
	m.Schema = parameters(variant, d.root, name)
	m.Field = *r.field("", m.Schema, 0)
	m.Description, m.Field.Description = m.Field.Description, ""
	return m, nil
}

// resolved follows the reference that stands in the place of a whole variant.
func resolved(r *resolver, variant json.RawMessage) json.RawMessage {
	for range maxDepth {
		o, err := jsonvalue.ReadObject(variant)
		var ref string
		if err != nil || !o.Read("$ref", &ref) {
			break
		}
		variant = r.find(ref)
	}
	return variant
}

// named reports whether a variant is that of a method.
func named(r *resolver, variant json.RawMessage, name string) bool {
	o, err := jsonvalue.ReadObject(resolved(r, variant))
	if err != nil {
		return false
	}
	properties, err := jsonvalue.ReadObject(o.Get("properties"))
	return err == nil && isConstant(properties.Get("method"), name)
}

// isConstant reports whether a property can have this name as its only value.
func isConstant(property json.RawMessage, name string) bool {
	o, err := jsonvalue.ReadObject(property)
	var constant string
	return err == nil && o.Read("const", &constant) && constant == name
}

// parameters makes the schema of a method's parameters from its variant: without the name
// of the method, which stands elsewhere in a request, and with what it refers to.
func parameters(variant, root jsonvalue.Object, name string) json.RawMessage {
	if properties, err := jsonvalue.ReadObject(variant.Get("properties")); err == nil && isConstant(properties.Get("method"), name) {
		variant = variant.Set("properties", properties.Without("method").Text())
		var required []string
		if variant.Read("required", &required) {
			text, _ := json.Marshal(slices.DeleteFunc(required, func(r string) bool { return r == "method" }))
			variant = variant.Set("required", text)
		}
	}
	for _, keyword := range []string{"$schema", "$defs", "definitions"} {
		if v := root.Get(keyword); v != nil && variant.Get(keyword) == nil {
			variant = variant.Set(keyword, v)
		}
	}
	return variant.Text()
}
