package pebble

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/internal/testkit"
	"kernos/store"
)

// A fault is what fails, while it is on.
type fault struct {
	on    atomic.Bool
	err   error
	match func(errorfs.Op) bool
	hits  atomic.Int64
}

func (f *fault) MaybeError(op errorfs.Op) error {
	if !f.on.Load() || !f.match(op) {
		return nil
	}
	f.hits.Add(1)
	return f.err
}

func (f *fault) String() string { return "a fault" }

func onLogs(op errorfs.Op) bool {
	return strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
}

func onTables(op errorfs.Op) bool {
	return strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
}

func onWrites(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }

func TestAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code int
		text string
	}{
		{"full", syscall.ENOSPC, 507, "The disk is full: "},
		{"quota", syscall.EDQUOT, 507, "The disk is full: "},
		{"broken", syscall.EIO, 503, "The disk of the store in store fails"},
		{"read-only", syscall.EROFS, 503, "can't be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fault{err: c.err, match: onLogs}
			mem := vfs.NewCrashableMem()
			e := mustOpen(t, "store", &Options{FS: errorfs.Wrap(mem, f)})
			set(t, e, "m/before", "x")
			f.on.Store(true)
			pending := apply(t, e, "m/pending", "x")
			fails(t, wait(pending), c.code, c.text)
			testkit.Until(t, "a refusal", func() bool { return e.health.err() != nil })
			for range 100 { // at once: a refusal waits for nothing
				_, err := e.Apply(sets("m/refused", "x"))
				fails(t, err, c.code, c.text)
			}
			if got := scanAll(t, e); got["m/before"] != "x" || got["m/pending"] != "x" || got["m/refused"] != "" {
				t.Errorf("got %v", got)
			}
			// What no writer was promised is not on the disk.
			crashed := mustOpen(t, "store", &Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			if got := scanAll(t, crashed); got["m/before"] != "x" {
				t.Errorf("after a power cut: %v", got)
			}
			f.on.Store(false)
			testkit.Until(t, "recovery", func() bool { return e.health.err() == nil })
			set(t, e, "m/after", "x")
			crashed = mustOpen(t, "store", &Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			if got := scanAll(t, crashed); got["m/before"] != "x" || got["m/pending"] != "x" || got["m/after"] != "x" || got["m/refused"] != "" {
				t.Errorf("after recovery and a power cut: %v", got)
			}
		})
	}
}

func TestCloseOfAFullDiskComesToAnEnd(t *testing.T) {
	for _, match := range []func(errorfs.Op) bool{onLogs, onTables, onWrites} {
		f := &fault{err: syscall.ENOSPC, match: match}
		mem := vfs.NewCrashableMem()
		e := mustOpen(t, "store", &Options{FS: errorfs.Wrap(mem, f), CloseTimeout: time.Nanosecond, MemTableSize: 256 << 10})
		set(t, e, "m/before", "x")
		f.on.Store(true)
		for i := range 2000 { // enough to fill memtables
			if _, err := e.Apply(sets(fmt.Sprint("m/", i), strings.Repeat("x", 1000))); err != nil {
				break
			}
		}
		closed := make(chan error, 1)
		go func() { closed <- e.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				fails(t, err, 507)
			}
		case <-time.After(testkit.Patience):
			t.Fatal("Close hangs")
		}
		if _, err := e.Get([]byte("m/1")); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Get after Close: %v", err)
		}
		for _, clone := range []vfs.FS{mem.CrashClone(vfs.CrashCloneCfg{}), mem} {
			again := mustOpen(t, "store", &Options{FS: clone})
			if got := scanAll(t, again); got["m/before"] != "x" {
				t.Errorf("%d entries are left, not the first", len(got))
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFlushesThatFailDoNotHangWriters(t *testing.T) {
	f := &fault{err: syscall.ENOSPC, match: onTables}
	e := mustOpen(t, "store", &Options{FS: errorfs.Wrap(vfs.NewMem(), f), MemTableSize: 256 << 10})
	set(t, e, "m/before", "x")
	f.on.Store(true)
	var refused error
	last := ""
	for i := 0; refused == nil && i < 100_000; i++ {
		key := fmt.Sprint("m/", i)
		c, err := e.Apply(sets(key, strings.Repeat("x", 1000)))
		if err != nil {
			refused = err
		} else if wait(c) == nil {
			last = key
		}
	}
	fails(t, refused, 507, "The disk is full")
	if f.hits.Load() == 0 {
		t.Error("no table was written")
	}
	if got, err := e.Get([]byte(last)); err != nil || got.Revision == 0 {
		t.Errorf("%s: %v %v", last, got, err)
	}
	f.on.Store(false)
	testkit.Until(t, "recovery", func() bool {
		c, err := e.Apply(sets("m/after", "x"))
		return err == nil && wait(c) == nil
	})
	if got := scanAll(t, e); got["m/before"] != "x" || got["m/after"] != "x" || got[last] == "" {
		t.Errorf("%d entries", len(got))
	}
}

func TestABatchThatIsTooLarge(t *testing.T) {
	e := mustOpen(t, "store", &Options{FS: vfs.NewMem()})
	value := make([]byte, 1<<20)
	var b store.Batch
	for range maxBatch>>20 + 1 {
		b.Set([]byte("m/1"), value)
	}
	_, err := e.Apply(&b)
	fails(t, err, 413, "too large")
}

func TestRevisionsAreLeased(t *testing.T) {
	fs := vfs.NewMem()
	e := mustOpen(t, "store", &Options{FS: fs})
	var last store.Revision
	for i := range leaseSize + 10 {
		last = apply(t, e, "m/1", fmt.Sprint(i)).Revision
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, "store", &Options{FS: fs})
	if r := set(t, e, "m/1", "again"); r <= last || r > last+2*leaseSize {
		t.Errorf("revision %d after %d", r, last)
	}
}
