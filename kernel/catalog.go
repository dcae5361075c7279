package kernel

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
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

// catalog is one state of a registry. It never changes once it is the registry's. What a call needs is
// looked up in tables, which the next state shares; lists are made when they are first asked for.
type catalog struct {
	sections []*section // sorted by name
	byType   *table[message.Type, *entry]
	methods  *table[string, *Route]        // by RPC method name
	folded   *table[string, message.Type]  // listed types by their names in lower case
	events   map[message.Type]message.Type // event types of built-in syscalls, and the syscall that emits each
	domains  []string                      // the domains that belong to modules

	modules func() []Module
	types   func() []message.Type // sorted, without aliases and what is hidden
	hash    func() string
	routes  func() *routes
	index   func() *index

	known func() *catalog       // of a part: with what is for the owner only
	views atomic.Pointer[views] // the views of principals that see a part of the catalog
}

// A section is a module of a catalog. It never changes.
type section struct {
	Module  // the list of syscalls is empty here
	entries []*entry
}

// An entry is a syscall of a catalog. It never changes, and belongs to all catalogs that have it.
type entry struct {
	Syscall
	module string
	routes []Route // the routes of the syscall and of its aliases

	once   sync.Once
	digest digest // the hash of what callers see of the syscall; set by once
}

func newEntry(module string, s Syscall) *entry {
	e := &entry{Syscall: s, module: module, routes: make([]Route, 0, 1+len(s.Aliases))}
	for _, t := range append([]message.Type{s.Type}, s.Aliases...) {
		namespace, method := Method(t)
		e.routes = append(e.routes, Route{Type: t, Namespace: namespace, Method: method, Syscall: &e.Syscall})
	}
	return e
}

// edit returns a catalog with what c has, to be changed and then finished.
func (c *catalog) edit() *catalog {
	return &catalog{
		sections: slices.Clone(c.sections), events: c.events, domains: c.domains,
		byType: c.byType.copy(), methods: c.methods.copy(), folded: c.folded.copy(),
	}
}

func emptyCatalog() *catalog {
	return &catalog{byType: new(table[message.Type, *entry]), methods: new(table[string, *Route]), folded: new(table[string, message.Type])}
}

// finish ends the changes of a catalog.
func (c *catalog) finish() *catalog {
	c.modules = sync.OnceValue(c.listModules)
	c.types = sync.OnceValue(c.listTypes)
	c.hash = sync.OnceValue(c.computeHash)
	c.routes = sync.OnceValue(func() *routes { return newRoutes(c.sections) })
	c.index = sync.OnceValue(func() *index { return newIndex(View{c}) })
	return c
}

// section returns the place of a module, or the one that it would have.
func (c *catalog) section(name string) (int, bool) {
	return slices.BinarySearchFunc(c.sections, name, func(s *section, name string) int { return strings.Compare(s.Name, name) })
}

// open returns the place of a module, which it adds if there is none.
func (c *catalog) open(m Module) (int, error) {
	i, known := c.section(m.Name)
	switch {
	case known:
		return i, nil
	case m.Name == "" || strings.ToLower(m.Name) != m.Name:
		return 0, errors.New("the name must be in lower case, and not empty")
	case m.Version == "" || m.Summary == "":
		return 0, errors.New("a module needs a version and a summary")
	}
	m.Syscalls = nil
	c.sections = slices.Insert(c.sections, i, &section{Module: m})
	return i, nil
}

// addModule adds a module, whose name must be free.
func (c *catalog) addModule(m Module) error {
	_, taken := c.section(m.Name)
	i, err := c.open(m)
	if err == nil && taken {
		err = errors.New("there is a module of this name")
	}
	if err == nil {
		err = c.add(i, m.Syscalls...)
	}
	if err != nil {
		return fmt.Errorf("module %q: %w", m.Name, err)
	}
	return nil
}

// add adds syscalls to the end of a module. The next state of a catalog may append to the same array, as each state
// is followed by one other and reads no further than its own end.
func (c *catalog) add(to int, syscalls ...Syscall) error {
	next := *c.sections[to]
	for _, s := range syscalls {
		e := newEntry(next.Name, s)
		if err := c.enter(e); err != nil {
			return err
		}
		next.entries = append(next.entries, e)
	}
	c.sections[to] = &next
	return nil
}

// enter adds the names of a syscall.
func (c *catalog) enter(e *entry) error {
	if err := e.check(); err != nil {
		return err
	}
	for i := range e.routes {
		r := &e.routes[i]
		_, known := c.byType.get(r.Type)
		other, taken := c.methods.get(r.Name())
		switch {
		case !r.Type.Valid():
			return fmt.Errorf("%q: a type must be Domain.Action in PascalCase", r.Type)
		case known:
			return fmt.Errorf("%s is registered already", r.Type)
		case taken:
			return fmt.Errorf("%s and %s would both be called %s by RPC; give one of them another name", r.Type, other.Type, r.Name())
		}
		c.byType.set(r.Type, e)
		c.methods.set(r.Name(), r)
	}
	if e.Visibility == Listed {
		c.folded.set(strings.ToLower(string(e.Type)), e.Type)
	}
	return nil
}

// lookup finds a syscall by its type or by an alias.
func (c *catalog) lookup(t message.Type) (*Syscall, bool) {
	e, ok := c.byType.get(t)
	if !ok {
		return nil, false
	}
	return &e.Syscall, true
}

// remove takes a syscall out, and its module with the last one of it. It reports whether it was there.
func (c *catalog) remove(t message.Type) bool {
	e, ok := c.byType.get(t)
	if !ok || e.Type != t {
		return false
	}
	for i := range e.routes {
		c.byType.delete(e.routes[i].Type)
		c.methods.delete(e.routes[i].Name())
	}
	c.folded.delete(strings.ToLower(string(t)))
	i, _ := c.section(e.module)
	next := *c.sections[i]
	next.entries = slices.DeleteFunc(slices.Clone(next.entries), func(other *entry) bool { return other == e })
	if c.sections[i] = &next; len(next.entries) == 0 {
		c.sections = slices.Delete(c.sections, i, i+1)
	}
	return true
}

// gatherBuiltIn finds the events of built-in syscalls, and the domains of modules. A program sends its events over a connection.
func (c *catalog) gatherBuiltIn() {
	c.events, c.domains = make(map[message.Type]message.Type), nil
	for _, s := range c.sections {
		c.domains = append(c.domains, s.Domains...)
		for _, e := range s.entries {
			for _, event := range e.Emits {
				if _, known := c.events[event.Type]; !known && e.Provider == BuiltIn {
					c.events[event.Type] = e.Type
				}
			}
		}
	}
}

func (c *catalog) listModules() []Module {
	modules := make([]Module, len(c.sections))
	for i, s := range c.sections {
		modules[i] = s.Module
		for _, e := range s.entries {
			modules[i].Syscalls = append(modules[i].Syscalls, e.Syscall)
		}
	}
	return modules
}

func (c *catalog) listTypes() (types []message.Type) {
	for _, s := range c.sections {
		for _, e := range s.entries {
			if e.Visibility == Listed {
				types = append(types, e.Type)
			}
		}
	}
	slices.Sort(types)
	return types
}

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

// A digest is a hash of a part of a catalog. The sum of those of all parts is the hash of the whole: it depends on no
// order, and one more syscall doesn't mean that the others are hashed again.
type digest uint64

// newDigest returns the digest of words.
func newDigest(words ...string) digest {
	size := 0
	for _, word := range words {
		size += len(word) + len(word)/4 + 3 // with the escapes of a schema
	}
	text := make([]byte, 0, size)
	for _, word := range words {
		text = append(jsonscan.AppendQuoted(text, word), ',')
	}
	sum := sha256.Sum256(text)
	return digest(binary.BigEndian.Uint64(sum[:]))
}

// seen returns the digest of what callers see of a syscall.
func (e *entry) seen() digest {
	e.once.Do(func() {
		name := string(e.Type)
		e.digest = newDigest("syscall", e.module, name, string(e.Kind), e.Summary, string(e.Input.JSON()), string(e.Output.JSON()))
		for _, event := range e.Emits {
			e.digest += newDigest("event", name, string(event.Type), event.Summary)
		}
		e.digest += e.Presentation.digest(name)
	})
	return e.digest
}

func (c *catalog) computeHash() string {
	var sum digest
	for _, s := range c.sections {
		sum += newDigest("module", s.Name, s.Version, s.Summary)
		for _, e := range s.entries {
			if e.Visibility != Hidden {
				sum += e.seen()
			}
		}
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(sum)))
}
