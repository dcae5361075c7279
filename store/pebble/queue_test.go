package pebble

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/internal/testkit"
	"kernos/store"
)

// A gate holds up the fsyncs of logs while a test has locked it.
type gate struct{ sync.RWMutex }

func (g *gate) String() string { return "a gate" }

func (g *gate) MaybeError(op errorfs.Op) error {
	if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
		g.RLock()
		defer g.RUnlock()
	}
	return nil
}

// gathering returns an engine whose log stands still until the gate is unlocked. What is
// applied to it gathers behind the batch that it returns the commit of.
func gathering(t *testing.T) (*Engine, *store.Commit, *gate) {
	t.Helper()
	g := new(gate)
	e := mustOpen(t, "store", &Options{FS: errorfs.Wrap(vfs.NewMem(), g)})
	set(t, e, "m/old", "x")
	g.Lock()
	first := apply(t, e, "m/first", "x")
	if !e.queue.settled() {
		t.Error("the first batch was not given to the library at once")
	}
	return e, first, g
}

func TestWhatGathersIsVisible(t *testing.T) {
	get := func(e *Engine, key string) string {
		entry, err := e.Get([]byte(key))
		return fmt.Sprintf("%s %v %v", entry.Value, entry.Revision != 0, err)
	}
	keys := func(t *testing.T, r store.Reader) string {
		return fmt.Sprint(slices.Sorted(maps.Keys(scanAll(t, r))))
	}
	for name, look := range map[string]func(*testing.T, *Engine) (got, want string){
		"Get of a key that is set":     func(_ *testing.T, e *Engine) (string, string) { return get(e, "m/b"), "2 true <nil>" },
		"Get of a key that is deleted": func(_ *testing.T, e *Engine) (string, string) { return get(e, "m/old"), " false <nil>" },
		"Get of a key in a range":      func(_ *testing.T, e *Engine) (string, string) { return get(e, "m/first"), " false <nil>" },
		"Scan":                         func(t *testing.T, e *Engine) (string, string) { return keys(t, e), "[m/a m/b]" },
		"Snapshot": func(t *testing.T, e *Engine) (string, string) {
			s, err := e.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			return keys(t, s), "[m/a m/b]"
		},
		"a condition": func(_ *testing.T, e *Engine) (string, string) {
			var b store.Batch
			b.IfAbsent([]byte("m/b"))
			_, err := e.Apply(&b)
			return fmt.Sprint(errors.Is(err, store.ErrConflict)), "true"
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, first, g := gathering(t)
			var b store.Batch
			b.Set([]byte("m/a"), []byte("1"))
			b.Set([]byte("m/b"), []byte("2"))
			b.Delete([]byte("m/old"))
			b.DeleteRange([]byte("m/f"), []byte("m/g"))
			last, err := e.Apply(&b)
			if err != nil {
				t.Fatal(err)
			}
			if e.queue.settled() {
				t.Error("the batch does not gather")
			}
			if got, want := look(t, e); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			for _, c := range []*store.Commit{first, last, e.Barrier()} {
				if done, err := c.Resolved(); done {
					t.Errorf("durable without the disk: %v", err)
				}
			}
			g.Unlock()
			if err := wait(last); err != nil {
				t.Error(err)
			}
			if done, err := first.Resolved(); !done || err != nil {
				t.Errorf("the last is durable, and the first not: %v", err)
			}
			if got := keys(t, e); got != "[m/a m/b]" {
				t.Errorf("it has %s", got)
			}
		})
	}
}

func TestWhatGathersIsGivenTogether(t *testing.T) {
	e, _, g := gathering(t)
	var commits []*store.Commit
	for i := range 20 {
		commits = append(commits, apply(t, e, fmt.Sprint("m/", i%7), fmt.Sprint(i)))
	}
	e.queue.mu.Lock()
	given, gathers := len(e.queue.applied), len(e.queue.open.commits)
	e.queue.mu.Unlock()
	if given != 1 || gathers != len(commits) {
		t.Errorf("%d groups are given, and %d batches gather", given, gathers)
	}
	large := apply(t, e, "m/large", strings.Repeat("x", 40<<10)) // too much for the first table
	testkit.Until(t, "a lot does not gather", e.queue.settled)
	g.Unlock()
	if err := wait(large); err != nil {
		t.Error(err)
	}
	for i, c := range commits {
		if done, err := c.Resolved(); !done || err != nil {
			t.Errorf("batch %d is not durable, and a later one is: %v", i, err)
		}
	}
	if got := scanAll(t, e); got["m/5"] != "19" || got["m/4"] != "18" {
		t.Errorf("it has %q and %q", got["m/5"], got["m/4"])
	}
}

func TestWhatGathersFailsWithTheDisk(t *testing.T) {
	e, first, g := gathering(t)
	second := apply(t, e, "m/second", "x")
	e.health.update(func() { e.health.insisting, e.health.insistErr = 1, syscall.ENOSPC })
	fails(t, wait(first), 507)
	fails(t, wait(second), 507)
	if got, err := e.Get([]byte("m/second")); err != nil || string(got.Value) != "x" {
		t.Errorf("reading does not go on: %q, %v", got.Value, err)
	}
	e.health.update(func() { e.health.insisting = 0 })
	third := apply(t, e, "m/third", "x")
	g.Unlock()
	if err := wait(third); err != nil {
		t.Error(err)
	}
}
