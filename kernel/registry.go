package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	mu    sync.Mutex              // serialises changes
	names map[string]message.Type // the names of methods that are taken; guarded by mu
	state atomic.Pointer[catalog]
}

// catalog is one state of a registry. It never changes.
type catalog struct {
	modules []Module // by name
	byType  map[message.Type]*Syscall
	types   []message.Type // sorted, without aliases and what is hidden
	hash    func() string
	routes  func() *routes
}

// NewRegistry returns a registry of these modules. It fails if a definition is not complete,
// or if two modules define the same type.
func NewRegistry(modules ...Module) (*Registry, error) {
	r := &Registry{names: make(map[string]message.Type)}
	r.state.Store(newCatalog(nil))
	for _, m := range modules {
		if err := r.Add(m); err != nil {
			return nil, err
		}
	}
	return r, nil
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
	old := r.state.Load()
	if err := r.check(m, old); err != nil {
		return fmt.Errorf("module %q: %w", m.Name, err)
	}
	m.Syscalls = slices.Clone(m.Syscalls)
	r.claim(m.Syscalls)
	r.state.Store(newCatalog(append(slices.Clone(old.modules), m)))
	return nil
}

// AddSyscall adds a syscall to the module of this name, or to a new module that is described
// by the argument. It fails, and changes nothing, as Add does.
func (r *Registry) AddSyscall(module Module, s Syscall) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.state.Load()
	modules := slices.Clone(old.modules)
	if i := slices.IndexFunc(modules, func(m Module) bool { return m.Name == module.Name }); i >= 0 {
		if err := r.checkSyscalls([]Syscall{s}, old); err != nil {
			return err
		}
		modules[i].Syscalls = append(slices.Clone(modules[i].Syscalls), s)
	} else {
		module.Syscalls = []Syscall{s}
		if err := r.check(module, old); err != nil {
			return err
		}
		modules = append(modules, module)
	}
	r.claim([]Syscall{s})
	r.state.Store(newCatalog(modules))
	return nil
}

// RemoveSyscall takes syscalls out, and a module with the last one of it. It returns how
// many of these types there were. Calls that have begun are finished.
func (r *Registry) RemoveSyscall(types ...message.Type) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.state.Load().modules
	modules := make([]Module, 0, len(old))
	is := func(s Syscall) bool { return slices.Contains(types, s.Type) }
	removed := 0
	for _, m := range old {
		if had := len(m.Syscalls); slices.ContainsFunc(m.Syscalls, is) {
			for _, s := range m.Syscalls {
				if is(s) {
					r.release(s)
				}
			}
			m.Syscalls = slices.DeleteFunc(slices.Clone(m.Syscalls), is)
			removed += had - len(m.Syscalls)
			if len(m.Syscalls) == 0 {
				continue
			}
		}
		modules = append(modules, m)
	}
	if removed > 0 {
		r.state.Store(newCatalog(modules))
	}
	return removed
}

// Remove takes a module out and reports whether it was there. Calls that have begun
// are finished.
func (r *Registry) Remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.state.Load().modules
	i := slices.IndexFunc(old, func(m Module) bool { return m.Name == name })
	if i < 0 {
		return false
	}
	r.release(old[i].Syscalls...)
	r.state.Store(newCatalog(slices.Delete(slices.Clone(old), i, i+1)))
	return true
}

// claim takes the names that methods have. mu is held, as for release.
func (r *Registry) claim(syscalls []Syscall) {
	for i := range syscalls {
		for _, t := range syscalls[i].names() {
			r.names[methodName(t)] = t
		}
	}
}

// release gives the names of methods back.
func (r *Registry) release(syscalls ...Syscall) {
	for i := range syscalls {
		for _, t := range syscalls[i].names() {
			delete(r.names, methodName(t))
		}
	}
}

// names are all that a syscall can be called by.
func (s *Syscall) names() []message.Type { return append([]message.Type{s.Type}, s.Aliases...) }

func (r *Registry) check(m Module, old *catalog) error {
	if m.Name == "" || strings.ToLower(m.Name) != m.Name {
		return fmt.Errorf("the name must be in lower case, and not empty")
	}
	if m.Version == "" || m.Summary == "" {
		return fmt.Errorf("a module needs a version and a summary")
	}
	if slices.ContainsFunc(old.modules, func(o Module) bool { return o.Name == m.Name }) {
		return fmt.Errorf("there is a module of this name")
	}
	return r.checkSyscalls(m.Syscalls, old)
}

func (r *Registry) checkSyscalls(syscalls []Syscall, old *catalog) error {
	mine := make(map[message.Type]bool)
	names := make(map[string]message.Type)
	for i := range syscalls {
		s := &syscalls[i]
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
		for _, t := range s.names() {
			if !t.Valid() {
				return fmt.Errorf("%q: a type must be Domain.Action in PascalCase", t)
			}
			if _, taken := old.byType[t]; taken || mine[t] {
				return fmt.Errorf("%s is registered already", t)
			}
			mine[t] = true
			name := methodName(t)
			if other, taken := r.names[name]; taken {
				return fmt.Errorf("%s and %s would both be called %s by RPC; give it another name", t, other, name)
			}
			if other, taken := names[name]; taken {
				return fmt.Errorf("%s and %s would both be called %s by RPC; give one of them another name", t, other, name)
			}
			names[name] = t
		}
		for _, e := range s.Emits {
			if !e.Type.Valid() {
				return fmt.Errorf("%s: the event %q must be Domain.Action in PascalCase", s.Type, e.Type)
			}
		}
	}
	return nil
}

func newCatalog(modules []Module) *catalog {
	c := &catalog{modules: modules, byType: make(map[message.Type]*Syscall)}
	slices.SortFunc(c.modules, func(a, b Module) int { return strings.Compare(a.Name, b.Name) })
	for i := range c.modules {
		for j := range c.modules[i].Syscalls {
			s := &c.modules[i].Syscalls[j]
			if s.Visibility == Listed {
				c.types = append(c.types, s.Type)
			}
			c.byType[s.Type] = s
			for _, alias := range s.Aliases {
				c.byType[alias] = s
			}
		}
	}
	slices.Sort(c.types)
	c.hash = sync.OnceValue(c.computeHash)
	c.routes = sync.OnceValue(func() *routes { return newRoutes(c.modules) })
	return c
}

// Lookup finds a syscall by its type or by an alias.
func (r *Registry) Lookup(t message.Type) (*Syscall, bool) {
	s, ok := r.state.Load().byType[t]
	return s, ok
}

// Types lists the syscalls, sorted, without aliases and what is hidden. The caller
// must not change the slice.
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
