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
// A key has one place, which it shares with few others. Before a batch is visible, begin takes its keys out and marks their
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
	seed    maphash.Seed
	era     atomic.Uint32
	unseen  atomic.Int32 // ranges that the library has not deleted yet
	absence absence
	places  [hotPlaces]hotPlace
}

type hotPlace struct {
	mu      sync.Mutex    // held by begin and put
	age     atomic.Uint32 // batches that have begun here
	unseen  atomic.Int32  // changes that the library has not got yet
	next    uint32        // the entry that goes when there are too many; guarded by mu
	entries [hotWays]atomic.Pointer[hotEntry]
}

type hotEntry struct {
	store.Entry
	era uint32
}

const (
	hotPlaces = 2048
	hotWays   = 4    // entries that a place has
	hotSize   = 1024 // bytes that an entry may have: 8 MB in all
)

func newHot() *hot {
	return &hot{
		seed:    maphash.MakeSeed(),
		absence: absence{lines: fewLines, most: mostLines, after: fewLookups},
	}
}

// A ticket is what a place was like before the library is asked for a key.
type ticket struct {
	place    *hotPlace
	age, era uint32
	marked   bool // the library has not got all changes yet
}

// get returns the entry of a key, which is shared and must not be changed, or an empty one
// if the key is known to be absent, or a ticket to put it.
func (h *hot) get(key []byte) (store.Entry, ticket, bool) {
	hash := h.hash(key)
	if h.absence.sure(key, hash) {
		return store.Entry{}, ticket{}, true
	}
	p := &h.places[place(hash)]
	t := ticket{place: p, age: p.age.Load(), era: h.era.Load()} // before the marks
	if way := p.find(key); way >= 0 {
		if e := p.entries[way].Load(); e != nil && e.era == t.era && bytes.Equal(e.Key, key) {
			return e.Entry, t, true
		}
	}
	t.marked = p.unseen.Load() != 0 || h.unseen.Load() != 0
	return store.Entry{}, t, false
}

func (h *hot) hash(key []byte) uint64 { return maphash.Bytes(h.seed, key) }

func place(hash uint64) uint16 { return uint16(hash % hotPlaces) }

// put remembers an entry that was read with a ticket.
func (h *hot) put(e store.Entry, t ticket) {
	if t.marked || len(e.Key)+len(e.Value) > hotSize {
		return
	}
	kept := keep(e, t.era)
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	if t.place.age.Load() == t.age {
		t.place.entries[t.place.choose(e.Key)].Store(kept)
	}
}

// find returns which entry is that of a key, or -1.
func (p *hotPlace) find(key []byte) int {
	for way := range p.entries {
		if e := p.entries[way].Load(); e != nil && bytes.Equal(e.Key, key) {
			return way
		}
	}
	return -1
}

// choose returns which entry a key that is put gets: its own, an empty one, or that of one
// that goes. It is called with mu held.
func (p *hotPlace) choose(key []byte) int {
	if way := p.find(key); way >= 0 {
		return way
	}
	for way := range p.entries {
		if p.entries[way].Load() == nil {
			return way
		}
	}
	p.next++
	return int(p.next % hotWays)
}

// keep copies an entry.
func keep(e store.Entry, era uint32) *hotEntry {
	both := append(append(make([]byte, 0, len(e.Key)+len(e.Value)), e.Key...), e.Value...)
	n := len(e.Key)
	return &hotEntry{store.Entry{Key: both[:n:n], Value: both[n:], Revision: e.Revision}, era}
}

// A touch is what a change means to hot.
type touch struct {
	place uint16 // allPlaces if it deletes a range
	way   int8   // the entry that its key had; -1 if it was not remembered
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
		hash := h.hash(op.Key)
		if op.Kind == store.OpSet {
			h.absence.add(op.Key, hash)
		}
		at := place(hash)
		touches = append(touches, touch{at, h.places[at].begin(op.Key)})
	}
	return touches
}

// begin takes a key out, if it is there, and returns which entry it had.
func (p *hotPlace) begin(key []byte) int8 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age.Add(1)
	p.unseen.Add(1)
	way := p.find(key)
	if way >= 0 {
		p.entries[way].Store(nil)
	}
	return int8(way)
}

// end puts the keys of a batch back that were there, when it is visible. Nothing is put into
// their places between begin and end: those who read before are too late, and those who read
// now find marks.
func (h *hot) end(b *store.Batch, touches []touch, r store.Revision) {
	for i, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			h.era.Add(1) // the batch may have set keys in it before
			continue
		}
		p, way := &h.places[touches[i].place], int(touches[i].way)
		if way < 0 {
			// A batch may name a key more than once. Only the first time finds it.
			if way = p.find(op.Key); way < 0 {
				continue
			}
		}
		if op.Kind == store.OpSet && len(op.Key)+len(op.Value) <= hotSize {
			p.entries[way].Store(keep(store.Entry{Key: op.Key, Value: op.Value, Revision: r}, h.era.Load()))
		} else {
			p.entries[way].Store(nil)
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
