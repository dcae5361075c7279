package work

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"kernos/store"
)

const (
	// The queue looks at the clock this often, since a clock that is set forward makes
	// timers due and wakes nothing.
	maxSleep = 30 * time.Second

	// maxBatch is how many timers a batch moves, or how many tasks it leases, at most.
	maxBatch = 512

	// maxTicks is how many clocks a batch does at most, so that what they start begins soon.
	maxTicks = 64

	// After an error of the store, and after a worker that has ended nothing, the queue waits.
	afterError = time.Second
)

// Run leases tasks to workers until ctx is done. Then it leases none, lets running workers
// continue for the grace, stops them, and returns when they have returned.
func (q *Queue) Run(ctx context.Context) {
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	q.open(working)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		next, err := q.dispatch()
		wait := min(max(next, 0), maxSleep)
		if err != nil {
			q.opts.Log.Error("tasks can't begin", "error", err)
			wait = afterError
		}
		timer.Reset(wait)
		select {
		case <-q.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	q.mu.Lock()
	q.working = nil
	q.mu.Unlock()
	defer close(q.leases)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.workers.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(q.opts.Grace):
		stop(ErrQueueStopping)
		<-ended
	}
}

// open finds the subqueues in which tasks may wait, and lets workers be started.
func (q *Queue) open(working context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working, q.leases = working, make(chan *Lease)
	for _, s := range append(q.ready[:], q.timers, q.begun) {
		s.low = s.prefix
	}
	for at := q.key(keyGroups); ; {
		e, err := store.First(q.opts.Store, store.Range{From: at, To: store.After(q.key(keyGroups))})
		if err != nil || e.Revision == 0 {
			return
		}
		t, _, err := decode(e.Key, e.Value)
		if err != nil {
			q.opts.Log.Error("a waiting task is skipped", "key", string(e.Key), "error", err)
			at = append(e.Key, 0)
			continue
		}
		prefix := q.key(keyGroups, groupPrefix(t.Group))
		s := q.subqueueOf(prefix, t.Group)
		s.low, s.limit = s.prefix, t.Limit
		at = store.After(prefix)
	}
}

// dispatch moves timers that are due to their subqueues and leases what can run. It returns how long
// it is until the next timer.
func (q *Queue) dispatch() (next time.Duration, err error) {
	for {
		var more bool
		if next, more, err = q.promote(); err != nil {
			return 0, err
		}
		leased, err := q.lease(q.candidates())
		if err != nil {
			return 0, err
		}
		if !more && leased == 0 {
			return next, nil
		}
	}
}

// A candidate is a task that waits.
type candidate struct {
	Task
	place    []byte
	revision store.Revision
	process  int64 // the process that had leased the task before; 0 means none
}

// collect returns the first tasks of a subqueue, before a key, that don't run. mu is held.
func (q *Queue) collect(s *subqueue, to []byte, n int) (cs []candidate, err error) {
	from := s.low
	if from == nil || n <= 0 {
		return nil, nil
	}
	// While the subqueue is read, tasks may be added to it: those are noted in low.
	s.low = nil
	q.mu.Unlock()
	var rest []byte
	for e, scanErr := range q.opts.Store.Scan(store.Range{From: from, To: to}) {
		if err = scanErr; err != nil {
			rest = from
			break
		}
		if len(cs) == n {
			rest = bytes.Clone(e.Key)
			break
		}
		c := candidate{place: bytes.Clone(e.Key), revision: e.Revision}
		var unreadable error
		if c.Task, c.process, unreadable = decode(c.place, e.Value); unreadable != nil {
			q.opts.Log.Error("a waiting task is skipped", "key", string(c.place), "error", unreadable)
			continue // later tasks still run
		}
		if !q.runs(&c) {
			cs = append(cs, c)
		}
	}
	q.mu.Lock()
	if rest != nil {
		s.lower(rest)
	}
	if s.limit == 0 && len(cs) > 0 {
		s.limit = cs[0].Limit
	}
	return cs, err
}

// runs reports whether a worker still has a lease of a task. If that lease is an older one, since
// the task was removed and added again, the task is looked at when the worker has returned.
func (q *Queue) runs(c *candidate) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.running[c.ID]
	if l != nil && l.revision != c.revision {
		place, group, limit := c.place, c.Group, c.Limit // c itself would be allocated for each candidate
		l.andThen(func() { q.added(place, group, limit) })
	}
	return l != nil
}

// promote moves timers that are due to the subqueue where they wait for their turn. It returns how
// long it is until the next one, and whether more are due.
func (q *Queue) promote() (next time.Duration, more bool, err error) {
	now := q.opts.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	timers := q.timers
	if wait := timers.until(now); wait > 0 {
		return wait, false, nil
	}
	after := q.key(keyTimers, binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()+1)))
	// Not many more than can begin: what begins in the batch that adds it needn't be leased and read.
	due, err := q.collect(timers, after, min(max(q.opts.Slots-len(q.running), maxTicks), maxBatch))
	if err != nil {
		return 0, false, err
	}
	if more = timers.low != nil && bytes.Compare(timers.low, after) < 0; !more {
		first, err := store.First(q.opts.Store, store.Range{From: after, To: store.After(timers.prefix)})
		if err != nil {
			timers.low = timers.prefix
			return 0, false, err
		}
		timers.low = first.Key // nil if there are none
	}
	q.mu.Unlock()
	var clocks, others []candidate
	for _, c := range due {
		if c.Clock {
			clocks = append(clocks, c)
		} else {
			others = append(others, c)
		}
	}
	err = q.inBatches(others, func(b *store.Batch, c *candidate) func(*store.Commit) {
		moved := q.put(b, &c.Task, c.place, c.revision)
		return func(*store.Commit) { moved() }
	})
	for some := range slices.Chunk(clocks, maxTicks) {
		err = errors.Join(err, q.tick(some))
	}
	q.mu.Lock()
	if err != nil {
		timers.low = timers.prefix
	}
	return timers.until(now), more, err
}

// tick does clocks that are due.
func (q *Queue) tick(clocks []candidate) (failed error) {
	err := q.inBatches(clocks, func(b *store.Batch, c *candidate) func(*store.Commit) {
		t := c.Task
		next, applied, err := q.opts.Tick(b, t)
		if err != nil {
			failed = err
			return nil
		}
		if next.IsZero() {
			q.remove(b, t.ID, c.place, c.revision)
			return applied
		}
		t.Due = next
		moved := q.put(b, &t, c.place, c.revision)
		return func(commit *store.Commit) {
			moved()
			applied(commit)
		}
	})
	return errors.Join(failed, err)
}

// until returns how long it is until the first timer of a subqueue may be due.
func (s *subqueue) until(now time.Time) time.Duration {
	switch {
	case s.low == nil:
		return maxSleep
	case len(s.low) < 11: // only the prefix of the subqueue is known, and no time
		return 0
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(s.low[3:11]))).Sub(now)
}

// candidates returns tasks that can begin now, at most as many as there are free places: groups
// get half of them, then the others by priority. The next round shares what is left.
func (q *Queue) candidates() (cs []candidate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := min(q.opts.Slots-len(q.running), maxBatch)
	take := func(s *subqueue, n int) {
		found, err := q.collect(s, store.After(s.prefix), n)
		if err != nil {
			q.opts.Log.Error("waiting tasks can't be read", "error", err)
		}
		cs = append(cs, found...)
	}
	for name, s := range q.subqueues {
		switch {
		case s.group == "" || s.paused:
		case s.low == nil && s.running == 0:
			delete(q.subqueues, name)
		default:
			take(s, min(max(s.limit, 1)-s.running, (free+1)/2-len(cs)))
		}
	}
	take(q.begun, free-len(cs))
	for _, s := range q.ready {
		take(s, free-len(cs))
	}
	return cs
}

// lease leases tasks, and starts their workers.
func (q *Queue) lease(cs []candidate) (n int, err error) {
	q.mu.Lock()
	held := q.held
	q.mu.Unlock()
	if held {
		if cs, err = q.hold(cs); err != nil {
			return 0, err
		}
	}
	leases := q.acquire(cs)
	err = q.inBatches(cs, func(b *store.Batch, c *candidate) func(*store.Commit) {
		l := leases[c.ID]
		if l == nil {
			return nil
		}
		b.IfRevision(c.place, c.revision)
		b.Set(c.place, l.encode(c.place, q.process))
		return func(commit *store.Commit) {
			n++
			delete(leases, l.ID)
			q.mu.Lock()
			l.commit, l.revision = commit, commit.Revision
			q.mu.Unlock()
			q.start(l)
		}
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range leases { // these leases could not be stored
		l.drop()
		q.workers.Done()
		if err != nil {
			q.subqueueOf(l.place, l.Group).lower(l.place)
		}
	}
	return n, err
}

// acquire returns acquired leases of the tasks that can begin.
func (q *Queue) acquire(cs []candidate) map[string]*Lease {
	leases := make(map[string]*Lease, len(cs))
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range cs {
		l := &Lease{Task: c.Task, TakenOver: c.process != 0 && c.process != q.process, q: q, place: c.place, revision: c.revision}
		if c.process != q.process {
			l.Attempt++
		} else {
			q.retaken.Add(1)
		}
		l.Fence++
		if l.acquire() {
			leases[l.ID] = l
		} else if q.running[l.ID] == nil {
			q.subqueueOf(l.place, l.Group).lower(l.place)
		}
	}
	return leases
}

// hold puts the tasks that were begun by an earlier process aside, and returns the others.
func (q *Queue) hold(cs []candidate) (others []candidate, err error) {
	var begun []candidate
	for _, c := range cs {
		if c.process != 0 && c.process != q.process {
			begun = append(begun, c)
		} else {
			others = append(others, c)
		}
	}
	err = q.inBatches(begun, func(b *store.Batch, c *candidate) func(*store.Commit) {
		due := binary.BigEndian.AppendUint64(nil, uint64(c.Due.UnixMilli()))
		place := q.key(keyHeld, due, []byte{byte(maxPriority - c.Priority)}, []byte(c.ID))
		b.IfRevision(c.place, c.revision)
		b.Delete(c.place)
		b.Set(q.taskKey(c.ID), place)
		b.Set(place, c.encode(place, c.process))
		return func(*store.Commit) {}
	})
	return others, err
}

// inBatches applies a change to tasks, as many as possible at once. change adds to a batch, and
// returns what to do when that is applied, or nil if nothing is to be done. Tasks that have changed
// meanwhile are left out.
func (q *Queue) inBatches(cs []candidate, change func(*store.Batch, *candidate) func(*store.Commit)) error {
	if len(cs) == 0 {
		return nil
	}
	var b store.Batch
	var then []func(*store.Commit)
	for i := range cs {
		if f := change(&b, &cs[i]); f != nil {
			then = append(then, f)
		}
	}
	if len(then) == 0 {
		return nil
	}
	commit, err := q.opts.Store.Apply(&b)
	if errors.Is(err, store.ErrConflict) {
		if len(cs) == 1 {
			return nil
		}
		half := len(cs) / 2
		if err := q.inBatches(cs[:half], change); err != nil {
			return err
		}
		return q.inBatches(cs[half:], change)
	}
	if err != nil {
		return err
	}
	for _, f := range then {
		f(commit)
	}
	return nil
}

// start starts the worker of a lease that is acquired.
func (q *Queue) start(l *Lease) {
	select {
	case q.leases <- l:
	default:
		go q.worker(l)
	}
}

// worker does the task of a lease, and then of others. A new goroutine per task would cost 3 µs more,
// most of it for a stack that grows.
func (q *Queue) worker(l *Lease) {
	for l != nil {
		q.do(l)
		q.mu.Lock()
		if q.working == nil || q.idle == q.opts.Slots {
			q.mu.Unlock()
			return
		}
		q.idle++
		q.mu.Unlock()
		l = <-q.leases
		q.mu.Lock()
		q.idle--
		q.mu.Unlock()
	}
}

// do does a task. Its worker may end the goroutine.
func (q *Queue) do(l *Lease) {
	defer q.workers.Done()
	defer func() { q.release(l, errors.Is(context.Cause(l.ctx), ErrQueueStopping)) }()
	q.opts.Work(l.ctx, l)
}

// release frees the place of a worker that has returned. If it has ended nothing, as when the
// store can't write, that is after a pause, and the task begins again.
func (q *Queue) release(l *Lease, stopping bool) {
	l.cancel(nil)
	switch held := l.Held() == nil; {
	case held && stopping:
		q.interrupted(l)
	case held:
		time.AfterFunc(afterError, func() {
			q.free(l)
			q.added(l.place, l.Group, l.Limit)
		})
		return
	}
	q.free(l)
}

// interrupted stores that this process has stopped a task, and hasn't died with it: it isn't
// counted in Task.Attempt. The next process takes the task over.
func (q *Queue) interrupted(l *Lease) {
	t := l.Task
	t.Attempt--
	var b store.Batch
	l.Depend(&b)
	b.Set(l.place, t.encode(l.place, q.process))
	if _, err := q.opts.Store.Apply(&b); err != nil && !errors.Is(err, store.ErrConflict) {
		q.opts.Log.Warn("the stop of a task can't be stored, so it counts as a death of the process", "task", l.ID, "error", err)
	}
}

func (q *Queue) free(l *Lease) {
	q.mu.Lock()
	l.drop()
	waiting := q.waiting()
	q.mu.Unlock()
	l.mu.Lock()
	then := l.then
	l.mu.Unlock()
	for _, f := range then {
		f()
	}
	if waiting {
		q.signal()
	}
}

// waiting reports whether tasks may wait for a worker. mu is held.
func (q *Queue) waiting() bool {
	ungrouped := len(q.ready) + 2 // subqueues
	return len(q.subqueues) > ungrouped || q.begun.low != nil || slices.ContainsFunc(q.ready[:], func(s *subqueue) bool { return s.low != nil })
}
