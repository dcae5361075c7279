package connection

import (
	"context"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
)

// A Peer is the other side of a connection, seen by a handler: the program that called
// it, which can be sent requests as well.
type Peer struct {
	conn *Connection
	send kernel.Emit
}

// PeerOf returns the peer that the call of ctx came from, or that the call came from that
// has made it. There is none if the program that runs the kernel calls it itself, or if the
// call came over a wire that carries no requests to its peer.
func PeerOf(ctx context.Context) (*Peer, bool) {
	call, ok := kernel.CallOf(ctx)
	if !ok {
		return nil, false
	}
	root := call.Root()
	c, ok := root.Origin().(*Connection)
	if !ok || c.opts.NoRequests {
		return nil, false
	}
	return &Peer{conn: c, send: root.Send()}, true
}

// ID returns the id of the connection, which is unique in its kernel. Ids are not used again.
func (p *Peer) ID() uint64 { return p.conn.id }

// WhenGone calls f when the peer no longer sends, before the calls that wait for its
// answers fail. It returns false, and f is not called, if the peer has stopped sending already. f must
// not wait for anything.
func (p *Peer) WhenGone(f func()) bool {
	o := &p.conn.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leaving {
		return false
	}
	o.whenGone = append(o.whenGone, f)
	return true
}

// Publish records an event for watchers, as [kernel.Publish] does, where no call is left that
// could: it is made with Event from the request that caused it.
func (p *Peer) Publish(event message.Message) {
	p.conn.k.Stamp(&event)
	p.conn.k.Record(event, kernel.Within, p.conn.sender)
}

// Cancel cancels the peer's slow call or queued request with this id. It returns false if there
// is none.
func (p *Peer) Cancel(id message.ID) bool { return p.conn.Cancel(id) }

// Offer notes that the peer serves a type, until withdraw is called: calls of other
// connections may wait for its answers. A peer that is resting has failed, and gets requests only
// if no other one is there; resting must not wait for anything.
func (p *Peer) Offer(t message.Type, resting func() bool) (withdraw func()) {
	o := &p.conn.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.offers == nil {
		o.offers = make(map[message.Type]func() bool)
	}
	o.offers[t] = resting
	o.offered.Store(int64(len(o.offers)))
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.offers, t)
		o.offered.Store(int64(len(o.offers)))
	}
}

// maxEnvelope is longer than anything that stands around the data of a message.
const maxEnvelope = 8 << 10

// Ask sends the peer a request on behalf of the call that ctx belongs to, and returns the
// outcome, a reply or an error message. The request gets an id of its own, the call's
// correlation, and the call's request as its cause. Events that the peer sends before the
// outcome, with the request as their cause, go to event.
//
// The error is a *message.Error: 502 if the peer has gone, 503 if it has too much to answer,
// 413 if the request does not fit into a line; or that of ctx. Then the peer is notified with
// the event Syscall.Cancelled, and what it sends later is dropped. If it goes away before it
// answers, the outcome is an error message with code 502.
func (p *Peer) Ask(ctx context.Context, t message.Type, data []byte, event func(message.Message)) (message.Message, error) {
	call, ok := kernel.CallOf(ctx)
	if !ok {
		return message.Message{}, message.Errorf(500, "A request to a peer that belongs to no call")
	}
	r := &request{call: call, news: make(chan struct{}, 1)}
	if err := p.compose(r, t, data); err != nil {
		return message.Message{}, err
	}
	if err := p.conn.k.AwaitFence(ctx); err != nil {
		return message.Message{}, err
	}
	o := &p.conn.outgoing
	if err := o.begin(r); err != nil {
		return message.Message{}, err
	}
	defer o.end(r)
	call.Record(r.m, kernel.Out)
	p.conn.src.Writable(true)
	p.send(r.m)
	for {
		select {
		case <-r.news:
			for _, m := range o.received(r) {
				if !m.Kind.Answers() {
					event(m)
					continue
				}
				if r.overrun {
					p.cancelled(&r.m)
				}
				return m, nil
			}
		case <-ctx.Done():
			p.cancelled(&r.m)
			return message.Message{}, ctx.Err()
		}
	}
}

func (p *Peer) compose(r *request, t message.Type, data []byte) error {
	asked := r.call.Request()
	r.m = message.Message{Kind: asked.Kind, Type: t, Data: data, Metadata: asked.Caused()}
	r.m.Metadata.IdempotencyKey, r.m.Metadata.Extra = asked.Metadata.IdempotencyKey, asked.Metadata.Extra
	p.conn.k.Stamp(&r.m)
	if len(data) > message.MaxLine-maxEnvelope {
		if n := len(message.Append(nil, &r.m)); n > message.MaxLine {
			return message.Errorf(413, "The request of %s to the program that serves it would have %d bytes, and %d are allowed; put large data where that program can fetch it", t, n, message.MaxLine)
		}
	}
	return nil
}

// cancelledEvent is the event with which a peer learns that a request no longer needs an answer.
const cancelledEvent message.Type = "Syscall.Cancelled"

func (p *Peer) cancelled(m *message.Message) {
	e := m.Event(cancelledEvent, jsonvalue.Marshal(map[string]message.ID{"id": m.Metadata.ID}))
	p.conn.k.Stamp(&e)
	p.conn.k.Record(e, kernel.Out, p.conn.sender)
	p.conn.src.Writable(true)
	p.send(e)
}
