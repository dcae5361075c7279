package kernel

import (
	"context"
	"encoding/json"

	"kernos/message"
	"kernos/store"
)

// maxDepth is how deep calls may nest.
const maxDepth = 32

// Invoke asks for another syscall on behalf of the call that ctx belongs to, which
// must be one that a handler was given. What it sets off carries the lineage of
// that call. It returns the data of the reply; the error is a *message.Error.
//
// A query may not call a command, since a query may not change anything.
func Invoke(ctx context.Context, t message.Type, data json.RawMessage) (json.RawMessage, error) {
	return InvokeAs(ctx, NewCall{Type: t, Data: data})
}

// A NewCall is what [InvokeAs] asks for.
type NewCall struct {
	Type message.Type
	Data json.RawMessage

	// Correlation is the workflow that the call belongs to. "" means the caller's.
	Correlation string

	// Sender is the sender of the call; nil means the caller's. Another sender can only have
	// fewer rights: the owner may act for every principal, others for themselves, alone or with the
	// author of code.
	Sender *Sender

	// Kept asks for the reply as it is recorded: without secrets, and with pointers to blobs in
	// place of what is too large for a line.
	Kept bool

	// Event gets the events of the call. They are neither recorded nor passed on: the caller
	// reports them with events of its own. Nil means that they are passed on. The data of an event
	// may be overwritten when Event has returned.
	Event Emit
}

// InvokeAs is Invoke with all options of a nested call.
func InvokeAs(ctx context.Context, n NewCall) (json.RawMessage, error) {
	t, data := n.Type, n.Data
	c, ok := CallOf(ctx)
	if !ok {
		return nil, message.Errorf(500, "A call of %s that belongs to no call", t)
	}
	if c.depth+1 > maxDepth {
		return nil, message.Errorf(508, "Calls nest deeper than %d: %s calls %s", maxDepth, c.request.Type, t)
	}
	sender := c.sender
	if n.Sender != nil {
		own, other := c.sender.Principal(), n.Sender.Principal()
		if !other.Narrower(own) {
			return nil, message.Errorf(403, "The token %q may not call %s for %q; the owner can: call it over the unix socket of the daemon", own.Name(), t, other.Name())
		}
		sender = n.Sender.In(c.sender.Scope())
	}
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	m := message.Message{Kind: message.KindCommand, Type: t, Data: data, Metadata: c.request.Caused()}
	if n.Correlation != "" {
		m.Metadata.Correlation = n.Correlation
	}
	if s, ok := c.k.registry.Lookup(t); ok {
		m.Kind = s.Kind
	}
	c.k.Stamp(&m)
	if err := m.Validate(); err != nil {
		return nil, err
	}
	m = m.Clone() // the handler may outlive the call, and the caller's data
	var outcome message.Message
	child := c.k.admit(ctx, &m, func(m message.Message) {
		if m.Kind.Answers() {
			outcome = m
			return
		}
		if n.Event != nil {
			n.Event(m)
			return
		}
		m.Via = &message.Via{Type: t, Within: m.Via}
		c.forward(m)
	}, &nestedOrigin{c, sender}, sender, parent{call: c})
	if child != nil {
		c.leaveQueues() // the child may write the same
		child.depth, child.taken = c.depth+1, n.Event != nil
		child.RunWithin()
	}
	if outcome.Kind == message.KindReply {
		if n.Kept {
			return child.small(&outcome).Data, nil
		}
		return outcome.Data, nil
	}
	failed := *outcome.Failure()
	failed.Via = &message.Via{Type: t, Within: failed.Via}
	return nil, &failed
}

// nestedOrigin is the origin of a nested call.
type nestedOrigin struct {
	caller *Call
	sender Sender
}

// Sender implements [Origin].
func (o *nestedOrigin) Sender(message.ID) Sender { return o.sender }

// Post implements [Origin]. The outcome of a nested call does not wait for its commit; that of
// its caller does.
func (o *nestedOrigin) Post(send Emit, m message.Message, commit *store.Commit) {
	if m.Kind.Answers() {
		o.caller.awaitCommit(commit)
	}
	send(m)
}

// mayCommand reports whether the call may call commands: a query may not, since it may
// not change anything, nor may what was sent to serve one.
func (c *Call) mayCommand() bool {
	return c.sender.serves() == "" && (c.syscall.Kind == message.KindCommand || c.syscall.Effect == Delegated && c.request.Kind == message.KindCommand)
}

// forward passes an event of a nested call on; it has its lineage already.
func (c *Call) forward(m message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled.Load() && !c.applying {
		c.post(m)
	}
}
