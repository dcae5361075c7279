package kernel

import (
	"errors"
	"slices"

	"kernos/message"
)

// While a slow call waits for a place, its connection is still read, by a goroutine of its
// own, the lookout: what ends one of those that have the places must not wait behind it, nor
// what others wait for, and a peer that leaves is to be noticed. What else comes is put into
// the backlog, and the turn works it off in order. When nothing is left there, the lookout
// has the turn as soon as something comes.

// What waits for its turn, at most.
const (
	maxBacklog      = 1024     // messages of one connection
	maxBacklogBytes = 1 << 20  // of their data, but one always fits
	maxBacklogAll   = 64 << 20 // of the data of all connections, but one always fits
)

// The requests that go ahead of others which wait for their turn, with names that nobody
// else can have.
const (
	CancelType   message.Type = "Syscall.Cancel"
	ShutdownType message.Type = "Syscall.Shutdown"
)

func goesAhead(m *message.Message) bool {
	return m.Kind.Asks() && (m.Type == CancelType || m.Type == ShutdownType)
}

// arrival is a message that has come and waits for its turn.
type arrival struct {
	m    message.Message
	send Emit
}

// backlog is what has come and waits for its turn. It is guarded by the session's asides.
type backlog struct {
	working bool          // somebody works it off; the lookout only reads
	first   *call         // waits for a place, and everything else behind it; nil if none does
	queue   []arrival     // what has come since
	bytes   int           // of the data in queue
	room    chan struct{} // closed when there is room; nil if the lookout does not wait
}

// errWorkedOff is what next returns when nothing waits for its turn any more: it is up to the
// lookout.
var errWorkedOff = errors.New("nothing waits any more")

// lookAhead sees to it that the source is read although a call waits. It is called by whoever
// has the turn, with asides held.
func (s *session) lookAhead() {
	if s.ahead {
		return
	}
	s.ahead, s.working = true, true
	s.aside.Add(1)
	go s.lookout()
}

// lookout reads the source while the turn is busy with what came before. It ends with the
// source, or has the turn itself.
func (s *session) lookout() {
	for {
		m, send, err := s.read()
		switch {
		case err != nil:
			s.end(err)
			return
		case goesAhead(&m):
			s.letAhead(m, send)
		case !s.queueUp(&m, send):
			s.ahead = false
			s.turnWith(m, send, nil)
			return
		}
	}
}

// letAhead runs a call at once, whatever waits.
func (s *session) letAhead(m message.Message, send Emit) {
	m = m.Clone() // its handler may overstay
	c := s.k.admit(s.ctx, &m, send, s.box, nil)
	if c == nil {
		return
	}
	c.session = s
	c.runWithin()
	s.box.ready()
}

// queueUp puts a message behind those that wait for their turn, and waits if there are too
// many. It returns false if none do: whoever has read the message has the turn.
func (s *session) queueUp(m *message.Message, send Emit) bool {
	s.asides.Lock()
	if s.working && s.full(len(m.Data)) && s.inquiries.serves() {
		// Others wait for what the peer says: it has to be read.
		waiting := len(s.queue)
		s.asides.Unlock()
		if m.Kind.Asks() {
			s.k.refuse(m, send, s.box, message.Errorf(429, "This connection has as many slow requests in flight as it may, and %d messages that wait for their turn; no more are taken. Wait for their answers, or use another connection", waiting))
		} else {
			s.k.admit(s.asking, m, send, s.box, nil) // it is recorded, and that is all
		}
		return true
	}
	defer s.asides.Unlock()
	if s.working && s.full(len(m.Data)) {
		s.awaitRoom(len(m.Data))
	}
	if !s.working {
		return false
	}
	s.queue = append(s.queue, arrival{m.Clone(), send})
	s.bytes += len(m.Data)
	s.k.queued.Add(int64(len(m.Data)))
	return true
}

// full reports whether a message with so much data has to wait before it may wait.
func (s *session) full(n int) bool {
	return len(s.queue) >= maxBacklog ||
		len(s.queue) > 0 && (s.bytes+n > maxBacklogBytes || s.k.queued.Load() > maxBacklogAll)
}

// awaitRoom waits until there is room for a message. Meanwhile nothing is read, so it is
// asked whether anybody is there.
func (s *session) awaitRoom(n int) {
	s.asides.Unlock()
	stop := s.watchPeer()
	s.asides.Lock()
	for s.working && s.full(n) {
		s.room = make(chan struct{})
		room := s.room
		s.asides.Unlock()
		<-room
		s.asides.Lock()
	}
	s.asides.Unlock()
	stop()
	s.asides.Lock()
}

// makeRoom tells the lookout that there is room again, when much has left. It is called with
// asides held.
func (s *session) makeRoom() {
	if s.room != nil && (len(s.queue) == 0 || len(s.queue) <= maxBacklog/2 && s.bytes <= maxBacklogBytes/2) {
		close(s.room)
		s.room = nil
	}
}

// unqueue returns the message whose turn it is. If there is none, the turn is over.
func (s *session) unqueue() (message.Message, Emit, error) {
	a, ok := s.dequeue()
	if !ok {
		s.box.ready() // nobody else knows: the connection is waiting for input
		s.aside.Done()
		return message.Message{}, nil, errWorkedOff
	}
	return a.m, a.send, nil
}

func (s *session) dequeue() (a arrival, ok bool) {
	s.asides.Lock()
	defer s.asides.Unlock()
	if len(s.queue) == 0 {
		s.queue, s.working = nil, false
		s.makeRoom()
		return arrival{}, false
	}
	a = s.queue[0]
	s.queue[0] = arrival{}
	s.queue = s.queue[1:]
	s.left(&a)
	return a, true
}

// withdraw takes the request with an id out of those that wait, if it is there. It is called
// with asides held.
func (s *session) withdraw(id message.ID) (a arrival) {
	i := slices.IndexFunc(s.queue, func(a arrival) bool { return a.m.Kind.Asks() && a.m.Metadata.ID == id })
	if i < 0 {
		return arrival{}
	}
	a = s.queue[i]
	s.queue = slices.Delete(s.queue, i, i+1)
	s.left(&a)
	return a
}

// left counts what waits no more.
func (s *session) left(a *arrival) {
	s.bytes -= len(a.m.Data)
	s.k.queued.Add(-int64(len(a.m.Data)))
	s.makeRoom()
}
