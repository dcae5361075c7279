// Package storetest is the suite that every engine of package store passes, and Memory,
// a store for tests.
//
// An engine's own tests are a few lines:
//
//	func TestEngine(t *testing.T) {
//		storetest.Run(t, storetest.Engine{Open: …, OpenFS: …})
//	}
//
// Run goes through the contract sentence by sentence, then compares the engine with
// Memory over random operations. Then come the proofs of crash safety: it kills a process
// that writes, cuts the power at every write and every sync of a workload, and fails every
// call of the file system, one after another. An engine that a proof can't be held against
// reports why, or fails.
//
// The flag -storetest.long makes all of it larger: for a night, not for every change. Without it, every second
// call of the file system fails, chosen by chance. With
// the race detector it is smaller, since what that finds it finds soon.
package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"kernos/store"
)

var (
	long = flag.Bool("storetest.long", false, "run the store's random, crash, fault and kill tests at full length")
	seed = flag.Uint64("storetest.seed", 0, "repeat the store's random tests with the seed that a failure has printed")
)

// Sized returns how often something of a short run is done: n times, or less with the
// race detector.
func Sized(n int) int {
	if raced {
		return max(1, n/4)
	}
	return n
}

// noise returns bytes that can't be compressed.
func noise(random *rand.Rand, size int) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], random.Uint64())
	value := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(value) // ChaCha8 never fails
	return value
}

// patience is how long anything may take before it counts as hanging.
const patience = 30 * time.Second

// An Engine describes how to open a store.
type Engine struct {
	// Open opens the store in a directory: a new one if the directory is empty, else
	// what was left there. What it starts beside the store must end with the store.
	Open func(dir string) (store.Store, error)

	// OpenFS is Open on another file system, which may forget, fail and come to an end.
	OpenFS func(fs vfs.FS, dir string) (store.Store, error)

	// NoFS reports why there is no OpenFS, and so nothing that cuts the power and injects
	// errors.
	NoFS string

	// Variant means that the engine is one that passes the suite as well, but for what it keeps in memory. A
	// short run then fails every fourth call of the file system only.
	Variant bool

	// Others are goroutines that aren't the engine's, and may be there when the store is closed.
	Others []goleak.Option

	// NoKill reports why no process that has the store open is killed, and NoPowerCut why the power
	// isn't cut.
	NoKill, NoPowerCut string
}

// Run tests an engine.
func Run(t *testing.T, e Engine) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			f := &fixture{T: t, engine: e, dir: t.TempDir()}
			f.open()
			c.test(f)
			f.close()
			// A goroutine of the engine that outlives Close would be seen here.
			if err := goleak.Find(append(slices.Clone(e.Others), running)...); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("Random", func(t *testing.T) { runRandom(t, e) })
	for _, p := range proofs {
		t.Run(p.name, func(t *testing.T) {
			reason, err := p.unless(e)
			switch {
			case err != nil:
				t.Error(err)
			case reason != "":
				t.Log("not proven:", reason)
			default:
				p.run(t, e)
			}
		})
	}
}

// proofs are those of crash safety. Unless is the reason why one can't be held against an engine, ""
// if it can; it is an error not to know.
var proofs = []struct {
	name   string
	unless func(Engine) (reason string, err error)
	run    func(*testing.T, Engine)
}{
	{"Kill", func(e Engine) (string, error) { return e.NoKill, nil }, runKill},
	{"PowerCut", unlessPowerCut, runPowerCut},
	{"Faults", unlessFS, runFaults},
}

func unlessFS(e Engine) (string, error) {
	if (e.OpenFS == nil) == (e.NoFS == "") {
		return "", errors.New("whether the engine is safe from power cuts and failing disks is not shown: give it OpenFS, or say in NoFS why there can be none")
	}
	return e.NoFS, nil
}

func unlessPowerCut(e Engine) (string, error) {
	if e.NoPowerCut != "" {
		return e.NoPowerCut, nil
	}
	return unlessFS(e)
}

// A fixture is one store under test.
type fixture struct {
	*testing.T
	engine Engine
	dir    string
	store  store.Store // nil while it is closed
}

func (f *fixture) open() {
	f.Helper()
	s, err := f.engine.Open(f.dir)
	if err != nil {
		f.Fatalf("Open: %v", err)
	}
	f.store = s
}

func (f *fixture) close() {
	f.Helper()
	if f.store == nil {
		return
	}
	if err := f.store.Close(); err != nil {
		f.Fatalf("Close: %v", err)
	}
	f.store = nil
}

func (f *fixture) reopen() {
	f.Helper()
	f.close()
	f.open()
}

// apply applies a batch that must succeed.
func (f *fixture) apply(b *store.Batch) *store.Commit {
	f.Helper()
	c, err := f.store.Apply(b)
	if err != nil {
		f.Fatalf("Apply: %v", err)
	}
	return c
}

// set sets one key and returns its revision.
func (f *fixture) set(key, value string) store.Revision {
	f.Helper()
	return f.apply(sets(key, value)).Revision
}

// sets returns a batch of keys and values.
func sets(pairs ...string) *store.Batch {
	b := new(store.Batch)
	for i := 0; i < len(pairs); i += 2 {
		b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	return b
}

func (f *fixture) get(key string) store.Entry {
	f.Helper()
	return getFrom(f, f.store, key)
}

func getFrom(t testing.TB, r store.Reader, key string) store.Entry {
	t.Helper()
	e, err := r.Get([]byte(key))
	if err != nil {
		t.Fatalf("Get %q: %v", key, err)
	}
	return e
}

// wait waits for a commit that must succeed.
func (f *fixture) wait(c *store.Commit) {
	f.Helper()
	if err := await(c); err != nil {
		f.Fatalf("the commit of revision %d: %v", c.Revision, err)
	}
}

// errHanging means that something took longer than it may.
var errHanging = errors.New("nothing has happened for too long")

// await waits for a commit, but not for ever.
func await(c *store.Commit) error { return awaitFor(c, patience) }

func awaitFor(c *store.Commit, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errHanging)
	defer cancel()
	err := c.Wait(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// entries reads a range.
func entries(r store.Reader, keys store.Range) ([]store.Entry, error) {
	var all []store.Entry
	for e, err := range r.Scan(keys) {
		if err != nil {
			return nil, err
		}
		all = append(all, store.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), Revision: e.Revision})
	}
	return all, nil
}

func (f *fixture) scan(r store.Reader, keys store.Range) []store.Entry {
	f.Helper()
	all, err := entries(r, keys)
	if err != nil {
		f.Fatalf("Scan: %v", err)
	}
	return all
}

// everything reads the latest state.
func (f *fixture) everything() []store.Entry {
	f.Helper()
	return f.scan(f.store, store.Range{})
}

func equal(a, b []store.Entry) bool { return slices.EqualFunc(a, b, same) }

func same(a, b store.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Revision == b.Revision
}

// show writes entries for a failure, shortened.
func show(all []store.Entry) string {
	var text []byte
	for i, e := range all {
		if i == 20 {
			return fmt.Sprintf("%s … %d more", text, len(all)-i)
		}
		text = fmt.Appendf(text, "\n%q@%d=%s", e.Key, e.Revision, hex.EncodeToString(e.Value[:min(len(e.Value), 16)]))
	}
	return string(text)
}

// coded reports whether a caller can decide by an error what to do: it has a code or is one that
// callers look for.
func coded(err error) bool {
	if e, ok := errors.AsType[*store.Error](err); ok {
		return e.Code >= 400 && e.Code < 600 && e.Text != ""
	}
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrClosed)
}

// random returns a generator and prints its seed if the test fails.
func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat this: -storetest.seed=%d", s)
		}
	})
	return rand.New(rand.NewPCG(s, 0))
}
