package pebble

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"kernos/store"
)

// hot remembers entries that are read again and again, and keys that are absent: those that
// a handler reads before it stages a change, and that the change is conditional on.
//
// A key has one place. What is in a place is valid as long as the place has the age that
// it had when the entry was read; whoever changes a key makes its place older after the
// change is visible, so that a reader who has read the old entry before can't put it there
// for longer.
type hot struct {
	seed   maphash.Seed
	places [hotPlaces]struct {
		age   atomic.Uint32
		entry atomic.Pointer[hotEntry]
	}
}

type hotEntry struct {
	age uint32
	store.Entry
}

const (
	hotPlaces = 4096
	hotSize   = 1024 // bytes that an entry may have: 4 MB in all
)

func newHot() *hot { return &hot{seed: maphash.MakeSeed()} }

func (h *hot) place(key []byte) int { return int(maphash.Bytes(h.seed, key) % hotPlaces) }

// get returns the entry of a key, which is shared and must not be changed.
func (h *hot) get(key []byte) (store.Entry, bool) {
	p := &h.places[h.place(key)]
	e := p.entry.Load()
	if e == nil || e.age != p.age.Load() || !bytes.Equal(e.Key, key) {
		return store.Entry{}, false
	}
	return e.Entry, true
}

// age is to be asked before a key is read, for put.
func (h *hot) age(key []byte) uint32 { return h.places[h.place(key)].age.Load() }

// put remembers an entry that was read when its place had this age.
func (h *hot) put(e store.Entry, age uint32) {
	if len(e.Key)+len(e.Value) > hotSize {
		return
	}
	both := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	n := len(e.Key)
	h.places[h.place(e.Key)].entry.Store(&hotEntry{age, store.Entry{Key: both[:n:n], Value: both[n:], Revision: e.Revision}})
}

// forget forgets what a batch has changed.
func (h *hot) forget(b *store.Batch) {
	for _, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			for i := range h.places {
				h.places[i].age.Add(1)
			}
			continue
		}
		h.places[h.place(op.Key)].age.Add(1)
	}
}

// changed forgets what a batch has changed. It is called by whoever has the turn, when
// the batch is visible. What was read for the batch is remembered as it is now.
func (h *hot) changed(b *store.Batch, r store.Revision) {
	for _, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			for i := range h.places {
				h.places[i].age.Add(1)
			}
			continue
		}
		p := &h.places[h.place(op.Key)]
		age := p.age.Add(1)
		if e := p.entry.Load(); op.Kind == store.OpSet && e != nil && bytes.Equal(e.Key, op.Key) {
			h.put(store.Entry{Key: op.Key, Value: op.Value, Revision: r}, age)
		}
	}
}
