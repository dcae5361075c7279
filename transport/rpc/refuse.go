package rpc

import (
	"context"
	"slices"
	"strings"

	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/message"
)

// refuse answers with guidance, an error and done.
func (st *stream) refuse(code int, text string, g guidance) {
	if st.lostRead() {
		return
	}
	e := &message.Error{Code: code, Message: text}
	st.record(e)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.guide(&g)
	st.fail(e)
}

// Refused records a call of a method whose parameters can't be read, which isn't made.
func (s *Service) Refused(ctx context.Context, method string, e *message.Error) {
	st := &stream{svc: s, from: kernel.SenderIn(ctx), method: method}
	if route, ok := s.k.Registry().LookupMethod(method); ok {
		st.route = route
	}
	st.record(e)
}

// record records a call that doesn't become a message of the kernel, under the type that its method stands for. Methods of
// the service itself aren't recorded: no syscall is meant.
func (st *stream) record(e *message.Error) {
	if strings.HasPrefix(st.method, ownNamespace+"_") {
		return
	}
	m := message.Message{Kind: message.KindQuery, Type: kernel.TypeOf(st.method), Data: emptyObject}
	if st.route != nil {
		m.Kind, m.Type = st.route.Syscall.Kind, st.route.Type
	}
	st.svc.k.RecordRefused(&m, st.from, e)
}

// unknown returns what answers a call of a method that does not exist.
func (st *stream) unknown(name string) func() {
	module, method, _ := strings.Cut(name, "_")
	whole, module, method := message.Clip(name, maxName), message.Clip(module, maxName), message.Clip(method, maxName)
	if n, ok := st.view().LookupNamespace(module); ok {
		st.namespace = module
		return func() { st.noMethod(n, method) }
	}
	if module == ownNamespace {
		return func() { st.noOwnMethod(method) }
	}
	return func() { st.noModule(whole, module, method) }
}

func (st *stream) noModule(whole, module, method string) {
	spaces := st.view().Namespaces()
	near, route := nearNamespace(module, spaces), only(whole, spaces)
	if route == nil && near == "" {
		var names []string
		for i := range spaces {
			names = append(names, methodNames(&spaces[i])...)
		}
		route = only(nearest.Best(whole, nearest.Names(whole, names)), spaces)
	}
	if route != nil { // the method exists; its module was left out
		near, method = route.Namespace, route.Method
	}
	g := guidance{ErrorKind: moduleNotFound, Module: &module, Action: callServiceSchema}
	if n, ok := st.view().LookupNamespace(near); ok {
		g.AvailableMethods = methodNames(n)
		if i := slices.Index(g.AvailableMethods, method); i >= 0 {
			g.suggest(&n.Methods[i].Syscall.Definition, n.Name+"."+method)
		} else {
			g.Action, g.Namespace = callModuleSchema, near
		}
	}
	st.refuse(404, "Module not found: "+module+st.instead(message.Type(module+"."+method), g), g)
}

func (st *stream) noMethod(n *kernel.Namespace, method string) {
	names := methodNames(n)
	g := guidance{ErrorKind: methodNotFound, Module: &n.Name, Method: &method, AvailableMethods: names}
	near := nearest.Best(method, names)
	if i := slices.IndexFunc(n.Methods, func(r *kernel.Route) bool { return nearest.Lists(r.Syscall.Words, method) }); i >= 0 {
		near = names[i]
	}
	if near != "" {
		g.suggest(&n.Methods[slices.Index(names, near)].Syscall.Definition, near)
	} else {
		g.Action, g.Namespace = callModuleSchema, n.Name
	}
	st.refuse(404, "Method not found: "+method+st.instead(message.Type(method), g), g)
}

// instead returns what the error of an unknown method adds: why it isn't served now, or what the caller may need where the
// guidance suggests no name that was probably meant.
func (st *stream) instead(t message.Type, g guidance) string {
	if why := st.svc.k.Absent(t, st.from.Principal()); why != "" {
		return "; " + why
	}
	if g.SuggestedMethod == "" {
		if other := st.svc.k.Instead(t, st.from.Principal()); other != "" {
			return "; " + other
		}
	}
	return ""
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

// forbid answers a call that its caller may not make.
func (st *stream) forbid(no *message.Error) {
	st.record(no)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.fail(no)
}

// invalid answers params that can't be made into data.
func (st *stream) invalid(err error) {
	e := &message.Error{Code: 422, Message: "Invalid params: " + err.Error()}
	st.record(e)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.guide(advice(&st.route.Syscall.Definition, st.contentType(), err))
	st.fail(e)
}
