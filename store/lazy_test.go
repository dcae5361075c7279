package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/store"
	"kernos/store/storetest"
)

// calls does each thing that needs an open store.
var calls = map[string]func(store.Store) error{
	"Get": func(s store.Store) error {
		_, err := s.Get([]byte("m/1"))
		return err
	},
	"Scan": func(s store.Store) error {
		for _, err := range s.Scan(store.Range{}) {
			return err
		}
		return nil
	},
	"Snapshot": func(s store.Store) error {
		snapshot, err := s.Snapshot()
		if err != nil {
			return err
		}
		return snapshot.Close()
	},
	"Apply": func(s store.Store) error {
		var b store.Batch
		b.Set([]byte("m/1"), nil)
		_, err := s.Apply(&b)
		return err
	},
}

func TestLazyOpensOnce(t *testing.T) {
	for name, call := range calls {
		var opened atomic.Int32
		s := store.Lazy(func() (store.Store, error) {
			opened.Add(1)
			return storetest.NewMemory(), nil
		})
		if opened.Load() != 0 {
			t.Errorf("%s: opened before it was needed", name)
		}
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				if err := call(s); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		group.Wait()
		if n := opened.Load(); n != 1 {
			t.Errorf("%s: opened %d times", name, n)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		if err := call(s); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

func TestLazyTriesAgain(t *testing.T) {
	busy := store.Errorf(503, nil, "Another process has it")
	for name, call := range calls {
		err := error(busy)
		s := store.Lazy(func() (store.Store, error) { return storetest.NewMemory(), err })
		for range 3 {
			if got := call(s); !errors.Is(got, busy) {
				t.Errorf("%s: %v, want %v", name, got, busy)
			}
		}
		w := s.Watch(nil) // tells of nothing, and can be stopped
		w.Stop()
		err = nil
		if got := call(s); got != nil {
			t.Errorf("%s: it can be opened now: %v", name, got)
		}
	}
}

func TestLazyIsNotOpenedFor(t *testing.T) {
	s := store.Lazy(func() (store.Store, error) {
		t.Error("opened")
		return storetest.NewMemory(), nil
	})
	if done, err := s.Barrier().Resolved(); !done || err != nil {
		t.Errorf("the barrier of a store that wasn't needed: %t, %v", done, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for name, call := range calls {
		if err := call(s); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s of a store that was closed before it was opened: %v", name, err)
		}
	}
}

func TestLazyPassesOn(t *testing.T) {
	m := storetest.NewMemory()
	m.Manual()
	s := store.Lazy(func() (store.Store, error) { return m, nil })
	w := s.Watch([]byte("m/"))
	defer w.Stop()
	if err := calls["Apply"](s); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.C:
	default:
		t.Error("the watcher was not told")
	}
	barrier := s.Barrier()
	if done, _ := barrier.Resolved(); done {
		t.Error("the barrier of an open store does not wait")
	}
	if err := m.Sync(); err != nil {
		t.Fatal(err)
	}
	if done, err := barrier.Resolved(); !done || err != nil {
		t.Errorf("the barrier: %t, %v", done, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get([]byte("m/1")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the store itself was not closed: %v", err)
	}
}
