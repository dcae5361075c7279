package unix

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/message"
	"kernos/transport"
)

// What ends a connection from our side.
var (
	errUnfinished = errors.New("the peer did not end a line")
	errStalled    = errors.New("the peer did not take what was sent to it")
	errHTTP       = errors.New("the peer speaks HTTP")
)

// serverConn is the server's end of one connection: it reads and writes, and keeps the time. A
// connection that has no limits and is between two lines has no timer.
type serverConn struct {
	s         *Server
	conn      net.Conn  // as it was accepted
	wire      wire      // reads and writes it
	deadlines deadlines // sets its deadlines

	open    atomic.Int64 // requests that are not answered
	written atomic.Int64 // time of the last write, in nanoseconds; kept if there is a limit of silence

	serves atomic.Pointer[func() bool] // reports whether others wait for what the peer sends; nil before the connection is served

	pacer *transport.Pacer // nil if there is no frame rate

	// What the reader knows.
	partial bool          // the last line that came has no end yet
	spent   time.Duration // time spent waiting for the end of that line
	halted  bool          // reading has ended because of stop

	mu      sync.Mutex // guards what follows
	armed   time.Time  // the read deadline; zero if there is none
	stopped bool       // nothing more is read
	stalled bool       // nothing more is written
	watched bool       // nothing is read: left uses the read deadline
}

func (c *serverConn) options() *transport.Options {
	opts := &transport.Options{Lenient: c.s.opts.Lenient, Left: c.left, Gone: c.finish, Asked: func(serves func() bool) { c.serves.Store(&serves) }, Pacer: c.pacer}
	if c.s.opts.Idle > 0 {
		opts.Open = &c.open
	}
	return opts
}

// Serves implements [transport.Conn].
func (c *serverConn) Serves() bool {
	serves := c.serves.Load()
	return serves != nil && (*serves)()
}

// Throttled implements [transport.Conn].
func (c *serverConn) Throttled() bool { return c.pacer.Waits() }

// Cut implements [transport.Conn].
func (c *serverConn) Cut() { _ = c.wire.Close() }

func newServerConn(s *Server, conn net.Conn) *serverConn {
	return &serverConn{s: s, conn: conn, wire: newWire(conn, s.http != nil), deadlines: s.deadlines(conn), pacer: s.conns.Pacer()}
}

// authenticated reports whether the peer may be served. If there are keys it must sign first.
func (s *Server) authenticated(c *serverConn) bool {
	if len(s.opts.Keys) == 0 {
		return true
	}
	err := c.authenticate(s.opts.Keys)
	switch {
	case err == nil:
		return true
	case c.hasStopped(): // the peer may have been about to sign
		c.refuse(errStopping)
	default:
		s.opts.Log.Warn("a connection was refused: it is not authenticated", "error", err)
		s.conns.Refuse(refusedUnauthenticated)
	}
	return false
}

// authenticate sends a challenge, and returns nil if the first line that comes back is
// signed by one of the keys.
func (c *serverConn) authenticate(keys []ssh.PublicKey) error {
	request, challenge := newChallenge()
	c.s.k.Stamp(&request)
	if err := c.writeLine(append(message.Append(nil, &request), '\n')); err != nil {
		return fmt.Errorf("the challenge could not be sent: %w", err)
	}
	c.arm(c.s.now().Add(c.s.patience))
	line, err := readLine(c.wire)
	if err != nil {
		return fmt.Errorf("no answer to the challenge came: %w", err)
	}
	if err := verify(line, request.Metadata.ID, challenge, keys); err != nil {
		return err
	}
	c.arm(time.Time{})
	return nil
}

// Read implements [io.Reader].
func (c *serverConn) Read(p []byte) (int, error) {
	return c.ReadLazily(func() []byte { return p }, func() {})
}

// ReadLazily implements [ndjson.LazyReader]. The error is transport.ErrStopped after stop.
func (c *serverConn) ReadLazily(lend func() []byte, giveBack func()) (int, error) {
	var begun time.Time
	if c.partial || c.s.opts.Idle > 0 {
		begun = c.s.now()
		c.arm(begun.Add(c.allowed()))
	}
	for {
		got, err := c.wire.receive(lend, giveBack)
		if c.partial {
			c.spent += c.s.now().Sub(begun)
		}
		if len(got) > 0 {
			c.saw(got)
			return len(got), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if err := c.expired(begun); err != nil {
			return 0, err
		}
		if c.partial {
			begun = c.s.now()
		}
	}
}

// finish makes reading end when nothing is left of what has come. It is called by the
// goroutine that reads.
func (c *serverConn) finish() { c.wire.finish() }

func (c *serverConn) allowed() time.Duration {
	if c.partial {
		return c.s.opts.Line - c.spent
	}
	return c.s.opts.Idle
}

// saw keeps track of where lines end.
func (c *serverConn) saw(p []byte) {
	switch end := bytes.LastIndexByte(p, '\n'); {
	case end == len(p)-1:
		c.partial, c.spent = false, 0
	case end >= 0 || !c.partial:
		c.partial, c.spent = true, 0
	}
}

// expired reports what it means that the deadline of a read that began at a time has passed,
// or sets the next one.
func (c *serverConn) expired(begun time.Time) error {
	c.mu.Lock()
	c.armed = time.Time{}
	stopped, stalled := c.stopped, c.stalled
	c.mu.Unlock()
	now := c.s.now()
	switch {
	case stalled:
		return errStalled
	case stopped:
		c.halted = true
		return transport.ErrStopped
	case c.partial && c.spent >= c.s.opts.Line:
		return errUnfinished
	case c.partial:
		c.arm(now.Add(c.allowed()))
	case c.s.opts.Idle == 0:
		c.arm(time.Time{}) // the deadline was for an earlier line
	case c.open.Load() > 0 || c.Serves():
		c.arm(now.Add(c.s.opts.Idle))
	default:
		last := begun
		if w := time.Unix(0, c.written.Load()); w.After(last) {
			last = w
		}
		if now.Sub(last) >= c.s.opts.Idle {
			return transport.ErrIdle
		}
		c.arm(last.Add(c.s.opts.Idle))
	}
	return nil
}

// arm makes a read end at t at the latest; the zero time means never. An earlier deadline
// stays: a reader that finds that it has come too early arms anew.
func (c *serverConn) arm(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.stalled || !c.armed.IsZero() && !t.IsZero() && !t.Before(c.armed) {
		return
	}
	c.armed = t
	_ = c.deadlines.SetReadDeadline(t)
}

// Stop implements [transport.Conn].
func (c *serverConn) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if !c.watched {
		_ = c.deadlines.SetReadDeadline(past)
	}
}

// hasStopped reports whether Stop was called: then that is why reading ended.
func (c *serverConn) hasStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// Write implements [io.Writer].
func (c *serverConn) Write(p []byte) (int, error) { return len(p), c.WriteAll(p, 0) }

// TryWrite implements [transport.Output].
func (c *serverConn) TryWrite(p []byte) (int, error) {
	n, err := c.wire.TryWrite(p)
	c.noteWritten()
	return n, err
}

// WriteAll implements [transport.Output]. The error is errStalled if the peer takes nothing
// for as long as it may; then nothing more is read either.
func (c *serverConn) WriteAll(p []byte, sent int) (err error) {
	atOnce := len(p)
	if _, passed := c.wire.(*passedWire); passed {
		atOnce = passedAtOnce
	}
	for sent < len(p) && err == nil {
		_ = c.deadlines.SetWriteDeadline(c.s.now().Add(c.s.opts.Stall))
		var n int
		n, err = c.wire.Write(p[sent:min(len(p), sent+atOnce)])
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if err = nil; n == 0 {
				err = errStalled
				c.stall()
			}
		}
	}
	_ = c.deadlines.SetWriteDeadline(time.Time{}) // otherwise it would apply to TryWrite
	c.noteWritten()
	return err
}

func (c *serverConn) noteWritten() {
	if c.s.opts.Idle > 0 {
		c.written.Store(c.s.now().UnixNano())
	}
}

// stall makes reading end: the peer does not take the answers.
func (c *serverConn) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = true
	_ = c.deadlines.SetReadDeadline(past)
}

// left waits, while nothing is read, until the peer has closed both directions or no longer
// reads, or until finished is closed.
func (c *serverConn) left(finished <-chan struct{}) bool {
	c.mu.Lock()
	c.watched = true
	if !c.stalled {
		_ = c.deadlines.SetReadDeadline(time.Time{})
	}
	c.mu.Unlock()
	gone := make(chan bool, 1)
	go func() { gone <- c.wire.hungUp() }()
	left := false
	select {
	case left = <-gone:
	case <-finished:
		_ = c.deadlines.SetReadDeadline(past)
		<-gone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	deadline := c.armed
	if c.stopped || c.stalled {
		deadline = past
	}
	_ = c.deadlines.SetReadDeadline(deadline)
	return left || c.stalled
}

// refuse sends the peer the reason why it is not served, and closes the connection.
func (c *serverConn) refuse(e *message.Error) {
	_ = c.writeLine(transport.LastLine(c.s.k, e))
	c.close()
}

// disconnect counts a connection that the server closes, and sends its peer the reason.
func (c *serverConn) disconnect(reason transport.Reason, why *message.Error) {
	c.s.conns.Close(c, reason)
	c.refuse(why)
}

// close closes the connection so that what was sent to the peer arrives.
func (c *serverConn) close() { c.wire.hangUp() }

// interrupted reports, after the conversation, whether the peer had more to send, or might
// have had, when reading was stopped.
func (c *serverConn) interrupted() bool {
	if !c.halted {
		return false
	}
	n, ended := c.wire.discard()
	return c.partial || n > 0 || !ended
}

// writeLine writes one line to a peer that may not read. Most often there is room for it.
func (c *serverConn) writeLine(line []byte) error {
	_ = c.wire.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := c.wire.Write(line)
	_ = c.wire.SetWriteDeadline(time.Time{})
	return err
}
