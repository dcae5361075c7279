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
	sender kernel.Sender // whom the connection acts for

	out     *transport.Writer
	batches bool        // the peer takes several messages in one frame
	batch   int         // offset of the frame in out's buffer that takes more messages, or -1; guarded by out
	told    bool        // the peer was sent a close frame; only the reading goroutine uses this
	heard   atomic.Bool // something came since alive last fired
	reading atomic.Bool // the connection waits for input
	silent  atomic.Bool // the peer did not answer a ping
	revoked atomic.Bool // the peer's token has ended
	asked   bool        // alive has sent a ping, and nothing came since
	torn    bool        // part of a message was read; only the reading goroutine uses this

	mu      sync.Mutex
	stopped bool // reading has stopped
	ended   bool // alive no longer fires
}

// newWire returns a wire that has no connection yet.
func newWire(h *Handler, remote *blobs.Remote) *connection {
	return &connection{h: h, remote: remote, pacer: h.conns.Pacer()}
}

// readBuffer is how much is read ahead.
const readBuffer = 4 << 10

// begin gives the wire its connection, and the bytes that the HTTP server has read already.
func (w *connection) begin(conn net.Conn, early []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
	w.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(early), input{w}), readBuffer)
	w.out = transport.NewWriter(&output{w: w, conn: conn, socket: transport.NewSocket(conn)}, w.h.opts.MaxUnread)
	w.alive = time.AfterFunc(w.h.opts.Ping, w.look)
	if w.stopped {
		_ = conn.SetReadDeadline(past)
	}
}

// past is a deadline that ends reading at once.
var past = time.Unix(1, 0)

// input is the connection as it is read: what waits to be sent is sent before.
type input struct{ w *connection }

// Read implements [io.Reader].
func (i input) Read(p []byte) (int, error) {
	i.w.Flush()
	i.w.reading.Store(true)
	n, err := i.w.conn.Read(p)
	i.w.reading.Store(false)
	if n > 0 {
		i.w.heard.Store(true)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the peer left without a close frame
	}
	return n, err
}

// look asks a silent peer whether it is there, and drops it if it was asked before.
func (w *connection) look() {
	switch heard := w.heard.Swap(false); {
	case heard || !w.reading.Load():
		w.asked = false
	case w.asked:
		w.h.conns.Close(w, closedSilent)
		w.silent.Store(true)
		_ = w.conn.SetReadDeadline(past) // so that Read returns, and closes
		return
	default:
		w.asked = true
		w.send(ws.OpPing, nil, false)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.alive.Reset(w.h.opts.Ping)
	}
}

// revoke ends the connection of a peer whose token has ended.
func (w *connection) revoke() {
	w.h.conns.Close(w, closedRevoked)
	w.revoked.Store(true)
	_ = w.conn.SetReadDeadline(past) // so that Read returns, and closes
}

// Stop implements [transport.Conn]: Read returns.
func (w *connection) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil && !w.stopped {
		_ = w.conn.SetReadDeadline(past)
	}
	w.stopped = true
}

// Left implements [rpc.Conn]. What the peer still sends is dropped. If reading was interrupted
// within a message, what follows can't be told apart, and only the end of the connection counts.
func (w *connection) Left(finished <-chan struct{}) bool {
	_ = w.conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if w.torn {
			_, _ = io.Copy(io.Discard, w.in)
			return
		}
		for _, err := w.read(); err == nil; {
			_, err = w.read()
		}
	}()
	select {
	case <-gone:
		return true
	case <-finished:
		_ = w.conn.SetReadDeadline(past)
		<-gone
		return false
	}
}

// Cut implements [transport.Conn].
func (w *connection) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		go w.conn.Close() // over TLS that may take seconds
	}
}

// Serves implements [transport.Conn]: peers of this protocol answer no requests.
func (w *connection) Serves() bool { return false }

// Throttled implements [transport.Conn].
func (w *connection) Throttled() bool { return w.pacer.Waits() }

// Read implements [rpc.Conn].
func (w *connection) Read() ([]byte, error) {
	message, err := w.read()
	if err == nil {
		w.pace()
		return w.remote.Inward(message), nil
	}
	if w.revoked.Load() {
		w.close(ws.StatusPolicyViolation, fmt.Sprintf("No longer allowed: %v", context.Cause(w.sender.Principal().Life())))
		w.end()
		return nil, io.EOF // the peer does not come back
	}
	if w.interrupted(err) {
		return nil, rpc.ErrStopped
	}
	if w.silent.Load() {
		err = &refusal{ws.StatusPolicyViolation, "Silent peer: no answer to a ping; reconnect and resume"}
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		w.close(refused.code, refused.reason)
	}
	w.end()
	if err != io.EOF {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return nil, err
}

// interrupted reports whether reading has ended because of Stop, and not because of the peer:
// one that has said goodbye, or is lost, is not waited for although the server stops.
func (w *connection) interrupted(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped && !w.silent.Load() && errors.Is(err, os.ErrDeadlineExceeded)
}

// end hangs up.
func (w *connection) end() {
	w.mu.Lock()
	w.ended = true
	w.alive.Stop()
	w.mu.Unlock()
	w.h.conns.Leave(w)
	w.hangUp()
}

// throttled is the method of the notification that is [transport.Throttled] here.
const throttled = "syscall_throttled"

// pace waits until the message may be taken, and notifies a peer that keeps sending too much.
func (w *connection) pace() {
	w.pacer.Wait()
	if notice := w.pacer.Notice(); notice != nil {
		frame := append([]byte(`{"jsonrpc":"2.0","method":"`+throttled+`","params":`), notice.Data...)
		w.Write(append(frame, '}'), true)
	}
}

// refusal is why a connection is closed.
type refusal struct {
	code   ws.StatusCode
	reason string
}

func (r *refusal) Error() string { return r.reason }

// read returns the next message. io.EOF means that the peer has said goodbye.
func (w *connection) read() (message []byte, err error) {
	state := ws.StateServerSide
	for {
		if _, err := w.in.Peek(1); err != nil {
			return nil, err
		}
		w.torn = true
		header, err := ws.ReadHeader(w.in)
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
			if err := w.controlled(header); err != nil {
				return nil, err
			}
			w.torn = state.Fragmented()
			continue
		}
		if header.OpCode == ws.OpBinary {
			return nil, &refusal{ws.StatusUnsupportedData, "A message must be text"}
		}
		if header.Length > int64(w.h.opts.MaxMessage-len(message)) {
			return nil, &refusal{ws.StatusMessageTooBig, fmt.Sprintf("Message too large: %d bytes are allowed; put large data where it can be fetched", w.h.opts.MaxMessage)}
		}
		if message, err = w.payload(message, header); err != nil {
			return nil, err
		}
		if !header.Fin {
			state = state.Set(ws.StateFragmented)
			continue
		}
		if !utf8.Valid(message) {
			return nil, &refusal{ws.StatusInvalidFramePayloadData, "A message must be UTF-8"}
		}
		w.torn = false
		return message, nil
	}
}

// chunk is how much room is made at once for a message of which only the length has come.
const chunk = 64 << 10

// payload appends what a frame carries to a message.
func (w *connection) payload(message []byte, header ws.Header) ([]byte, error) {
	from := len(message)
	for left := int(header.Length); left > 0; {
		n := min(left, chunk)
		message = append(message, make([]byte, n)...)
		if _, err := io.ReadFull(w.in, message[len(message)-n:]); err != nil {
			return nil, err
		}
		left -= n
	}
	ws.Cipher(message[from:], header.Mask, 0)
	return message, nil
}

// controlled answers a control frame.
func (w *connection) controlled(header ws.Header) error {
	data, err := w.payload(nil, header)
	if err != nil {
		return err
	}
	switch header.OpCode {
	case ws.OpPing:
		w.send(ws.OpPong, data, false)
	case ws.OpClose:
		return w.goodbye(data)
	}
	return nil
}

// maxCloseCode is the largest code that RFC 6455 gives to anyone (section 7.4.2).
const maxCloseCode ws.StatusCode = 4999

// goodbye answers a close frame. A peer that goes away, as a browser does that leaves a
// page, may come back and resume; one that is done, or says nothing of why, does not.
func (w *connection) goodbye(data []byte) error {
	code, reason := ws.ParseCloseFrameData(data)
	if len(data) == 0 {
		w.close(ws.StatusNormalClosure, "")
		return io.EOF
	}
	if err := ws.CheckCloseFrameData(code, reason); err != nil || len(data) == 1 || code > maxCloseCode {
		return &refusal{ws.StatusProtocolError, "A close frame that is not valid"}
	}
	w.close(code, "")
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
func (w *connection) appendBatch(dst, message []byte) []byte {
	if len(dst) == 0 { // the earlier frames are sent
		w.batch = -1
	}
	if w.batch >= 0 {
		if n := frameEnd(dst[w.batch:]) - 4 + len(message) + 1; n < 1<<16 {
			dst[len(dst)-1] = ','
			binary.BigEndian.PutUint16(dst[w.batch+2:], uint16(n))
			return append(append(dst, message...), ']')
		}
	}
	start, n := len(dst), len(message)+2
	dst = append(append(append(appendHeader(dst, ws.OpText, n), '['), message...), ']')
	if w.batch = -1; n >= 126 && n < 1<<16 { // a longer length would need a longer header
		w.batch = start
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
