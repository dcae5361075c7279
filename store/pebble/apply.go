package pebble

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// maxPending is how many batches may be visible and not durable. The library has 4095
// places for groups of them and waits when they are taken; Apply waits before, where it can
// be told that the disk fails.
const maxPending = 4064

// leaseSize is how many revisions are reserved at a time. After a restart they go on
// behind the reservation, so that none is given twice.
const leaseSize = 1 << 14

// stuckAfter is how long a batch may take to become visible while the disk fails. A log
// that fails does not keep it from that; a new log that can't be made does, and so does a
// flush that the library waits for.
const stuckAfter = 500 * time.Millisecond

// maxGroup is how much gathers at most before it is given to the library, whatever that
// waits for.
const maxGroup = 256 << 10

// maxBatch is how many bytes a batch may have.
const maxBatch = 1 << 30

// A change is a batch on its way through the applier.
type change struct {
	group   *group        // of this batch alone
	full    bool          // the library's table is
	table   int64         // which it is
	applied chan struct{} // gets a token when it is visible

	mu   sync.Mutex
	done bool
	err  error
	left *store.Batch // a copy of the batch of a caller who has left
}

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
		return nil, c.err
	}
	if err := e.enter(e.slots, c); err != nil {
		return nil, err
	}
	if err := e.enter(e.turn, c); err != nil {
		<-e.slots
		return nil, err
	}
	if err := e.check(b.Conditions); err != nil || b.Empty() {
		<-e.turn
		<-e.slots
		if err != nil {
			return nil, err
		}
		return e.Barrier(), nil // nothing but conditions, and they hold
	}
	e.revision++
	commit := store.NewCommit(e.revision)
	e.tend()
	e.touches = e.hot.begin(b, e.touches[:0])
	takes, wants := roomFor(b, size)
	if !e.room.take(takes, wants) {
		return e.applyAside(b, commit, c, !e.room.large(wants))
	}
	due := e.gather(b, commit, wants)
	e.hot.end(b, e.touches, commit.Revision)
	<-e.turn
	if due {
		e.flush()
	}
	// Whoever looked at the queue because the disk fails has not seen this one.
	if failing := e.health.err(); failing != nil {
		commit.Resolve(failing)
	}
	e.watchers.Tell(b)
	return commit, nil
}

// check checks the conditions of a batch. The caller has the turn.
func (e *Engine) check(conditions []store.Condition) error {
	for _, c := range conditions {
		r, err := e.revisionOf(c.Key)
		if err != nil {
			return err
		}
		if r != c.Revision {
			return store.ErrConflict
		}
	}
	return nil
}

// gather adds a batch to the group that gathers, and reports whether the group is due to be
// given to the library by the caller, who has the turn. If others write too, the giver does
// that, while the caller goes on.
func (e *Engine) gather(b *store.Batch, c *store.Commit, wants int64) (due bool) {
	q := &e.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.gathers == nil
	if first {
		q.gathers = e.newGroup()
	}
	e.encode(q.gathers, b, c, wants)
	// If it is not the first, somebody has been told already.
	switch limit := e.room.group(); {
	case first && q.idle() && q.alone, q.gathers.wants > limit:
		return true
	case first && q.idle(), q.gathers.wants > limit/4:
		select {
		case e.due <- struct{}{}:
		default: // the giver is about to look
		}
	}
	return false
}

// giver gives the library what has gathered, when it is told to.
func (e *Engine) giver() {
	for range e.due {
		e.flush()
	}
}

// flush gives the group that gathers to the library, which has room for it, and waits until
// it has it.
func (e *Engine) flush() {
	if e.queue.settled() {
		return
	}
	e.giving.Lock()
	defer e.giving.Unlock()
	for g := e.queue.take(); g != nil; g = e.queue.take() {
		if err := e.give(g); err != nil {
			// Readers have seen it.
			e.disk.freeze(store.Errorf(503, err, "The store in %s can't go on writing; start kernos again", e.dir))
			e.queue.refused()
			e.resolve(g, err)
			continue
		}
		return
	}
}

// give gives a group to the library. Whoever calls it sees to it that nobody else does.
func (e *Engine) give(g *group) error {
	err := e.db.ApplyNoSyncWait(g.batch, crdb.Sync)
	e.hot.seen(g.touches)
	if err != nil {
		return e.readError(err)
	}
	e.queue.push(g)
	return nil
}

// applyAside makes a batch visible that the library may have to wait for, because its table
// is full or the batch is large. The caller has had the turn.
func (e *Engine) applyAside(b *store.Batch, commit *store.Commit, c *condition, full bool) (*store.Commit, error) {
	e.flush() // for the order
	g := e.newGroup()
	e.encode(g, b, commit, 0)
	ch := &change{group: g, full: full, table: e.room.tables.Load(), applied: make(chan struct{}, 1)}
	e.work <- ch // there is room: it is our turn

	select {
	case <-ch.applied:
	case <-c.fails:
		if !ch.wait(stuckAfter) && ch.leave(b) {
			// It becomes visible when the disk has recovered, or never.
			commit.Resolve(e.failure(c))
			return commit, nil
		}
	}
	if ch.err != nil {
		return nil, ch.err
	}
	e.watchers.Tell(b)
	return commit, nil
}

// enter takes a place, or says why there is none to be had.
func (e *Engine) enter(place chan struct{}, c *condition) error {
	select {
	case place <- struct{}{}:
		return nil
	default:
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-e.closing: // Close has the turn
		return store.ErrClosed
	case <-c.fails:
		return e.failure(c)
	}
}

// failure is why a condition has ended.
func (e *Engine) failure(c *condition) error {
	if c.err != nil {
		return c.err
	}
	if err := e.health.err(); err != nil {
		return err
	}
	return store.Errorf(503, nil, "The disk of the store in %s failed for a moment; try again", e.dir)
}

// wait waits until the change is visible, but not for ever.
func (ch *change) wait(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ch.applied:
		return true
	case <-t.C:
		return false
	}
}

// leave is called by a caller who does not wait any more. If the change has become
// visible meanwhile, it returns false, and the caller has been told.
func (ch *change) leave(b *store.Batch) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.done {
		<-ch.applied // the applier is about to tell, or has
		return false
	}
	// The applier tells the watchers, at a time when the batch is the caller's again.
	ch.left = new(store.Batch)
	for _, op := range b.Ops {
		ch.left.Ops = append(ch.left.Ops, store.Op{Kind: op.Kind, Key: slices.Clone(op.Key)})
		if op.Kind == store.OpDeleteRange {
			ch.left.Ops[len(ch.left.Ops)-1].Value = slices.Clone(op.Value)
		}
	}
	return true
}

// newGroup returns an empty group.
func (e *Engine) newGroup() *group {
	select {
	case g := <-e.groups:
		return g
	default:
		return &group{batch: e.db.NewBatch(crdb.WithMaxRetainedSizeBytes(maxGroup))}
	}
}

// encode adds a batch to a group. The caller has the turn.
func (e *Engine) encode(g *group, b *store.Batch, c *store.Commit, wants int64) {
	var number [binary.MaxVarintLen64]byte
	prefix := binary.AppendUvarint(number[:0], uint64(c.Revision))
	// The library's errors are those of batches with an index, which this one has not.
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
			if string(op.Key) != string(op.Value) { // the library takes no empty ranges
				_ = g.batch.DeleteRange(op.Key, op.Value, nil)
			}
		}
	}
	if c.Revision > e.lease || g.batch.Empty() { // an empty range is a change like others
		e.lease = c.Revision + leaseSize
		_ = g.batch.Set([]byte(revisionKey), binary.AppendUvarint(nil, uint64(e.lease)), nil)
	}
	g.commits = append(g.commits, c)
	g.touches = append(g.touches, e.touches...)
	g.wants += wants
}

// apply is the applier: it makes batches visible that the library may have to wait for, for
// a flush or for a new log. It is a goroutine of its own because a caller must not wait
// for that if the disk fails.
func (e *Engine) apply() {
	for ch := range e.work {
		commit := ch.group.commits[0]
		err := e.give(ch.group)
		if err == nil && ch.full && ch.table == e.room.tables.Load() {
			// There was just enough room left. The next batch would come here too.
			if _, failed := e.db.AsyncFlush(); failed != nil {
				e.opts.Log.Warn("the store can't begin a new table", "dir", e.dir, "error", failed)
			}
		}
		if err != nil {
			e.lease = 0 // if the batch had one, it is lost; the next has it
			e.resolve(ch.group, err)
		} else if failing := e.health.err(); failing != nil {
			// Whoever looked at the queue because the disk fails has not seen this one.
			commit.Resolve(failing)
		}
		ch.mu.Lock()
		ch.done = true
		ch.err = err
		left := ch.left
		ch.mu.Unlock()
		<-e.turn
		if left == nil {
			ch.applied <- struct{}{}
		} else if err == nil {
			e.watchers.Tell(left)
		}
	}
}

// sync is the syncer: it waits for the log and resolves the commits.
func (e *Engine) sync() {
	for g := e.queue.front(); g != nil; g = e.queue.front() {
		err := g.batch.SyncWait()
		if e.disk.isFrozen() {
			err = e.health.err() // the log only believes that it has written
		} else if err != nil {
			err = unwritable(e.dir, err)
		}
		due := e.queue.pop()
		e.resolve(g, err)
		g.reset()
		select {
		case e.groups <- g:
		default:
			_ = g.batch.Close() // it can't fail here
		}
		if due {
			e.flush()
		}
	}
}

// resolve resolves the commits of a group.
func (e *Engine) resolve(g *group, err error) {
	store.ResolveAll(g.commits, err)
	for range g.commits {
		<-e.slots
	}
}

// herald tells everybody who waits for the disk that it fails.
func (e *Engine) herald() {
	for failing := false; ; {
		select {
		case <-e.health.changed:
		case <-e.quiet:
			return
		}
		err := e.health.err()
		if err != nil {
			for _, c := range e.queue.commits() {
				c.Resolve(err)
			}
		}
		switch {
		case err != nil && !failing:
			e.opts.Log.Error("the store can't be written", "dir", e.dir, "error", err)
		case err == nil && failing:
			e.opts.Log.Info("the store can be written again", "dir", e.dir)
		}
		failing = err != nil
	}
}

// Barrier returns a commit that is durable when everything applied so far is.
func (e *Engine) Barrier() *store.Commit {
	select {
	case <-e.closed:
		c := store.NewCommit(0)
		c.Resolve(store.ErrClosed)
		return c
	default:
	}
	last := e.queue.last()
	if last == nil {
		return store.Committed(0)
	}
	c := store.NewCommit(last.Revision)
	last.Then(c.Resolve)
	return c
}
