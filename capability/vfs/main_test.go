package vfs_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/memory"
	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/capability/vfs/memoryfs"
	"kernos/capability/vfs/vfstest"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a tree with everything mounted, and a kernel around it.
type world struct {
	kerneltest.NoBlobs
	t      testing.TB
	dir    string
	tree   *vfs.Tree
	blobs  *blobs.Dir
	memory *memory.Memory
	store  store.Store
	kernel *kernel.Kernel
	level  string // a setting

	mu      sync.Mutex
	ids     int
	records []string
}

// Put implements [kernel.BlobPutter].
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
	vfstest.Put(t, w.dir, files)
	var err error
	if w.blobs, err = blobs.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	w.memory = memory.New(w.store, w.blobs, nil)
	w.kernel = kerneltest.Of(t, &kernel.Options{Store: w.store, Blobs: w, Recorder: w}, w.memory.Module())
	d, err := dirfs.Open(w.dir, dirfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	process := &kernelfs.Process{
		Version: "test", Args: []string{"kernos", "pipe", "a b"}, Registry: w.kernel.Registry(),
		Stats:  w.kernel.Stats,
		Mounts: func() []vfs.Mount { return w.tree.Mounts() },
	}
	w.tree = vfstest.NewTree(t, vfs.Options{
		Mounts: []vfs.Mount{
			{Path: "/", Driver: d},
			{Path: "/memory", Driver: memoryfs.New(w.memory, w)},
			{Path: "/sys", Driver: kernelfs.Sys(w.settings())},
			{Path: "/proc", Driver: kernelfs.Proc(process.Files)},
			{Path: "/greeting", Driver: kernelfs.Greeting()},
		},
		Blobs:   w,
		Resolve: (&blobs.Resolver{Dir: w.blobs, Confined: true, Limit: vfs.MaxFile}).Resolve,
	})
	if err := w.kernel.Registry().Add(w.tree.Module()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

func (w *world) settings() []kernelfs.Variable {
	return []kernelfs.Variable{
		{Name: "log/level", Get: func() string { return w.level }, Set: func(_ context.Context, v string) error {
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
	outcome := kerneltest.Outcome(w.t.Context(), w.kernel, kerneltest.Request(kind, id, typ, string(text)))
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
	if vfstest.Code(err) != want || err == nil || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%s %v: %v, want a %d that says %q", typ, data, err, want, says)
	}
}

// newDirectory returns a tree whose root is a directory with some files.
func newDirectory(t testing.TB, files map[string]string) (*vfs.Tree, string) {
	t.Helper()
	dir := t.TempDir()
	vfstest.Put(t, dir, files)
	d, err := dirfs.Open(dir, dirfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}}), dir
}
