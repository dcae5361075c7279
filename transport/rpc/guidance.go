package rpc

import (
	"encoding/json"
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

// guidance is what an item says about an error that the caller could have avoided.
type guidance struct {
	ErrorKind        string          `json:"error_kind"`
	Module           *string         `json:"module,omitempty"`
	Method           *string         `json:"method,omitempty"`
	Reason           string          `json:"reason,omitempty"`
	AvailableMethods []string        `json:"available_methods,omitempty"`
	MethodSchema     json.RawMessage `json:"method_schema,omitempty"`
	Action           string          `json:"action"`
	Message          string          `json:"message,omitempty"`
	Namespace        string          `json:"namespace,omitempty"`
	SuggestedMethod  string          `json:"suggested_method,omitempty"`
	ExampleParams    json.RawMessage `json:"example_params,omitempty"`
}

// The kinds of errors, and what is advised.
const (
	moduleNotFound = "module_not_found"
	methodNotFound = "method_not_found"
	invalidParams  = "invalid_params"

	tryMethod         = "try_method"
	callModuleSchema  = "call_module_schema"
	callServiceSchema = "call_service_schema"
	customAction      = "custom"
)

// suggest advises to call a method. Outside of its module its name has the module before it.
func (g *guidance) suggest(r *kernel.Route, name string) {
	g.Action, g.SuggestedMethod, g.MethodSchema = tryMethod, name, r.Syscall.Input.JSON()
	if example, ok := schema.ExampleOf(r.Syscall.Input); ok && example[0] == '{' { // params are an object
		g.ExampleParams = example
	}
}

// append appends the members of the item.
func (g *guidance) append(dst []byte) []byte {
	text := marshal(g)
	return append(append(dst, ','), text[1:len(text)-1]...)
}

// refuse answers with guidance, an error and done.
func (st *stream) refuse(code int, text string, g guidance) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.guide(&g)
	st.fail(&message.Error{Code: code, Message: text})
}

// unknown returns what answers a call of a method that does not exist.
func (s *Service) unknown(st *stream, name string) func(*stream) {
	module, method, _ := strings.Cut(name, "_")
	whole, module, method := message.Clip(name, maxName), message.Clip(module, maxName), message.Clip(method, maxName)
	if n, ok := s.k.Registry().LookupNamespace(module); ok {
		st.namespace = module
		return func(st *stream) { st.noMethod(n, method) }
	}
	if module == ownNamespace {
		return func(st *stream) { st.noOwnMethod(method) }
	}
	return func(st *stream) { st.noModule(whole, module, method) }
}

func (st *stream) noModule(whole, module, method string) {
	spaces := st.svc.k.Registry().Namespaces()
	near, route := nearNamespace(module, spaces), only(whole, spaces)
	if route == nil && near == "" {
		var names []string
		for i := range spaces {
			names = append(names, methodNames(&spaces[i])...)
		}
		route = only(nearest.Best(whole, nearest.Names(whole, names)), spaces)
	}
	if route != nil { // it exists, without the module before it
		near, method = route.Namespace, route.Method
	}
	g := guidance{ErrorKind: moduleNotFound, Module: &module, Action: callServiceSchema}
	if n, ok := st.svc.k.Registry().LookupNamespace(near); ok {
		g.AvailableMethods = methodNames(n)
		if i := slices.Index(g.AvailableMethods, method); i >= 0 {
			g.suggest(n.Methods[i], n.Name+"."+method)
		} else {
			g.Action, g.Namespace = callModuleSchema, near
		}
	}
	st.refuse(404, "Module not found: "+module, g)
}

// nearNamespace is the namespace that was probably meant by one that is not there, or "". It
// has to be near by both measures: a wrong module is worse than none.
func nearNamespace(name string, spaces []kernel.Namespace) string {
	names := make([]string, len(spaces))
	for i := range spaces {
		names[i] = spaces[i].Name
	}
	return nearest.Best(name, nearest.Names(name, names))
}

// only is the method with a name, without its module, or nil if there is none or several
// modules have one.
func only(name string, spaces []kernel.Namespace) (only *kernel.Route) {
	for i := range spaces {
		for _, r := range spaces[i].Methods {
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

func methodNames(n *kernel.Namespace) []string {
	names := make([]string, len(n.Methods))
	for i, r := range n.Methods {
		names[i] = r.Method
	}
	return names
}

func (st *stream) noMethod(n *kernel.Namespace, method string) {
	names := methodNames(n)
	g := guidance{ErrorKind: methodNotFound, Module: &n.Name, Method: &method, AvailableMethods: names}
	if near := nearest.Best(method, names); near != "" {
		g.suggest(n.Methods[slices.Index(names, near)], near)
	} else {
		g.Action, g.Namespace = callModuleSchema, n.Name
	}
	st.refuse(404, "Method not found: "+method, g)
}

// ownNames are the methods of the service itself.
var ownNames = []string{"schema", "module_schema", "hash", "unsubscribe", "resume"}

// noOwnMethod is noMethod for the service itself, which is not listed.
func (st *stream) noOwnMethod(method string) {
	g := guidance{ErrorKind: methodNotFound, Module: new(ownNamespace), Method: &method, AvailableMethods: ownNames, Action: callServiceSchema}
	if near := nearest.Best(method, ownNames); near != "" {
		g.Action, g.SuggestedMethod = tryMethod, near
	}
	st.refuse(404, "Method not found: "+method, g)
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

// advise puts guidance about parameters that don't fit. mu is held.
func (st *stream) advise(err error) {
	s, name := st.route.Syscall, st.route.Namespace+"."+st.route.Method
	g := guidance{ErrorKind: invalidParams, Method: &name, Reason: message.Clip(err.Error(), message.MaxErrorText)}
	g.suggest(st.route, name)
	custom := customGuidance(s, err)
	if custom == "" {
		custom = describedField(s.Input.JSON(), err)
	}
	if custom != "" { // the example is wanted beside the words
		g.Action, g.Message = customAction, message.Clip(custom, message.MaxErrorText)
	}
	st.guide(&g)
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
	description := jsonscan.Member(jsonscan.Member(jsonscan.Member(text, "properties"), path), "description")
	if len(description) == 0 || description[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(description)
}
