package pebble

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"kernos/store"
)

// hot remembers entries that are read again and again, and keys that are absent: those that
// a handler reads before it stages a change, and that the change is conditional on. It also
// knows which keys have changes that the library has not got yet.
//
// A key has one place. Before a batch is visible, begin takes its keys out and marks their
// places: from then on, whoever does not find a key in a marked place gives the library
// what has gathered before they read there. Then the batch joins what has gathered, which
// is the moment that it becomes visible, and end puts its keys back as they are now; so
// nobody finds one that the batch has set, and then another one that it has replaced. When
// the library has the batch, seen takes the marks away.
//
// Whoever has read an entry may put it into its place only if that had no mark before they
// read, and no batch has begun there since. So an entry in a place is never older than a
// change that somebody has seen.
//
// A batch that deletes a range concerns all places: it begins an era, and entries of others
// don't count.
type hot struct {
	seed   maphash.Seed
	era    atomic.Uint32
	unseen atomic.Int32 // ranges that the library has not deleted yet
	places [hotPlaces]hotPlace
}

type hotPlace struct {
	mu     sync.Mutex    // held by begin and put
	age    atomic.Uint32 // batches that have begun here
	unseen atomic.Int32  // changes that the library has not got yet
	entry  atomic.Pointer[hotEntry]
}

type hotEntry struct {
	store.Entry
	era uint32
}

const (
	hotPlaces = 4096
	hotSize   = 1024 // bytes that an entry may have: 4 MB in all
)

func newHot() *hot { return &hot{seed: maphash.MakeSeed()} }

// A ticket is what a place was like before the library is asked for a key.
type ticket struct {
	place    *hotPlace
	age, era uint32
	marked   bool // the library has not got all changes yet
}

// get returns the entry of a key, which is shared and must not be changed, or a ticket to
// put it.
func (h *hot) get(key []byte) (store.Entry, ticket, bool) {
	p := &h.places[h.place(key)]
	t := ticket{place: p, age: p.age.Load(), era: h.era.Load()} // before the marks
	if e := p.entry.Load(); e != nil && e.era == t.era && bytes.Equal(e.Key, key) {
		return e.Entry, t, true
	}
	t.marked = p.unseen.Load() != 0 || h.unseen.Load() != 0
	return store.Entry{}, t, false
}

func (h *hot) place(key []byte) uint32 { return uint32(maphash.Bytes(h.seed, key) % hotPlaces) }

// put remembers an entry that was read with a ticket.
func (h *hot) put(e store.Entry, t ticket) {
	if t.marked || len(e.Key)+len(e.Value) > hotSize {
		return
	}
	kept := keep(e, t.era)
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	if t.place.age.Load() == t.age {
		t.place.entry.Store(kept)
	}
}

// keep copies an entry.
func keep(e store.Entry, era uint32) *hotEntry {
	both := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	n := len(e.Key)
	return &hotEntry{store.Entry{Key: both[:n:n], Value: both[n:], Revision: e.Revision}, era}
}

// A touch is what a change means to hot.
type touch struct {
	place uint32 // allPlaces if it deletes a range
	was   bool   // its key was remembered
}

const allPlaces = hotPlaces

// begin takes the keys of a batch out and marks their places. Whoever calls it has the
// turn, until end.
func (h *hot) begin(b *store.Batch, touches []touch) []touch {
	for _, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			h.era.Add(1)
			h.unseen.Add(1)
			touches = append(touches, touch{place: allPlaces})
			continue
		}
		place := h.place(op.Key)
		touches = append(touches, touch{place, h.places[place].begin(op.Key)})
	}
	return touches
}

func (p *hotPlace) begin(key []byte) (was bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age.Add(1)
	p.unseen.Add(1)
	if was = p.has(key); was {
		p.entry.Store(nil)
	}
	return was
}

func (p *hotPlace) has(key []byte) bool {
	e := p.entry.Load()
	return e != nil && bytes.Equal(e.Key, key)
}

// end puts the keys of a batch back that were there, when it is visible.
func (h *hot) end(b *store.Batch, touches []touch, r store.Revision) {
	for i, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			h.era.Add(1) // the batch may have set keys in it before
			continue
		}
		p := &h.places[touches[i].place]
		if touches[i].was && op.Kind == store.OpSet && len(op.Key)+len(op.Value) <= hotSize {
			p.entry.Store(keep(store.Entry{Key: op.Key, Value: op.Value, Revision: r}, h.era.Load()))
		} else if p.has(op.Key) {
			p.entry.Store(nil) // the batch has set it before
		}
	}
}

// seen takes the marks of batches away that the library has got, or never will.
func (h *hot) seen(touches []touch) {
	for _, t := range touches {
		if t.place == allPlaces {
			h.unseen.Add(-1)
		} else {
			h.places[t.place].unseen.Add(-1)
		}
	}
}
