package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"kernos/message"
	"kernos/store"
)

// Handle answers one message: events, then one outcome. It returns when the handler
// has returned, or at the call's deadline; either way the outcome is emitted by then.
// Events, replies and errors are answered with nothing. The data of an event may be
// overwritten when emit has returned. It has the shape of a [Handler].
func (k *Kernel) Handle(ctx context.Context, m message.Message, emit Emit) {
	o := &handled{sender: SenderIn(ctx)}
	if err := m.Validate(); err != nil {
		if m.Kind != message.KindError {
			k.Refuse(&m, emit, o, err)
			o.finish(k)
		}
		return
	}
	m = m.Clone() // the handler may outlive the call
	if len(m.Data) == 0 {
		m.Data = json.RawMessage("null")
	}
	if c := k.admit(ctx, &m, emit, o, senderOf(o, &m), parent{}); c != nil {
		o.call = c
		c.RunWithin()
	}
	o.finish(k)
}

// HandleHere is Handle on the goroutine of the caller, for a valid request that came over a connection of
// its own and whose syscall runs [Inline]. It returns when the handler has returned. At the deadline, or
// if the handler ends the goroutine, late is called and the outcome is emitted: nothing else can use the
// goroutine to answer then.
func (k *Kernel) HandleHere(ctx context.Context, m message.Message, emit Emit, late func()) {
	o := &handled{sender: SenderIn(ctx)}
	c := k.admit(ctx, &m, emit, o, o.sender, parent{})
	if c != nil {
		o.call = c
		returned := false
		defer func() {
			if !returned {
				late()
				o.finish(k)
			}
		}()
		c.RunHere(func() {
			late()
			c.Expire()
			o.finish(k)
		})
		returned = true
	}
	o.finish(k)
	k.connections.alone(o.failed)
}

// handled is the origin of a call of [Kernel.Handle]. The call posts one message at a time.
type handled struct {
	sender  Sender
	call    *Call
	pending []pendingAnswer
	failed  bool  // an error was posted
	lost    error // why an event could not be sent; nothing but this error comes after it
}

// Sender implements [Origin].
func (h *handled) Sender(message.ID) Sender { return h.sender }

// pendingAnswer is an answer that waits for a commit, or for those before it.
type pendingAnswer struct {
	send   Emit
	m      message.Message
	commit *store.Commit
}

// MaxCommit is how long an answer waits for its commit.
const MaxCommit = 30 * time.Second

// Post implements [Origin].
func (h *handled) Post(send Emit, m message.Message, commit *store.Commit) {
	h.failed = h.failed || m.Kind == message.KindError
	if commit != nil {
		if decided, err := commit.Resolved(); decided && err == nil {
			commit = nil
		}
	}
	if h.lost != nil {
		if m.Kind.Answers() {
			commit = store.NewCommit(0)
			commit.Resolve(h.lost)
			h.pending = append(h.pending, pendingAnswer{send, m, commit})
		}
		return
	}
	if commit == nil && len(h.pending) == 0 {
		send(m)
		return
	}
	if m.Kind == message.KindEvent && h.call != nil && !h.call.settled.Load() {
		h.sendLive(send, m, commit)
		return
	}
	m.Data = bytes.Clone(m.Data)
	h.pending = append(h.pending, pendingAnswer{send, m, commit})
	for len(h.pending) > 0 && h.pending[0].durable() {
		h.pending[0].send(h.pending[0].m)
		h.pending = h.pending[1:]
	}
}

// sendLive sends an event of a call that runs, which waits for the commit: nothing else would send the event before the
// next one comes. If that fails, the call ends with the reason.
func (h *handled) sendLive(send Emit, m message.Message, commit *store.Commit) {
	ctx, cancel := context.WithDeadline(context.Background(), h.call.deadline)
	defer cancel()
	if h.lost = commit.Wait(ctx); h.lost != nil {
		failed, _ := message.ErrorOf(h.lost)
		go h.call.Fail(failed) // the call is locked while it posts
		return
	}
	send(m)
}

func (a *pendingAnswer) durable() bool {
	if a.commit == nil {
		return true
	}
	decided, err := a.commit.Resolved()
	return decided && err == nil
}

// finish sends what waits. The call is settled.
func (h *handled) finish(k *Kernel) {
	pending := h.pending
	h.pending = nil
	for _, a := range pending {
		var err error
		if a.commit != nil {
			ctx, cancel := context.WithTimeout(context.Background(), MaxCommit)
			err = a.commit.Wait(ctx)
			cancel()
		}
		k.SendDecided(a.send, &a.m, err, h.sender)
	}
}

// SendDecided sends an answer whose commit is decided. If the commit has failed, an error is sent in the place of an
// outcome, and an event is dropped: its change may not have happened.
func (k *Kernel) SendDecided(send Emit, m *message.Message, err error, from Sender) {
	switch {
	case err == nil:
		send(*m)
	case m.Kind.Answers():
		send(k.undone(m, err, from))
	}
}

// undone returns the error that is sent instead of an outcome whose commit has failed.
func (k *Kernel) undone(m *message.Message, err error, from Sender) message.Message {
	k.opts.Log.Error("a commit failed", "type", m.Type, "causation", m.Metadata.Causation, "error", err)
	e, _ := message.ErrorOf(err)
	if s, ok := k.registry.Lookup(m.Type); ok && s.Kind == message.KindQuery {
		e = message.Errorf(e.Code, "%s can't be answered with what was read: %w", m.Type, e)
	} else {
		e = message.Errorf(e.Code, "%s is not known to have happened: it could not be made durable: %w", m.Type, e)
	}
	failed := message.Message{Kind: message.KindError, Type: m.Type, Data: e.Append(nil), Err: e,
		Metadata: message.Metadata{Causation: m.Metadata.Causation, Correlation: m.Metadata.Correlation, Inherited: m.Metadata.Inherited, Extra: m.Metadata.Extra}}
	k.Stamp(&failed)
	k.Record(failed, Out, from)
	return failed
}
