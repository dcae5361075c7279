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
// A key has one place, which has an age. It is odd while a batch with a key of that place
// is made visible, and even otherwise. Before a batch is visible its keys are taken out;
// then nobody finds an entry that the batch has replaced beside another one that it has
// set. Whoever has read an entry may put it into its place only if that is as old as it
// was before the read, and even; so an entry in a place is never older than a change that
// somebody has seen.
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
	if age%2 == 0 && p.age.Load() == age {
		p.entry.Store(kept)
	}
}

// keep copies an entry.
func keep(e store.Entry) *store.Entry {
	both := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	n := len(e.Key)
	return &store.Entry{Key: both[:n:n], Value: both[n:], Revision: e.Revision}
}

// begin takes the keys of a batch out, before it is visible. It returns which of them were
// there. Whoever calls it has the turn, until end.
func (h *hot) begin(b *store.Batch, were []bool) []bool {
	were = were[:0]
	for _, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			for i := range h.places {
				h.places[i].begin(nil)
			}
			were = append(were, false)
			continue
		}
		were = append(were, h.places[h.place(op.Key)].begin(op.Key))
	}
	return were
}

// begin makes a place odd and takes a key out of it, or whatever is in it if the key is
// nil. It reports whether it was there.
func (p *hotPlace) begin(key []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age.Store(p.age.Load() | 1)
	e := p.entry.Load()
	if e == nil || key != nil && !bytes.Equal(e.Key, key) {
		return false
	}
	p.entry.Store(nil)
	return true
}

// end makes places even again, when the batch is visible, or when it is known that it will
// not be. Keys that were there are there again, as they are now; r is 0 if that is not
// known.
func (h *hot) end(b *store.Batch, were []bool, r store.Revision) {
	for i, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			for i := range h.places {
				h.places[i].end(nil, nil)
			}
			continue
		}
		var e *store.Entry
		if r != 0 && were[i] && op.Kind == store.OpSet && len(op.Key)+len(op.Value) <= hotSize {
			e = keep(store.Entry{Key: op.Key, Value: op.Value, Revision: r})
		}
		h.places[h.place(op.Key)].end(op.Key, e)
	}
}

// end makes a place even. What it has of a key, or of any if that is nil, goes: a batch
// may change a key twice. An entry that is not nil comes.
func (p *hotPlace) end(key []byte, e *store.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := p.age.Load(); age%2 == 1 {
		p.age.Store(age + 1)
	}
	old := p.entry.Load()
	if e != nil || old != nil && (key == nil || bytes.Equal(old.Key, key)) {
		p.entry.Store(e)
	}
}
