package pebble

import (
	"sync"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// maxGroup is the size, in bytes, at which a writer gives the open group to Pebble instead of leaving
// it to the syncer.
const maxGroup = 256 << 10

// A group is a number of batches that Pebble gets as one. They become durable together.
type group struct {
	batch        *crdb.Batch
	commits      []*store.Commit
	cacheChanges []cacheChange
	space        int64 // bytes that Pebble needs for it in its table in memory

	// With a publisher: see publish.go.
	before []prior
	number uint64
	first  bool // it is published before Pebble gets it
}

func (g *group) reset() {
	clear(g.commits)
	g.commits, g.cacheChanges, g.space = g.commits[:0], g.cacheChanges[:0], 0
	clear(g.before)
	g.before, g.first = g.before[:0], false
	if cap(g.cacheChanges) > maxGroup/8 {
		g.cacheChanges, g.before = nil, nil // grown by a very large batch
	}
	g.batch.Reset()
}

// A queue has the batches that are visible and not durable, in their order: groups that
// Pebble has, the group that it is being given, and the open group, which batches join. Batches
// that come while the disk is busy become one of Pebble's, which costs less than many. A single
// writer passes its batch on itself, and saves the change of goroutines.
type queue struct {
	mu       sync.Mutex
	news     sync.Cond // wakes the syncer when there is something to do
	open     *group    // the group that batches join, or nil
	applying *group    // the group that Pebble is being given, or nil
	applied  []*group  // groups that Pebble has, and that may not be durable yet
	single   bool      // the last durable group had one batch: there is one writer
	stopped  bool
}

// take takes the open group, or nil, to be given to Pebble.
func (q *queue) take() *group {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.applying, q.open = q.open, nil
	return q.applying
}

// settled reports whether Pebble has everything.
func (q *queue) settled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open == nil && q.applying == nil
}

// given notes that Pebble has taken the group that it was given, or refused it.
func (q *queue) given(g *group, taken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.applying = nil
	if taken {
		q.applied = append(q.applied, g)
	}
	q.news.Signal()
}

// next waits for work of the syncer: the first group that Pebble has, which stays in the
// queue, or nil if there is only an open group to be given to Pebble. It returns false when
// there will be no more work.
func (q *queue) next() (*group, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case len(q.applied) > 0:
			return q.applied[0], true
		case q.open != nil:
			return nil, true
		case q.stopped && q.applying == nil:
			return nil, false
		}
		q.news.Wait()
	}
}

// pop removes the first group, which is durable or has failed.
func (q *queue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.single = len(q.applied[0].commits) == 1
	n := copy(q.applied, q.applied[1:])
	q.applied[n] = nil
	q.applied = q.applied[:n]
}

// idle reports whether the syncer has nothing to wait for. The caller holds mu.
func (q *queue) idle() bool { return len(q.applied) == 0 && q.applying == nil }

func (q *queue) groups() []*group {
	all := append([]*group(nil), q.applied...)
	for _, g := range []*group{q.applying, q.open} {
		if g != nil {
			all = append(all, g)
		}
	}
	return all
}

// commits returns the commits of all batches, in their order.
func (q *queue) commits() (all []*store.Commit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.groups() {
		all = append(all, g.commits...)
	}
	return all
}

// last returns the commit of the last batch, or nil.
func (q *queue) last() *store.Commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.groups()
	if len(all) == 0 {
		return nil
	}
	commits := all[len(all)-1].commits
	return commits[len(commits)-1]
}

// stop ends the syncer when the queue is empty.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.news.Signal()
}
