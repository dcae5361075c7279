package kernel

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"kernos/message"
)

// coreNamespace is where RPC finds the types of one segment: kernel_ping, kernel_echo.
const coreNamespace = "kernel"

// Method returns the names that a type has in RPC, where a method is called
// namespace_method: Content.Hydrate is content and hydrate, Job.TreeCreate is job and
// tree_create, VFS.Read is vfs and read. Ping and Echo, which have no domain, belong to
// the namespace kernel. The type must be valid.
func Method(t message.Type) (namespace, method string) {
	namespace = strings.ToLower(t.Domain())
	if namespace == "" {
		namespace = coreNamespace
	}
	return namespace, snake(t.Action())
}

// ToolName returns the name that models know a syscall by, Domain_Action, of letters, digits, _ and - only.
// A name that would be longer than longest ends with a hash of the type instead of its last letters.
func ToolName(t message.Type, longest int) string {
	name := []byte(strings.Replace(string(t), ".", "_", 1))
	for i, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			name[i] = '_'
		}
	}
	if len(name) == 0 {
		return "_"
	}
	if len(name) > longest {
		h := fnv.New32a()
		_, _ = io.WriteString(h, string(t))
		return fmt.Sprintf("%s_%08x", name[:longest-9], h.Sum32())
	}
	return string(name)
}

// MethodName is the name of a method as models write it: namespace_method.
func MethodName(t message.Type) string {
	namespace, method := Method(t)
	return namespace + "_" + method
}

// snake puts an underscore before each word of a name in PascalCase and makes it lower
// case. A row of capitals is one word: GetURLOf is get_url_of.
func snake(s string) string {
	upper := func(i int) bool { return 'A' <= s[i] && s[i] <= 'Z' }
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(s) && 'a' <= s[i+1] && s[i+1] <= 'z') {
			b.WriteByte('_')
		}
		b.WriteByte(s[i])
	}
	return strings.ToLower(b.String())
}

// A Route is a syscall under one of its names, as RPC calls it.
type Route struct {
	Type      message.Type // the name: the syscall's own, or an alias of it
	Namespace string       // content
	Method    string       // hydrate
	Syscall   *Syscall
}

// Name is what the method is called by: content_hydrate.
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
