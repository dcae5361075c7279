package connection

import (
	"errors"
	"slices"

	"kernos/kernel"
	"kernos/message"
)

// While a slow call waits for a place, another goroutine reads the connection: a message that
// ends a running call must not wait behind it, nor an answer that another connection waits for,
// and a peer that leaves is to be noticed. Other messages are queued, and the loop works the
// queue off in order. When the queue is empty, the goroutine that reads ahead runs the loop,
// beginning with the next message.

// Limits of the queue. One message always fits.
const (
	maxQueued      = 1024     // messages of one connection
	maxQueuedBytes = 1 << 20  // bytes of data of one connection
	maxQueuedAll   = 64 << 20 // bytes of data of all connections
)

// goesAhead reports whether a request overtakes queued messages. Only the kernel can define
// these types.
func goesAhead(m *message.Message) bool {
	return m.Kind.Asks() && (m.Type == kernel.CancelType || m.Type == kernel.ShutdownType)
}

// queued is a message that was read ahead, and what sends its answers.
type queued struct {
	m    message.Message
	send kernel.Emit
}

// readAhead is the queue of messages that were read ahead. The connection's mu guards it.
type readAhead struct {
	working bool            // the loop works the queue off while another goroutine reads
	first   *kernel.Call    // the slow call that waits for a place, before the queue; nil if none does
	queue   []queued        // the messages that came after first
	last    message.Message // the message that dequeue returned; only the goroutine that runs the loop uses it
	bytes   int             // data in queue
	room    chan struct{}   // closed when there is room; nil if the reading goroutine does not wait
}

// errQueueEmpty is what next returns when the queue is empty: the goroutine that reads ahead
// runs the loop from then on.
var errQueueEmpty = errors.New("no message waits")

// readAhead reads the source while the loop is busy with earlier messages. It returns when the
// source ends, or after it has run the loop itself.
func (c *Connection) readAhead() {
	for {
		m, send, err := c.read()
		switch {
		case err != nil:
			c.end(err)
			return
		case goesAhead(m):
			own := m.Clone() // the handler may outlive the line
			if call := c.k.Admit(c.ctx, &own, send, c); call != nil {
				call.RunWithin()
				c.ready()
			}
		case !c.enqueue(m, send):
			c.readsAhead = false
			if c.loopFrom(m, send, nil) && c.awaitLoop() {
				c.loop()
			}
			return
		}
	}
}

// enqueue appends a message to the queue, and waits while the queue is full. It returns false if
// the queue has been worked off: the goroutine that has read the message runs the loop.
func (c *Connection) enqueue(m *message.Message, send kernel.Emit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead.working && c.full(len(m.Data)) {
		if c.Serves() { // other connections wait for the peer's answers: it has to be read
			c.refuse(m, send)
			return true
		}
		c.awaitRoom(len(m.Data))
	}
	if !c.ahead.working {
		return false
	}
	c.ahead.queue = append(c.ahead.queue, queued{m.Clone(), send})
	c.ahead.bytes += len(m.Data)
	c.k.Connections().ReadAhead.Add(int64(len(m.Data)))
	return true
}

// refuse answers a message for which the queue has no room. It is called with mu held, and
// releases it meanwhile.
func (c *Connection) refuse(m *message.Message, send kernel.Emit) {
	waiting := len(c.ahead.queue)
	c.mu.Unlock()
	defer c.mu.Lock()
	if !m.Kind.Asks() {
		c.k.Admit(c.queries, m, send, c) // an event is only recorded
		return
	}
	c.k.Refuse(m, send, c, message.Errorf(429, "This connection has as many slow requests in flight as it may, and %d messages that wait for their turn; no more are taken. Wait for their answers, or use another connection", waiting))
}

// full reports whether a message with n bytes of data has to wait before it is queued.
func (c *Connection) full(n int) bool {
	a := &c.ahead
	return len(a.queue) >= maxQueued ||
		len(a.queue) > 0 && (a.bytes+n > maxQueuedBytes || c.k.Connections().ReadAhead.Load() > maxQueuedAll)
}

// awaitRoom waits until the queue has room for a message. Meanwhile nothing is read, so the source
// is asked whether the peer is there. It is called with mu held, and releases it meanwhile.
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

// wakeReader wakes the reading goroutine when the queue is half empty. It is called with mu held.
func (c *Connection) wakeReader() {
	a := &c.ahead
	if a.room != nil && (len(a.queue) == 0 || len(a.queue) <= maxQueued/2 && a.bytes <= maxQueuedBytes/2) {
		close(a.room)
		a.room = nil
	}
}

// dequeue returns the first message of the queue. If the queue is empty, this goroutine stops
// running the loop, and the goroutine that reads ahead takes over.
func (c *Connection) dequeue() (*message.Message, kernel.Emit, error) {
	c.mu.Lock()
	if len(c.ahead.queue) > 0 {
		a := c.remove(0)
		c.mu.Unlock()
		c.ahead.last = a.m
		return &c.ahead.last, a.send, nil
	}
	c.ahead.queue, c.ahead.working = nil, false
	c.wakeReader()
	c.mu.Unlock()
	c.ready() // the goroutine that reads ahead is waiting for input, and flushes nothing
	c.goroutines.Done()
	return nil, nil, errQueueEmpty
}

// remove takes one message out of the queue. It is called with mu held.
func (c *Connection) remove(i int) queued {
	a := c.ahead.queue[i]
	if i == 0 { // the usual case
		c.ahead.queue[0] = queued{}
		c.ahead.queue = c.ahead.queue[1:]
	} else {
		c.ahead.queue = slices.Delete(c.ahead.queue, i, i+1)
	}
	c.ahead.bytes -= len(a.m.Data)
	c.k.Connections().ReadAhead.Add(-int64(len(a.m.Data)))
	c.wakeReader()
	return a
}
