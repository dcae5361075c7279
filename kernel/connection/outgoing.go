package connection

import (
	"runtime"
	"sync"
	"sync/atomic"

	"kernos/kernel"
	"kernos/kernel/idempotency"
	"kernos/message"
)

const (
	maxOutgoing    = 1024    // requests that a peer has not answered
	maxUnread      = 4096    // events of one request that its call has not read
	maxUnreadBytes = 1 << 20 // bytes of unread events of one request
)

// outgoing is the requests that a peer was sent and has not answered.
type outgoing struct {
	n       atomic.Int64 // requests without an answer; most connections have none
	offered atomic.Int64 // types that the peer serves

	mu       sync.Mutex // guards the fields below, and the unread messages of requests
	leaving  bool       // nothing more is added to whenGone
	over     bool       // nothing more is sent
	whenGone []func()
	requests map[message.ID]*request
	offers   map[message.Type]func() bool // types that the peer serves; the function reports whether it gets no requests for a while
}

type request struct {
	call    *kernel.Call // the call that sends the request
	m       message.Message
	unread  []message.Message // the peer's messages that the call has not read
	bytes   int               // bytes of data in unread
	news    chan struct{}     // gets a token when unread has messages
	overrun bool              // the request was ended because too much was unread; set before the outcome
}

// serves reports whether calls of other connections wait for the peer's answers, or may.
func (o *outgoing) serves() bool { return o.offered.Load() > 0 || o.n.Load() > 0 }

// CountServices implements [kernel.Connection].
func (c *Connection) CountServices(service func(message.Type) *kernel.Service) {
	o := &c.outgoing
	if !o.serves() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for t, resting := range o.offers {
		s := service(t)
		s.Connections++
		if resting() {
			s.Resting++
		}
	}
	for _, r := range o.requests {
		service(r.call.Syscall().Type).Waiting++
	}
}

func (o *outgoing) begin(r *request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return message.Errorf(502, "The program that serves %s went away before it got the request; try again when it is back", r.m.Type)
	}
	// Those count that were cancelled while the peer does not read: they are stuck.
	if o.n.Load() >= maxOutgoing {
		return message.Errorf(503, "The program that serves %s has %d requests to answer, and gets no more; try again later", r.call.Syscall().Type, maxOutgoing)
	}
	if o.requests == nil {
		o.requests = make(map[message.ID]*request)
	}
	o.requests[r.m.Metadata.ID] = r
	o.n.Add(1)
	return nil
}

func (o *outgoing) end(r *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.requests, r.m.Metadata.ID)
	o.n.Add(-1)
}

func (o *outgoing) received(r *request) []message.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	unread := r.unread
	r.unread, r.bytes = nil, 0
	return unread
}

// deliver hands a message to a request, and nothing after an outcome. It is called with mu
// held.
func (o *outgoing) deliver(r *request, m message.Message) {
	if m.Kind.Answers() {
		delete(o.requests, r.m.Metadata.ID)
	}
	r.unread = append(r.unread, m)
	r.bytes += len(m.Data)
	select {
	case r.news <- struct{}{}:
	default: // a token is already there
	}
}

// fail hands a request an error in the place of the peer's answer.
func (o *outgoing) fail(r *request, e *message.Error) {
	o.deliver(r, message.Message{Kind: message.KindError, Type: r.call.Syscall().Type, Err: e, Data: e.Append(nil)})
}

// close notes that the peer sends no further answers.
func (o *outgoing) close() {
	o.mu.Lock()
	o.leaving = true
	whenGone := o.whenGone
	o.whenGone = nil
	o.mu.Unlock()
	for _, f := range whenGone {
		f()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for _, r := range o.requests {
		advice := "try again when it is back"
		if r.m.Kind == message.KindCommand {
			advice = "it may have been done or not: look before you try again"
		}
		e := message.Errorf(502, "The program that serves %s went away before it answered; %s", r.m.Type, advice)
		e.Reason = idempotency.ErrUnknown
		o.fail(r, e)
	}
}

// find returns the request with an id, or nil.
func (o *outgoing) find(id message.ID) *request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.requests[id]
}

// inherit gives a request that the peer sends because of one that it serves the workflow and the trace of
// that one, if it names none.
func (o *outgoing) inherit(m *message.Message) {
	if m.Metadata.Causation == "" || o.n.Load() == 0 {
		return
	}
	r := o.find(m.Metadata.Causation)
	if r == nil {
		return
	}
	if m.Metadata.Correlation == "" {
		m.Metadata.Inherited = r.m.Metadata.Correlation
	}
	if r.m.Metadata.Extra != "" && m.Metadata.Extension(message.Traceparent) == "" {
		m.Metadata.Keep([]byte("{" + r.m.Metadata.Trace() + "}"))
	}
}

// take hands a message to the request that it answers, and reports whether there is one. A
// call that reads too slowly does not hold up the peer's other messages.
func (o *outgoing) take(m *message.Message) bool {
	if o.n.Load() == 0 {
		return false
	}
	r := o.find(m.Metadata.Causation)
	if r == nil {
		return false
	}
	if m.Metadata.Correlation == "" {
		m.Metadata.Correlation = r.m.Metadata.Correlation // the answer is part of the request's workflow
	}
	r.call.Record(*m, kernel.In) // recorded before the call sees it, and without the lock: recording may wait
	defer runtime.Gosched()      // the call goes first: the next message may take a while
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.requests[r.m.Metadata.ID] != r: // the request was given up in the meantime
	case !m.Kind.Answers() && (len(r.unread) >= maxUnread || r.bytes+len(m.Data) > maxUnreadBytes):
		r.overrun = true
		o.deliver(r, m.Fail(message.Errorf(503, "%s sends events faster than its caller takes them, and %d are waiting", r.call.Syscall().Type, len(r.unread))))
	default:
		o.deliver(r, m.Clone())
	}
	return true
}

// spoil ends the request that something which is not a valid message was meant to answer, if
// there is one: nothing better is going to come.
func (o *outgoing) spoil(refused *Refused) {
	if o.n.Load() == 0 || !refused.Request.Kind.Answers() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.requests[refused.Request.Metadata.Causation]; r != nil {
		o.fail(r, message.Errorf(502, "The program that serves %s sent an answer that is not a valid message; it was told what is wrong with it", r.call.Syscall().Type))
	}
}
