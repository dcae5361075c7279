package pebble

import (
	"sync"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// A group is batches that the library gets as one: they become durable together.
type group struct {
	batch   *crdb.Batch
	commits []*store.Commit
	touches []touch
	wants   int64 // the room that the library wants for it
}

// reset makes a group empty that is durable.
func (g *group) reset() {
	clear(g.commits)
	g.commits, g.touches, g.wants = g.commits[:0], g.touches[:0], 0
	if cap(g.touches) > maxGroup/8 {
		g.touches = nil // it had a very large batch
	}
	g.batch.Reset()
}

// A queue has the batches that are visible and not durable, in their order: those that
// the library has, and behind them the group that gathers.
//
// While the library waits for the disk there is no hurry to give it more. So what gathers
// stays there until the syncer has nothing else to wait for, unless there is much of it,
// or somebody wants to read from the library what is in it.
type queue struct {
	mu      sync.Mutex
	more    sync.Cond // told when there is a group to wait for
	gathers *group    // nil if there is nothing
	giving  *group    // it is being given to the library; or nil
	given   []*group
	alone   bool // the last group that became durable had one batch
	stopped bool
}

// take returns the group that gathers, or nil, and expects it to be given.
func (q *queue) take() *group {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giving, q.gathers = q.gathers, nil
	return q.giving
}

// settled reports whether the library has everything.
func (q *queue) settled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gathers == nil && q.giving == nil
}

// push adds a group that the library has.
func (q *queue) push(g *group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giving = nil
	q.given = append(q.given, g)
	if len(q.given) == 1 {
		q.more.Signal()
	}
}

// refused says that the library did not take the group that it was given.
func (q *queue) refused() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giving = nil
}

// front waits for a group that the library has and returns the first one, which stays in
// the queue. It returns nil when there won't be another one.
func (q *queue) front() *group {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.given) == 0 {
		if q.stopped {
			return nil
		}
		q.more.Wait()
	}
	return q.given[0]
}

// pop removes the first group. It reports whether something has gathered and nobody else
// will give it to the library.
func (q *queue) pop() (due bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alone = len(q.given[0].commits) == 1
	n := copy(q.given, q.given[1:])
	q.given[n] = nil
	q.given = q.given[:n]
	return q.idle() && q.gathers != nil
}

// idle reports whether the library has nothing to wait for. It is called with mu held.
func (q *queue) idle() bool { return len(q.given) == 0 && q.giving == nil }

// commits returns those of all batches, in their order.
func (q *queue) commits() (all []*store.Commit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.given {
		all = append(all, g.commits...)
	}
	for _, g := range []*group{q.giving, q.gathers} {
		if g != nil {
			all = append(all, g.commits...)
		}
	}
	return all
}

// last returns the commit of the last batch, or nil.
func (q *queue) last() *store.Commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.gathers
	if g == nil {
		g = q.giving
	}
	if g == nil && len(q.given) > 0 {
		g = q.given[len(q.given)-1]
	}
	if g == nil {
		return nil
	}
	return g.commits[len(g.commits)-1]
}

// stop says that nothing is pushed any more once the applier has ended.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.more.Broadcast()
}
