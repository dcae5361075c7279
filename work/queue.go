// Package work runs tasks that outlive the call which asked for them: jobs, and turns of
// conversations. A task is durable when the batch is that adds it, waits for its time, for its
// turn and for its group, is leased to a worker, and leaves the store in the batch that has its
// outcome. If the process dies, the next one leases it again. A task that needn't wait is leased in
// the batch that adds it.
//
//	q := work.New(&work.Options{Store: s, Letter: 'j', Work: func(ctx context.Context, l *work.Lease) { … }})
//	added := q.Add(&b, work.Task{ID: id, Due: time.Now()})
//	commit, err := s.Apply(&b)
//	added(commit)    // the task begins, or waits for its turn
//	q.Run(ctx)       // until ctx is done
//
// Invariants:
//
//	W1  a task that was added is leased again and again until a batch removes it
//	W2  one lease of a task is valid at a time: a batch that depends on an older one conflicts
//
// Waiting tasks take no memory: the queue knows where in each subqueue the first one may be.
//
// # Goroutines
//
//   - The dispatcher, one per queue: it is the caller of [Queue.Run], which returns when its context is done and the
//     workers have returned.
//   - A worker, 256 (kernos serve --jobs) per queue, and one more for each call that starts a task which needn't wait:
//     the dispatcher or that call starts it. It ends when its task has ended and as many others are idle, or the queue
//     stops; when the grace is over, the context of its task ends.
//   - Waiting for the workers when the queue stops, one; and a timer after an error of the store, for a moment.
package work

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"kernos/store"
)

// Options are the settings of a Queue.
type Options struct {
	Store  store.Store
	Letter byte // distinguishes the queues of a store

	// Work does a task. When it returns, the place of the task is free for another; if the
	// lease was neither ended nor given back by then, the task begins again after a pause. A
	// worker returns like that only if it has done nothing that must not be repeated.
	Work func(context.Context, *Lease)

	// Tick does a task that is a clock. It adds to a batch what happens at the task's time, and
	// returns the next time, or the zero time if the clock ends. Since that is one batch, the task
	// needs neither a lease nor a worker. applied is called when the batch has been applied, with
	// its commit. If Tick fails, it has added nothing, and is called again after a pause.
	Tick func(*store.Batch, Task) (next time.Time, applied func(*store.Commit), err error)

	Slots int              // how many tasks run at once; 0 means DefaultSlots
	Grace time.Duration    // how long workers may continue when the queue stops
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger
}

// DefaultSlots is how many tasks run at once by default.
const DefaultSlots = 256

// A Queue runs tasks. It is safe for concurrent use.
type Queue struct {
	opts    Options
	process int64 // distinguishes the leases of this process from those of earlier ones

	mu        sync.Mutex
	subqueues map[string]*subqueue       // subqueues that may have tasks, by key prefix
	begun     *subqueue                  // the subqueue of tasks that were leased when they were added
	ready     [maxPriority + 1]*subqueue // the subqueues of tasks that are due, by descending priority
	timers    *subqueue
	running   map[string]*Lease
	held      bool          // tasks that were begun before are not begun again; see Hold
	wake      chan struct{} // has a token when there may be something to do

	working context.Context // the context of workers; nil while Run doesn't run
	workers sync.WaitGroup  // leases that are acquired
	idle    int             // goroutines that wait for a lease
	leases  chan *Lease     // passes a lease to an idle goroutine
	retaken atomic.Uint64   // how many tasks were leased again that this process had begun
}

// A subqueue is a range of places in which tasks wait in order.
type subqueue struct {
	prefix  []byte
	low     []byte // no task waits before it; nil means that none waits at all
	group   string
	limit   int // how many tasks of the group may run, as its latest task has it
	running int // how many tasks of the group run
	paused  bool
}

// New returns a queue. It does nothing before Run is called.
func New(o *Options) *Queue {
	q := &Queue{opts: *o, subqueues: make(map[string]*subqueue), running: make(map[string]*Lease), wake: make(chan struct{}, 1)}
	q.opts.Slots = cmp.Or(o.Slots, DefaultSlots)
	for p := range q.ready {
		q.ready[p] = q.subqueueOf(q.key(keyReady, []byte{byte(p)}), "")
	}
	q.timers = q.subqueueOf(q.key(keyTimers), "")
	q.begun = q.subqueueOf(q.key(keyBegun), "")
	q.process = rand.Int64N(1<<53-1) + 1 // numbers in JSON are exact up to there
	if q.opts.Now == nil {
		q.opts.Now = time.Now
	}
	q.opts.Log = cmp.Or(q.opts.Log, slog.New(slog.DiscardHandler))
	return q
}

// Add adds a task to a batch, which also leases it if it can begin at once. The queue has no task of
// this ID: it is a new one, or a condition of the batch ensures it. The caller calls added when the
// batch has been applied, with its commit.
func (q *Queue) Add(b *store.Batch, t Task) (added func(*store.Commit)) {
	place := q.place(&t, q.opts.Now())
	if place[2] == keyReady && q.none(t.Priority) {
		l := &Lease{Task: t, q: q, place: q.begunKey(t.ID), retaken: q.retaken.Load()}
		l.Attempt, l.Fence = 1, 1
		b.Set(l.place, l.encode(l.place, q.process))
		return func(c *store.Commit) { q.begin(l, c) }
	}
	b.Set(q.taskKey(t.ID), place)
	b.Set(place, t.encode(place, 0))
	return func(*store.Commit) { q.added(place, t.Group, t.Limit) }
}

// none reports whether no task of at least this priority waits for its turn, and there is a place
// for a worker.
func (q *Queue) none(priority int) bool {
	q.mu.Lock()
	if len(q.running) >= q.opts.Slots {
		// Workers that are about to end need a processor to do so.
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	if q.working == nil || len(q.running) >= q.opts.Slots {
		return false
	}
	for _, s := range q.ready[:maxPriority-priority+1] {
		if s.low != nil {
			return false
		}
	}
	return true
}

// begin starts the worker of a task that was leased when it was added. If all places are taken
// meanwhile, the task waits, and is leased again.
func (q *Queue) begin(l *Lease, c *store.Commit) {
	q.mu.Lock()
	l.commit, l.revision = c, c.Revision
	acquired := l.acquire()
	if acquired && l.retaken != q.retaken.Load() {
		// The queue may have seen the task where it waits, leased it, and done it before this.
		q.mu.Unlock()
		e, err := q.opts.Store.Get(l.place)
		q.mu.Lock()
		if acquired = err == nil && e.Revision == l.revision; !acquired {
			l.drop()
			q.workers.Done()
		}
	}
	if !acquired {
		q.begun.lower(l.place)
	}
	q.mu.Unlock()
	if acquired {
		q.start(l)
	} else {
		q.signal()
	}
}

// A State is how far a task is.
type State byte

// The states of a task.
const (
	Absent  State = iota // the task was never added, or is done
	Waiting              // the task isn't due yet, or waits for a worker or for its group
	Running
	Held // the task was running when a backup was made, and waits for Resume
)

// Find returns a task and how far it is.
func (q *Queue) Find(id string) (Task, State, error) {
	t, err := q.find(id)
	if err != nil || t.entry.Revision == 0 {
		return Task{}, Absent, err
	}
	return t.Task, t.state, nil
}

type found struct {
	Task
	entry store.Entry
	state State
}

// find returns a task with its place. Its revision is 0 if there is none.
func (q *Queue) find(id string) (f found, err error) {
	f.entry, err = q.entry(q.opts.Store, id)
	if err == errMoved {
		var s store.Snapshot
		if s, err = q.opts.Store.Snapshot(); err != nil {
			return f, err
		}
		defer func() { _ = s.Close() }()
		f.entry, err = q.entry(s, id)
	}
	if err != nil || f.entry.Revision == 0 {
		return f, err
	}
	if f.Task, _, err = decode(f.entry.Key, f.entry.Value); err != nil {
		return f, err
	}
	q.mu.Lock()
	running := q.running[id] != nil
	q.mu.Unlock()
	switch {
	case running:
		f.state = Running
	case f.entry.Key[2] == keyHeld:
		f.state = Held
	default:
		f.state = Waiting
	}
	return f, nil
}

// errMoved means that a task has moved between two reads.
var errMoved = errors.New("a task isn't in the place that is noted")

// entry returns the entry of a task, with its place.
func (q *Queue) entry(r store.Reader, id string) (e store.Entry, err error) {
	e, err = r.Get(q.begunKey(id)) // a task may leave this place, and never comes back to it
	if err != nil || e.Revision != 0 {
		return e, err
	}
	named, err := r.Get(q.taskKey(id))
	if err != nil || named.Revision == 0 {
		return named, err
	}
	e, err = r.Get(named.Value)
	if err == nil && e.Revision == 0 {
		err = errMoved
	}
	e.Key = named.Value
	return e, err
}

// Remove takes a task out of the queue, in a batch. It returns nil if the task doesn't exist. The
// caller calls removed when the batch has been applied: a worker that holds a lease of the task
// is stopped then, with the cause.
func (q *Queue) Remove(b *store.Batch, id string) (removed func(cause error), err error) {
	f, err := q.find(id)
	if err != nil || f.entry.Revision == 0 {
		return nil, err
	}
	q.remove(b, id, f.entry.Key, f.entry.Revision)
	return func(cause error) { q.stop(id, cause) }, nil
}

// stop makes the lease of a task invalid, if it runs, and stops its worker.
func (q *Queue) stop(id string, cause error) {
	q.mu.Lock()
	lease := q.running[id]
	q.mu.Unlock()
	if lease != nil {
		lease.lose(cause)
	}
}

// Move gives a task another time, in a batch. It returns nil if the task doesn't exist or runs. The
// caller calls moved when the batch has been applied.
func (q *Queue) Move(b *store.Batch, id string, due time.Time) (moved func(), err error) {
	f, err := q.find(id)
	if err != nil || f.entry.Revision == 0 || f.state == Running {
		return nil, err
	}
	t := f.Task
	t.Due = due
	return q.put(b, &t, f.entry.Key, f.entry.Revision), nil
}

// Restart begins a task again, in a batch, also one that runs. It returns nil if the task doesn't
// exist. The caller calls restarted when the batch has been applied: a worker that holds a lease
// of the task is stopped then, with the cause.
func (q *Queue) Restart(b *store.Batch, id string) (restarted func(cause error), err error) {
	f, err := q.find(id)
	if err != nil || f.entry.Revision == 0 {
		return nil, err
	}
	t := f.Task
	t.Due = q.opts.Now()
	moved := q.put(b, &t, f.entry.Key, f.entry.Revision)
	return func(cause error) {
		q.stop(id, cause)
		moved()
	}, nil
}

// put moves a task from the place that it has to the one where it belongs now.
func (q *Queue) put(b *store.Batch, t *Task, from []byte, r store.Revision) (moved func()) {
	t.Attempt = 0
	place := q.place(t, q.opts.Now())
	b.IfRevision(from, r)
	if !bytes.Equal(place, from) {
		b.Delete(from)
		b.Set(q.taskKey(t.ID), place)
	}
	b.Set(place, t.encode(place, 0))
	group, limit := t.Group, t.Limit
	return func() { q.added(place, group, limit) }
}

func (q *Queue) remove(b *store.Batch, id string, place []byte, r store.Revision) {
	b.IfRevision(place, r)
	b.Delete(place)
	if place[2] != keyBegun {
		b.Delete(q.taskKey(id))
	}
}

// added notes that a task waits at a place.
func (q *Queue) added(place []byte, group string, limit int) {
	q.mu.Lock()
	s := q.subqueueOf(place, group)
	if group != "" {
		s.limit = limit
	}
	s.lower(place)
	q.mu.Unlock()
	q.signal()
}

// lower notes that a task may wait at a place.
func (s *subqueue) lower(place []byte) {
	if s.low == nil || bytes.Compare(place, s.low) < 0 {
		s.low = place
	}
}

// subqueueOf returns the subqueue of a place. mu is held.
func (q *Queue) subqueueOf(place []byte, group string) *subqueue {
	prefix := place[:3]
	switch place[2] {
	case keyReady:
		prefix = place[:4]
	case keyGroups:
		prefix = place[:3+len(group)+1]
	}
	s := q.subqueues[string(prefix)]
	if s == nil {
		s = &subqueue{prefix: bytes.Clone(prefix), group: group}
		if place[2] == keyGroups {
			s.paused = q.Paused(group)
		}
		q.subqueues[string(prefix)] = s
	}
	return s
}

// signal makes the queue check for something to do.
func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Paused reports whether a group is paused.
func (q *Queue) Paused(group string) bool {
	e, err := q.opts.Store.Get(q.key(keyPaused, []byte(group)))
	return err == nil && e.Revision != 0
}

// Pause adds to a batch that no task of a group begins. The caller calls paused when the batch
// has been applied.
func (q *Queue) Pause(b *store.Batch, group string) (paused func()) {
	b.Set(q.key(keyPaused, []byte(group)), nil)
	return func() { q.setPaused(group, true) }
}

// Unpause is the opposite of Pause.
func (q *Queue) Unpause(b *store.Batch, group string) (unpaused func()) {
	b.Delete(q.key(keyPaused, []byte(group)))
	return func() { q.setPaused(group, false) }
}

func (q *Queue) setPaused(group string, paused bool) {
	q.mu.Lock()
	prefix := q.key(keyGroups, groupPrefix(group))
	s := q.subqueueOf(prefix, group)
	s.paused = paused
	if s.low == nil {
		s.low = prefix // tasks may wait in the subqueue
	}
	q.mu.Unlock()
	q.signal()
}

// Hold makes tasks that were begun by an earlier process wait for Resume: a backup that was
// restored doesn't know whether they have been done. It is called before Run.
func (q *Queue) Hold() { q.held = true }

// Resume adds to a batch that held tasks begin again; at most 10,000, so that a batch stays
// small. The caller calls resumed when the batch has been applied, and Resume again until n is 0.
func (q *Queue) Resume(b *store.Batch) (n int, resumed func(), err error) {
	var all []func()
	for e, err := range q.opts.Store.Scan(store.Prefix(q.key(keyHeld))) {
		if err != nil {
			return 0, nil, err
		}
		t, _, err := decode(e.Key, e.Value)
		if err != nil {
			return 0, nil, err
		}
		all = append(all, q.put(b, &t, bytes.Clone(e.Key), e.Revision))
		if len(all) == 10_000 {
			break
		}
	}
	return len(all), func() {
		q.mu.Lock()
		q.held = false
		q.mu.Unlock()
		for _, f := range all {
			f()
		}
	}, nil
}

// Stats counts what runs.
func (q *Queue) Stats() (running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.running)
}

// Oldest returns since when the task waits that has waited longest for its turn: its time has
// come, it shares no limit, and it doesn't run. It returns the zero time if there is none.
func (q *Queue) Oldest() (due time.Time, err error) {
	var ranges []store.Range
	q.mu.Lock()
	for _, s := range q.ready {
		if s.low != nil {
			ranges = append(ranges, store.Range{From: s.low, To: store.After(s.prefix)})
		}
	}
	q.mu.Unlock()
	for _, r := range ranges {
		for e, err := range q.opts.Store.Scan(r) {
			if err != nil {
				return time.Time{}, err
			}
			t, _, err := decode(e.Key, e.Value)
			if err != nil {
				return time.Time{}, err
			}
			q.mu.Lock()
			running := q.running[t.ID] != nil
			q.mu.Unlock()
			if running { // a running task keeps its place, and at most Slots tasks run
				continue
			}
			if due.IsZero() || t.Due.Before(due) {
				due = t.Due
			}
			break
		}
	}
	return due, nil
}

// ErrQueueStopping is the cause with which the context of a worker ends when the queue stops.
var ErrQueueStopping = errors.New("the kernel is shutting down")
