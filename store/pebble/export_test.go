package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/store"
	"kernos/store/storetest"
)

func exported(t *testing.T, dir string) []store.Entry {
	t.Helper()
	var all []store.Entry
	err := Export(dir, t.TempDir(), func(e store.Entry) error {
		all = append(all, store.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), Revision: e.Revision})
		return nil
	})
	if err != nil {
		t.Fatalf("Export: %v", err)
	}
	return all
}

// nothing but the store is in its parent directory.
func alone(t *testing.T, dir string) {
	t.Helper()
	names, err := list(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != filepath.Base(dir) {
			t.Errorf("%s is left", name)
		}
	}
}

func TestExportWhileAProcessWrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var durable atomic.Int64
	started := make(chan struct{})
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait) // after the end of the process
	out, _ := child(t, "write", dir)
	reading.Go(func() {
		for first := true; ; first = false {
			s, err := out.ReadString('\n')
			if err != nil {
				return
			}
			var n int64
			_, _ = fmt.Sscan(s, &n)
			durable.Store(n)
			if first {
				close(started)
			}
		}
	})
	<-started
	for range storetest.Sized(20) {
		acknowledged := durable.Load()
		all := exported(t, dir)
		if len(all) == 0 {
			t.Fatal("nothing was exported")
		}
		// The process keeps the last 3000: they must be there without a gap.
		var first, last int64
		for i, e := range all {
			var n int64
			if _, err := fmt.Sscanf(string(e.Key), "m/%d", &n); err != nil {
				t.Fatalf("%q: %v", e.Key, err)
			}
			if i == 0 {
				first = n
			} else if n != last+1 {
				t.Fatalf("%d follows %d", n, last)
			}
			if !strings.HasPrefix(string(e.Value), fmt.Sprint(n)) || len(e.Value) < 2000 {
				t.Fatalf("%q has the value %.40q", e.Key, e.Value)
			}
			last = n
		}
		if last < acknowledged {
			t.Errorf("%d was acknowledged, and the export ends with %d", acknowledged, last)
		}
		if want := max(1, last-2999); first != want {
			t.Errorf("the export has %d to %d", first, last)
		}
	}
	alone(t, dir)
}

// overwritten is a file that is written over while it is read: after some reads all of it is new.
type overwritten struct {
	old   []byte
	reads int // how many reads see the old bytes
}

func (o *overwritten) ReadAt(b []byte, at int64) (int, error) {
	if o.reads--; o.reads < 0 {
		for i := range o.old {
			o.old[i] = 'n'
		}
	}
	n := copy(b, o.old[at:])
	return n, nil
}

type writer []byte

func (w writer) WriteAt(b []byte, at int64) (int, error) { return copy(w[at:], b), nil }

// A log that is used again is overtaken by its writer while it is copied.
func TestACopyOfALogHasNothingOldBeforeSomethingNew(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 4097, 100_000} {
		for reads := range 30 {
			out := make(writer, size)
			if err := copyBackwards(out, &overwritten{old: bytes.Repeat([]byte("o"), size), reads: reads}, int64(size)); err != nil {
				t.Fatal(err)
			}
			if text := strings.TrimRight(strings.TrimLeft(string(out), "n"), "o"); text != "" {
				t.Errorf("%d bytes, overtaken after %d reads: the copy has %d bytes of both in the middle", size, reads, len(text))
			}
		}
	}
}

func TestExportAndImport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	e := mustOpen(t, dir, nil)
	fillStore(t, e, 2000, 100)
	set(t, e, "m/empty", "")
	last := set(t, e, "a", "last")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	all := exported(t, dir)
	if len(all) != 2002 {
		t.Fatalf("%d entries", len(all))
	}
	alone(t, dir)

	to := filepath.Join(t.TempDir(), "new", "store")
	rest := all
	err := Import(to, func() (store.Entry, bool, error) {
		if len(rest) == 0 {
			return store.Entry{}, false, nil
		}
		entry := rest[0]
		rest = rest[1:]
		return entry, true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	alone(t, to)
	again := exported(t, to)
	if len(again) != len(all) {
		t.Fatalf("%d entries", len(again))
	}
	for i := range all {
		if string(all[i].Key) != string(again[i].Key) || string(all[i].Value) != string(again[i].Value) || all[i].Revision != again[i].Revision {
			t.Fatalf("%q@%d became %q@%d", all[i].Key, all[i].Revision, again[i].Key, again[i].Revision)
		}
	}
	if r := set(t, mustOpen(t, to, nil), "b", "new"); r <= last {
		t.Errorf("revision %d after %d", r, last)
	}
}

func TestImportThatFailsLeavesNothing(t *testing.T) {
	none := func() (store.Entry, bool, error) { return store.Entry{}, false, nil }
	broken := errors.New("the backup ends early")
	dir := filepath.Join(t.TempDir(), "store")
	n := 0
	err := Import(dir, func() (store.Entry, bool, error) {
		if n++; n > 3 {
			return store.Entry{}, false, broken
		}
		return store.Entry{Key: fmt.Append(nil, n), Value: noise(n, 100_000), Revision: 1}, true, nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	alone(t, dir)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a store: %v", err)
	}
	for _, entry := range []store.Entry{{Key: nil, Revision: 1}, {Key: []byte("\x00a"), Revision: 1}, {Key: []byte("a")}, {Key: []byte("a"), Revision: 1 << 63}} {
		fails(t, Import(dir, func() (store.Entry, bool, error) { return entry, true, nil }), 422)
	}
	alone(t, dir)

	if err := os.Mkdir(dir, 0o700); err != nil { // an empty one is as good as none
		t.Fatal(err)
	}
	if err := Import(dir, none); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	fails(t, Import(dir, none), 409, "already")
	unchanged(t, before, contents(t, dir))
	fails(t, Export(filepath.Join(dir, "nowhere"), t.TempDir(), nil), 404, "no store")

	// An export that its reader ends leaves nothing either, also beside a running store.
	e := mustOpen(t, dir, nil)
	set(t, e, "m/1", "one")
	if err := Export(dir, t.TempDir(), func(store.Entry) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	alone(t, dir)
}

func TestTemporaryDirectoriesOfTheDeadAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	e := mustOpen(t, dir, nil)
	set(t, e, "m/1", "one")
	if err := os.MkdirAll(filepath.Join(filepath.Dir(dir), ".store.export-4194305-1"), 0o700); err != nil { // above any pid
		t.Fatal(err)
	}
	if all := exported(t, dir); len(all) != 1 {
		t.Errorf("%d entries", len(all))
	}
	alone(t, dir)
}

// A copy that can't be made beside the store, since its disk is full, is made elsewhere.
func TestExportWhereThereIsNoRoomBesideTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	e := mustOpen(t, dir, nil)
	set(t, e, "m/1", "one")
	full, spare := filepath.Join(t.TempDir(), "full"), t.TempDir()
	if err := os.WriteFile(full, nil, 0o600); err != nil { // nothing can be made in it
		t.Fatal(err)
	}
	n := 0
	err := exportCopy(dir, []string{full, spare}, func(e store.Entry) error {
		if n++; string(e.Key) != "m/1" || string(e.Value) != "one" {
			t.Errorf("got %q: %q", e.Key, e.Value)
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("%d entries, %v", n, err)
	}
	if names, err := list(spare); err != nil || len(names) > 0 {
		t.Errorf("there is left %q, %v", names, err)
	}
	alone(t, dir)
	n = 0
	if err := exportReading(dir, spare, func(store.Entry) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("as on a disk that is read-only: %d entries, %v", n, err)
	}
	fails(t, exportCopy(dir, []string{full, full}, nil), 503, "can't be copied to "+full)
}
