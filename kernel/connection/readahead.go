package connection

import (
	"errors"
	"slices"

	"kernos/kernel"
	"kernos/message"
)

// While a slow call waits for a place, its connection is still read, by a goroutine of its
// own: what ends one of the running calls must not wait behind it, nor what other connections
// wait for, and a peer that leaves is to be noticed. What else comes is queued, and the turn
// works the queue off in order. When the queue is empty, the goroutine that reads ahead has
// the turn as soon as something comes.

// What is queued, at most.
const (
	maxQueued      = 1024     // messages of one connection
	maxQueuedBytes = 1 << 20  // of their data, but one always fits
	maxQueuedAll   = 64 << 20 // of the data of all connections, but one always fits
)

// goesAhead reports whether a request overtakes others that wait for their turn. These names
// belong to the kernel alone.
func goesAhead(m *message.Message) bool {
	return m.Kind.Asks() && (m.Type == kernel.CancelType || m.Type == kernel.ShutdownType)
}

// arrival is a message that has come and waits for its turn.
type arrival struct {
	m    message.Message
	send kernel.Emit
}

// readAhead is what has come and waits for its turn. It is guarded by the connection's mu.
type readAhead struct {
	working bool          // the turn works the queue off, and another goroutine only reads
	first   *kernel.Call  // waits for a place, and everything else after it; nil if none does
	queue   []arrival     // what has come since
	bytes   int           // of the data in queue
	room    chan struct{} // closed when there is room; nil if the reader does not wait
}

// errQueueEmpty is what next returns when nothing waits for its turn any more: the goroutine
// that reads ahead takes the turn.
var errQueueEmpty = errors.New("nothing waits any more")

// readAhead reads the source while the turn is busy with what came before. It ends with the
// source, or has the turn itself.
func (c *Connection) readAhead() {
	for {
		m, send, err := c.read()
		switch {
		case err != nil:
			c.end(err)
			return
		case goesAhead(&m):
			m = m.Clone() // its handler may overstay
			if call := c.k.Admit(c.ctx, &m, send, c); call != nil {
				call.RunWithin()
				c.ready()
			}
		case !c.enqueue(&m, send):
			c.reading = false
			if c.turnWith(m, send, nil) && c.awaitTurn() {
				c.turn()
			}
			return
		}
	}
}

// enqueue puts a message after those that wait for their turn, and waits if there are too
// many. It returns false if none do: the goroutine that has read the message has the turn.
func (c *Connection) enqueue(m *message.Message, send kernel.Emit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead.working && c.full(len(m.Data)) {
		if c.Serves() { // other connections wait for what the peer says: it has to be read
			c.turnAway(m, send)
			return true
		}
		c.awaitRoom(len(m.Data))
	}
	if !c.ahead.working {
		return false
	}
	c.ahead.queue = append(c.ahead.queue, arrival{m.Clone(), send})
	c.ahead.bytes += len(m.Data)
	c.k.Connections().ReadAhead.Add(int64(len(m.Data)))
	return true
}

// turnAway refuses a message for which there is no room. It is called with mu held, and lets
// go of it meanwhile.
func (c *Connection) turnAway(m *message.Message, send kernel.Emit) {
	waiting := len(c.ahead.queue)
	c.mu.Unlock()
	defer c.mu.Lock()
	if !m.Kind.Asks() {
		c.k.Admit(c.queries, m, send, c) // it is recorded, and that is all
		return
	}
	c.k.Refuse(m, send, c, message.Errorf(429, "This connection has as many slow requests in flight as it may, and %d messages that wait for their turn; no more are taken. Wait for their answers, or use another connection", waiting))
}

// full reports whether a message with so much data has to wait before it is queued.
func (c *Connection) full(n int) bool {
	a := &c.ahead
	return len(a.queue) >= maxQueued ||
		len(a.queue) > 0 && (a.bytes+n > maxQueuedBytes || c.k.Connections().ReadAhead.Load() > maxQueuedAll)
}

// awaitRoom waits until there is room for a message. Meanwhile nothing is read, so the source
// is asked whether the peer is there. It is called with mu held, and lets go of it meanwhile.
func (c *Connection) awaitRoom(n int) {
	c.mu.Unlock()
	stop := c.watchPeer()
	c.mu.Lock()
	for c.ahead.working && c.full(n) {
		c.ahead.room = make(chan struct{})
		room := c.ahead.room
		c.mu.Unlock()
		<-room
		c.mu.Lock()
	}
	c.mu.Unlock()
	stop()
	c.mu.Lock()
}

// makeRoom tells the reader that there is room again, when much has left. It is called with
// mu held.
func (c *Connection) makeRoom() {
	a := &c.ahead
	if a.room != nil && (len(a.queue) == 0 || len(a.queue) <= maxQueued/2 && a.bytes <= maxQueuedBytes/2) {
		close(a.room)
		a.room = nil
	}
}

// dequeue returns the message whose turn it is. If there is none, the turn is over, and the
// goroutine that reads may have it.
func (c *Connection) dequeue() (message.Message, kernel.Emit, error) {
	c.mu.Lock()
	if len(c.ahead.queue) > 0 {
		a := c.remove(0)
		c.mu.Unlock()
		return a.m, a.send, nil
	}
	c.ahead.queue, c.ahead.working = nil, false
	c.makeRoom()
	c.mu.Unlock()
	c.ready() // the goroutine that reads is waiting for input, and flushes nothing
	c.goroutines.Done()
	return message.Message{}, nil, errQueueEmpty
}

// remove takes one message out of the queue. It is called with mu held.
func (c *Connection) remove(i int) arrival {
	a := c.ahead.queue[i]
	if i == 0 { // as nearly always
		c.ahead.queue[0] = arrival{}
		c.ahead.queue = c.ahead.queue[1:]
	} else {
		c.ahead.queue = slices.Delete(c.ahead.queue, i, i+1)
	}
	c.ahead.bytes -= len(a.m.Data)
	c.k.Connections().ReadAhead.Add(-int64(len(a.m.Data)))
	c.makeRoom()
	return a
}
