// Package script serves syscalls whose handlers are code: TypeScript, JavaScript or WebAssembly
// that a caller has registered.
//
//	Syscall.Versions  the versions of a syscall that is code, with their calls counted
//	Syscall.Rollback  go back to an earlier version
//	Syscall.Adopt     take code out of the rules of the session that it came from
//	Syscall.Test      run code without registering it
//
// Syscall.Register and Syscall.Unregister are those of package register, which decides which principal
// owns a name and hands code to a [Scripts].
//
// A script is durable: its versions are in the store, and after a restart its definition is in
// the registry without an engine having been started. Code is compiled when it is first called,
// and runs in package engine, apart from the kernel. What it calls is called for both its caller
// and its author, under the rules of the session that it came from ([kernel.Call.Serving]).
package script

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"kernos/capability/script/engine"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// Options are the settings of a Scripts. The zero value is usable.
type Options struct {
	// Store keeps scripts. Nil keeps them while the process runs.
	Store store.Store

	// Find returns the principal of an id as it is now, or nil if it has ended. Nil means that all
	// are the owner's.
	Find func(principal.ID) (*principal.Principal, error)

	// IsRoot reports whether a directory has its files at the URI of one of them now; see [File]. Nil means that all
	// have.
	IsRoot func(folder, uri string) bool

	// Open fetches what a codeRef points to. Nil means that code comes in messages only.
	Open func(context.Context, message.BlobPointer) ([]byte, error)

	// Engine runs the code. Nil means one with defaults.
	Engine *engine.Engine

	// Schemas is what the schemas of scripts are charged to. Nil means 256 MB, of which one token
	// may take 32 MB.
	Schemas *kernel.Budget

	// Names is how many scripts one principal may have, beside those of files. 0 means 1,000.
	Names int

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// Scripts are the syscalls that are code. It is safe for concurrent use.
type Scripts struct {
	registry *kernel.Registry
	opts     Options

	mu     sync.Mutex // serialises changes
	loaded bool
	byName map[message.Type]*script
	names  map[principal.ID]int           // how many scripts each principal has, beside those of files
	paces  map[principal.ID]*rate.Limiter // limits registrations
}

// New returns the scripts of a registry; none until Load has read them. Nil options mean defaults.
func New(r *kernel.Registry, opts *Options) *Scripts {
	s := &Scripts{registry: r, byName: make(map[message.Type]*script), names: make(map[principal.ID]int), paces: make(map[principal.ID]*rate.Limiter)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Names = cmp.Or(s.opts.Names, 1_000)
	if s.opts.Find == nil {
		s.opts.Find = func(principal.ID) (*principal.Principal, error) { return principal.TheOwner(), nil }
	}
	if s.opts.Engine == nil {
		s.opts.Engine = engine.New(nil)
	}
	if s.opts.Schemas == nil {
		s.opts.Schemas = kernel.NewBudget("registered schemas", 256<<20, 32<<20)
	}
	s.opts.Log = cmp.Or(s.opts.Log, slog.New(slog.DiscardHandler))
	return s
}

// Schemas returns the budget that schemas are charged to.
func (s *Scripts) Schemas() *kernel.Budget { return s.opts.Schemas }

// Module returns the module.
func (s *Scripts) Module() kernel.Module {
	return kernel.Module{
		Name:    "script",
		Version: "1.0.0",
		Summary: "Syscalls that are code: TypeScript, JavaScript or WebAssembly, registered while the kernel runs, in versions.",
		Domains: []string{"Syscall"},
		Syscalls: []kernel.Syscall{
			versions.Bind(s.versions), rollback.Bind(s.rollback), adopt.Bind(s.adopt), test.Bind(s.test), types.Bind(s.types),
		},
	}
}

// A script is a syscall that is code. It changes with mu held.
type script struct {
	name message.Type
	head
	all    []*version           // the oldest first
	away   bool                 // its folder has left the tree: it is kept, and not served
	holder *principal.Principal // the principal that its schemas are charged to
	size   int                  // bytes of its schemas
}

// A version is the code of a script at one time. It never changes, apart from what is counted.
type version struct {
	edition
	definition kernel.Definition

	mu      sync.Mutex
	program *engine.Program // nil until it is called

	calls, failures atomic.Int64
	total, longest  atomic.Int64 // nanoseconds
}

// count counts a call.
func (v *version) count(took time.Duration, failed bool) {
	v.calls.Add(1)
	if failed {
		v.failures.Add(1)
	}
	v.total.Add(int64(took))
	for {
		longest := v.longest.Load()
		if int64(took) <= longest || v.longest.CompareAndSwap(longest, int64(took)) {
			return
		}
	}
}

// A split is the versions of a script that are called, by their weights. It never changes.
type split struct {
	script   *script
	author   principal.Claim
	versions []*version
	ends     []uint64      // end of each version's part in the sum of all weights
	calls    atomic.Uint64 // calls so far: they spread over the versions by weight
}

// split returns the versions that have a weight.
func (sc *script) split() *split {
	sp := &split{script: sc, author: sc.Author}
	sum := uint64(0)
	for _, v := range sc.all {
		if w := sc.Weights[v.Version]; w > 0 {
			sum += uint64(w)
			sp.versions, sp.ends = append(sp.versions, v), append(sp.ends, sum)
		}
	}
	return sp
}

// pick returns the version of the next call. Multiples of the golden ratio are spread evenly, so
// that few calls are enough to come near to the weights.
func (sp *split) pick() *version {
	if len(sp.versions) == 1 {
		return sp.versions[0]
	}
	sum := sp.ends[len(sp.ends)-1]
	at := (sp.calls.Add(1) * 0x9E3779B97F4A7C15 >> 32) * sum >> 32
	i, found := slices.BinarySearch(sp.ends, at)
	if found {
		i++
	}
	return sp.versions[i]
}

// sessions returns the sessions whose rules decide about what some of the versions call.
func (sp *split) sessions() []string {
	var all kernel.Sender
	for _, v := range sp.versions {
		all = all.In(v.Scope)
	}
	return all.Sessions()
}

// current returns the newest version that is called.
func (sp *split) current() *version { return sp.versions[len(sp.versions)-1] }

// addition returns the script as the registry has it.
func (s *Scripts) addition(sc *script) kernel.Addition {
	sp := sc.split()
	now := sp.current()
	domain := sc.name.Domain()
	return kernel.Addition{
		Module: kernel.Module{Name: strings.ToLower(domain), Version: now.Version, Summary: fmt.Sprintf("%s.*, added at run time.", domain)},
		Syscall: kernel.Syscall{
			Definition: now.definition, Handler: s.handler(sp),
			Provenance: kernel.Provenance{Provider: kernel.Code, Author: sc.Author, Sessions: sp.sessions()},
		},
	}
}

// Load reads the scripts that the store has, once, and adds them to the registry. One that can't
// be added is reported to the operator.
func (s *Scripts) Load() error {
	err := s.lock()
	s.mu.Unlock()
	return err
}

// lock locks mu, and loads the scripts unless they are loaded.
func (s *Scripts) lock() error {
	s.mu.Lock()
	if s.loaded || s.opts.Store == nil {
		return nil
	}
	err := s.load()
	s.loaded = err == nil
	return err
}

func (s *Scripts) load() error {
	var all []*script
	for e, err := range s.opts.Store.Scan(store.Prefix([]byte{store.SpaceScripts, headLetter})) {
		if err != nil {
			return err
		}
		sc, err := decodeScript(e)
		if err != nil {
			s.opts.Log.Error("a script can't be read, and is left out", "name", string(e.Key[2:]), "error", err)
			continue
		}
		all = append(all, sc)
	}
	all = slices.DeleteFunc(all, func(sc *script) bool {
		if sc.away = !s.isRoot(sc); sc.away {
			s.swap(nil, sc)
		}
		return sc.away
	})
	additions := make([]kernel.Addition, len(all))
	for i, sc := range all {
		additions[i] = s.addition(sc)
	}
	if _, err := s.registry.Change(nil, additions...); err == nil {
		for _, sc := range all {
			s.hold(sc)
		}
		return nil
	}
	for i, sc := range all {
		if _, err := s.registry.Change(nil, additions[i]); err != nil {
			s.opts.Log.Error("a script can't be served, and is left out", "name", sc.name, "error", err)
			continue
		}
		s.hold(sc)
	}
	return nil
}

// hold keeps a script that the registry has. Its author was charged when it was registered, so the
// limits aren't asked again.
func (s *Scripts) hold(sc *script) {
	s.swap(nil, sc)
	if p, err := s.opts.Find(sc.Author.ID); err == nil && p != nil && s.opts.Schemas.Take(p, sc.size) == nil {
		sc.holder = p
	}
}

// swap keeps a script in the place of another; either may be nil. mu is held.
func (s *Scripts) swap(old, next *script) {
	if old != nil {
		s.drop(old)
		delete(s.byName, old.name)
		if old.File == "" {
			s.names[old.Author.ID]--
		}
	}
	if next != nil {
		s.byName[next.name] = next
		if next.File == "" {
			s.names[next.Author.ID]++
		}
	}
}

// drop gives back what a script was charged for.
func (s *Scripts) drop(sc *script) {
	if sc.holder != nil {
		s.opts.Schemas.Give(sc.holder, sc.size)
	}
}

// Has reports whether code is registered as a type.
func (s *Scripts) Has(t message.Type) (bool, error) {
	err := s.lock()
	defer s.mu.Unlock()
	return s.byName[t] != nil, err
}

// lookup returns a script, or a 404.
func (s *Scripts) lookup(name string) (*script, error) {
	if sc := s.byName[message.Type(name)]; sc != nil {
		return sc, nil
	}
	return nil, message.Errorf(404, "No code is registered as %s; Syscall.List names the syscalls", message.Clip(name, 100))
}

// mine returns nil if a caller may change a script: it is its author, or the owner.
func (sc *script) mine(p *principal.Principal) error {
	if p.IsOwner() || p.ID() == sc.Author.ID {
		return nil
	}
	return message.Errorf(403, "%s belongs to %s; only its author and the owner may change it", sc.name, sc.Author)
}

// parsed returns a schema that was checked before.
func parsed(text []byte) *schema.Schema {
	if string(text) == "{}" || string(text) == "true" {
		return schema.Any
	}
	return schema.Parsed(text)
}
