package kernel

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"kernos/message"
)

// A Registry holds the modules that a kernel serves. Modules come and go at run
// time; readers never wait. It is safe for concurrent use.
type Registry struct {
	mu    sync.Mutex // serialises changes
	state atomic.Pointer[catalog]

	missed func() // adds what isn't loaded yet; nil if there is nothing

	changed chan struct{} // closed by the next change; nil if no caller waits for it
}

// Changed returns a channel that is closed by the next change of what the registry holds.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// OnMiss calls load, once, when a caller asks for a syscall that the registry doesn't have, or for
// a list. It is called before the registry is used.
func (r *Registry) OnMiss(load func()) { r.missed = sync.OnceFunc(load) }

// complete loads what isn't loaded yet, and returns the whole.
func (r *Registry) complete() *catalog {
	if r.missed != nil {
		r.missed()
	}
	return r.state.Load()
}

// NewRegistry returns a registry of these modules. It fails if a definition is not complete,
// or if two modules define the same type.
func NewRegistry(modules ...Module) (*Registry, error) {
	r := new(Registry)
	r.state.Store(emptyCatalog())
	return r, r.Add(modules...)
}

// put makes a catalog the registry's, and wakes callers that wait for a change. mu is held.
func (r *Registry) put(c *catalog) {
	r.state.Store(c)
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Add adds modules. It fails, and changes nothing, if a definition is not complete,
// or if the name of a module or one of its types is taken.
func (r *Registry) Add(modules ...Module) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.state.Load().edit()
	for _, m := range modules {
		if err := c.addModule(m); err != nil {
			return err
		}
	}
	c.gatherBuiltIn()
	r.put(c.finish())
	return nil
}

// AddSyscall adds a syscall to the module of this name, or to a new module that is described
// by the argument. It fails, and changes nothing, as Add does.
func (r *Registry) AddSyscall(module Module, s Syscall) error {
	_, err := r.Change(nil, Addition{module, s})
	return err
}

// An Addition is a syscall, and the module that it is added to; if the registry has none of that
// name, the module is added too.
type Addition struct {
	Module  Module
	Syscall Syscall
}

// Change takes syscalls out, and a module with the last one of it, and adds others, in one step:
// it fails, and changes nothing, as Add does. It returns how many were taken out. Calls that have
// begun are finished.
func (r *Registry) Change(remove []message.Type, add ...Addition) (removed int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, builtIn := r.state.Load().edit(), false
	for _, t := range remove {
		e, _ := c.byType.get(t)
		if c.remove(t) {
			removed++
			builtIn = builtIn || e.Provider == BuiltIn
		}
	}
	for _, a := range add {
		i, err := c.open(a.Module)
		if err == nil {
			err = c.add(i, a.Syscall)
		}
		if err != nil {
			return 0, err
		}
		builtIn = builtIn || a.Syscall.Provider == BuiltIn
	}
	if builtIn {
		c.gatherBuiltIn()
	}
	if removed > 0 || len(add) > 0 {
		r.put(c.finish())
	}
	return removed, nil
}

// RemoveSyscall takes syscalls out, and a module with the last one of it. It returns how
// many of these types there were. Calls that have begun are finished.
func (r *Registry) RemoveSyscall(types ...message.Type) (removed int) {
	removed, _ = r.Change(types) // never fails: what is left was there
	return removed
}

// Lookup finds a syscall by its type or by an alias.
func (r *Registry) Lookup(t message.Type) (*Syscall, bool) {
	return r.state.Load().lookup(t)
}

// LookupFold finds the type of a syscall that is listed by its name in upper or lower case.
func (r *Registry) LookupFold(name string) (message.Type, bool) {
	return r.state.Load().folded.get(strings.ToLower(name))
}

// EmitterOf returns the built-in syscall that emits an event.
func (r *Registry) EmitterOf(event message.Type) (message.Type, bool) {
	by, ok := r.state.Load().events[event]
	return by, ok
}

// All returns all that is loaded, as the owner sees it; [Registry.For] returns what a principal sees.
func (r *Registry) All() View { return View{r.state.Load()} }

// CheckNames returns a 422 for a pattern of an older name, and for a domain without an action: rights and rules are
// decided by the names that are listed, so such a pattern would do nothing.
func (r *Registry) CheckNames(patterns []string) error {
	listed := func(domain string) bool {
		return slices.ContainsFunc(r.All().Types(), func(t message.Type) bool { return t.Domain() == domain })
	}
	for _, pattern := range patterns {
		if pattern != "" && listed(pattern) {
			return message.Errorf(422, "Schema validation failed: %s is a domain; write %s.* for all of its syscalls", pattern, pattern)
		}
	}
	for _, m := range r.All().Modules() {
		for _, s := range m.Syscalls {
			for _, alias := range s.Aliases {
				domain := alias.Domain()
				if slices.Contains(patterns, string(alias)) || slices.Contains(patterns, domain+".*") && !listed(domain) {
					return message.Errorf(422, "Schema validation failed: %s is another name for %s; write that", alias, s.Type)
				}
			}
		}
	}
	return nil
}

// BuiltIn reports whether a type is in a domain of the framework or of a module, or in none: programs
// can't register it. Some callers don't distinguish upper and lower case, so neither does BuiltIn.
func (r *Registry) BuiltIn(t message.Type) bool {
	d := t.Domain()
	return d == "" || Reserved(t) || slices.ContainsFunc(r.state.Load().domains, func(own string) bool { return strings.EqualFold(own, d) })
}

// Reserved reports whether a type belongs to the framework: code that is registered at run
// time may not use it, nor may events from connections. Some callers don't distinguish upper
// and lower case.
func Reserved(t message.Type) bool {
	d := t.Domain()
	return strings.EqualFold(d, "Syscall") || strings.EqualFold(d, "Sys") || strings.EqualFold(d, "Kernel")
}

// CheckForeignEvent returns the error for an event from a connection that only the kernel or a
// built-in syscall may emit, so that watchers can rely on it; nil for other types.
func (k *Kernel) CheckForeignEvent(event message.Type) *message.Error {
	if Reserved(event) {
		return message.Errorf(403, "The event %s can't be sent from outside: Syscall.*, Sys.* and Kernel.* are reserved; choose another name", event)
	}
	if by, ok := k.registry.EmitterOf(event); ok {
		return message.Errorf(403, "%s is an event of %s, which is built in, and can't be sent from outside; choose another name", event, by)
	}
	return nil
}
