package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Watcher tells that something under a prefix has changed. It does not tell what: who
// is told looks, from where they last were, so that nothing is missed or seen twice
// however many changes fall together.
type Watcher struct {
	// C gets a token after a change; one token stands for any number of changes.
	C <-chan struct{}

	c      chan struct{}
	prefix []byte
	all    *Watchers
}

// Stop ends the watcher. C is not closed.
func (w *Watcher) Stop() { w.all.remove(w) }

// Watchers is the part of an engine that tells its watchers. The zero value has none.
type Watchers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*Watcher] // never changed, only replaced
}

// Watch adds a watcher.
func (ws *Watchers) Watch(prefix []byte) *Watcher {
	c := make(chan struct{}, 1)
	w := &Watcher{C: c, c: c, prefix: slices.Clone(prefix), all: ws}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var list []*Watcher
	if old := ws.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, w)
	ws.list.Store(&list)
	return w
}

func (ws *Watchers) remove(w *Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	old := ws.list.Load()
	if old == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), func(o *Watcher) bool { return o == w })
	ws.list.Store(&list)
}

// Tell tells the watchers of a batch that has become visible.
func (ws *Watchers) Tell(b *Batch) {
	list := ws.list.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		if len(w.c) == 0 && b.touches(w.prefix) {
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
}
