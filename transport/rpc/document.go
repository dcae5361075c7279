package rpc

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/internal/nearest"
	"kernos/kernel"
)

// documents is what the service says about itself, made once for each hash, and each part
// when it is first asked for.
type documents struct {
	hash    string
	spaces  []kernel.Namespace
	schema  func() json.RawMessage
	openRPC func() json.RawMessage
	modules []func() json.RawMessage // of spaces
}

// documents returns those of the kernel as it is.
func (s *Service) documents() *documents {
	hash := s.Hash()
	if d := s.docs.Load(); d != nil && d.hash == hash {
		return d
	}
	d := &documents{hash: hash, spaces: s.k.Registry().Namespaces()}
	d.schema = sync.OnceValue(d.makeSchema)
	d.openRPC = sync.OnceValue(d.makeOpenRPC)
	for i := range d.spaces {
		d.modules = append(d.modules, sync.OnceValue(func() json.RawMessage { return makeModule(&d.spaces[i]) }))
	}
	if s.Hash() == hash { // otherwise what was read may be newer than its hash
		s.docs.Store(d)
	}
	return d
}

func (d *documents) index(namespace string) int {
	for i := range d.spaces {
		if d.spaces[i].Name == namespace {
			return i
		}
	}
	return -1
}

// module returns the schema of a module.
func (d *documents) module(namespace string) (json.RawMessage, bool) {
	i := d.index(namespace)
	if i < 0 {
		return nil, false
	}
	return d.modules[i](), true
}

func (d *documents) namespaces() []string {
	names := make([]string, len(d.spaces))
	for i := range d.spaces {
		names[i] = d.spaces[i].Name
	}
	return names
}

// nearNamespace is the namespace that was probably meant by one that is not there, or "". It
// has to be near by both measures: a wrong module is worse than none.
func (d *documents) nearNamespace(name string) string {
	return nearest.Best(name, nearest.Names(name, d.namespaces()))
}

// methods are the names of all methods, without their modules.
func (d *documents) methods() (names []string) {
	for i := range d.spaces {
		names = append(names, methodNames(&d.spaces[i])...)
	}
	return names
}

// only is the method with a name, without its module, or nil if there is none or several
// modules have one.
func (d *documents) only(name string) (only *kernel.Route) {
	for i := range d.spaces {
		for _, r := range d.spaces[i].Methods {
			if r.Method != name {
				continue
			}
			if only != nil {
				return nil
			}
			only = r
		}
	}
	return only
}

// makeSchema is the answer to service_schema.
func (d *documents) makeSchema() json.RawMessage {
	type module struct {
		Namespace   string   `json:"namespace"`
		Version     string   `json:"version"`
		Description string   `json:"description"`
		Methods     []string `json:"methods"`
	}
	service := struct {
		Modules []module `json:"modules"`
		Total   int      `json:"total_methods"`
	}{Modules: []module{}}
	for i := range d.spaces {
		n := &d.spaces[i]
		service.Modules = append(service.Modules, module{n.Name, n.Version, n.Summary, methodNames(n)})
		service.Total += len(n.Methods)
	}
	return marshal(service)
}

// makeModule is the answer to service_module_schema: one schema with a variant for each
// method, in the order of service_schema.
func makeModule(n *kernel.Namespace) json.RawMessage {
	shared := newDefinitions("#/$defs/")
	dst := append([]byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"`), strings.ToUpper(n.Name[:1])+n.Name[1:]+`Methods"`...)
	dst = append(dst, `,"oneOf":[`...)
	for i, r := range n.Methods {
		if i > 0 {
			dst = append(dst, ',')
		}
		input := shared.take(r.Syscall.Input.JSON(), "#/oneOf/"+strconv.Itoa(i))
		dst = appendVariant(dst, r, input)
	}
	dst = append(dst, ']')
	if len(shared.names) > 0 {
		dst = shared.append(append(dst, `,"$defs":`...))
	}
	return append(dst, '}')
}

// appendVariant appends the schema of one method: its input, with the property that tells
// it from the others.
func appendVariant(dst []byte, r *kernel.Route, input []byte) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `{"type":"object","description":`...), r.Syscall.Summary)
	dst = append(append(dst, `,"properties":{"`+methodField+`":{"const":"`...), r.Method...)
	dst = append(dst, `"}`...)
	eachProperty(input, func(name, value []byte) {
		if jsonscan.Unquote(name) == methodField {
			name = []byte(`"` + renamedField + `"`)
		}
		dst = append(append(append(append(dst, ','), name...), ':'), value...)
	})
	dst = append(dst, `},"required":["`+methodField+`"`...)
	if required := jsonscan.Member(input, "required"); len(required) > 0 && required[0] == '[' {
		jsonscan.Elements(required, 0, func(name []byte) bool {
			if jsonscan.Unquote(name) == methodField {
				name = []byte(`"` + renamedField + `"`)
			}
			dst = append(append(dst, ','), name...)
			return true
		})
	}
	dst = append(dst, ']')
	if len(input) > 0 && input[0] == '{' {
		jsonscan.Members(input, 0, func(name, value []byte) bool {
			switch jsonscan.Unquote(name) {
			case "type", "description", "properties", "required", "$schema", "$id", "title":
			default:
				dst = append(append(append(append(dst, ','), name...), ':'), value...)
			}
			return true
		})
	}
	return append(dst, '}')
}
