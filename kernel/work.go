package kernel

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"kernos/message"
	"kernos/store"
)

// Work is a job, or a turn of a conversation: calls that no connection waits for are part of it. The outcome of the call becomes part of the work in one step with the call's
// effect, so that neither is lost or repeated without the other.
type Work interface {
	// Held returns nil while the work is the caller's to do, or why it no longer is. The
	// error becomes the outcome.
	Held() error

	// Settle adds to a batch what the outcome of the call means for the work, and returns
	// the events to be recorded with it. The outcome has nothing that a definition marks as secret, and is small enough
	// for a line. If Settle fails, nothing happens, and its error becomes the
	// outcome. It may be called again, with another batch, if a condition did not hold.
	Settle(b *store.Batch, outcome *message.Message) (events []message.Message, err error)

	// Applied is called when the batch is part of the store's state.
	Applied()
}

// A Settlement is the outcome of a call that is being stored. A [Work] embeds one.
type Settlement struct {
	mu      sync.Mutex       // a call may be given up while its outcome is applied
	outcome *message.Message // the latest
	then    func()
	applied bool
}

// Note keeps the outcome that is about to be settled.
func (s *Settlement) Note(outcome *message.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome = new(outcome.Clone())
}

// Then sets what happens when the batch is part of the store's state.
func (s *Settlement) Then(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.then = f
}

// Known returns the outcome that was to be settled, and whether it is part of the store's state.
func (s *Settlement) Known() (outcome *message.Message, applied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome, s.applied
}

// Applied implements [Work].
func (s *Settlement) Applied() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = true
	if s.then != nil {
		s.then()
	}
}

// A WorkCall is a request that the kernel sends itself, as a part of some work.
type WorkCall struct {
	Type     message.Type
	Data     []byte
	Metadata message.Metadata // the lineage; id and time are filled in
	Sender   Sender           // the sender of the call
	Timeout  time.Duration    // how long it may take; 0 means the syscall's own limit
	Asked    bool             // the timeout was asked for, and isn't a default of the work; see [Call.Asked]
	Work     Work
	Granted  []Reached // what was approved before that the call reaches

	// Event gets the events of the call, without what definitions mark as secret, and what it logs, as it is recorded. Nil
	// means that they are only recorded.
	Event Emit

	// Brief returns what is recorded of the request or of its reply in place of its data, which the work keeps. Nil
	// means what the definition has.
	Brief func(data json.RawMessage) json.RawMessage
}

// Do sends a request as a part of some work, and returns its outcome with the commit that the
// outcome waits for, which may be nil. The request is refused if its sender may not send it
// now. What never becomes a call isn't settled: the work learns of it from the outcome alone.
func (k *Kernel) Do(ctx context.Context, w WorkCall) (outcome message.Message, commit *store.Commit) {
	m := message.Message{Kind: message.KindCommand, Type: w.Type, Data: w.Data, Metadata: w.Metadata}
	if s, ok := k.registry.Lookup(w.Type); ok {
		m.Kind = s.Kind
	}
	k.Stamp(&m)
	o := &workOrigin{sender: w.Sender, event: w.Event, brief: w.Brief}
	c := k.admit(ctx, &m, o.send, o, w.Sender, parent{work: w.Work})
	if c != nil {
		o.call = c
		c.granted = w.Granted
		if w.Timeout > 0 {
			c.timeout, c.asked = w.Timeout, w.Asked
			c.Begin()
		}
		if c.syscall.Runs == Inline {
			c.RunHere(c.Expire)
		} else {
			c.RunWithin()
		}
	}
	return o.outcome, o.commit
}

// settleWork adds to a batch what the outcome means for the work that the call is a part of.
func (c *Call) settleWork(b *store.Batch, m *message.Message) error {
	events, err := c.work.Settle(b, c.kept(m))
	if err != nil {
		return err
	}
	c.published = append(c.published, events...)
	c.applied = both(c.applied, func(*store.Commit) { c.work.Applied() })
	return nil
}

// workOrigin takes the answers of a call that is a part of some work. Calls post one message at
// a time.
type workOrigin struct {
	sender  Sender
	event   Emit
	brief   func(json.RawMessage) json.RawMessage
	call    *Call
	current message.Message // the event that is sent
	outcome message.Message
	commit  *store.Commit
}

// Sender implements [Origin].
func (o *workOrigin) Sender(message.ID) Sender { return o.sender }

// Post implements [Origin].
func (o *workOrigin) Post(send Emit, m message.Message, commit *store.Commit) {
	if m.Kind.Answers() {
		o.commit = commit
	}
	send(m)
}

func (o *workOrigin) send(m message.Message) {
	switch {
	case m.Kind.Answers():
		o.outcome = m.Clone()
	case o.event != nil:
		o.current = m
		o.call.strip(&o.current)
		o.event(o.current)
	}
}
