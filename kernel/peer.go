package kernel

import (
	"context"
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
// has made it. There is none if the program that runs the kernel calls it itself.
func PeerOf(ctx context.Context) (*Peer, bool) {
	c, ok := ctx.Value(callKey{}).(*call)
	for ok && c.caller != nil {
		c = c.caller
	}
	if !ok || c.session == nil {
		return nil, false
	}
	return &Peer{s: c.session, send: c.send}, true
}

// ID tells the connections of a kernel apart. Ids are not used again.
func (p *Peer) ID() uint64 { return p.s.id }

// Gone is closed when the peer sends nothing any more.
func (p *Peer) Gone() <-chan struct{} { return p.s.inquiries.gone }

// maxUnread is how many events of one inquiry wait for whoever asked.
const maxUnread = 256

// Ask sends the peer a request on behalf of the call that ctx belongs to, and returns the
// outcome, a reply or an error message. The request gets an id of its own, the call's
// correlation, and the call's request as its cause. Events that the peer sends before the
// outcome, with the request as their cause, go to event.
//
// The error is a *message.Error: 502 if the peer goes away, 413 if the request does not fit
// into a line; or that of ctx. Then the peer is told, with the event Syscall.Cancelled, and
// what it says later is dropped.
func (p *Peer) Ask(ctx context.Context, t message.Type, data []byte, event func(message.Message)) (message.Message, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return message.Message{}, message.Errorf(500, "A question to a peer that belongs to no call")
	}
	k := c.k
	m := message.Message{Kind: c.request.Kind, Type: t, Data: data, Metadata: c.request.Caused()}
	m.Metadata.IdempotencyKey = c.request.Metadata.IdempotencyKey
	k.Stamp(&m)
	if n := len(message.Append(nil, &m)); n > message.MaxLine {
		return message.Message{}, message.Errorf(413, "%s would take %d bytes on its way to the program that serves it, and %d are allowed; put large data where that program can fetch it", t, n, message.MaxLine)
	}
	q := &inquiry{syscall: c.syscall, news: make(chan struct{}, 1)}
	if !p.s.inquiries.begin(m.Metadata.ID, q) {
		return message.Message{}, wentAway(t)
	}
	defer p.s.inquiries.end(m.Metadata.ID)
	k.recordCopy(m, Record{Way: Out, Syscall: c.syscall})
	p.send(m)
	for {
		select {
		case <-q.news:
			for _, answer := range p.s.inquiries.read(q) {
				if answer.Kind.Answers() {
					return answer, nil
				}
				event(answer)
			}
		case <-ctx.Done():
			p.cancelled(k, &m)
			return message.Message{}, ctx.Err()
		}
	}
}

func wentAway(t message.Type) error {
	return message.Errorf(502, "The program that serves %s went away before it answered; try again when it is back", t)
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

// Cancel cancels a call of the peer that runs aside, and reports whether there is one with
// this id.
func (p *Peer) Cancel(id message.ID) bool {
	p.s.asides.Lock()
	c := p.s.running[id]
	p.s.asides.Unlock()
	if c == nil {
		return false
	}
	c.cancel(context.Canceled)
	return true
}

// inquiries are the requests that a peer has been sent and has not answered.
type inquiries struct {
	n    atomic.Int64 // how many; most connections have none
	gone chan struct{}

	mu   sync.Mutex // guards what follows, and what has arrived
	over bool
	all  map[message.ID]*inquiry
}

// An inquiry is one of them.
type inquiry struct {
	syscall *Syscall
	arrived []message.Message // what the peer has said to it, and nobody has read
	news    chan struct{}     // gets a token when something has arrived
}

func (i *inquiries) begin(id message.ID, q *inquiry) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return false
	}
	if i.all == nil {
		i.all = make(map[message.ID]*inquiry)
	}
	i.all[id] = q
	i.n.Add(1)
	return true
}

func (i *inquiries) end(id message.ID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.all, id)
	i.n.Add(-1)
}

// read takes what has arrived.
func (i *inquiries) read(q *inquiry) []message.Message {
	i.mu.Lock()
	defer i.mu.Unlock()
	arrived := q.arrived
	q.arrived = nil
	return arrived
}

// arrive hands a message to an inquiry. Nothing arrives after an outcome.
func (i *inquiries) arrive(id message.ID, q *inquiry, m message.Message) {
	if m.Kind.Answers() {
		delete(i.all, id)
	}
	q.arrived = append(q.arrived, m)
	select {
	case q.news <- struct{}{}:
	default: // there is one
	}
}

// close says that the peer answers nothing any more.
func (i *inquiries) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	for id, q := range i.all {
		e, _ := message.ErrorOf(wentAway(q.syscall.Type))
		i.arrive(id, q, message.Message{Kind: message.KindError, Type: q.syscall.Type, Err: e, Data: e.Append(nil)})
	}
	close(i.gone)
}

// take hands a message to the inquiry that it answers, if there is one. It never waits:
// whoever asked and reads too slowly must not hold up what else the peer has to say.
func (s *session) take(m *message.Message) bool {
	i := &s.inquiries
	i.mu.Lock()
	defer i.mu.Unlock()
	id := m.Metadata.Causation
	q := i.all[id]
	if q == nil {
		return false
	}
	s.k.recordCopy(*m, Record{Way: In, Syscall: q.syscall})
	if len(q.arrived) >= maxUnread && !m.Kind.Answers() {
		i.arrive(id, q, m.Fail(message.Errorf(503, "%s sends events faster than its caller takes them, and %d are waiting", q.syscall.Type, maxUnread)))
		return true
	}
	i.arrive(id, q, m.Clone())
	return true
}
