package pebble

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// maxPending is how many batches may be visible and not durable. The library has 4095
// places for them and waits when they are taken; Apply waits before, where it can be
// told that the disk fails.
const maxPending = 4064

// leaseSize is how many revisions are reserved at a time. After a restart they go on
// behind the reservation, so that none is given twice.
const leaseSize = 1 << 14

// stuckAfter is how long a batch may take to become visible while the disk fails. A log
// that fails does not keep it from that; a new log that can't be made does, and so does a
// flush that the library waits for.
const stuckAfter = 500 * time.Millisecond

// maxBatch is how many bytes a batch may have.
const maxBatch = 1 << 30

// A change is a batch on its way through the applier.
type change struct {
	batch   *crdb.Batch
	source  *store.Batch // what the batch was made of; the caller's
	commit  *store.Commit
	applied chan struct{} // gets a token when it is visible

	mu   sync.Mutex
	done bool
	err  error
	left *store.Batch // a copy of the batch of a caller who has left
}

func newChange() any { return &change{applied: make(chan struct{}, 1)} }

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
	if err := e.enter(e.slots, c); err != nil {
		return nil, err
	}
	if err := e.enter(e.turn, c); err != nil {
		<-e.slots
		return nil, err
	}
	ch, err := e.encode(b, size)
	if ch == nil {
		<-e.turn
		<-e.slots
		if err != nil {
			return nil, err
		}
		return e.Barrier(), nil // nothing but conditions, and they hold
	}
	commit := ch.commit
	ch.source = b
	e.were = e.hot.begin(b, e.were)
	if e.room.take(b, size) {
		if err := e.applyDirectly(ch, b); err != nil {
			return nil, err
		}
		return commit, nil
	}
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
	err = ch.err
	ch.batch, ch.source, ch.commit, ch.done, ch.err = nil, nil, nil, false, nil
	e.changes.Put(ch)
	if err != nil {
		return nil, err
	}
	e.watchers.Tell(b)
	return commit, nil
}

// applyDirectly makes a batch visible that the library has room for.
func (e *Engine) applyDirectly(ch *change, b *store.Batch) error {
	err := e.makeVisible(ch)
	e.hot.end(b, e.were, revisionUnless(err, ch.commit))
	<-e.turn
	if err != nil {
		<-e.slots
		return err
	}
	ch.batch, ch.source, ch.commit = nil, nil, nil
	e.changes.Put(ch)
	e.watchers.Tell(b)
	return nil
}

// revisionUnless is the revision of a batch that is visible, 0 of one that is not.
func revisionUnless(err error, c *store.Commit) store.Revision {
	if err != nil {
		return 0
	}
	return c.Revision
}

// enter takes a place, or says why there is none to be had.
func (e *Engine) enter(place chan struct{}, c *condition) error {
	select {
	case <-e.closing:
		return store.ErrClosed
	case <-c.fails:
		return e.failure(c)
	default:
	}
	select {
	case place <- struct{}{}:
		return nil
	default:
	}
	select {
	case place <- struct{}{}:
		return nil
	case <-e.closing:
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

// encode checks the conditions and gives the batch its revision. It returns nil if there
// is nothing to change. The caller has the turn.
func (e *Engine) encode(b *store.Batch, size int) (*change, error) {
	for _, c := range b.Conditions {
		r, err := e.revisionOf(c.Key)
		if err != nil {
			return nil, err
		}
		if r != c.Revision {
			return nil, store.ErrConflict
		}
	}
	if b.Empty() {
		return nil, nil
	}
	revision := e.revision + 1
	var number [binary.MaxVarintLen64]byte
	prefix := binary.AppendUvarint(number[:0], uint64(revision))

	batch := e.db.NewBatchWithSize(size + 64)
	for _, op := range b.Ops {
		switch op.Kind {
		case store.OpSet:
			d := batch.SetDeferred(len(op.Key), len(prefix)+len(op.Value))
			copy(d.Key, op.Key)
			copy(d.Value[copy(d.Value, prefix):], op.Value)
			if err := d.Finish(); err != nil {
				return nil, errors.Join(e.readError(err), batch.Close())
			}
		case store.OpDelete:
			if err := batch.Delete(op.Key, nil); err != nil {
				return nil, errors.Join(e.readError(err), batch.Close())
			}
		case store.OpDeleteRange:
			if string(op.Key) == string(op.Value) {
				continue // the library takes no empty ranges
			}
			if err := batch.DeleteRange(op.Key, op.Value, nil); err != nil {
				return nil, errors.Join(e.readError(err), batch.Close())
			}
		}
	}
	if revision > e.lease || batch.Empty() { // an empty range is a change like others
		lease := binary.AppendUvarint(nil, uint64(revision+leaseSize))
		if err := batch.Set([]byte(revisionKey), lease, nil); err != nil {
			return nil, errors.Join(e.readError(err), batch.Close())
		}
		e.lease = revision + leaseSize
	}
	e.revision = revision

	ch := e.changes.Get().(*change)
	ch.batch, ch.commit = batch, store.NewCommit(revision)
	return ch, nil
}

// apply is the applier: it makes batches visible. It is a goroutine of its own because
// the library may wait here, for a flush or for a new log; a caller must not, if the disk
// fails.
func (e *Engine) apply() {
	for ch := range e.work {
		err := e.makeVisible(ch)
		ch.mu.Lock()
		ch.done = true
		ch.err = err
		left := ch.left
		if left != nil {
			e.hot.end(left, e.were, 0)
		} else {
			e.hot.end(ch.source, e.were, revisionUnless(err, ch.commit))
		}
		ch.mu.Unlock()
		<-e.turn
		if err != nil {
			<-e.slots
		}
		if left != nil {
			if err == nil {
				e.watchers.Tell(left)
			}
			continue // nobody uses it any more
		}
		ch.applied <- struct{}{}
	}
}

// makeVisible gives a batch to the library. Whoever calls it has the turn.
func (e *Engine) makeVisible(ch *change) error {
	err := e.db.ApplyNoSyncWait(ch.batch, crdb.Sync)
	if err != nil {
		err = e.readError(err)
		ch.commit.Resolve(err)
		e.lease = 0 // if the batch had one, it is lost; the next has it
		return err
	}
	e.queue.push(pending{ch.batch, ch.commit})
	// Whoever looked at the queue because the disk fails has not seen this one.
	if failing := e.health.err(); failing != nil {
		ch.commit.Resolve(failing)
	}
	return nil
}

// A pending batch is visible, and on its way to the disk.
type pending struct {
	batch  *crdb.Batch
	commit *store.Commit
}

// A queue has the pending batches in their order.
type queue struct {
	mu      sync.Mutex
	more    sync.Cond
	list    []pending // a ring
	first   int
	n       int
	stopped bool
}

func (q *queue) push(p pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == len(q.list) {
		list := make([]pending, max(64, 2*len(q.list)))
		for i := range q.n {
			list[i] = q.list[(q.first+i)%len(q.list)]
		}
		q.list, q.first = list, 0
	}
	q.list[(q.first+q.n)%len(q.list)] = p
	q.n++
	if q.n == 1 {
		q.more.Signal()
	}
}

// front waits for a batch and returns the first one, which stays in the queue. It returns
// false when there won't be another one.
func (q *queue) front() (pending, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n == 0 {
		if q.stopped {
			return pending{}, false
		}
		q.more.Wait()
	}
	return q.list[q.first], true
}

func (q *queue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list[q.first] = pending{}
	q.first = (q.first + 1) % len(q.list)
	q.n--
}

// last returns the commit of the last batch, or nil.
func (q *queue) last() *store.Commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return nil
	}
	return q.list[(q.first+q.n-1)%len(q.list)].commit
}

func (q *queue) commits() []*store.Commit {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*store.Commit, q.n)
	for i := range all {
		all[i] = q.list[(q.first+i)%len(q.list)].commit
	}
	return all
}

// stop says that nothing is pushed any more once the applier has ended.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.more.Broadcast()
}

// sync is the syncer: it waits for the log and resolves the commits.
func (e *Engine) sync() {
	for {
		p, ok := e.queue.front()
		if !ok {
			return
		}
		err := p.batch.SyncWait()
		if e.disk.isFrozen() {
			err = e.health.err() // the log only believes that it has written
		} else if err != nil {
			err = unwritable(e.dir, err)
		}
		e.queue.pop()
		_ = p.batch.Close() // it can't fail here
		p.commit.Resolve(err)
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
