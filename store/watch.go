package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Watcher reports that something under a prefix has changed. It does not report what: its
// reader looks, from where it last was, so that nothing is missed or seen twice
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

// Watchers is the part of an engine that notifies its watchers. The zero value has none.
type Watchers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*Watcher] // never changed, only replaced
}

func (ws *Watchers) all() []*Watcher {
	if list := ws.list.Load(); list != nil {
		return *list
	}
	return nil
}

// Watch adds a watcher.
func (ws *Watchers) Watch(prefix []byte) *Watcher {
	c := make(chan struct{}, 1)
	w := &Watcher{C: c, c: c, prefix: slices.Clone(prefix), all: ws}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	list := append(slices.Clone(ws.all()), w)
	ws.list.Store(&list)
	return w
}

func (ws *Watchers) remove(w *Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(ws.all()), func(o *Watcher) bool { return o == w })
	ws.list.Store(&list)
}

// Notify notifies the watchers of a batch that has become visible.
func (ws *Watchers) Notify(b *Batch) {
	for _, w := range ws.all() {
		if len(w.c) == 0 && b.touches(w.prefix) {
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
}
