package pebble

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"kernos/store"
)

// A cache holds entries that were read, and keys that were found to be absent, so that most
// reads don't ask Pebble. Without it, Memory.Get of one key would not reach 0.70 of the
// speed of Ping, since a Get of Pebble costs as much as the rest of the message.
//
// The cache is set-associative: the hash of a key selects a set, which has a few entries. A
// set also counts its pending changes: those that are visible, but wait in the queue and are
// not in Pebble yet. A reader that misses in a set with pending changes applies the queue
// before it asks Pebble.
//
// A batch changes the cache in three steps:
//
//	begin    before the batch is visible: its keys leave the cache, and are pending
//	end      when it is visible: the keys that were cached come back with their new values
//	applied  when Pebble has the batch: its keys are no longer pending
//
// So no reader sees one key as the batch has set it and then another one as it was before.
// A reader that asked Pebble may cache the answer only if its set had no pending changes
// before, and no batch has begun there since; so a cached entry is never older than a change
// that a reader has seen.
type cache struct {
	seed maphash.Seed
	sets [cacheSets]cacheSet
}

const (
	cacheSets  = 2048
	cacheWays  = 4    // entries per set
	cachedSize = 1024 // bytes that an entry may have: 8 MB in all
)

type cacheSet struct {
	mu      sync.Mutex    // held to change the set
	pending atomic.Int32  // changes that are not in Pebble yet
	version atomic.Uint32 // grows with every change, after pending does
	evict   uint32        // selects the entry that is replaced next; guarded by mu
	entries [cacheWays]atomic.Pointer[store.Entry]
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

func (c *cache) setOf(key []byte) uint16 { return uint16(maphash.Bytes(c.seed, key) % cacheSets) }

// A miss is the state of a key's set before Pebble was asked for the key.
type miss struct {
	set     *cacheSet
	version uint32
	pending bool // Pebble does not have all changes of the set
}

// get returns the entry of a key, which is shared and must not be changed, or a miss.
func (c *cache) get(key []byte) (*store.Entry, miss) {
	s := &c.sets[c.setOf(key)]
	m := miss{set: s, version: s.version.Load()} // read before pending: see begin
	_, e := s.find(key)
	m.pending = e == nil && s.pending.Load() != 0
	return e, m
}

// put caches an entry that Pebble returned after a miss.
func (c *cache) put(e store.Entry, m miss) {
	if m.pending || len(e.Key)+len(e.Value) > cachedSize {
		return
	}
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	if m.set.version.Load() == m.version {
		m.set.store(e)
	}
}

// find returns the entry of a key and its place, or -1.
func (s *cacheSet) find(key []byte) (way int, e *store.Entry) {
	for way := range s.entries {
		if e := s.entries[way].Load(); e != nil && bytes.Equal(e.Key, key) {
			return way, e
		}
	}
	return -1, nil
}

// store copies an entry into the set: in place of the entry with its key, into a free
// place, or in place of another one. The caller holds mu.
func (s *cacheSet) store(e store.Entry) {
	way, _ := s.find(e.Key)
	for i := 0; way < 0 && i < cacheWays; i++ {
		if s.entries[i].Load() == nil {
			way = i
		}
	}
	if way < 0 {
		s.evict++
		way = int(s.evict % cacheWays)
	}
	n := len(e.Key)
	both := append(append(make([]byte, 0, n+len(e.Value)), e.Key...), e.Value...)
	s.entries[way].Store(&store.Entry{Key: both[:n:n], Value: both[n:], Revision: e.Revision})
}

// change notes a change of a key that is about to become visible, and reports whether the
// key was cached. A nil key stands for all keys of the set.
func (s *cacheSet) change(key []byte) (cached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.Add(1)
	s.version.Add(1)
	if key == nil {
		s.clear()
		return false
	}
	if way, _ := s.find(key); way >= 0 {
		s.entries[way].Store(nil)
		return true
	}
	return false
}

func (s *cacheSet) clear() {
	for way := range s.entries {
		s.entries[way].Store(nil)
	}
}

// A cacheChange is what one change of a batch means for the cache.
type cacheChange struct {
	set    uint16 // allSets for the deletion of a range
	cached bool   // the key was in the cache
}

const allSets = cacheSets

// begin is called before a batch is visible. Only one batch is between begin and end.
func (c *cache) begin(b *store.Batch, cacheChanges []cacheChange) []cacheChange {
	for _, op := range b.Ops {
		if op.Kind == store.OpDeleteRange {
			for i := range c.sets {
				c.sets[i].change(nil)
			}
			cacheChanges = append(cacheChanges, cacheChange{set: allSets})
			continue
		}
		set := c.setOf(op.Key)
		cacheChanges = append(cacheChanges, cacheChange{set, c.sets[set].change(op.Key)})
	}
	return cacheChanges
}

// end is called when a batch is visible.
func (c *cache) end(b *store.Batch, cacheChanges []cacheChange, r store.Revision) {
	for i, op := range b.Ops {
		if op.Kind == store.OpDeleteRange { // an earlier change of the batch may be in the range
			for i := range c.sets {
				c.sets[i].clear()
			}
			continue
		}
		s := &c.sets[cacheChanges[i].set]
		way, _ := s.find(op.Key) // an earlier change of the batch may have put the key there
		if way < 0 && !cacheChanges[i].cached && !checkedSoon(op.Key) {
			continue
		}
		if op.Kind == store.OpSet && len(op.Key)+len(op.Value) <= cachedSize {
			s.mu.Lock()
			s.store(store.Entry{Key: op.Key, Value: op.Value, Revision: r})
			s.mu.Unlock()
		} else if way >= 0 {
			s.entries[way].Store(nil)
		}
	}
}

// checkedSoon reports whether a key is cached when it is set, since the batch that ends a task has a
// condition on it. Without that, applying would wait until Pebble has all batches, for each task.
func checkedSoon(key []byte) bool { return key[0] == store.SpaceWork }

// applied is called when Pebble has the batches, or refused them.
func (c *cache) applied(cacheChanges []cacheChange) {
	for _, t := range cacheChanges {
		if t.set != allSets {
			c.sets[t.set].pending.Add(-1)
			continue
		}
		for i := range c.sets {
			c.sets[i].pending.Add(-1)
		}
	}
}
