package kernel

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"kernos/internal/nearest"
	"kernos/kernel/principal"
	"kernos/message"
)

// A View is what one principal sees of a registry at one moment: the syscalls that it may call.
// It never changes, and what is listed, described and hashed for a caller comes from one.
type View struct{ catalog *catalog }

// Types lists the syscalls, sorted, without aliases and what is hidden. The caller
// must not change the slice.
func (v View) Types() []message.Type { return v.catalog.types() }

// Syscalls goes through the syscalls of Types, in the order of their modules.
func (v View) Syscalls() iter.Seq[*Syscall] {
	return func(yield func(*Syscall) bool) {
		for _, m := range v.catalog.sections {
			for _, e := range m.entries {
				if e.Visibility == Listed && !yield(&e.Syscall) {
					return
				}
			}
		}
	}
}

// Modules lists the modules by name. The caller must not change them.
func (v View) Modules() []Module { return v.catalog.modules() }

// Hash identifies what the view offers: names, versions, summaries, schemas. The
// same modules have the same hash in any order and in any process; any change that a
// caller could see changes it. It is not meant for security.
func (v View) Hash() string { return v.catalog.hash() }

// Namespaces lists the namespaces that have methods that are not hidden, and those
// methods, both by name. The caller must not change them.
func (v View) Namespaces() []Namespace { return v.catalog.routes().namespaces }

// LookupNamespace finds one of Namespaces by its name. The caller must not change it.
func (v View) LookupNamespace(name string) (*Namespace, bool) {
	n, ok := v.catalog.routes().byDomain[name]
	return n, ok
}

// Near returns up to three types whose names are near to a name, the nearest first. It finds a type by the name of its
// method too: kernel_ping is Ping; and by what people call it: Memory.Put is Memory.Set.
func (v View) Near(name string) []message.Type {
	if r, ok := v.catalog.methods.get(name); ok && r.Syscall.Visibility == Listed {
		return []message.Type{r.Type}
	}
	asked := message.Type(name)
	for s := range v.Syscalls() {
		if strings.EqualFold(s.Type.Domain(), asked.Domain()) && nearest.Lists(s.Words, asked.Action()) {
			return []message.Type{s.Type}
		}
	}
	names := make([]string, len(v.Types()))
	for i, t := range v.Types() {
		names[i] = string(t)
	}
	near := nearest.Names(name, names)
	types := make([]message.Type, len(near))
	for i, n := range near {
		types[i] = message.Type(n)
	}
	return types
}

// For returns what a principal sees of the registry.
func (r *Registry) For(p *principal.Principal) View { return View{r.complete().of(p)} }

// Known returns what a principal may find and read about: what it sees, and the syscalls of this program that are for the
// owner only, which its person may want to call. What others have registered or mounted isn't among these.
func (r *Registry) Known(p *principal.Principal) View {
	c := r.complete()
	if p.IsOwner() {
		return View{c}
	}
	return View{c.of(p).known()}
}

// ForOwner reports whether a syscall is one of this program's that only the owner may call.
func (s *Syscall) ForOwner() bool { return s.Access == principal.OwnerOnly && s.Provider == BuiltIn }

// maxViews is how many views are kept of one state of a registry.
const maxViews = 64

// views are the catalogs of principals that don't see all of one. They never change.
type views map[*principal.Principal]*catalog

// of returns the part of a catalog that a principal may call. It is kept, as it is asked for
// with every item that is sent.
func (c *catalog) of(p *principal.Principal) *catalog {
	if p.IsOwner() {
		return c
	}
	if known := c.views.Load(); known != nil {
		if part, ok := (*known)[p]; ok {
			return part
		}
	}
	part := c.part(func(s *Syscall) bool { return p.Allows(s.Target()) })
	part.known = sync.OnceValue(func() *catalog {
		return c.part(func(s *Syscall) bool { return p.Allows(s.Target()) || s.ForOwner() })
	})
	for {
		known, next := c.views.Load(), views{}
		if known != nil && len(*known) < maxViews {
			next = maps.Clone(*known)
		}
		next[p] = part
		if c.views.CompareAndSwap(known, &next) {
			return part
		}
	}
}

// part returns the part of a catalog that has some of its syscalls.
func (c *catalog) part(has func(*Syscall) bool) *catalog {
	part := emptyCatalog()
	for _, s := range c.sections {
		mine := *s
		mine.entries = slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool { return !has(&e.Syscall) })
		if len(mine.entries) == 0 && len(s.entries) > 0 {
			continue
		}
		part.sections = append(part.sections, &mine)
		for _, e := range mine.entries {
			if err := part.enter(e); err != nil {
				panic("part of a catalog is not complete: " + err.Error()) // the whole was
			}
		}
	}
	part.events, part.domains = c.events, c.domains
	return part.finish()
}
