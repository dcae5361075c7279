package rpc

import (
	"errors"
	"slices"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// maxName is how much of an unknown name is repeated.
const maxName = 128

// refuse answers with guidance, an error and done.
func (st *stream) refuse(code int, text string, members func(dst []byte) []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.guide(members)
	st.fail(&message.Error{Code: code, Message: text})
}

// unknown returns what answers a call of a method that is not there.
func (s *Service) unknown(st *stream, name string) func(*stream) {
	docs := s.documents()
	module, method, _ := strings.Cut(name, "_")
	whole, module, method := message.Clip(name, maxName), message.Clip(module, maxName), message.Clip(method, maxName)
	if n, ok := s.k.Registry().LookupNamespace(module); ok {
		st.namespace = module
		return func(st *stream) { st.noMethod(n, method) }
	}
	if module == ownNamespace {
		return func(st *stream) { st.noOwnMethod(method) }
	}
	return func(st *stream) {
		st.refuse(404, "Module not found: "+module, func(dst []byte) []byte {
			dst = jsonscan.AppendQuoted(append(dst, `,"error_kind":"module_not_found","module":`...), module)
			near, route := docs.nearNamespace(module), docs.only(whole)
			if route == nil && near == "" {
				route = docs.only(nearest.Best(whole, nearest.Names(whole, docs.methods())))
			}
			if route != nil { // it is there, without the module before it
				near, method = route.Namespace, route.Method
			}
			if n, ok := s.k.Registry().LookupNamespace(near); ok {
				names := methodNames(n)
				dst = appendStrings(append(dst, `,"available_methods":`...), names)
				if i := slices.Index(names, method); i >= 0 {
					return appendTry(dst, n.Methods[i], n.Name+"."+method)
				}
				return jsonscan.AppendQuoted(append(dst, `,"action":"call_module_schema","namespace":`...), near)
			}
			return append(dst, `,"action":"call_service_schema"`...)
		})
	}
}

func methodNames(n *kernel.Namespace) []string {
	names := make([]string, len(n.Methods))
	for i, r := range n.Methods {
		names[i] = r.Method
	}
	return names
}

func (st *stream) noMethod(n *kernel.Namespace, method string) {
	names := methodNames(n)
	st.refuse(404, "Method not found: "+method, func(dst []byte) []byte {
		dst = append(append(dst, `,"error_kind":"method_not_found","module":"`...), n.Name...)
		dst = jsonscan.AppendQuoted(append(dst, `","method":`...), method)
		dst = appendStrings(append(dst, `,"available_methods":`...), names)
		near := nearest.Best(method, names)
		if near == "" {
			return jsonscan.AppendQuoted(append(dst, `,"action":"call_module_schema","namespace":`...), n.Name)
		}
		return appendTry(dst, n.Methods[slices.Index(names, near)], near)
	})
}

// ownNames are the methods of the service itself.
var ownNames = []string{"schema", "module_schema", "hash", "unsubscribe", "resume"}

// noOwnMethod is noMethod for the service itself, which is in no listing.
func (st *stream) noOwnMethod(method string) {
	st.refuse(404, "Method not found: "+method, func(dst []byte) []byte {
		dst = jsonscan.AppendQuoted(append(dst, `,"error_kind":"method_not_found","module":"`+ownNamespace+`","method":`...), method)
		dst = appendStrings(append(dst, `,"available_methods":`...), ownNames)
		if near := nearest.Best(method, ownNames); near != "" {
			return jsonscan.AppendQuoted(append(dst, `,"action":"try_method","suggested_method":`...), near)
		}
		return append(dst, `,"action":"call_service_schema"`...)
	})
}

// appendTry appends the advice to call a method. Outside of its module its name has the
// module before it.
func appendTry(dst []byte, r *kernel.Route, name string) []byte {
	dst = append(append(dst, `,"method_schema":`...), r.Syscall.Input.JSON()...)
	return appendSuggested(append(dst, `,"action":"try_method"`...), r, name)
}

// appendSuggested appends the name of a method, and parameters that it takes.
func appendSuggested(dst []byte, r *kernel.Route, name string) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `,"suggested_method":`...), name)
	if example, ok := Example(r.Syscall.Input); ok && example[0] == '{' { // params are an object
		dst = append(append(dst, `,"example_params":`...), example...)
	}
	return dst
}

// invalid answers params that can't be made into data.
func (st *stream) invalid(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.advise(err)
	st.fail(&message.Error{Code: 422, Message: "Invalid params: " + err.Error()})
}

// adviseParams gives guidance if the kernel has refused the call because its data does not
// fit. Other failures with the same code are the handler's own. mu is held.
func (st *stream) adviseParams() {
	if err := st.route.Syscall.Input.Validate(st.params); err != nil {
		st.advise(err)
	}
}

// advise puts guidance about parameters that don't fit.
func (st *stream) advise(err error) {
	s, name := st.route.Syscall, st.route.Namespace+"."+st.route.Method
	st.guide(func(dst []byte) []byte {
		dst = append(append(dst, `,"error_kind":"invalid_params","method":"`...), name...)
		dst = jsonscan.AppendQuoted(append(dst, `","reason":`...), message.Clip(err.Error(), message.MaxErrorText))
		custom := customGuidance(s, err)
		if custom == "" {
			custom = describedField(s.Input.JSON(), err)
		}
		if custom != "" {
			dst = append(append(dst, `,"method_schema":`...), s.Input.JSON()...)
			dst = append(dst, `,"action":"custom","message":`...)
			dst = jsonscan.AppendQuoted(dst, message.Clip(custom, message.MaxErrorText))
			return appendSuggested(dst, st.route, name) // what fits is wanted beside the words
		}
		return appendTry(dst, st.route, name)
	})
}

// customGuidance is what the module has to say. One that panics has nothing to say: the call
// has failed anyway, and nothing else may.
func customGuidance(s *kernel.Syscall, err error) (text string) {
	if s.Guidance == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return s.Guidance(err)
}

// describedField is what the schema says about the field whose value is wrong; "" if it is
// missing, or unknown, or nothing is said.
func describedField(text []byte, err error) string {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		return ""
	}
	path, _, _ := strings.Cut(invalid.Problems[0].Path, "[")
	path, _, _ = strings.Cut(path, ".")
	if path == "" || strings.HasPrefix(invalid.Problems[0].Text, "missing") || strings.HasPrefix(invalid.Problems[0].Text, "unknown") {
		return ""
	}
	description := member(member(member(text, "properties"), path), "description")
	if len(description) == 0 || description[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(description)
}
