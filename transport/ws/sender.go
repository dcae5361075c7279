package ws

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"kernos/transport"
)

// Write implements [rpc.Conn].
func (c *connection) Write(frame []byte, more bool) { c.send(ws.OpText, c.remote.Outward(frame), more) }

func (c *connection) send(op ws.OpCode, data []byte, more bool) {
	c.out.Writable(true)
	c.out.Add(func(dst []byte) []byte {
		if c.batches && op == ws.OpText {
			return c.appendBatch(dst, data)
		}
		c.batch = -1
		return appendFrame(dst, op, data)
	}, more)
}

// Flush implements [rpc.Conn].
func (c *connection) Flush() { c.out.Flush() }

// output is the output of a connection: whole frames, to a peer that has to read 64 KB of them
// within a time.
type output struct {
	c      *connection
	conn   net.Conn
	socket *transport.Socket // nil under TLS
	due    time.Time         // the peer must have read by then
}

// TryWrite implements [transport.Output].
func (o *output) TryWrite(frames []byte) (int, error) {
	n, err := o.socket.TryWrite(frames)
	if err != nil {
		_ = o.conn.Close() // so that Read returns
	}
	return n, err
}

// WriteAll implements [transport.Output]. A peer that does not read in time is dropped.
func (o *output) WriteAll(frames []byte, sent int) error {
	n, err := transport.WriteInTime(o, frames[sent:], o.c.h.opts.Patience)
	sent += n
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		end := 0
		for end < sent {
			end += frameEnd(frames[end:])
		}
		o.c.h.conns.Close(o.c, closedSlow)
		frame := bytes.Clone(frames[sent:end])
		o.c.h.conns.Go(func() { o.drop(frame) })
		return errSlow
	case err != nil:
		_ = o.conn.Close()
	}
	return err
}

var errSlow = errors.New("the peer does not read")

// SetWriteDeadline implements [transport.TimedWriter]. TLS can't continue after a deadline that has passed,
// so there the deadline includes the time that a peer has to read why it is dropped.
func (o *output) SetWriteDeadline(t time.Time) error {
	o.due = t
	if o.socket == nil && !t.IsZero() {
		t = t.Add(o.c.h.opts.Patience)
	}
	return o.conn.SetWriteDeadline(t)
}

// Write implements [transport.TimedWriter].
func (o *output) Write(p []byte) (n int, err error) {
	n, err = o.conn.Write(p)
	if err == nil && o.socket == nil && !time.Now().Before(o.due) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// drop sends a peer that does not read the reason why it is dropped: it gets the rest of the frame that it
// has begun to read, and the reason, if it reads on within reasonable time.
func (o *output) drop(frame []byte) {
	patience := o.c.h.opts.Patience
	reason := closeFrame(ws.StatusPolicyViolation, fmt.Sprintf("Slow reader: nothing was read for %v; reconnect and resume", patience))
	_ = o.conn.SetWriteDeadline(time.Now().Add(patience))
	_, _ = o.conn.Write(append(frame, reason...))
	_ = o.conn.Close()
}

// close sends a last frame after those that wait, and returns when they are sent.
func (c *connection) close(code ws.StatusCode, reason string) {
	c.closeSent = c.out.Close(closeFrame(code, reason)) == nil
}

// maxReason is how many bytes a close frame has room for.
const maxReason = 123

func closeFrame(code ws.StatusCode, reason string) []byte {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return appendFrame(nil, ws.OpClose, ws.NewCloseFrameBody(code, reason))
}

// hangUpTime is how long a peer has to hang up after it was asked to.
const hangUpTime = time.Second

// hangUp ends the connection. If the peer was sent a last frame, what it still sends is read:
// a peer whose data is not read may lose what it was sent.
func (c *connection) hangUp() {
	if c.closeSent {
		if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_ = c.conn.SetReadDeadline(time.Now().Add(hangUpTime))
			_, _ = io.Copy(io.Discard, c.conn)
		}
	}
	if c.out.Err() != errSlow { // otherwise drop sends the reason
		_ = c.conn.Close()
	}
	_ = c.out.Close(nil)
}
