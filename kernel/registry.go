package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// A Registry holds the modules that a kernel serves. Modules come and go at run
// time; readers never wait. It is safe for concurrent use.
type Registry struct {
	mu    sync.Mutex // serialises changes
	state atomic.Pointer[catalog]

	missed func() // adds what isn't loaded yet; nil if there is nothing
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

// catalog is one state of a registry. It never changes.
type catalog struct {
	modules []Module // by name
	byType  map[message.Type]*Syscall
	types   []message.Type                // sorted, without aliases and what is hidden
	events  map[message.Type]message.Type // that built-in syscalls emit, with those syscalls
	methods map[string]message.Type       // by the names that RPC calls them by
	hash    func() string
	routes  func() *routes
	index   func() *index

	views atomic.Pointer[views] // of principals that see a part of it
}

// NewRegistry returns a registry of these modules. It fails if a definition is not complete,
// or if two modules define the same type.
func NewRegistry(modules ...Module) (*Registry, error) {
	modules = slices.Clone(modules)
	for i := range modules {
		modules[i].Syscalls = slices.Clone(modules[i].Syscalls)
	}
	r := new(Registry)
	if err := r.set(modules); err != nil {
		return nil, err
	}
	return r, nil
}

// set makes these the modules of the registry, unless a definition is not complete, or a name
// is taken. The slice is the registry's from then on. mu is held, or the registry is new.
func (r *Registry) set(modules []Module) error {
	c, err := newCatalog(modules)
	if err == nil {
		r.state.Store(c)
	}
	return err
}

// Describe returns a registry of modules that may be [Unbound]: it can be listed, described
// and hashed. A call of a syscall that has no handler fails.
func Describe(modules ...Module) (*Registry, error) {
	described := slices.Clone(modules)
	for i := range described {
		described[i].Syscalls = slices.Clone(described[i].Syscalls)
		for j := range described[i].Syscalls {
			if s := &described[i].Syscalls[j]; s.Handler == nil {
				s.Handler = func(_ context.Context, m message.Message, emit Emit) {
					emit(m.Fail(message.Errorf(503, "%s is described here, and not served", m.Type)))
				}
			}
		}
	}
	return NewRegistry(described...)
}

// Add adds a module. It fails, and changes nothing, if a definition is not complete,
// or if the module's name or one of its types is taken.
func (r *Registry) Add(m Module) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Syscalls = slices.Clone(m.Syscalls)
	return r.set(append(slices.Clone(r.Modules()), m))
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
	var modules []Module
	at := make(map[string]int)
	for _, m := range r.Modules() {
		had := len(m.Syscalls)
		m.Syscalls = slices.DeleteFunc(slices.Clone(m.Syscalls), func(s Syscall) bool { return slices.Contains(remove, s.Type) })
		removed += had - len(m.Syscalls)
		if len(m.Syscalls) > 0 || had == 0 {
			at[m.Name], modules = len(modules), append(modules, m)
		}
	}
	for _, a := range add {
		i, known := at[a.Module.Name]
		if !known {
			i = len(modules)
			at[a.Module.Name], modules = i, append(modules, a.Module)
		}
		modules[i].Syscalls = append(modules[i].Syscalls, a.Syscall)
	}
	if removed == 0 && len(add) == 0 {
		return 0, nil
	}
	return removed, errors.Unwrap(r.set(modules)) // the caller knows which module it is
}

// RemoveSyscall takes syscalls out, and a module with the last one of it. It returns how
// many of these types there were. Calls that have begun are finished.
func (r *Registry) RemoveSyscall(types ...message.Type) (removed int) {
	removed, _ = r.Change(types) // never fails: what is left was there
	return removed
}

func (s *Syscall) names() []message.Type { return append([]message.Type{s.Type}, s.Aliases...) }

func (s *Syscall) check() error {
	switch {
	case s.Kind != message.KindCommand && s.Kind != message.KindQuery:
		return fmt.Errorf("%s: the kind must be command or query", s.Type)
	case s.Summary == "":
		return fmt.Errorf("%s: a syscall needs a summary", s.Type)
	case s.Handler == nil:
		return fmt.Errorf("%s: a syscall needs a handler", s.Type)
	case s.Input == nil || s.Output == nil:
		return fmt.Errorf("%s: a syscall needs the schemas of its input and its output", s.Type)
	}
	if err := cmp.Or(s.Input.Err(), s.Output.Err()); err != nil {
		return fmt.Errorf("%s: %w", s.Type, err)
	}
	for _, e := range s.Emits {
		if !e.Type.Valid() {
			return fmt.Errorf("%s: the event %q must be Domain.Action in PascalCase", s.Type, e.Type)
		}
	}
	return nil
}

// newCatalog returns the catalog of these modules, which it sorts.
func newCatalog(modules []Module) (*catalog, error) {
	c := &catalog{
		modules: modules,
		byType:  make(map[message.Type]*Syscall),
		events:  make(map[message.Type]message.Type),
		methods: make(map[string]message.Type),
	}
	names := make(map[string]bool)
	for i := range modules {
		m := &modules[i]
		err := c.add(m)
		if names[m.Name] {
			err = errors.New("there is a module of this name")
		}
		if err != nil {
			return nil, fmt.Errorf("module %q: %w", m.Name, err)
		}
		names[m.Name] = true
	}
	slices.SortFunc(c.modules, func(a, b Module) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(c.types)
	c.hash = sync.OnceValue(c.computeHash)
	c.routes = sync.OnceValue(func() *routes { return newRoutes(c.modules) })
	c.index = sync.OnceValue(func() *index { return newIndex(View{c}) })
	return c, nil
}

func (c *catalog) add(m *Module) error {
	switch {
	case m.Name == "" || strings.ToLower(m.Name) != m.Name:
		return errors.New("the name must be in lower case, and not empty")
	case m.Version == "" || m.Summary == "":
		return errors.New("a module needs a version and a summary")
	}
	for i := range m.Syscalls {
		s := &m.Syscalls[i]
		if err := s.check(); err != nil {
			return err
		}
		for _, t := range s.names() {
			name := methodName(t)
			other, taken := c.methods[name]
			switch {
			case !t.Valid():
				return fmt.Errorf("%q: a type must be Domain.Action in PascalCase", t)
			case c.byType[t] != nil:
				return fmt.Errorf("%s is registered already", t)
			case taken:
				return fmt.Errorf("%s and %s would both be called %s by RPC; give one of them another name", t, other, name)
			}
			c.byType[t], c.methods[name] = s, t
		}
		if s.Visibility == Listed {
			c.types = append(c.types, s.Type)
		}
		for _, e := range s.Emits {
			if _, known := c.events[e.Type]; !known && s.Provider == BuiltIn { // a program sends its events from outside
				c.events[e.Type] = s.Type
			}
		}
	}
	return nil
}

// Lookup finds a syscall by its type or by an alias.
func (r *Registry) Lookup(t message.Type) (*Syscall, bool) {
	s, ok := r.state.Load().byType[t]
	return s, ok
}

// Types lists the syscalls, sorted, without aliases and what is hidden. The caller
// must not change the slice. Types, Modules and the other lists are the owner's view; [Registry.For]
// returns another principal's.
func (r *Registry) Types() []message.Type { return r.state.Load().types }

// Modules lists the modules by name. The caller must not change them.
func (r *Registry) Modules() []Module { return r.state.Load().modules }

// Hash identifies what the registry offers: names, versions, summaries, schemas. The
// same modules have the same hash in any order and in any process; any change that a
// caller could see changes it. It is not meant for security.
func (r *Registry) Hash() string { return r.state.Load().hash() }

func (c *catalog) computeHash() string {
	h := sha256.New()
	for i := range c.modules {
		m := &c.modules[i]
		lines := [][]string{{"module", m.Name, m.Version, m.Summary}}
		for _, s := range m.Syscalls {
			if s.Visibility == Hidden {
				continue
			}
			name := string(s.Type)
			lines = append(lines, []string{"syscall", name, string(s.Kind), s.Summary, string(s.Input.JSON()), string(s.Output.JSON())})
			for _, e := range s.Emits {
				lines = append(lines, []string{"event", name, string(e.Type), e.Summary})
			}
			for _, a := range s.Aliases {
				lines = append(lines, []string{"alias", name, string(a)})
			}
		}
		slices.SortFunc(lines[1:], slices.Compare[[]string])
		for _, line := range lines {
			var text []byte
			for _, word := range line {
				text = append(jsonscan.AppendQuoted(text, word), ',')
			}
			_, _ = h.Write(append(text, '\n'))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Reserved reports whether a type belongs to the framework: code that is registered at run
// time may not use it, nor may events from outside. Some callers can't tell upper and lower
// case apart.
func Reserved(t message.Type) bool {
	d := t.Domain()
	return strings.EqualFold(d, "Syscall") || strings.EqualFold(d, "Sys") || strings.EqualFold(d, "Kernel")
}

// CheckForeignEvent returns the error for an event from outside that only the kernel or a
// built-in syscall may emit, so that watchers can rely on it; nil for other types.
func (k *Kernel) CheckForeignEvent(event message.Type) *message.Error {
	if Reserved(event) {
		return message.Errorf(403, "The event %s can't be sent from outside: Syscall.*, Sys.* and Kernel.* are reserved; choose another name", event)
	}
	if by, ok := k.registry.state.Load().events[event]; ok {
		return message.Errorf(403, "%s is an event of %s, which is built in, and can't be sent from outside; choose another name", event, by)
	}
	return nil
}
