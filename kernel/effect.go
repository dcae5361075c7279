package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"kernos/message"
	"kernos/store"
)

// Stage gives the call that ctx belongs to a batch, which becomes part of the store's
// state with the call's reply, in one step with it: a reply is sent when the batch is
// durable, and not at all if it fails; a call that fails changes nothing. Events that the
// call emits after it has staged something wait for the commit too.
//
// A handler reads, decides and stages, with conditions on what it has read. If a
// condition does not hold any more when the reply is given, everything that the handler
// has staged and said since is forgotten, and it runs again.
//
// The kernel keeps the batch, until it calls its Free. The error, if any, is for the caller.
func Stage(ctx context.Context, b *store.Batch) error {
	c, ok := ctx.Value(callKey{}).(*Call)
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
	if c.settled.Load() || c.deciding {
		return message.Errorf(500, "%s changes something after it was answered", c.request.Type)
	}
	if c.staged == nil {
		c.staged = b
	} else {
		c.staged.Append(b)
	}
	return nil
}

// Recorded reports whether what passes is recorded: if not, nobody watches, and there is
// nothing to publish.
func Recorded(ctx context.Context) bool {
	c, ok := ctx.Value(callKey{}).(*Call)
	return ok && c.k.opts.Recorder != nil
}

// Publish records an event that the call has caused, for those who watch; the caller is
// not sent it. It counts if the call succeeds. The definition must name the event, and
// data must be valid JSON, which the kernel keeps.
func Publish(ctx context.Context, t message.Type, data []byte) error {
	c, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		return message.Errorf(500, "An event that belongs to no call")
	}
	if c.k.opts.Recorder == nil {
		return nil // nobody watches
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

// maxAttempts is how often a handler may find that somebody else was faster.
const maxAttempts = 100

// commitWith makes an outcome, which has its id, and what the call has staged one: it applies
// the batch and returns the commit that the outcome has to wait for, nil if there is none.
//
// It is called with mu held. The disk may take its time, so the lock is let go in between: a
// deadline must be able to pass. Nothing else changes the effect of the call then.
func (c *Call) commitWith(m *message.Message) (*store.Commit, error) {
	if c.staged != nil || c.run != nil {
		c.deciding = true
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.deciding = false
		}()
	}
	b := c.staged
	c.staged = nil
	if m.Kind != message.KindReply {
		b, c.published, c.later = nil, nil, nil // it failed: nothing has happened
	}
	if c.run != nil && !c.unkept {
		if b == nil {
			b = new(store.Batch)
		}
		c.keepOutcome(b, m)
	}
	if b == nil || b.Empty() && len(b.Conditions) == 0 {
		c.recordOutcome(m)
		return nil, nil
	}
	commit, err := c.apply(b, m)
	if err != nil && errors.Is(err, store.ErrConflict) {
		return nil, errAgain
	}
	return commit, err
}

// apply applies a batch together with the records of the call.
func (c *Call) apply(b *store.Batch, m *message.Message) (*store.Commit, error) {
	if b.Free != nil {
		defer b.Free()
	}
	r := c.k.opts.Recorder
	if r == nil {
		return c.k.opts.Store.Apply(b)
	}
	err := r.RecordWith(b, c.records(m), func() (err error) {
		c.commit, err = c.k.opts.Store.Apply(b)
		return err
	})
	return c.commit, err
}

// records is what a call with an effect has recorded of it: the request, the events that
// it published, those that wait for the commit, and the outcome.
func (c *Call) records(m *message.Message) []Record {
	rs := make([]Record, 0, 2+len(c.published)+len(c.later))
	in, out := c.inWay(), c.outWay()
	rs = append(rs, Record{Message: &c.request, Way: in, Syscall: c.syscall, call: c})
	for i := range c.published {
		c.k.Stamp(&c.published[i])
		rs = append(rs, Record{Message: &c.published[i], Way: Within, Syscall: c.syscall, call: c})
	}
	for i := range c.later {
		rs = append(rs, Record{Message: &c.later[i], Way: out, Syscall: c.syscall, call: c})
	}
	return append(rs, Record{Message: c.small(m), Way: out, Syscall: c.syscall, call: c})
}

// small returns a message as it is recorded: large data by pointer, as a reader on a line
// gets it, and without secrets, which must not be in a blob either.
func (c *Call) small(m *message.Message) *message.Message {
	if len(m.Data) <= message.MaxLine || c.k.opts.Blobs == nil || c.syscall.Answers == FromJournal {
		return m
	}
	kept := *m
	kept.Data, _ = Redact(Record{Message: m, Syscall: c.syscall, call: c})
	fitted := c.k.Fit(c, kept, message.MaxLine, func(m *message.Message) int { return len(message.Append(nil, m)) })
	if fitted.Kind != m.Kind {
		return &kept // it can't be made small; then it is kept whole
	}
	return &fitted
}

// adopt makes the call's outcome wait for a commit of a call that it has made.
func (c *Call) adopt(commit *store.Commit) {
	if commit == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = lastOf(c.owed, commit)
}

// lastOf returns the one of two commits that is durable last. Either may be nil.
func lastOf(a, b *store.Commit) *store.Commit {
	if a == nil || b != nil && b.Revision >= a.Revision {
		return b
	}
	return a
}

// putOff keeps an event until the commit of what the call has staged.
func (c *Call) putOff(m message.Message) {
	m.Data = bytes.Clone(m.Data)
	c.later = append(c.later, m)
}

// failure turns the error of a commit into the outcome.
func (c *Call) failure(err error) message.Message {
	e, known := message.ErrorOf(err)
	if !known {
		c.k.opts.Log.Error("can't commit", "type", c.request.Type, "id", c.request.Metadata.ID, "error", fmt.Sprint(err))
	}
	return c.request.Fail(e)
}
