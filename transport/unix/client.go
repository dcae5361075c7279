package unix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/message/ndjson"
)

const (
	// maxQueued is how many bytes wait to be sent before Send waits.
	maxQueued = 64 << 10

	// maxUnread is how many messages of one call wait to be taken.
	maxUnread = 256

	// lastWords is how long a client that ends waits for a daemon that does not read.
	lastWords = 5 * time.Second
)

// ErrClosed is the error of calls on a client that was closed.
var ErrClosed = errors.New("the client was closed")

// Lost is the error of calls whose connection has ended.
type Lost struct {
	Err error // io.EOF if the daemon has closed the connection and given no reason
}

func (e *Lost) Error() string {
	if e.Err == io.EOF {
		return "the daemon has closed the connection; what was asked may have happened"
	}
	return "the connection to the daemon has ended: " + e.Err.Error()
}

// Unwrap returns the reason. It is a *message.Error if the daemon gave it.
func (e *Lost) Unwrap() error { return e.Err }

// A Client makes calls over a connection, any number of them at a time. It is safe for
// concurrent use.
type Client struct {
	conn *Conn

	wake     chan struct{} // tells the sender that something waits
	over     chan struct{} // closed when calls can't be made any more
	sent     chan struct{} // closed when the sender has ended
	received chan struct{} // closed when the receiver has ended
	closing  sync.Once

	mu    sync.Mutex // guards what follows
	queue []byte     // lines to send
	room  chan struct{}
	calls map[message.ID]*pending
	err   error // why it is over
}

// pending is a call that has no outcome yet.
type pending struct {
	answers chan message.Message
	done    chan struct{} // closed when the caller takes them no more
}

// NewClient returns a client that talks over a connection, which is the client's from now
// on.
func NewClient(c *Conn) *Client {
	client := &Client{
		conn: c, calls: make(map[message.ID]*pending),
		wake: make(chan struct{}, 1), room: make(chan struct{}), over: make(chan struct{}),
		sent: make(chan struct{}), received: make(chan struct{}),
	}
	go client.send()
	go client.receive()
	return client
}

// Call sends a command or a query and returns its outcome, a reply or an error message. An
// id and a time are filled in where they are missing. Events that come before the outcome
// go to event, which may be nil, one by one and in their order. While it has not taken some
// hundreds of them the connection is not read, so event must not wait for another call of
// the same client.
//
// If ctx ends first, the daemon is told to cancel the request, and the error is that of
// ctx. The error is a *Lost if the connection ends, ErrClosed if the client is closed.
func (c *Client) Call(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
	if !request.Kind.Asks() {
		return message.Message{}, fmt.Errorf("a call is a command or a query, not %q; use Send for events", request.Kind)
	}
	stamp(&request)
	id := request.Metadata.ID
	p := &pending{answers: make(chan message.Message, maxUnread), done: make(chan struct{})}
	if err := c.enter(id, p); err != nil {
		return message.Message{}, err
	}
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		close(p.done)
	}()
	if err := c.Send(ctx, request); err != nil {
		return message.Message{}, err
	}
	for {
		var m message.Message
		select {
		case m = <-p.answers:
		case <-ctx.Done():
			c.cancel(id)
			return message.Message{}, ctx.Err()
		case <-c.over:
			select {
			case m = <-p.answers: // it came before the end
			default:
				return message.Message{}, c.reason()
			}
		}
		if m.Kind.Answers() {
			return m, nil
		}
		if event != nil {
			event(m)
		}
	}
}

// enter makes the answers to a request go to p.
func (c *Client) enter(id message.ID, p *pending) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.calls[id] != nil {
		return fmt.Errorf("a request with the id %s is under way; ids must differ", id)
	}
	c.calls[id] = p
	return nil
}

// Send sends a message that gets no outcome, such as an event. An id and a time are filled
// in where they are missing. It returns when the message is on its way, which is before the
// daemon has read it.
func (c *Client) Send(ctx context.Context, m message.Message) error {
	stamp(&m)
	if err := m.Validate(); err != nil {
		return err
	}
	line := append(message.Append(nil, &m), '\n')
	if n := len(line) - 1; n > message.MaxLine {
		return fmt.Errorf("%s %s would take %d bytes, and a line may have %d; put large data into a blob", m.Kind, m.Type, n, message.MaxLine)
	}
	for {
		c.mu.Lock()
		if c.err != nil {
			c.mu.Unlock()
			return c.reason()
		}
		if len(c.queue) < maxQueued {
			c.enqueue(line)
			c.mu.Unlock()
			return nil
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-c.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enqueue gives a line to the sender. It is called with mu held.
func (c *Client) enqueue(line []byte) {
	c.queue = append(c.queue, line...)
	select {
	case c.wake <- struct{}{}:
	default: // it is told already
	}
}

// cancel asks the daemon to cancel a request. It does not wait for room: there is no more
// than one of these for each request that has found some.
func (c *Client) cancel(id message.ID) {
	data := append(jsonscan.AppendQuoted([]byte(`{"id":`), string(id)), '}')
	m := message.Message{Kind: message.KindCommand, Type: "Syscall.Cancel", Data: data}
	stamp(&m)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.enqueue(append(message.Append(nil, &m), '\n'))
	}
}

// send writes what is queued. It ends with the client, when everything is written, or with
// the connection.
func (c *Client) send() {
	defer close(c.sent)
	var spare []byte
	for over := false; !over; {
		select {
		case <-c.wake:
		case <-c.over:
			over = true
		}
		c.mu.Lock()
		lines := c.queue
		c.queue = spare[:0]
		close(c.room)
		c.room = make(chan struct{})
		c.mu.Unlock()
		if len(lines) == 0 {
			spare = lines
			continue
		}
		if _, err := c.conn.Write(lines); err != nil {
			// What the daemon still sends may say why; then it is over. Until then there is
			// no room.
			return
		}
		spare = lines
	}
}

// receive hands out what comes. It ends with the connection.
func (c *Client) receive() {
	defer close(c.received)
	lines := ndjson.NewReader(c.conn, nil)
	var decoder message.Decoder
	var reason error // that the daemon gave
	for {
		line, err := lines.Next()
		if _, tooLong := err.(*ndjson.TooLong); tooLong {
			continue // no daemon of ours sends such a line
		}
		if err != nil {
			if reason != nil {
				err = reason
			}
			c.end(&Lost{err})
			return
		}
		m, err := decoder.Decode(line)
		if err != nil {
			continue // not for us: what we ask is answered in the dialect that we speak
		}
		if err, ok := Disconnection(m); ok {
			reason = err
			continue
		}
		c.mu.Lock()
		p := c.calls[m.Metadata.Causation]
		c.mu.Unlock()
		if p == nil || m.Kind.Asks() {
			continue // it answers nothing, or a call that was given up
		}
		select {
		case p.answers <- m.Clone():
		case <-p.done:
		case <-c.over:
		}
	}
}

// end says that it is over, and why.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		_ = c.conn.socket.SetWriteDeadline(time.Now().Add(lastWords))
		close(c.over)
	}
}

// reason is why it is over.
func (c *Client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close sends what waits to be sent and closes the connection. Calls that have no outcome
// yet get ErrClosed. It returns when the client's goroutines have ended.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() {
		c.end(ErrClosed)
		<-c.sent
		err = c.conn.Close()
		<-c.received
	})
	return err
}
