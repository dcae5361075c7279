package kernel

import (
	"cmp"
	"slices"

	"kernos/message"
)

// A Route is a syscall under one of its names, as RPC calls it.
type Route struct {
	Type      message.Type // the name: the syscall's own, or an alias of it
	Namespace string       // content
	Method    string       // hydrate
	Syscall   *Syscall
}

// Name returns what the method is called by: content_hydrate.
func (r *Route) Name() string { return r.Namespace + "_" + r.Method }

// A Namespace is the methods of one domain, whichever modules they come from.
type Namespace struct {
	Name    string // memory
	Version string // the version of the module with this name, or of the first module with methods in it
	Summary string // the summary of the same module
	Methods []*Route
}

// routes is how RPC lists a catalog.
type routes struct {
	namespaces []Namespace // sorted by name
	byDomain   map[string]*Namespace
}

func newRoutes(sections []*section) *routes {
	r := &routes{byDomain: make(map[string]*Namespace)}
	about := make(map[string]*Namespace)
	for _, m := range sections {
		for _, e := range m.entries {
			if e.Visibility == Hidden {
				continue
			}
			route := &e.routes[0]
			n := about[route.Namespace]
			if n == nil {
				n = &Namespace{Name: route.Namespace, Version: m.Version, Summary: m.Summary}
				about[n.Name] = n
			}
			if m.Name == n.Name {
				n.Version, n.Summary = m.Version, m.Summary
			}
			n.Methods = append(n.Methods, route)
		}
	}
	// Sorted, and not as they were declared: what has the same hash has the same order.
	for _, n := range about {
		slices.SortFunc(n.Methods, func(a, b *Route) int { return cmp.Compare(a.Method, b.Method) })
		r.namespaces = append(r.namespaces, *n)
	}
	slices.SortFunc(r.namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	for i := range r.namespaces {
		r.byDomain[r.namespaces[i].Name] = &r.namespaces[i]
	}
	return r
}

// LookupMethod finds a syscall by the name of its method, or that of an alias.
func (r *Registry) LookupMethod(name string) (*Route, bool) {
	route, ok := r.state.Load().methods.get(name)
	if !ok {
		route, ok = r.complete().methods.get(name)
	}
	return route, ok
}
