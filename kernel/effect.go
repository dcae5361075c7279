package kernel

import (
	"context"
	"errors"
	"sync/atomic"

	"kernos/internal/secret"
	"kernos/kernel/idempotency"
	"kernos/message"
	"kernos/store"
)

// effect is what a call changes. Most calls change nothing.
type effect struct {
	staged    *store.Batch        // applied with the reply
	published []message.Message   // events that are recorded with the reply
	delayed   []message.Message   // events that are sent with the reply
	overtaken *store.Batch        // another writer came before this batch: the handler runs again
	first     uint64              // the queues of [writers] in which the call is first
	nested    *store.Commit       // the commit of nested calls, which the outcome waits for too
	run       *idempotency.Run    // the idempotent run; nil without an idempotency key
	begun     atomic.Bool         // an effect outside the store may have happened
	unkept    bool                // the outcome is not kept under the idempotency key
	applying  bool                // the outcome is given, and is being applied to the store
	commit    *store.Commit       // the commit of staged
	applied   func(*store.Commit) // called when staged is part of the store's state; or nil
	decided   func(error)         // called when it is known whether staged is durable; or nil
}

// both returns a function that calls first and then second. first may be nil.
func both[T any](first, second func(T)) func(T) {
	if first == nil {
		return second
	}
	return func(v T) {
		first(v)
		second(v)
	}
}

// Stage gives the call that ctx belongs to a batch, which becomes part of the store's
// state with the call's reply, in one step with it: a reply is sent when the batch is
// durable, and not at all if it fails; a call that fails changes nothing. Events that the
// call emits after it has staged something wait for the commit too.
//
// A handler reads, decides and stages, with conditions on what it has read. If a
// condition no longer holds when the reply is given, everything that the handler
// has staged and emitted since is forgotten, and it runs again, in its turn among the calls that
// change the same data: see [writers].
//
// The kernel keeps the batch. The error, if any, is for the caller.
func Stage(ctx context.Context, b *store.Batch) error {
	c, ok := CallOf(ctx)
	if !ok {
		return message.Errorf(500, "A change that belongs to no call")
	}
	if c.k.opts.Store == nil {
		return message.Errorf(503, "%s changes something, and this kernel has no store to keep it in", c.request.Type)
	}
	if c.syscall.Kind == message.KindQuery {
		return message.Errorf(500, "%s is a query and may not change anything", c.request.Type)
	}
	if err := b.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() || c.applying {
		return message.Errorf(500, "%s changes something after it was answered", c.request.Type)
	}
	if c.staged == nil {
		c.staged = b
	} else {
		c.staged.Append(b)
	}
	return nil
}

// WhenApplied calls f with the commit when what the call of ctx has staged is part of the store's
// state, and before its reply is sent; not at all if the call fails. f must not wait for anything.
func WhenApplied(ctx context.Context, f func(*store.Commit)) {
	c, ok := CallOf(ctx)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied = both(c.applied, f)
}

// WhenDecided calls f, once, when the commit of what the call of ctx has staged is decided: with nil
// if it is durable, and otherwise with the reason; the handler may run again then. The reply is sent
// after f has returned.
func WhenDecided(ctx context.Context, f func(error)) {
	c, ok := CallOf(ctx)
	if !ok {
		f(message.Errorf(500, "A change that belongs to no call"))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decided = both(c.decided, f)
}

// decide calls the functions that WhenDecided has registered once the commit is decided: at once if
// commit is nil, or if err is the reason why nothing was committed. It returns the commit that answers
// have to wait for, which is resolved after these functions have returned. It is called with mu held.
func (c *Call) decide(commit *store.Commit, err error) *store.Commit {
	decided := c.decided
	c.decided = nil
	if decided == nil {
		return commit
	}
	instead := store.NewCommit(0)
	resolve := func(err, outcome error) {
		decided(err)
		instead.Resolve(outcome)
	}
	if err == nil && c.outcome.Kind != message.KindReply {
		err = errFailed
	}
	if commit == nil {
		go resolve(err, nil) // the outcome has the error already
		return instead
	}
	instead.Revision = commit.Revision
	commit.Then(func(lost error) { // the engine's goroutine must not wait
		if err != nil {
			go resolve(err, lost)
		} else {
			go resolve(lost, lost)
		}
	})
	return instead
}

// errFailed is why what a failed call has staged is not committed.
var errFailed = errors.New("the call has failed")

// Recorded reports whether messages are recorded. If they are not, there are no watchers, and
// nothing needs to be published.
func Recorded(ctx context.Context) bool {
	c, ok := CallOf(ctx)
	return ok && c.recorder() != nil
}

// Publish records an event of the call, for watchers; the caller is not sent it. It is
// recorded if the call succeeds. The definition must name the event, and data must be valid
// JSON, which the kernel keeps.
func Publish(ctx context.Context, t message.Type, data []byte) error {
	c, ok := CallOf(ctx)
	if !ok {
		return message.Errorf(500, "An event that belongs to no call")
	}
	if c.recorder() == nil {
		return nil // without a recorder there are no watchers
	}
	m := c.request.Event(t, data)
	if problem := c.check(&m); problem != "" {
		return errors.New(problem)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published = append(c.published, m)
	return nil
}

// errAgain is the outcome of a commit whose conditions did not hold: the handler runs
// again.
var errAgain = errors.New("run again")

// maxAttempts is how often a handler runs if its change meets concurrent ones.
const maxAttempts = 100

// commitWith applies what the call has staged, with the outcome and its records in the same
// batch, and returns the commit that the outcome has to wait for; nil if there is none.
//
// It is called with mu held. Since the store may block, the lock is released meanwhile, so
// that the deadline can pass. The flag applying keeps the effect of the call as it is.
func (c *Call) commitWith(m *message.Message) (*store.Commit, error) {
	var (
		first     uint64
		called    bool
		overtaken *store.Batch
	)
	if c.staged != nil || c.run != nil || c.work != nil {
		c.applying = true
		first, called = c.first, c.nested != nil
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.applying, c.overtaken = false, overtaken
		}()
	}
	b := c.staged
	c.staged = nil
	if m.Kind != message.KindReply {
		b, c.published, c.delayed, c.applied = nil, nil, nil, nil // the call failed: nothing has happened
	}
	if c.work != nil {
		if b == nil {
			b = new(store.Batch)
		}
		if err := c.settleWork(b, m); err != nil {
			return nil, err
		}
	}
	if c.run != nil && c.work != nil {
		c.run.Drop(b)
	} else if c.run != nil && !c.unkept {
		if b == nil {
			b = new(store.Batch)
		}
		c.keepOutcome(b, m)
	}
	if b == nil || b.Empty() && len(b.Conditions) == 0 {
		c.recordOutcome(m)
		return nil, nil
	}
	var err error
	if c.syscall.Effect == InStore && !called && c.k.writers.ahead(first, b) {
		err = store.ErrConflict // the handler runs again, which repeats nothing
	} else if r := c.recorder(); r == nil {
		err = c.apply(b, first)
	} else {
		err = r.RecordWith(b, c.records(m), func() error { return c.apply(b, first) })
	}
	if errors.Is(err, store.ErrConflict) {
		overtaken = b
		return nil, errAgain
	}
	if err == nil && c.applied != nil {
		c.applied(c.commit)
	}
	return c.commit, err
}

// apply applies the batch of a call that is first in some queues, and ends its turn: what follows may wait
// for the disk.
func (c *Call) apply(b *store.Batch, first uint64) (err error) {
	if c.commit, err = c.k.opts.Store.Apply(b); err == nil && first != 0 {
		c.leaveQueues()
	}
	return err
}

// records returns what a call with an effect has recorded of it: the request, the events that
// it published, those that wait for the commit, and the outcome.
func (c *Call) records(m *message.Message) []Record {
	rs := make([]Record, 0, 2+len(c.published)+len(c.delayed))
	out := c.way(Out)
	rs = append(rs, Record{Message: &c.request, Way: c.way(In), Syscall: c.syscall, Sender: c.sender, call: c})
	for i := range c.published {
		c.k.Stamp(&c.published[i])
		rs = append(rs, Record{Message: &c.published[i], Way: Within, Syscall: c.syscall, Sender: c.sender, call: c})
	}
	for i := range c.delayed {
		rs = append(rs, Record{Message: &c.delayed[i], Way: out, Syscall: c.syscall, Sender: c.sender, call: c})
	}
	return append(rs, Record{Message: c.recordable(m), Way: out, Syscall: c.syscall, Sender: c.sender, call: c})
}

// recordable returns an outcome as it is recorded.
func (c *Call) recordable(m *message.Message) *message.Message {
	if c.brief() != nil {
		return m
	}
	return c.small(m)
}

// small returns a message as it is recorded: large data by pointer, as on a line, and
// without secrets, which must not be in a blob either.
func (c *Call) small(m *message.Message) *message.Message {
	if !c.large(m) {
		return m
	}
	kept := *m
	kept.Data, _ = Redact(Record{Message: m, Syscall: c.syscall, Sender: c.sender, call: c})
	return c.fitted(&kept, inBlobs)
}

func (c *Call) large(m *message.Message) bool {
	return len(m.Data) > message.MaxLine && c.k.opts.Blobs != nil && c.syscall.Answers != FromJournal
}

// fitted returns a message whose data is in a blob, or the message itself if it can't be made small. The data has no
// secrets, except for those that how takes for some.
func (c *Call) fitted(m *message.Message, how secret.Strictness) *message.Message {
	fitted := c.k.fit(c, *m, message.MaxLine, how, func(m *message.Message) int { return len(message.Append(nil, m)) })
	if fitted.Kind != m.Kind {
		return m
	}
	return &fitted
}

// awaitCommit makes the call's outcome wait for a commit, of a nested call for instance.
func (c *Call) awaitCommit(commit *store.Commit) {
	if commit == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nested = lastOf(c.nested, commit)
}

// lastOf returns the one of two commits that is durable last. Either may be nil.
func lastOf(a, b *store.Commit) *store.Commit {
	if a == nil || b != nil && b.Revision >= a.Revision {
		return b
	}
	return a
}

// failure turns the error of a commit into the outcome.
func (c *Call) failure(err error) message.Message {
	e, known := message.ErrorOf(err)
	if !known {
		c.logError("can't commit", "error", err)
	}
	return c.request.Fail(e)
}
