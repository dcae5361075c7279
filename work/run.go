package work

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"time"

	"kernos/store"
)

const (
	// The queue looks at the clock this often, since a clock that is set forward makes
	// timers due and wakes nothing.
	maxSleep = 30 * time.Second

	// A batch moves at most so many timers, or leases so many tasks.
	maxBatch = 512

	// After an error of the store, and after a worker that has ended nothing, the queue waits.
	afterError = time.Second
)

// Run leases tasks to workers until ctx is done. Then it leases none, lets those that run go on
// for the grace, stops them, and returns when they have returned.
func (q *Queue) Run(ctx context.Context) {
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	q.open()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		next, err := q.dispatch(working)
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
		// While tasks run, goroutines that are about to add or to end others go first, so that
		// one scan and one batch serve many.
		for range min(q.Stats(), 8) {
			runtime.Gosched()
		}
	}
	defer q.workers.Wait()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.workers.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(q.opts.Grace):
		stop(ErrStopping)
		<-ended
	}
}

// open finds the lanes in which tasks may wait.
func (q *Queue) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range append(q.ready[:], q.timers) {
		l.low = l.prefix
	}
	for at := q.key(laneGroups); ; {
		e, err := store.First(q.opts.Store, store.Range{From: at, To: store.After(q.key(laneGroups))})
		if err != nil || e.Revision == 0 {
			return
		}
		t, _, err := decode(e.Key, e.Value)
		if err != nil {
			q.opts.Log.Error("a waiting task is skipped", "key", string(e.Key), "error", err)
			at = append(e.Key, 0)
			continue
		}
		prefix := q.key(laneGroups, groupPrefix(t.Group))
		l := q.laneOf(prefix, t.Group)
		l.low, l.limit = l.prefix, t.Limit
		at = store.After(prefix)
	}
}

// dispatch moves timers that are due to their lanes and leases what can run. It returns how long
// it is until the next timer.
func (q *Queue) dispatch(ctx context.Context) (next time.Duration, err error) {
	for {
		var more bool
		if next, more, err = q.promote(); err != nil {
			return 0, err
		}
		leased, err := q.lease(ctx, q.candidates())
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
	process  int64 // that has leased it before; 0 means none
}

// collect returns the first tasks of a lane, before a key, that don't run. mu is held.
func (q *Queue) collect(l *lane, to []byte, n int) (cs []candidate, err error) {
	from := l.low
	if from == nil || n <= 0 {
		return nil, nil
	}
	// While the lane is read, tasks may be added to it: those are noted in low.
	l.low = nil
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
			continue // those after it go on
		}
		if !q.runs(&c) {
			cs = append(cs, c)
		}
	}
	q.mu.Lock()
	if rest != nil {
		l.lower(rest)
	}
	if l.limit == 0 && len(cs) > 0 {
		l.limit = cs[0].Limit
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
		l.thenAdd(c.place, c.Group, c.Limit)
	}
	return l != nil
}

// lower notes that a task may wait at a place.
func (l *lane) lower(place []byte) {
	if l.low == nil || bytes.Compare(place, l.low) < 0 {
		l.low = place
	}
}

// promote moves timers that are due to the lane where they wait for their turn. It returns how
// long it is until the next one, and whether more are due.
func (q *Queue) promote() (next time.Duration, more bool, err error) {
	now := q.opts.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	timers := q.timers
	if wait := timers.until(now); wait > 0 {
		return wait, false, nil
	}
	after := q.key(laneTimers, binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()+1)))
	due, err := q.collect(timers, after, maxBatch)
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
	err = q.inBatches(due, func(b *store.Batch, c *candidate) func(*store.Commit) {
		moved := q.put(b, &c.Task, c.place, c.revision)
		return func(*store.Commit) { moved() }
	})
	q.mu.Lock()
	if err != nil {
		timers.low = timers.prefix
	}
	return timers.until(now), more, err
}

// until returns how long it is until the first timer of a lane may be due.
func (l *lane) until(now time.Time) time.Duration {
	switch {
	case l.low == nil:
		return maxSleep
	case len(l.low) < 11: // it isn't known
		return 0
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(l.low[3:11]))).Sub(now)
}

// candidates returns tasks that can begin now, at most as many as there are free places: groups
// get half of them, then the others by priority. The next round shares what is left.
func (q *Queue) candidates() (cs []candidate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := min(q.opts.Slots-len(q.running), maxBatch)
	take := func(l *lane, n int) {
		found, err := q.collect(l, store.After(l.prefix), n)
		if err != nil {
			q.opts.Log.Error("waiting tasks can't be read", "error", err)
		}
		cs = append(cs, found...)
	}
	for name, l := range q.lanes {
		switch {
		case l.group == "" || l.paused:
		case l.low == nil && l.running == 0:
			delete(q.lanes, name)
		default:
			take(l, min(max(l.limit, 1)-l.running, (free+1)/2-len(cs)))
		}
	}
	for _, l := range q.ready {
		take(l, free-len(cs))
	}
	return cs
}

// lease leases tasks, and starts their workers.
func (q *Queue) lease(ctx context.Context, cs []candidate) (n int, err error) {
	q.mu.Lock()
	held := q.held
	q.mu.Unlock()
	if held {
		if cs, err = q.hold(cs); err != nil {
			return 0, err
		}
	}
	err = q.inBatches(cs, func(b *store.Batch, c *candidate) func(*store.Commit) {
		l := &Lease{Task: c.Task, TakenOver: c.process != 0 && c.process != q.process, q: q, place: c.place}
		if c.process != q.process {
			l.Attempt++
		}
		l.Fence++
		b.IfRevision(c.place, c.revision)
		b.Set(c.place, l.encode(q.process))
		return func(commit *store.Commit) {
			n++
			l.commit, l.revision = commit, commit.Revision
			q.start(ctx, l)
		}
	})
	if err != nil {
		q.mu.Lock()
		for _, c := range cs {
			if q.running[c.ID] == nil {
				q.laneOf(c.place, c.Group).lower(c.place)
			}
		}
		q.mu.Unlock()
	}
	return n, err
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
		place := q.key(laneHeld, due, []byte{byte(MaxPriority - c.Priority)}, []byte(c.ID))
		b.IfRevision(c.place, c.revision)
		b.Delete(c.place)
		b.Set(q.taskKey(c.ID), place)
		b.Set(place, c.encode(c.process))
		return func(*store.Commit) {}
	})
	return others, err
}

// inBatches applies a change to tasks, as many as possible at once. change adds to a batch, and
// returns what to do when that is applied. Tasks that have changed meanwhile are left out.
func (q *Queue) inBatches(cs []candidate, change func(*store.Batch, *candidate) func(*store.Commit)) error {
	if len(cs) == 0 {
		return nil
	}
	var b store.Batch
	var then []func(*store.Commit)
	for i := range cs {
		then = append(then, change(&b, &cs[i]))
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

// start starts the worker of a lease.
func (q *Queue) start(ctx context.Context, l *Lease) {
	ctx, l.cancel = context.WithCancelCause(ctx)
	q.mu.Lock()
	q.running[l.ID] = l
	if l.Group != "" {
		q.laneOf(l.place, l.Group).running++
	}
	q.mu.Unlock()
	q.workers.Go(func() {
		q.opts.Work(ctx, l)
		q.release(l, errors.Is(context.Cause(ctx), ErrStopping))
	})
}

// release frees the place of a worker that has returned. If it has ended nothing, as when the
// store can't write, that is after a pause, and the task begins again.
func (q *Queue) release(l *Lease, stopping bool) {
	l.cancel(nil)
	if l.Held() == nil && !stopping {
		time.AfterFunc(afterError, func() {
			q.free(l)
			q.added(l.place, l.Group, l.Limit)
		})
		return
	}
	q.free(l)
}

func (q *Queue) free(l *Lease) {
	q.mu.Lock()
	delete(q.running, l.ID)
	if l.Group != "" {
		q.laneOf(l.place, l.Group).running--
	}
	q.mu.Unlock()
	l.mu.Lock()
	then := l.then
	l.mu.Unlock()
	for _, f := range then {
		f()
	}
	q.Wake()
}
