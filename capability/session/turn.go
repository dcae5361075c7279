package session

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// maxTakeovers is how often a turn is begun again after the process died while it ran.
const maxTakeovers = 5

// A runner does a turn while it has a lease.
type runner struct {
	x       *Sessions
	k       *kernel.Kernel
	id      string
	lease   *work.Lease
	ctx     context.Context // acts for the principal of the session
	live    *liveSession
	sender  kernel.Sender
	running sync.WaitGroup

	mu      sync.Mutex
	started map[string]bool // calls that this lease has begun
	active  int
	wake    chan struct{}
}

// work runs the turn of a session. It is called by the queue.
func (x *Sessions) work(ctx context.Context, l *work.Lease) {
	k := x.kernel.Load()
	if k == nil {
		return // the turn is begun again
	}
	s, err := x.load(l.ID)
	if err != nil || s.turn == nil {
		x.drop(l, err)
		return
	}
	who, err := x.opts.Find(s.Principal)
	if err != nil {
		x.opts.Log.Error("the caller of a session can't be read", "session", l.ID, "error", err)
		return
	}
	sender := kernel.From(who, s.Wire)
	r := &runner{
		x: x, k: k, id: l.ID, lease: l, sender: sender, ctx: kernel.ActFor(ctx, sender), live: x.begin(l.ID),
		started: make(map[string]bool), wake: make(chan struct{}, 1),
	}
	defer x.end(r.live)
	defer r.running.Wait()
	r.live.run(r)
	defer r.live.run(nil)
	switch {
	case who == nil || who.Life().Err() != nil:
		r.fail(s.revoked())
	case l.Attempt > maxTakeovers:
		r.fail(message.Errorf(500, "The kernel ended %d times during the turn; Session.Continue tries again", l.Attempt-1))
	default:
		r.loop()
	}
}

// revoked returns the error of a turn whose principal has ended.
func (s *session) revoked() *message.Error {
	return message.Errorf(403, "The token %q, which has created the session, was revoked or has expired", s.Token)
}

// drop takes a task out of the queue whose session has no open turn.
func (x *Sessions) drop(l *work.Lease, err error) {
	if e, ok := errors.AsType[*message.Error](err); err != nil && (!ok || e.Code != 404) {
		x.opts.Log.Error("a session can't be read", "session", l.ID, "error", err)
		return
	}
	var b store.Batch
	ended := l.Done(&b)
	if _, err := x.opts.Store.Apply(&b); err == nil {
		ended()
	}
}

// loop does one step after another, until the turn has ended, or waits for a caller. A defect that
// one conversation meets ends its turn, and not the kernel.
func (r *runner) loop() {
	defer func() {
		if p := recover(); p != nil {
			r.x.opts.Log.Error("a turn panicked", "session", r.id, "panic", p, "stack", string(debug.Stack()))
			r.fail(message.Errorf(500, "Internal error in the turn; the kernel's log has the details"))
		}
	}()
	for r.lease.Held() == nil && r.ctx.Err() == nil {
		s, err := r.x.load(r.id)
		if err != nil || s.turn == nil {
			r.x.drop(r.lease, err)
			return
		}
		if s.turn.State == thinking {
			r.think(s)
		} else {
			r.act()
		}
	}
}

// persist applies a change of the session, again and again while the store can't write. It reports whether
// it could: if not, the turn isn't this worker's any more, or is stopped. fill may leave the change as
// it is by returning errNothing.
func (r *runner) persist(fill func(*change) error) bool {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Longest: 10 * time.Second, Jitter: true}
	for {
		var c *change
		var cause turn
		commit, err := r.k.Update(r.ctx, func(b *store.Batch) error {
			s, err := r.x.load(r.id)
			if err != nil || s.turn == nil || r.lease.Held() != nil {
				return errLost
			}
			c, cause = r.x.change(r.ctx, s, b), *s.turn
			if err := fill(c); err != nil {
				return err
			}
			if len(c.ending) == 0 {
				r.lease.Depend(b)
			}
			c.done()
			return nil
		})
		switch {
		case err == nil:
			c.finish(r.k, r.sender, &cause, commit)
			return true
		case err == errNothing:
			return true
		case err == errLost:
			return false
		}
		r.x.opts.Log.Warn("the outcome of a turn can't be stored", "session", r.id, "error", err)
		if !pause.Wait(r.ctx.Done()) {
			return false
		}
	}
}

// errLost means that a turn isn't the worker's any more.
var errLost = errors.New("the turn is another worker's")

// finish does what follows when the change has been applied by the kernel itself.
func (c *change) finish(k *kernel.Kernel, from kernel.Sender, cause *turn, commit *store.Commit) {
	for _, m := range c.recordsOf(cause) {
		k.Stamp(&m)
		k.Record(m, kernel.Within, from)
	}
	c.ended(commit)
}

// ended does what follows when the change has been applied.
func (c *change) ended(commit *store.Commit) {
	for _, f := range c.ending {
		f()
	}
	for _, f := range c.applied {
		f(commit)
	}
}

// endTurn ends the turn in a change of its worker: the task is done, unless another turn waits.
func (r *runner) endTurn(c *change, status string, why *message.Error) error {
	next, err := c.end(status, why)
	if err != nil {
		return err
	}
	if !next {
		c.ending = append(c.ending, r.lease.Done(c.b))
	}
	return nil
}

// fail ends the turn with an error. Calls without a result get one.
func (r *runner) fail(e *message.Error) {
	r.persist(func(c *change) error {
		if err := c.closeCalls(e); err != nil {
			return err
		}
		return r.endTurn(c, statusFailed, e)
	})
}

// stopped reports whether the kernel stops: the next one continues the turn.
func (r *runner) stopped() bool { return errors.Is(context.Cause(r.ctx), work.ErrQueueStopping) }
