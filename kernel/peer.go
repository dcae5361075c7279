package kernel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// A Peer is the other side of a connection, seen by a handler: the program that called
// it, which can be asked as well.
type Peer struct {
	s    *session
	send Emit
}

// PeerOf returns the peer that the call of ctx came from, or that the call came from that
// has made it. There is none if the program that runs the kernel calls it itself, or if the
// call came over a wire that carries no messages to its peer.
func PeerOf(ctx context.Context) (*Peer, bool) {
	c, ok := ctx.Value(callKey{}).(*call)
	for ok && c.caller != nil {
		c = c.caller
	}
	if !ok || c.session == nil || c.session.mute {
		return nil, false
	}
	return &Peer{s: c.session, send: c.send}, true
}

// ID tells the connections of a kernel apart. Ids are not used again.
func (p *Peer) ID() uint64 { return p.s.id }

// Gone is closed when the peer sends nothing any more.
func (p *Peer) Gone() <-chan struct{} { return p.s.inquiries.gone }

// WhenGone calls f when the peer sends nothing any more, before those who wait for its
// answers are told. It returns false, and f is not called, if that is so already. f must
// not wait for anything.
func (p *Peer) WhenGone(f func()) bool {
	i := &p.s.inquiries
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.leaving {
		return false
	}
	i.farewells = append(i.farewells, f)
	return true
}

// Publish records an event for those who watch, as the function of that name does, where no
// call is left that could: it is made with Event from the request that caused it.
func (p *Peer) Publish(event message.Message) {
	p.s.k.Stamp(&event)
	p.s.k.recordCopy(event, Record{Way: Within})
}

const (
	maxInquiries = 1024    // that a peer has not answered
	maxUnread    = 4096    // events of one of them that wait for whoever asked
	maxUnreadLen = 1 << 20 // bytes of their data

	// maxEnvelope is longer than anything that stands around the data of a message.
	maxEnvelope = 8 << 10
)

// Ask sends the peer a request on behalf of the call that ctx belongs to, and returns the
// outcome, a reply or an error message. The request gets an id of its own, the call's
// correlation, and the call's request as its cause. Events that the peer sends before the
// outcome, with the request as their cause, go to event.
//
// The error is a *message.Error: 502 if the peer has gone, 503 if it has too much to answer,
// 413 if the request does not fit into a line; or that of ctx. Then the peer is told, with
// the event Syscall.Cancelled, and what it says later is dropped. If it goes away before it
// answers, the outcome is an error message with code 502.
func (p *Peer) Ask(ctx context.Context, t message.Type, data []byte, event func(message.Message)) (message.Message, error) {
	c, m, err := p.question(ctx, t, data)
	if err != nil {
		return message.Message{}, err
	}
	q := &inquiry{call: c, request: m, news: make(chan struct{}, 1)}
	if err := p.s.inquiries.begin(m.Metadata.ID, q); err != nil {
		return message.Message{}, err
	}
	defer p.s.inquiries.end(m.Metadata.ID)
	c.k.recordCopy(m, Record{Way: Out, Syscall: c.syscall, call: c})
	p.send(m)
	for {
		select {
		case <-q.news:
			if answer, ok := p.hear(c.k, q, &m, event); ok {
				return answer, nil
			}
		case <-ctx.Done():
			p.cancelled(c.k, &m)
			return message.Message{}, ctx.Err()
		}
	}
}

// hear takes what has arrived for an inquiry, and returns the outcome if that is there.
func (p *Peer) hear(k *Kernel, q *inquiry, m *message.Message, event func(message.Message)) (message.Message, bool) {
	for _, answer := range p.s.inquiries.read(q) {
		if answer.Kind.Answers() {
			if q.overrun {
				p.cancelled(k, m)
			}
			return answer, true
		}
		event(answer)
	}
	return message.Message{}, false
}

// A Listener gets what a peer says to somebody who does not wait for it.
type Listener interface {
	// Event gets what comes before the outcome.
	Event(message.Message)

	// Done gets what Ask would return, once. If that is an error, an Event may not have ended.
	Done(message.Message, error)
}

// AskLater is Ask for a call that is answered later, see [Syscall]: it does not wait, and
// the listener is told by the goroutine that reads what the peer says, or by another one. It
// returns false, and has done nothing, if the peer can't be sent the request without waiting,
// or not at all: Ask says why.
func (p *Peer) AskLater(ctx context.Context, t message.Type, data []byte, l Listener) bool {
	c, m, err := p.question(ctx, t, data)
	if err != nil || p.s.box.at == nil {
		return false
	}
	q := &inquiry{call: c, peer: p, request: m, listener: l}
	if !p.s.box.at.Prompts(&m) || p.s.inquiries.begin(m.Metadata.ID, q) != nil {
		return false
	}
	// Before it is sent, since recording may wait.
	c.k.record(Record{Message: &q.request, Way: Out, Syscall: c.syscall, call: c})
	if p.s.box.at.Prompt(p.send, m) {
		p.s.box.push()
	} else {
		go p.send(m) // somebody else was faster, and there is no room any more
	}
	c.whenForsaken(q)
	return true
}

// listen hands over what has arrived, until the outcome is there.
func (q *inquiry) listen() {
	q.call.attend()
	for range q.news {
		if answer, ok := q.peer.hear(q.call.k, q, &q.request, q.listener.Event); ok {
			q.peer.s.inquiries.n.Add(-1)
			q.listener.Done(answer, nil)
			return
		}
	}
}

// forsaken says that nobody waits for the answer any more.
func (q *inquiry) forsaken(err error) {
	if q.peer.s.inquiries.giveUp(q.request.Metadata.ID, q) {
		q.listener.Done(message.Message{}, err)
		q.peer.cancelled(q.call.k, &q.request)
	}
}

// question makes the request to a peer.
func (p *Peer) question(ctx context.Context, t message.Type, data []byte) (*call, message.Message, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, message.Message{}, message.Errorf(500, "A question to a peer that belongs to no call")
	}
	m := message.Message{Kind: c.request.Kind, Type: t, Data: data, Metadata: c.request.Caused()}
	m.Metadata.IdempotencyKey = c.request.Metadata.IdempotencyKey
	c.k.Stamp(&m)
	if len(data) > message.MaxLine-maxEnvelope {
		if n := len(message.Append(nil, &m)); n > message.MaxLine {
			return c, m, message.Errorf(413, "%s would take %d bytes on its way to the program that serves it, and %d are allowed; put large data where that program can fetch it", t, n, message.MaxLine)
		}
	}
	return c, m, nil
}

// wentAway is the error of an inquiry that is not going to be answered.
func (q *inquiry) wentAway() *message.Error {
	advice := "try again when it is back"
	if q.request.Kind == message.KindCommand {
		advice = "it may have been done or not: look before you try again"
	}
	return message.Errorf(502, "The program that serves %s went away before it answered; %s", q.request.Type, advice)
}

// Cancelled is the event that tells a peer that nobody waits for a request any more.
const Cancelled message.Type = "Syscall.Cancelled"

func (p *Peer) cancelled(k *Kernel, m *message.Message) {
	data := append(jsonscan.AppendQuoted([]byte(`{"id":`), string(m.Metadata.ID)), '}')
	e := m.Event(Cancelled, data)
	k.Stamp(&e)
	k.recordCopy(e, Record{Way: Out})
	p.send(e)
}

// Cancel cancels a call of the peer that runs aside or waits for its turn, and reports
// whether there is one with this id.
func (p *Peer) Cancel(id message.ID) bool { return p.s.cancel(id) }

// inquiries are the requests that a peer has been sent and has not answered.
type inquiries struct {
	n       atomic.Int64 // how many; most connections have none
	offered atomic.Int64 // how many types the peer serves
	gone    chan struct{}

	mu        sync.Mutex // guards what follows, and what has arrived
	leaving   bool       // nobody says farewell any more
	over      bool       // nothing is asked any more
	farewells []func()
	all       map[message.ID]*inquiry
	offers    map[message.Type]func() bool // what the peer serves, and what reports whether it rests
}

// An inquiry is one of them.
type inquiry struct {
	call    *call // that asks
	request message.Message
	bytes   int               // of the data of what has arrived
	arrived []message.Message // what the peer has said to it, and nobody has read
	news    chan struct{}     // gets a token when something has arrived
	overrun bool              // it was ended since too much had; set before the outcome arrives

	// Of one whose asker does not wait:
	listener Listener // nil if it does
	peer     *Peer
	slow     bool // listen runs, on a goroutine of its own: there were events
}

// serves reports whether others wait for what the peer says, or may.
func (i *inquiries) serves() bool { return i.offered.Load() > 0 || i.n.Load() > 0 }

func (i *inquiries) begin(id message.ID, q *inquiry) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return message.Errorf(502, "The program that serves %s went away before it got the request; try again when it is back", q.request.Type)
	}
	// Those count that were cancelled while the peer does not read: they are stuck.
	if i.n.Load() >= maxInquiries {
		return message.Errorf(503, "The program that serves %s has %d requests to answer, and gets no more; try again later", q.call.syscall.Type, maxInquiries)
	}
	if i.all == nil {
		i.all = make(map[message.ID]*inquiry)
	}
	i.all[id] = q
	i.n.Add(1)
	return nil
}

func (i *inquiries) end(id message.ID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.all, id)
	i.n.Add(-1)
}

// giveUp ends an inquiry of somebody who does not wait, and reports whether it had not ended.
func (i *inquiries) giveUp(id message.ID, q *inquiry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all[id] != q {
		return false
	}
	delete(i.all, id)
	i.n.Add(-1)
	if q.slow {
		close(q.news) // nothing arrives any more
	}
	return true
}

// read takes what has arrived.
func (i *inquiries) read(q *inquiry) []message.Message {
	i.mu.Lock()
	defer i.mu.Unlock()
	arrived := q.arrived
	q.arrived, q.bytes = nil, 0
	return arrived
}

// arrive hands a message to an inquiry. Nothing arrives after an outcome.
func (i *inquiries) arrive(id message.ID, q *inquiry, m message.Message) {
	if m.Kind.Answers() {
		delete(i.all, id)
	}
	if q.listener != nil && !q.slow {
		q.slow, q.news = true, make(chan struct{}, 1)
		go q.listen()
	}
	q.arrived = append(q.arrived, m)
	q.bytes += len(m.Data)
	select {
	case q.news <- struct{}{}:
	default: // there is one
	}
}

// close says that the peer answers nothing any more.
func (i *inquiries) close() {
	i.mu.Lock()
	i.leaving = true
	farewells := i.farewells
	i.farewells = nil
	i.mu.Unlock()
	for _, f := range farewells {
		f()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	for id, q := range i.all {
		e := q.wentAway()
		i.arrive(id, q, message.Message{Kind: message.KindError, Type: q.call.syscall.Type, Err: e, Data: e.Append(nil)})
	}
	close(i.gone)
}

// find returns the inquiry of an id, or nil.
func (i *inquiries) find(id message.ID) *inquiry {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all[id]
}

// take hands a message to the inquiry that it answers, if there is one. Whoever asked and
// reads too slowly does not hold up what else the peer has to say.
func (s *session) take(m *message.Message) bool {
	i := &s.inquiries
	if i.n.Load() == 0 {
		return false
	}
	id := m.Metadata.Causation
	q := i.find(id)
	if q == nil {
		return false
	}
	if m.Metadata.Correlation == "" {
		m.Metadata.Correlation = q.request.Metadata.Correlation // it is part of the same workflow
	}
	// Before it is passed on, and without the lock: recording may wait.
	s.k.recordCopy(*m, Record{Way: In, Syscall: q.call.syscall, Refused: misplaced(m, q.call.syscall), call: q.call})
	if q.listener != nil && m.Kind.Answers() && i.answer(id, q) {
		q.listener.Done(*m, nil)
		return true
	}
	defer runtime.Gosched() // whoever asked goes first: the next message may take a while
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all[id] != q {
		return true // it was given up in the meantime
	}
	if (len(q.arrived) >= maxUnread || q.bytes+len(m.Data) > maxUnreadLen) && !m.Kind.Answers() {
		q.overrun = true
		i.arrive(id, q, m.Fail(message.Errorf(503, "%s sends events faster than its caller takes them, and %d are waiting", q.call.syscall.Type, len(q.arrived))))
		return true
	}
	i.arrive(id, q, m.Clone())
	return true
}

// answer ends the inquiry of somebody who does not wait with its outcome, unless there were
// events before it.
func (i *inquiries) answer(id message.ID, q *inquiry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all[id] != q || q.slow {
		return false
	}
	delete(i.all, id)
	i.n.Add(-1)
	return true
}

// spoil ends the inquiry that something which is no valid message was meant to answer, if
// there is one: nothing better is going to come.
func (s *session) spoil(r *Refused) {
	i := &s.inquiries
	if i.n.Load() == 0 || !r.Request.Kind.Answers() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	id := r.Request.Metadata.Causation
	if q := i.all[id]; q != nil {
		e := message.Errorf(502, "The program that serves %s sent an answer that is no valid message; it was told what is wrong with it", q.call.syscall.Type)
		i.arrive(id, q, message.Message{Kind: message.KindError, Type: q.call.syscall.Type, Err: e, Data: e.Append(nil)})
	}
}

// misplaced reports whether a reply may have its secrets elsewhere than where the schema
// marks them.
func misplaced(m *message.Message, s *Syscall) bool {
	return m.Kind == message.KindReply && s.Output.Sensitive() && s.Output.Validate(m.Data) != nil
}
