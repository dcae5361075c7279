package pebble

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// maxPending is how many batches may be visible and not durable. Pebble has 4095
// places for groups of them and waits when they are taken; Apply waits before, where it can
// be woken if the disk fails.
const maxPending = 4064

// leaseSize is how many revisions are reserved at a time. After a restart, revisions
// begin after the reservation, so that none is given twice.
const leaseSize = 1 << 14

// stuckAfter is how long a batch may take to become visible while the disk fails. A log
// that fails does not keep it from that; a new log that can't be made does, and so does a
// flush that Pebble waits for.
const stuckAfter = 500 * time.Millisecond

// maxBatch is how many bytes a batch may have.
const maxBatch = 1 << 30

// Apply makes a batch part of the state. See [store.Store].
func (e *Engine) Apply(b *store.Batch) (*store.Commit, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	size := 0
	for _, op := range b.Ops {
		size += len(op.Key) + len(op.Value) + 2*binary.MaxVarintLen64
	}
	if size > maxBatch {
		return nil, store.Errorf(413, nil, "A batch of %d bytes is too large; the store takes %d", size, maxBatch)
	}
	c := e.health.now.Load()
	if c.err != nil {
		return nil, e.refusal(c.err)
	}
	if err := e.enter(e.slots, c); err != nil {
		return nil, err
	}
	if err := e.enter(e.applyLock, c); err != nil {
		<-e.slots
		return nil, err
	}
	if err := e.check(b.Conditions); err != nil || b.Empty() {
		<-e.applyLock
		<-e.slots
		if err != nil {
			return nil, err
		}
		return e.Barrier(), nil // nothing but conditions, and they hold
	}
	e.revision++
	commit := store.NewCommit(e.revision)
	if e.publishing != nil {
		e.lookBack(b)
	}
	if f := e.absence.add(b); f != nil {
		e.filling.Go(func() { e.fill(f) })
	}
	e.cacheChanges = e.cache.begin(b, e.cacheChanges[:0])
	takes, wants := spaceFor(b, size)
	first := false
	if e.publishing != nil {
		takes, wants = 2*takes, 2*wants // with its undo record
		first = e.publishing.precedes(b, size)
	}
	if room := e.memtable.take(takes, wants); !room || first {
		return e.applyAlone(b, commit, c, !room && !e.memtable.large(wants), first)
	}
	due := e.join(b, commit, wants)
	e.cache.end(b, e.cacheChanges, commit.Revision)
	<-e.applyLock
	if due {
		e.flush()
	}
	// If the disk began to fail meanwhile, the monitor may not have seen this batch.
	if failing := e.health.err(); failing != nil {
		commit.Resolve(failing)
	}
	e.opts.Watchers.Notify(b)
	return commit, nil
}

// check checks the conditions of a batch. The caller holds applyLock.
func (e *Engine) check(conditions []store.Condition) error {
	for _, c := range conditions {
		entry, err := e.latest(c.Key)
		if err != nil {
			return err
		}
		if entry.Revision != c.Revision {
			return store.ErrConflict
		}
	}
	return nil
}

// join adds a batch to the open group, which makes it visible. It reports whether the caller
// has to give the group to Pebble, because it is large, or because there is one writer, and
// waking the syncer would only make it wait longer. The caller holds applyLock.
func (e *Engine) join(b *store.Batch, c *store.Commit, space int64) (due bool) {
	q := &e.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.open == nil
	if first {
		q.open = e.newGroup()
	}
	e.encode(q.open, b, c, space)
	if first && q.idle() {
		if q.single {
			return true
		}
		q.news.Signal()
	}
	return q.open.space > e.memtable.group()
}

// A slowChange is a batch that Pebble may have to wait for.
type slowChange struct {
	group   *group        // a group with this batch alone
	full    bool          // Pebble's table in memory is full
	table   int64         // the number of the full table
	visible chan struct{} // gets a token when the batch is visible, or has failed

	mu   sync.Mutex
	done bool
	err  error
	left *store.Batch // a copy of the keys, for the watchers, if the caller did not wait
}

// applyAlone makes a batch visible that Pebble may have to wait for, because its table in
// memory is full or the batch is large; or that has to be published first. The caller holds applyLock, and applyAlone passes it to
// a goroutine of its own: if the disk fails, Pebble may wait for a long time, and the caller
// must not.
func (e *Engine) applyAlone(b *store.Batch, commit *store.Commit, c *condition, full, first bool) (*store.Commit, error) {
	e.flush() // earlier batches come first
	g := e.newGroup()
	g.first = first
	e.encode(g, b, commit, 0)
	s := &slowChange{group: g, full: full, table: e.memtable.tables.Load(), visible: make(chan struct{}, 1)}
	e.writing.Go(func() { e.applySlowly(s) })

	select {
	case <-s.visible:
	case <-c.fails:
		select {
		case <-s.visible:
		case <-time.After(stuckAfter):
			if s.abandon(b) {
				// It becomes visible when the disk has recovered, or never.
				commit.Resolve(e.failure(c))
				return commit, nil
			}
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	e.opts.Watchers.Notify(b)
	return commit, nil
}

// applySlowly gives a batch to Pebble, however long that takes, and releases applyLock.
func (e *Engine) applySlowly(s *slowChange) {
	commit := s.group.commits[0]
	err := e.give(s.group)
	if err == nil && s.full && s.table == e.memtable.tables.Load() {
		// There was just enough room left, and the next batch would not have enough.
		if _, failed := e.db.AsyncFlush(); failed != nil {
			e.opts.Log.Warn("the store can't begin a new table", "dir", e.dir, "error", failed)
		}
	}
	if err != nil {
		e.lease = 0 // if the batch had one, it is lost; the next batch gets one
		e.resolve(s.group, err)
	} else if failing := e.health.err(); failing != nil {
		// If the disk began to fail meanwhile, the monitor may not have seen this batch.
		commit.Resolve(failing)
	}
	s.mu.Lock()
	s.done, s.err = true, err
	left := s.left
	s.mu.Unlock()
	<-e.applyLock
	if left == nil {
		s.visible <- struct{}{}
	} else if err == nil {
		e.opts.Watchers.Notify(left)
	}
}

// abandon is called by a caller that does not wait any longer. It returns false if the batch
// has become visible meanwhile, or has failed.
func (s *slowChange) abandon(b *store.Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		<-s.visible
		return false
	}
	// The watchers are notified later, when the caller may have changed the batch.
	s.left = new(store.Batch)
	for _, op := range b.Ops {
		s.left.Ops = append(s.left.Ops, store.Op{Kind: op.Kind, Key: slices.Clone(op.Key)})
		if op.Kind == store.OpDeleteRange {
			s.left.Ops[len(s.left.Ops)-1].Value = slices.Clone(op.Value)
		}
	}
	return true
}

// enter takes a place, or reports why there is none to be had.
func (e *Engine) enter(place chan struct{}, c *condition) error {
	select {
	case place <- struct{}{}:
		return nil
	default:
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-e.closing: // Close holds applyLock
		return store.ErrClosed
	case <-c.fails:
		return e.failure(c)
	}
}

// failure returns why a condition has ended.
func (e *Engine) failure(c *condition) error {
	if c.err != nil {
		return c.err
	}
	if err := e.health.err(); err != nil {
		return err
	}
	return store.Errorf(503, nil, "The disk of the store in %s failed for a moment; try again", e.dir)
}

func (e *Engine) newGroup() *group {
	select {
	case g := <-e.groups:
		return g
	default:
		return &group{batch: e.db.NewBatch(crdb.WithMaxRetainedSizeBytes(maxGroup))}
	}
}

// encode adds a batch to a group. The caller holds applyLock.
func (e *Engine) encode(g *group, b *store.Batch, c *store.Commit, space int64) {
	var number [binary.MaxVarintLen64]byte
	prefix := binary.AppendUvarint(number[:0], uint64(c.Revision))
	// Pebble's errors are those of batches with an index, which this one has not.
	for _, op := range b.Ops {
		switch op.Kind {
		case store.OpSet:
			d := g.batch.SetDeferred(len(op.Key), len(prefix)+len(op.Value))
			copy(d.Key, op.Key)
			copy(d.Value[copy(d.Value, prefix):], op.Value)
			_ = d.Finish()
		case store.OpDelete:
			_ = g.batch.Delete(op.Key, nil)
		case store.OpDeleteRange:
			if string(op.Key) != string(op.Value) { // Pebble takes no empty ranges
				_ = g.batch.DeleteRange(op.Key, op.Value, nil)
			}
		}
	}
	if c.Revision > e.lease || g.batch.Empty() { // an empty range is a change like others
		e.lease = c.Revision + leaseSize
		_ = g.batch.Set([]byte(revisionKey), binary.AppendUvarint(nil, uint64(e.lease)), nil)
	}
	g.commits = append(g.commits, c)
	g.cacheChanges = append(g.cacheChanges, e.cacheChanges...)
	if e.publishing != nil {
		g.before = append(g.before, e.publishing.before...)
	}
	g.space += space
}
