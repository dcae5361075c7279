package vfs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/memory"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// put makes files below a directory; a name with a slash at its end is a directory.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		folder := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			folder = path
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if folder == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newTree returns a tree that is closed with the test.
func newTree(t testing.TB, opts Options) *Tree {
	t.Helper()
	tree, err := New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil && !errors.Is(err, os.ErrClosed) { // some tests break things
			t.Error(err)
		}
	})
	return tree
}

// newDirectory returns a tree whose root is a directory with some files.
func newDirectory(t testing.TB, opts *DirectoryOptions, files map[string]string) (*Tree, string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, files)
	d, err := Directory(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return newTree(t, Options{Mounts: []Mount{{"/", d}}}), dir
}

// code returns the code of an error that the caller would see.
func code(err error) int {
	if err == nil {
		return 0
	}
	e, _ := message.ErrorOf(err)
	return e.Code
}

// wantCode fails unless an error has a code, and a text that a person can use.
func wantCode(t testing.TB, what string, err error, want int) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("%s: %d (%v), want %d", what, got, err, want)
	}
	if _, ok := errors.AsType[*message.Error](err); want != 0 && !ok {
		t.Errorf("%s: the error has no words for the caller: %v", what, err)
	}
}

// walked collects the URIs of a walk, directories with a slash at the end.
func walked(t testing.TB, tree *Tree, uri string, limit int) []string {
	t.Helper()
	var uris []string
	for info, err := range tree.Walk(t.Context(), uri, limit) {
		if err != nil {
			t.Errorf("walking %s: %v", uri, err)
			continue
		}
		if info.Dir {
			info.URI += "/"
		}
		uris = append(uris, info.URI)
	}
	return uris
}

func wantList(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// world is a tree with everything mounted, and a kernel around it.
type world struct {
	t      testing.TB
	dir    string
	tree   *Tree
	blobs  *blobs.Dir
	memory *memory.Memory
	store  store.Store
	kernel *kernel.Kernel
	level  string // a setting

	mu      sync.Mutex
	ids     int
	records []string
}

// Put implements [kernel.Blobs].
func (w *world) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	b, err := w.blobs.Put(data)
	return b.Pointer(), err
}

// Record implements [kernel.Recorder].
func (w *world) Record(r kernel.Record) {
	data, _ := kernel.Redact(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, string(r.Message.Type)+" "+string(data))
}

// RecordWith implements [kernel.Recorder].
func (w *world) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	for _, r := range rs[1:] {
		w.Record(r)
	}
	return apply()
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), store: storetest.NewMemory(), level: "info"}
	put(t, w.dir, files)
	var err error
	if w.blobs, err = blobs.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	w.memory = memory.New(w.store, w.blobs, nil)
	registry, err := kernel.NewRegistry(w.memory.Module())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Directory(w.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	process := &Process{
		Version: "test", Args: []string{"kernos", "pipe", "a b"}, Registry: registry,
		Stats:  func() kernel.Stats { return w.kernel.Stats() },
		Mounts: func() []Mount { return w.tree.Mounts() },
	}
	w.tree = newTree(t, Options{
		Mounts: []Mount{
			{"/", d},
			{"/memory", Memory(w.memory, w)},
			{"/sys", Sys(w.settings())},
			{"/proc", Proc(process.Files)},
			{"/greeting", Greeting()},
		},
		Blobs:   w,
		Resolve: (&blobs.Resolver{Dir: w.blobs, Confined: true, Limit: MaxFile}).Resolve,
	})
	if err := registry.Add(w.tree.Module()); err != nil {
		t.Fatal(err)
	}
	w.kernel = kernel.New(registry, &kernel.Options{Store: w.store, Blobs: w, Recorder: w})
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

func (w *world) settings() Settings {
	return Variables{
		{Name: "log/level", Get: func() string { return w.level }, Set: func(v string) error {
			if v != "info" && v != "debug" {
				return message.Errorf(422, "The level is info or debug, got %s", v)
			}
			w.level = v
			return nil
		}},
		{Name: "limits/line", Get: func() string { return "16384" }},
	}
}

// call makes a call and returns its outcome.
func (w *world) call(kind message.Kind, typ message.Type, data any) (map[string]any, error) {
	w.t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.ids++
	id := message.ID("m" + strconv.Itoa(w.ids))
	w.mu.Unlock()
	m := message.Message{Kind: kind, Type: typ, Data: text, Metadata: message.Metadata{ID: id, Timestamp: 1}}
	var outcome message.Message
	w.kernel.Handle(w.t.Context(), m, func(m message.Message) {
		if m.Kind.Answers() {
			outcome = m
		}
	})
	if outcome.Kind == message.KindError {
		e, err := message.ParseError(outcome.Data)
		return nil, errors.Join(err, e)
	}
	out := make(map[string]any)
	if err := json.Unmarshal(outcome.Data, &out); err != nil {
		w.t.Fatalf("%s replied %s", typ, outcome.Data)
	}
	return out, nil
}

type object = map[string]any

func (w *world) query(typ message.Type, data object) object {
	w.t.Helper()
	out, err := w.call(message.KindQuery, typ, data)
	if err != nil {
		w.t.Errorf("%s %v: %v", typ, data, err)
	}
	return out
}

func (w *world) command(typ message.Type, data object) object {
	w.t.Helper()
	out, err := w.call(message.KindCommand, typ, data)
	if err != nil {
		w.t.Errorf("%s %v: %v", typ, data, err)
	}
	return out
}

func (w *world) fails(kind message.Kind, typ message.Type, data object, want int, says string) {
	w.t.Helper()
	_, err := w.call(kind, typ, data)
	if code(err) != want || err == nil || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%s %v: %v, want a %d that says %q", typ, data, err, want, says)
	}
}
