package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"kernos/store"
)

// A Lease is the right to do a task, until it is done or given back. Its fencing number is the
// revision of the task's place: a batch that depends on a lease which is no longer valid
// conflicts.
type Lease struct {
	Task
	TakenOver bool // an earlier process has begun the task and died; how far it came isn't known

	q        *Queue
	retaken  uint64 // of the queue, when the task was added
	place    []byte
	revision store.Revision
	commit   *store.Commit // the commit of the lease
	ctx      context.Context
	cancel   context.CancelCauseFunc

	mu   sync.Mutex
	lost error    // why the lease is no longer valid
	then []func() // called when the worker has returned: the task waits at another place
}

// errDone is the reason why a lease that was ended is not valid.
var errDone = errors.New("the task is done")

// Held returns nil while the lease is valid, or why it no longer is.
func (l *Lease) Held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Durable waits until the lease would survive a power cut. What a worker does outside of the
// store must not begin before.
func (l *Lease) Durable(ctx context.Context) error { return l.commit.Wait(ctx) }

// Done adds to a batch that the task is done: it leaves the queue. The caller calls ended when
// the batch has been applied.
func (l *Lease) Done(b *store.Batch) (ended func()) {
	l.q.remove(b, l.ID, l.place, l.revision)
	return func() { l.lose(errDone) }
}

// Again adds to a batch that the task begins again, at a time. The caller calls ended when the
// batch has been applied.
func (l *Lease) Again(b *store.Batch, due time.Time) (ended func()) {
	t := l.Task
	t.Due = due
	moved := l.q.put(b, &t, l.place, l.revision)
	return func() {
		l.lose(errDone)
		l.andThen(moved)
	}
}

// andThen calls f when the worker has returned.
func (l *Lease) andThen(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.then = append(l.then, f)
}

// lose makes the lease invalid, and stops its worker.
func (l *Lease) lose(cause error) {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = cause
	}
	l.mu.Unlock()
	if cause != errDone {
		l.cancel(cause)
	}
}

// Depend makes a batch depend on the lease, and changes nothing of the task.
func (l *Lease) Depend(b *store.Batch) { b.IfRevision(l.place, l.revision) }

// acquire makes the lease the one that does its task in this process, and reports whether it could:
// the task doesn't run, and there is a place for a worker. A lease is acquired before it is stored,
// so that a task is never leased twice at once. mu of the queue is held.
func (l *Lease) acquire() bool {
	q := l.q
	if q.working == nil || len(q.running) >= q.opts.Slots || q.running[l.ID] != nil {
		return false
	}
	l.ctx, l.cancel = context.WithCancelCause(q.working)
	q.running[l.ID] = l
	q.workers.Add(1)
	if l.Group != "" {
		q.subqueueOf(l.place, l.Group).running++
	}
	return true
}

// drop is the opposite of acquire. mu of the queue is held.
func (l *Lease) drop() {
	l.cancel(nil)
	delete(l.q.running, l.ID)
	if l.Group != "" {
		l.q.subqueueOf(l.place, l.Group).running--
	}
}
