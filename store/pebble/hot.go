package pebble

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"kernos/store"
)

// hot remembers entries that are read again and again, and keys that are absent: those that
// a handler reads before it stages a change, and that the change is conditional on.
//
// A key has one place. Whoever changes a key makes its place older, when the change is
// visible, and takes the old entry out of it. Whoever has read an entry may put it into
// its place only if that is as old as it was before the read; so an entry in a place is
// never older than a change that somebody has been told of.
type hot struct {
	seed   maphash.Seed
	places [hotPlaces]hotPlace
}

type hotPlace struct {
	mu    sync.Mutex // held to change what follows
	age   atomic.Uint32
	entry atomic.Pointer[store.Entry]
}

const (
	hotPlaces = 4096
	hotSize   = 1024 // bytes that an entry may have: 4 MB in all
)

func newHot() *hot { return &hot{seed: maphash.MakeSeed()} }

func (h *hot) place(key []byte) int { return int(maphash.Bytes(h.seed, key) % hotPlaces) }

// get returns the entry of a key, which is shared and must not be changed.
func (h *hot) get(key []byte) (store.Entry, bool) {
	e := h.places[h.place(key)].entry.Load()
	if e == nil || !bytes.Equal(e.Key, key) {
		return store.Entry{}, false
	}
	return *e, true
}

// age is to be asked before a key is read, for put.
func (h *hot) age(key []byte) uint32 { return h.places[h.place(key)].age.Load() }

// put remembers an entry that was read when its place had this age.
func (h *hot) put(e store.Entry, age uint32) {
	if len(e.Key)+len(e.Value) > hotSize {
		return
	}
	p := &h.places[h.place(e.Key)]
	kept := keep(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.age.Load() == age {
		p.entry.Store(kept)
	}
}

// keep copies an entry.
func keep(e store.Entry) *store.Entry {
	both := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	n := len(e.Key)
	return &store.Entry{Key: both[:n:n], Value: both[n:], Revision: e.Revision}
}

// forget forgets what a batch has changed.
func (h *hot) forget(b *store.Batch) { h.change(b, 0) }

// changed forgets what a batch has changed, when it is visible. Keys that were remembered
// are remembered as they are now.
func (h *hot) changed(b *store.Batch, r store.Revision) { h.change(b, r) }

func (h *hot) change(b *store.Batch, r store.Revision) {
	for _, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			for i := range h.places {
				h.places[i].renew(nil)
			}
			continue
		}
		p := &h.places[h.place(op.Key)]
		e := p.entry.Load() // only whoever changes something, one at a time, makes it older
		switch {
		case e == nil || !bytes.Equal(e.Key, op.Key):
			p.renew(e)
		case op.Kind == store.OpSet && r != 0 && len(op.Key)+len(op.Value) <= hotSize:
			p.renew(keep(store.Entry{Key: op.Key, Value: op.Value, Revision: r}))
		default:
			p.renew(nil)
		}
	}
}

// renew makes a place older and gives it another entry.
func (p *hotPlace) renew(e *store.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age.Add(1)
	p.entry.Store(e)
}
