package pebble

import (
	"math/bits"
	"sync/atomic"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// absence knows that keys are absent without asking the library, for which that is the
// dearest answer: whoever sets a key that is new looks for it, and for what it may have left,
// in vain.
//
// It has a filter while that is worth it: when many keys were looked for in vain, in few
// changes, tend begins one. From then on the keys of changes are added before the changes
// are visible, and meanwhile a goroutine adds the keys that the library has. When it has
// seen them all, a key that is not in the filter is absent. Keys that are deleted stay in
// it, so it fills up; then there is a new one if it was of use, else none.
//
// It says nothing of snapshots: they may have keys that were deleted before the filter was
// begun.
type absence struct {
	filter  atomic.Pointer[filter] // nil if there is none
	lookups atomic.Int64           // in vain, since the filter was begun, or should have been

	// Of whoever has the turn:
	since int   // keys that were added; changes, while there is no filter
	lines int   // of the next filter; 0 if there won't be one
	most  int   // lines that a filter may have
	after int64 // lookups that are worth the next filter
}

const (
	fewLines   = 128 << 10 / 64
	mostLines  = 2 << 20 / 64
	perLine    = 32   // keys that the library may have, and again that may be added: 16 bits a key, and at last 8
	fewLookups = 4096 // about what it costs to go through the keys for the smallest filter
	largeEntry = 512  // bytes; one that has more counts as several, since they are read
)

// A filter is a set of keys that may have others in it: a Bloom filter in which a key has
// its bits in one cache line.
type filter struct {
	lines []cacheLine // as many as a power of two
	shift int         // of a hash, to choose a line
	state atomic.Int32
}

type cacheLine [8]atomic.Uint64

// The states of a filter.
const (
	filling int32 = iota
	complete
	failed // it is too small, or can't be filled
)

func newFilter(lines int) *filter {
	return &filter{lines: make([]cacheLine, lines), shift: 64 - bits.TrailingZeros(uint(lines))}
}

// limit is how many keys the library may have, and how many may be added.
func (f *filter) limit() int { return len(f.lines) * perLine }

// places returns where a key has its bits: three in one word, three in another one.
func (f *filter) places(hash uint64) (one, two *atomic.Uint64, inOne, inTwo uint64) {
	l := &f.lines[hash>>f.shift]
	inOne = 1<<(hash>>4&63) | 1<<(hash>>10&63) | 1<<(hash>>16&63)
	inTwo = 1<<(hash>>22&63) | 1<<(hash>>28&63) | 1<<(hash>>34&63)
	return &l[hash&3], &l[4+hash>>2&3], inOne, inTwo
}

func (f *filter) has(hash uint64) bool {
	one, two, inOne, inTwo := f.places(hash)
	return one.Load()&inOne == inOne && two.Load()&inTwo == inTwo
}

// add adds a key, and reports whether it was not there.
func (f *filter) add(hash uint64) bool {
	if f.has(hash) {
		return false
	}
	one, two, inOne, inTwo := f.places(hash)
	one.Or(inOne)
	two.Or(inTwo)
	return true
}

// covers reports whether filters have a key. Those of the journal are many and large, and
// hardly ever looked for in vain.
func covers(key []byte) bool { return len(key) > 0 && key[0] != store.SpaceJournal }

// sure reports whether a key is known to be absent.
func (a *absence) sure(key []byte, hash uint64) bool {
	f := a.filter.Load()
	if f == nil || f.state.Load() != complete || !covers(key) || f.has(hash) {
		return false
	}
	a.lookups.Add(1)
	return true
}

// missed is told of a key that the library was asked for in vain.
func (a *absence) missed(key []byte) {
	if covers(key) {
		a.lookups.Add(1)
	}
}

// add is told of a key that is about to be set, by whoever has the turn.
func (a *absence) add(key []byte, hash uint64) {
	if f := a.filter.Load(); covers(key) && (f == nil || f.add(hash)) {
		a.since++
	}
}

// next returns a filter that has to be filled, if it is time for one. The caller has the
// turn, so every later change is added to it.
func (a *absence) next() *filter {
	f := a.filter.Load()
	period := a.lines * perLine
	if f != nil {
		state := f.state.Load()
		if state == filling || state == complete && a.since <= f.limit() {
			return nil
		}
		a.filter.Store(nil)
		switch {
		case a.lines < a.most:
			// One that does not fit is paid for by as many times the lookups as it is larger.
			a.lines, a.after = a.lines*4, a.after*4
		case state == failed:
			a.lines = 0
		}
	}
	worth := a.lookups.Load() >= a.after
	if a.lines == 0 || !worth && a.since <= period {
		return nil
	}
	a.since = 0
	a.lookups.Store(0)
	if !worth {
		return nil
	}
	f = newFilter(a.lines)
	a.filter.Store(f)
	return f
}

// tend sees to it that there is a filter if it is worth it. The caller has the turn.
func (e *Engine) tend() {
	if f := e.hot.absence.next(); f != nil {
		e.filling.Go(func() {
			if e.fill(f) {
				f.state.Store(complete)
			} else {
				f.state.Store(failed)
			}
		})
	}
}

// fill adds the keys of the library to a filter, and reports whether it has them all.
func (e *Engine) fill(f *filter) bool {
	e.flush() // the changes before the filter have gathered, at least

	// From behind the engine's own keys.
	it, err := e.db.NewIter(&crdb.IterOptions{LowerBound: []byte{1}})
	if err != nil {
		return false
	}
	defer func() { _ = it.Close() }() // its errors were those of the steps
	left := f.limit()
	for ok := it.First(); ok; {
		key := it.Key()
		if !covers(key) {
			ok = it.SeekGE([]byte{store.SpaceJournal + 1})
			continue
		}
		value := it.LazyValue()
		left -= 1 + (len(key)+value.Len())/largeEntry
		if left < 0 {
			return false
		}
		select {
		case <-e.closing:
			return false
		default:
		}
		f.add(e.hot.hash(key))
		ok = it.Next()
	}
	return it.Error() == nil
}
