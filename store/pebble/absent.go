package pebble

import (
	"hash/maphash"
	"sync/atomic"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// absence knows of keys that are absent without asking Pebble, for which that is the most
// expensive answer. A command that sets a new key looks for two keys in vain. Without
// absence, Memory.Set of new keys over 64 connections takes 1.7 to 2.8 times the CPU time
// (BenchmarkSet64New in bench).
//
// It is a Bloom filter, which is made when enough keys were looked for in vain. From then on
// the keys of all batches are added to it before the batches are visible, and a goroutine
// adds the keys that Pebble has. When the filter has them all, a key that is not in it is
// absent. Deleted keys stay in the filter, so it fills up; then it is dropped, and made
// again when that pays off. Snapshots don't use it: they may have keys that were deleted
// before the filter was made.
type absence struct {
	filter    atomic.Pointer[filter] // nil if there is none
	missed    atomic.Int64           // lookups in vain since the last filter was dropped
	threshold int64                  // lookups in vain that pay for a filter; guarded by Engine.applyLock
	limit     int                    // keys that Pebble may have, and again that may be added
}

const (
	filterWords     = 1 << 18               // 64-bit words: 2 MB
	filterLimit     = filterWords * 64 / 16 // keys: with twice as many, 2 % of absent keys are not recognised
	filterThreshold = 4096                  // lookups in vain that cost about as much as to read all keys
	filterProbes    = 4                     // bits per key
	largeEntry      = 512                   // bytes; a larger entry counts as several keys, since it is read as well
)

func newAbsence() *absence { return &absence{threshold: filterThreshold, limit: filterLimit} }

// A filter is a set of keys that may have other keys in it.
type filter struct {
	seed  maphash.Seed
	words []atomic.Uint64
	state atomic.Int32
	added int // keys that batches have added; guarded by Engine.applyLock
}

// The states of a filter.
const (
	filling int32 = iota
	complete
	failed // Pebble has too many keys, or can't be read
)

// bit returns one of the bits of a key.
func (f *filter) bit(hash uint64, probe int) (word *atomic.Uint64, mask uint64) {
	at := hash + uint64(probe)*(hash>>32|1) // double hashing
	return &f.words[at>>6%filterWords], 1 << (at & 63)
}

func (f *filter) has(key []byte) bool {
	hash := maphash.Bytes(f.seed, key)
	for probe := range filterProbes {
		if word, mask := f.bit(hash, probe); word.Load()&mask == 0 {
			return false
		}
	}
	return true
}

// add adds a key, and reports whether the filter did not have it.
func (f *filter) add(key []byte) (added bool) {
	hash := maphash.Bytes(f.seed, key)
	for probe := range filterProbes {
		if word, mask := f.bit(hash, probe); word.Load()&mask == 0 {
			word.Or(mask)
			added = true
		}
	}
	return added
}

// covers reports whether the filter has the keys of a keyspace. Those of the journal are
// many and large, and hardly ever looked for in vain.
func covers(key []byte) bool { return len(key) > 0 && key[0] != store.SpaceJournal }

// sure reports whether a key is known to be absent.
func (a *absence) sure(key []byte) bool {
	f := a.filter.Load()
	return f != nil && f.state.Load() == complete && covers(key) && !f.has(key)
}

// miss notes a key that Pebble was asked for in vain.
func (a *absence) miss(key []byte) {
	if covers(key) {
		a.missed.Add(1)
	}
}

// add adds the keys of a batch that is about to become visible. It makes a filter if that
// pays off, and returns it for fill; and it drops a filter that is full. The caller holds
// applyLock, so all later batches are added to a new filter.
func (a *absence) add(b *store.Batch) (fresh *filter) {
	f := a.filter.Load()
	if f == nil {
		if a.missed.Load() < a.threshold {
			return nil
		}
		fresh = &filter{seed: maphash.MakeSeed(), words: make([]atomic.Uint64, filterWords)}
		f = fresh
		a.filter.Store(f)
		a.missed.Store(0)
	}
	for _, op := range b.Ops {
		if op.Kind == store.OpSet && covers(op.Key) && f.add(op.Key) {
			f.added++
		}
	}
	switch state := f.state.Load(); {
	case state == failed:
		a.threshold *= 16
		a.filter.Store(nil)
	case state == complete && f.added > a.limit:
		a.filter.Store(nil)
	}
	return fresh
}

// fill adds the keys of Pebble to a filter.
func (e *Engine) fill(f *filter) {
	e.flush() // the batches before the filter are in the queue at least
	state := failed
	if e.addAll(f) {
		state = complete
	}
	f.state.Store(state)
}

// addAll reports whether it has added all keys.
func (e *Engine) addAll(f *filter) bool {
	it, err := e.db.NewIter(&crdb.IterOptions{LowerBound: []byte{1}}) // the engine's own keys come before this
	if err != nil {
		return false
	}
	defer func() { _ = it.Close() }() // the steps have returned the iterator's errors
	left := e.absence.limit
	for ok := it.First(); ok; {
		key := it.Key()
		if !covers(key) {
			ok = it.SeekGE([]byte{store.SpaceJournal + 1})
			continue
		}
		value := it.LazyValue()
		if left -= 1 + (len(key)+value.Len())/largeEntry; left < 0 {
			return false
		}
		select {
		case <-e.closing:
			return false
		default:
		}
		f.add(key)
		ok = it.Next()
	}
	return it.Error() == nil
}
