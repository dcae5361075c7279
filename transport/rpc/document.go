package rpc

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/internal/recent"
	"kernos/kernel"
)

// keepDocuments is what is kept of the documents that the service has made about itself.
var keepDocuments = recent.Limits{Values: 256, Bytes: 16 << 20, Each: 8 << 20}

// document returns a document about a view.
func (s *Service) document(v kernel.View, name string, make func() json.RawMessage) json.RawMessage {
	key := v.Hash() + name
	if text, ok := s.documents.Get(key); ok {
		return text
	}
	text := make()
	s.documents.Put(key, text, len(text))
	return text
}

// schema returns the answer to service_schema.
func (s *Service) schema(v kernel.View) json.RawMessage {
	type module struct {
		Namespace   string   `json:"namespace"`
		Version     string   `json:"version"`
		Description string   `json:"description"`
		Methods     []string `json:"methods"`
	}
	return s.document(v, "schema", func() json.RawMessage {
		service := struct {
			Modules []module `json:"modules"`
			Total   int      `json:"total_methods"`
		}{Modules: []module{}}
		for _, n := range v.Namespaces() {
			service.Modules = append(service.Modules, module{n.Name, n.Version, n.Summary, methodNames(&n)})
			service.Total += len(n.Methods)
		}
		return marshal(service)
	})
}

// moduleSchema returns the answer to service_module_schema: one schema with a variant for each
// method, in the order of service_schema. It reports false if the module doesn't exist.
func (s *Service) moduleSchema(v kernel.View, namespace string) (json.RawMessage, bool) {
	n, ok := v.LookupNamespace(namespace)
	if !ok {
		return nil, false
	}
	return s.document(v, "module "+namespace, func() json.RawMessage {
		shared := newDefinitions("#/$defs/")
		variants := make([][]byte, len(n.Methods))
		for i, r := range n.Methods {
			variants[i] = variant(r, shared.take(r.Syscall.Input.JSON(), "#/oneOf/"+strconv.Itoa(i)))
		}
		module := jsonvalue.Object{
			{Name: "$schema", Value: jsonString("https://json-schema.org/draft/2020-12/schema")},
			{Name: "title", Value: jsonString(strings.ToUpper(n.Name[:1]) + n.Name[1:] + "Methods")},
			{Name: "oneOf", Value: array(variants)},
		}
		if len(shared.shared) > 0 {
			module = module.Set("$defs", shared.shared.Text())
		}
		return module.Text()
	}), true
}

// variant returns the schema of one method: its input, with the property that distinguishes it from
// the others.
func variant(r *kernel.Route, input json.RawMessage) json.RawMessage {
	in := members(input)
	properties := jsonvalue.Object{{Name: methodField, Value: jsonvalue.Object{{Name: "const", Value: jsonString(r.Method)}}.Text()}}
	for _, p := range members(in.Get("properties")) {
		properties = properties.Set(variantField(p.Name), p.Value)
	}
	required := [][]byte{jsonString(methodField)}
	for _, name := range texts(in.Get("required")) {
		required = append(required, jsonString(variantField(name)))
	}
	out := jsonvalue.Object{
		{Name: "type", Value: jsonString("object")},
		{Name: "description", Value: jsonString(r.Syscall.Summary)},
		{Name: "properties", Value: properties.Text()},
		{Name: "required", Value: array(required)},
	}
	if title := r.Syscall.Title; title != "" {
		out = out.Set("title", jsonString(title))
	}
	if shown := marshal(presented(r.Syscall.Presentation)); string(shown) != "{}" {
		out = out.Set("x-presentation", shown)
	}
	for _, m := range in {
		if !out.Has(m.Name) && m.Name != "$schema" && m.Name != "$id" && m.Name != "title" {
			out = append(out, m)
		}
	}
	return out.Text()
}

// presented returns what the schema of a method has of how people see it, beside its title.
func presented(p kernel.Presentation) kernel.Presentation {
	p.Title, p.Stdin, p.Arguments = "", variantField(p.Stdin), slices.Clone(p.Arguments)
	for i, name := range p.Arguments {
		p.Arguments[i] = variantField(name)
	}
	return p
}

func variantField(name string) string {
	if name == methodField {
		return renamedField
	}
	return name
}

func methodNames(n *kernel.Namespace) []string {
	names := make([]string, len(n.Methods))
	for i, r := range n.Methods {
		names[i] = r.Method
	}
	return names
}
