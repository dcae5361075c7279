package store

import (
	"sync"
	"testing"
)

func tokens(w *Watcher) int {
	select {
	case <-w.C:
		return 1 + tokens(w)
	default:
		return 0
	}
}

func TestWatchers(t *testing.T) {
	var all Watchers
	change := &Batch{Ops: []Op{{OpSet, []byte("m/1"), nil}}}
	all.Notify(change) // no watcher is there

	prefix := []byte("m/")
	memory, journal, every := all.Watch(prefix), all.Watch([]byte("j/")), all.Watch(nil)
	prefix[0] = 'j' // it was copied
	for range 5 {
		all.Notify(change)
	}
	if n := tokens(memory); n != 1 {
		t.Errorf("five changes are %d tokens, want 1", n)
	}
	if n := tokens(journal); n != 0 {
		t.Errorf("a change elsewhere is %d tokens", n)
	}
	if n := tokens(every); n != 1 {
		t.Errorf("the watcher of everything has %d tokens", n)
	}
	all.Notify(change)
	memory.Stop()
	memory.Stop()
	tokens(memory)
	all.Notify(change)
	if n := tokens(memory); n != 0 {
		t.Errorf("a stopped watcher has %d tokens", n)
	}
	if n := tokens(every); n != 1 {
		t.Errorf("after another was stopped the watcher has %d tokens", n)
	}
	journal.Stop()
	every.Stop()
	if n := len(*all.list.Load()); n != 0 {
		t.Errorf("%d watchers are kept", n)
	}
}

func TestWatchersConcurrent(t *testing.T) {
	var all Watchers
	change := &Batch{Ops: []Op{{OpSet, []byte("m/1"), nil}}}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				w := all.Watch([]byte("m/"))
				all.Notify(change)
				<-w.C // a change after Watch has returned is never missed
				w.Stop()
			}
		})
	}
	group.Wait()
	if n := len(*all.list.Load()); n != 0 {
		t.Errorf("%d watchers are kept", n)
	}
}
