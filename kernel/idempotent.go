package kernel

import (
	"context"
	"errors"
	"time"

	"kernos/kernel/idempotency"
	"kernos/message"
	"kernos/store"
)

// DefaultIdempotencyTTL is how long the outcome of a command with an idempotency key is
// kept.
const DefaultIdempotencyTTL = 24 * time.Hour

// idempotent reports whether the call must run once for its key.
func (c *Call) idempotent() bool {
	return c.request.Metadata.IdempotencyKey != "" && c.request.Kind == message.KindCommand && c.caller == nil
}

// beginRun begins an idempotent run, and reports whether the handler may run: no other call
// with the same key has run, or runs. If it may not, the call is settled: with the first
// outcome, or with an error.
func (c *Call) beginRun() (ok bool) {
	if c.k.runs == nil {
		c.Fail(message.Errorf(503, "This kernel has no store, so it can't keep what an idempotency key promises; leave the key out"))
		return false
	}
	run, err := c.k.runs.Begin(c, c.idempotencyKey(), c.syscall.Type, c.request.Data)
	if err != nil {
		c.failRun(err)
		return false
	}
	if c.work != nil {
		run.OfWork()
	}
	c.mu.Lock()
	late := c.settled.Load()
	if !late {
		c.run = run // the run ends when the call is settled
	}
	c.mu.Unlock()
	if late {
		run.End()
		return false
	}
	return c.lookup() && (c.syscall.Effect != External || c.syscall.Repeat.Has(Retried) || c.intend())
}

// failRun settles a call whose run could not begin.
func (c *Call) failRun(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		c.Expire()
		return
	}
	c.emit(c.failure(err))
}

// lookup looks up what is kept for the call's key, and reports whether the handler may run.
// If not, the call is settled.
func (c *Call) lookup() (ok bool) {
	kept, err := c.run.Lookup()
	switch {
	case err != nil:
		c.settleAs(c.failure(err))
		return false
	case kept == nil:
		return true
	}
	m := c.request.Reply(kept.Data)
	switch {
	case kept.Err != nil:
		m = c.request.Fail(kept.Err)
	case kept.Kind == idempotency.Error:
		m = message.Message{Kind: message.KindError, Type: c.request.Type, Data: kept.Data}
	}
	m.Metadata.Repeated = true
	// The first outcome may not be durable yet.
	c.awaitCommit(c.k.opts.Store.Barrier())
	c.settleAs(m)
	return false
}

// intend puts on disk that the call begins, before its effect, which is not in the store, can
// happen. It reports whether the handler may run; if not, the call is settled.
func (c *Call) intend() (ok bool) {
	intent, err := c.run.Intend()
	switch {
	case errors.Is(err, store.ErrConflict): // a sweep has taken away what had expired
		return c.lookup() && c.intend()
	case err != nil:
		c.settleAs(c.failure(err))
		return false
	case !c.accept(intent):
		return false
	}
	if err := intent.Commit.Wait(c); err != nil {
		c.failRun(err)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	inTime := !c.settled.Load() && !c.applying
	c.begun.Store(inTime)
	return inTime
}

// accept notes that the call's intent is in the store, so that its outcome takes the place. It
// reports whether that makes sense: the deadline may have passed, and then the intent is
// withdrawn, since the call does not begin.
func (c *Call) accept(intent *idempotency.Intent) bool {
	c.mu.Lock()
	inTime := !c.settled.Load() && !c.applying
	if inTime {
		intent.Accept()
	}
	c.mu.Unlock()
	if inTime {
		return true
	}
	if err := intent.Withdraw(); err != nil {
		c.k.opts.Log.Warn("can't withdraw the intent of a call that does not begin; the answer to a retry will be that the outcome isn't known",
			"idempotencyKey", c.request.Metadata.IdempotencyKey, "error", err)
	}
	return false
}

// settleAs settles the call with an outcome that is not kept.
func (c *Call) settleAs(m message.Message) {
	c.mu.Lock()
	c.overtaken, c.staged, c.unkept = nil, nil, true
	c.mu.Unlock()
	c.emitAt(time.Now(), &m)
	if c.work != nil && !c.settled.Load() { // the work is no longer the call's, and decides about the outcome
		c.work = nil
		c.settleAs(m)
	}
}

// keepOutcome adds the outcome to a batch, if it is one that is kept: a reply, or an error
// that the next call would get too.
func (c *Call) keepOutcome(b *store.Batch, m *message.Message) {
	kind := idempotency.Reply
	if m.Kind == message.KindError {
		kind = idempotency.Error
		e := m.Failure()
		if idempotency.Unknown(e) && c.begun.Load() {
			return // the intent stays, and records that
		}
		if !idempotency.Repeats(e) {
			c.run.Forget(b)
			return
		}
	}
	data := c.kept(m).Data
	c.run.Keep(b, kind, data)
	if c.k.opts.Blobs != nil {
		c.k.opts.Blobs.Refer(b, data, c.run.Key())
	}
}

// kept returns an outcome as it is kept to be given out later: without what definitions mark as secret, and what is too large
// for a line by pointer.
func (c *Call) kept(m *message.Message) *message.Message {
	kept := *m
	c.strip(&kept)
	return &kept
}

// strip takes out of a message what must not be stored.
func (c *Call) strip(m *message.Message) {
	if c.syscall.Answers == FromJournal {
		return // recorded messages have no secrets
	}
	data, changed := c.withoutMarked(m)
	if m.Data = data; changed {
		m.Err = nil // Err holds the text before it was redacted
	}
	if c.large(m) {
		m.Data = c.fitted(m, marked).Data
	}
}

// Sweep forgets the outcomes that have expired and returns how many there were.
func (k *Kernel) Sweep(ctx context.Context, now time.Time) (int, error) {
	if k.runs == nil {
		return 0, nil
	}
	return k.runs.Sweep(ctx, now, func(b *store.Batch, data, key []byte) {
		if k.opts.Blobs != nil {
			k.opts.Blobs.Unrefer(b, data, key)
		}
	})
}

// idempotencyKey returns the idempotency key of a call as it is kept: keys belong to principals. Those of
// the owner are kept as they are.
func (c *Call) idempotencyKey() idempotency.Key {
	key := idempotency.Key{Text: c.request.Metadata.IdempotencyKey}
	if p := c.sender.Principal(); !p.IsOwner() {
		key.Scope = string(p.ID())
	}
	return key
}
