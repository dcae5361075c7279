package ws

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"kernos/kernel"
	"kernos/store/blobs"
	"kernos/transport"
	"kernos/transport/rpc"
)

// connection is one connection. It implements [rpc.Conn].
type connection struct {
	h      *Handler
	conn   net.Conn
	in     *bufio.Reader
	pacer  *transport.Pacer
	alive  *time.Timer   // asks whether the peer is there
	remote *blobs.Remote // how the peer sees blobs
	sender kernel.Sender // the sender of its requests

	out       *transport.Writer
	batches   bool        // the peer takes several messages in one frame
	batch     int         // offset of the frame in out's buffer that takes more messages, or -1; guarded by out
	closeSent bool        // the peer was sent a close frame; only the reading goroutine uses this
	heard     atomic.Bool // something came since alive last fired
	reading   atomic.Bool // the connection waits for input
	silent    atomic.Bool // the peer did not answer a ping
	revoked   atomic.Bool // the peer's token has ended
	asked     bool        // alive has sent a ping, and nothing came since
	torn      bool        // part of a message was read; only the reading goroutine uses this

	mu      sync.Mutex
	stopped bool // reading has stopped
	ended   bool // alive no longer fires
}

// newConnection returns a connection that begin has yet to give its socket.
func newConnection(h *Handler, remote *blobs.Remote) *connection {
	return &connection{h: h, remote: remote, pacer: h.conns.Pacer()}
}

// readBuffer is how much is read ahead.
const readBuffer = 4 << 10

// begin gives the connection its socket, and the bytes that the HTTP server has read already.
func (c *connection) begin(conn net.Conn, early []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	c.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(early), input{c}), readBuffer)
	c.out = transport.NewWriter(&output{c: c, conn: conn, socket: transport.NewSocket(conn)}, c.h.opts.MaxUnread)
	c.alive = time.AfterFunc(c.h.opts.Ping, c.checkAlive)
	if c.stopped {
		_ = conn.SetReadDeadline(past)
	}
}

// past is a deadline that ends reading at once.
var past = time.Unix(1, 0)

// input is the connection as it is read: what waits to be sent is sent before.
type input struct{ c *connection }

// Read implements [io.Reader].
func (i input) Read(p []byte) (int, error) {
	i.c.Flush()
	i.c.reading.Store(true)
	n, err := i.c.conn.Read(p)
	i.c.reading.Store(false)
	if n > 0 {
		i.c.heard.Store(true)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the peer left without a close frame
	}
	return n, err
}

// checkAlive sends a silent peer a ping, and drops the peer if it has not answered an earlier one.
func (c *connection) checkAlive() {
	switch heard := c.heard.Swap(false); {
	case heard || !c.reading.Load():
		c.asked = false
	case c.asked:
		c.h.conns.Close(c, closedSilent)
		c.silent.Store(true)
		_ = c.conn.SetReadDeadline(past) // so that Read returns, and closes
		return
	default:
		c.asked = true
		c.send(ws.OpPing, nil, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.alive.Reset(c.h.opts.Ping)
	}
}

// revoke ends the connection of a peer whose token has ended.
func (c *connection) revoke() {
	c.h.conns.Close(c, closedRevoked)
	c.revoked.Store(true)
	_ = c.conn.SetReadDeadline(past) // so that Read returns, and closes
}

// Stop implements [transport.Conn]: Read returns.
func (c *connection) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && !c.stopped {
		_ = c.conn.SetReadDeadline(past)
	}
	c.stopped = true
}

// Left implements [rpc.Conn]. What the peer still sends is dropped. If reading was interrupted
// within a message, the frames that follow can't be recognised, and only the end of the connection counts.
func (c *connection) Left(finished <-chan struct{}) bool {
	_ = c.conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if c.torn {
			_, _ = io.Copy(io.Discard, c.in)
			return
		}
		for _, err := c.read(); err == nil; {
			_, err = c.read()
		}
	}()
	select {
	case <-gone:
		return true
	case <-finished:
		_ = c.conn.SetReadDeadline(past)
		<-gone
		return false
	}
}

// Cut implements [transport.Conn].
func (c *connection) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		go c.conn.Close() // over TLS that may take seconds
	}
}

// Serves implements [transport.Conn]: peers of this protocol answer no requests.
func (c *connection) Serves() bool { return false }

// Throttled implements [transport.Conn].
func (c *connection) Throttled() bool { return c.pacer.Waits() }

// Read implements [rpc.Conn].
func (c *connection) Read() ([]byte, error) {
	message, err := c.read()
	if err == nil {
		c.pace()
		return c.remote.Inward(message), nil
	}
	if c.revoked.Load() {
		c.close(ws.StatusPolicyViolation, fmt.Sprintf("No longer allowed: %v", context.Cause(c.sender.Principal().Life())))
		c.end()
		return nil, io.EOF // the peer does not come back
	}
	if c.interrupted(err) {
		return nil, rpc.ErrStopped
	}
	if c.silent.Load() {
		err = &refusal{ws.StatusPolicyViolation, "Silent peer: no answer to a ping; reconnect and resume"}
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		c.close(refused.code, refused.reason)
	}
	c.end()
	if err != io.EOF {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return nil, err
}

// interrupted reports whether reading has ended because of Stop, and not because of the peer:
// one that has closed the connection, or is lost, is not waited for although the server stops.
func (c *connection) interrupted(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped && !c.silent.Load() && errors.Is(err, os.ErrDeadlineExceeded)
}

// end hangs up.
func (c *connection) end() {
	c.mu.Lock()
	c.ended = true
	c.alive.Stop()
	c.mu.Unlock()
	c.h.conns.Leave(c)
	c.hangUp()
}

// throttled is the method of the notification that is [transport.Throttled] here.
const throttled = "syscall_throttled"

// pace waits until the message may be taken, and notifies a peer that keeps sending too much.
func (c *connection) pace() {
	c.pacer.Wait()
	if notice := c.pacer.Notice(); notice != nil {
		frame := append([]byte(`{"jsonrpc":"2.0","method":"`+throttled+`","params":`), notice.Data...)
		c.Write(append(frame, '}'), true)
	}
}

// refusal is why a connection is closed.
type refusal struct {
	code   ws.StatusCode
	reason string
}

func (r *refusal) Error() string { return r.reason }

// read returns the next message. io.EOF means that the peer has closed the connection.
func (c *connection) read() (message []byte, err error) {
	state := ws.StateServerSide
	for {
		if _, err := c.in.Peek(1); err != nil {
			return nil, err
		}
		c.torn = true
		header, err := ws.ReadHeader(c.in)
		if err == ws.ErrHeaderLengthMSB {
			return nil, &refusal{ws.StatusProtocolError, "The length of a frame may have 63 bits"}
		}
		if err != nil {
			return nil, err
		}
		if err := ws.CheckHeader(header, state); err != nil {
			return nil, &refusal{ws.StatusProtocolError, err.Error()}
		}
		if header.OpCode.IsControl() {
			if err := c.controlled(header); err != nil {
				return nil, err
			}
			c.torn = state.Fragmented()
			continue
		}
		if header.OpCode == ws.OpBinary {
			return nil, &refusal{ws.StatusUnsupportedData, "A message must be text"}
		}
		if header.Length > int64(c.h.opts.MaxMessage-len(message)) {
			return nil, &refusal{ws.StatusMessageTooBig, fmt.Sprintf("Message too large: %d bytes are allowed; put large data where it can be fetched", c.h.opts.MaxMessage)}
		}
		if message, err = c.payload(message, header); err != nil {
			return nil, err
		}
		if !header.Fin {
			state = state.Set(ws.StateFragmented)
			continue
		}
		if !utf8.Valid(message) {
			return nil, &refusal{ws.StatusInvalidFramePayloadData, "A message must be UTF-8"}
		}
		c.torn = false
		return message, nil
	}
}

// chunk is how much room is made at once for a message of which only the length has come.
const chunk = 64 << 10

// payload appends what a frame carries to a message.
func (c *connection) payload(message []byte, header ws.Header) ([]byte, error) {
	from := len(message)
	for left := int(header.Length); left > 0; {
		n := min(left, chunk)
		message = append(message, make([]byte, n)...)
		if _, err := io.ReadFull(c.in, message[len(message)-n:]); err != nil {
			return nil, err
		}
		left -= n
	}
	ws.Cipher(message[from:], header.Mask, 0)
	return message, nil
}

// controlled answers a control frame.
func (c *connection) controlled(header ws.Header) error {
	data, err := c.payload(nil, header)
	if err != nil {
		return err
	}
	switch header.OpCode {
	case ws.OpPing:
		c.send(ws.OpPong, data, false)
	case ws.OpClose:
		return c.goodbye(data)
	}
	return nil
}

// maxCloseCode is the largest code that RFC 6455 gives to anyone (section 7.4.2).
const maxCloseCode ws.StatusCode = 4999

// goodbye answers a close frame. A peer that goes away, as a browser does that leaves a
// page, may come back and resume; one that is done, or gives no reason, does not.
func (c *connection) goodbye(data []byte) error {
	code, reason := ws.ParseCloseFrameData(data)
	if len(data) == 0 {
		c.close(ws.StatusNormalClosure, "")
		return io.EOF
	}
	if err := ws.CheckCloseFrameData(code, reason); err != nil || len(data) == 1 || code > maxCloseCode {
		return &refusal{ws.StatusProtocolError, "A close frame that is not valid"}
	}
	c.close(code, "")
	if code == ws.StatusNormalClosure {
		return io.EOF
	}
	return fmt.Errorf("closed with %d %s", code, reason)
}

// appendFrame appends a frame of the server.
func appendFrame(dst []byte, op ws.OpCode, data []byte) []byte {
	return append(appendHeader(dst, op, len(data)), data...)
}

func appendHeader(dst []byte, op ws.OpCode, length int) []byte {
	dst = append(dst, 0x80|byte(op))
	switch {
	case length < 126:
		return append(dst, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(length))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 127), uint64(length))
	}
}

// appendBatch appends a message as an array of JSON. If the last frame of dst, which isn't sent
// yet, is such an array, the message becomes an element of it.
func (c *connection) appendBatch(dst, message []byte) []byte {
	if len(dst) == 0 { // the earlier frames are sent
		c.batch = -1
	}
	if c.batch >= 0 {
		if n := frameEnd(dst[c.batch:]) - 4 + len(message) + 1; n < 1<<16 {
			dst[len(dst)-1] = ','
			binary.BigEndian.PutUint16(dst[c.batch+2:], uint16(n))
			return append(append(dst, message...), ']')
		}
	}
	start, n := len(dst), len(message)+2
	dst = append(append(append(appendHeader(dst, ws.OpText, n), '['), message...), ']')
	if c.batch = -1; n >= 126 && n < 1<<16 { // a longer length would need a longer header
		c.batch = start
	}
	return dst
}

// frameEnd returns the offset after the frame at the beginning of frames.
func frameEnd(frames []byte) int {
	switch n := int(frames[1]); n {
	case 126:
		return 4 + int(binary.BigEndian.Uint16(frames[2:]))
	case 127:
		return 10 + int(binary.BigEndian.Uint64(frames[2:]))
	default:
		return 2 + n
	}
}

var _ rpc.Conn = (*connection)(nil)
