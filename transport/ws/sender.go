package ws

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gobwas/ws"
)

// sender is the sending half of a wire: a buffer of frames, which one goroutine at a time
// takes and sends. That is the reader before it waits, if the peer takes everything at once;
// otherwise one that ends when the buffer is empty.
type sender struct {
	w   *wire
	raw syscall.RawConn // to send without waiting; nil if the connection can't

	mu       sync.Mutex
	room     sync.Cond // told when the buffer was taken
	out      []byte    // frames that wait; an idle connection has no buffer
	sending  bool      // somebody has frames in hand
	idle     sync.Cond // told when nobody has
	armed    bool      // the timer runs
	timer    *time.Timer
	farewell []byte // the last frame; nothing is taken after it
	broken   bool   // nothing is sent any more
}

const (
	enough  = 64 << 10 // bytes that are sent without waiting for more
	maxKept = 1 << 20  // of a buffer that is used again

	maxDelay = 2 * time.Millisecond // that a frame waits for more
)

// buffers are those that no connection needs at the moment.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (s *sender) begin(w *wire) {
	s.w = w
	s.room.L, s.idle.L = &s.mu, &s.mu
	if c, ok := w.conn.(syscall.Conn); ok { // over TCP or a unix socket; not over TLS
		s.raw, _ = c.SyscallConn()
	}
}

// Write implements [rpc.Wire].
func (s *sender) Write(frame []byte, more bool) {
	s.add(ws.OpText, s.w.remote.Outward(frame), more)
}

func (s *sender) control(op ws.OpCode, data []byte) { s.add(op, data, false) }

func (s *sender) add(op ws.OpCode, data []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) > s.w.h.opts.MaxUnread && s.open() {
		s.room.Wait()
	}
	if !s.open() {
		return
	}
	if s.out == nil {
		s.out = *buffers.Get().(*[]byte)
	}
	s.out = appendFrame(s.out, op, data)
	switch {
	case s.sending:
	case !more || len(s.out) >= enough:
		s.sending = true
		go s.drain(nil, 0)
	case !s.armed:
		s.arm()
	}
}

// arm sees to it that a frame does not wait for longer than that for more to come: the call
// that comes next on the connection may take its time. The timer is left to run when the frame
// is sent, since setting one is dear. mu is held.
func (s *sender) arm() {
	s.armed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(maxDelay, s.late)
	} else {
		s.timer.Reset(maxDelay)
	}
}

// late is the timer's.
func (s *sender) late() {
	s.mu.Lock()
	s.armed = false
	s.mu.Unlock()
	s.Flush()
}

// open reports whether frames are taken. mu is held.
func (s *sender) open() bool { return !s.broken && s.farewell == nil }

// Flush implements [rpc.Wire]. It does not wait for the peer.
func (s *sender) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending || s.broken || len(s.out) == 0 {
		return
	}
	s.sending = true
	if s.raw == nil {
		go s.drain(nil, 0)
		return
	}
	frames := s.take()
	s.mu.Unlock()
	n, err := s.try(frames)
	s.mu.Lock()
	switch {
	case err != nil:
		s.fail()
		_ = s.w.conn.Close() // which is no TLS
	case n < len(frames):
		go s.drain(frames, n)
	case len(s.out) > 0:
		give(frames)
		go s.drain(nil, 0)
	default:
		give(frames)
		s.rest()
	}
}

// take takes the frames that wait. mu is held.
func (s *sender) take() []byte {
	frames := s.out
	s.out = nil
	s.room.Broadcast()
	return frames
}

// give gives a buffer back.
func give(frames []byte) {
	if cap(frames) <= maxKept {
		frames = frames[:0]
		buffers.Put(&frames)
	}
}

// rest notes that nobody has frames in hand. mu is held.
func (s *sender) rest() {
	s.sending = false
	s.idle.Broadcast()
}

// fail notes that nothing can be sent any more. mu is held; whoever calls it closes the
// connection without it, since over TLS that may take seconds.
func (s *sender) fail() {
	s.broken = true
	s.out = nil
	s.room.Broadcast()
	s.rest()
}

// try sends as much as the connection takes at once.
func (s *sender) try(frames []byte) (n int, err error) {
	control := s.raw.Write(func(fd uintptr) bool {
		for {
			n, err = syscall.Write(int(fd), frames)
			if err != syscall.EINTR {
				return true
			}
		}
	})
	if control != nil {
		return 0, control
	}
	if err == syscall.EAGAIN {
		return 0, nil
	}
	return max(n, 0), err
}

// drain sends what waits until there is nothing, however long the peer takes. It begins
// with frames, of which some bytes are sent already.
func (s *sender) drain(frames []byte, sent int) {
	for {
		if !s.send(frames, sent) {
			return
		}
		s.mu.Lock()
		give(frames)
		if len(s.out) == 0 || s.broken {
			_ = s.w.conn.SetWriteDeadline(time.Time{}) // it would be that of those who write without one
			s.rest()
			s.mu.Unlock()
			return
		}
		frames, sent = s.take(), 0
		s.mu.Unlock()
	}
}

// send sends frames to a peer that may be slow, and reports whether it took them.
func (s *sender) send(frames []byte, sent int) bool {
	for sent < len(frames) {
		n, late, err := s.write(frames[sent:min(len(frames), sent+enough)])
		sent += n
		if err == nil && !late {
			continue
		}
		if late {
			s.drop(frames, sent)
		}
		s.mu.Lock()
		s.fail()
		s.mu.Unlock()
		_ = s.w.conn.Close()
		return false
	}
	return true
}

// write writes some bytes, and reports whether the peer has lost our patience over them. TLS
// can't go on behind a deadline that has passed, so there the write itself has the time that
// a peer has to read why it is dropped.
func (s *sender) write(part []byte) (n int, late bool, err error) {
	patience := s.w.h.opts.Patience
	if s.raw != nil {
		_ = s.w.conn.SetWriteDeadline(time.Now().Add(patience))
		n, err = s.w.conn.Write(part)
		return n, errors.Is(err, os.ErrDeadlineExceeded), err
	}
	begun := time.Now()
	_ = s.w.conn.SetWriteDeadline(begun.Add(2 * patience))
	n, err = s.w.conn.Write(part)
	return n, time.Since(begun) >= patience && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)), err
}

// drop says to a peer that does not read why it is dropped: it gets the rest of the frame
// that it has begun to read, and the reason, if it reads on within reasonable time.
func (s *sender) drop(frames []byte, sent int) {
	s.mu.Lock()
	if s.broken {
		s.mu.Unlock()
		return // by us
	}
	s.farewell = closeFrame(ws.StatusPolicyViolation, fmt.Sprintf("Slow reader: nothing was read for %v; reconnect and resume", s.w.h.opts.Patience))
	s.out = nil
	s.room.Broadcast()
	s.mu.Unlock()
	s.w.h.conns.Close(s.w, Slow)
	end := 0
	for end < sent {
		end += frameEnd(frames[end:])
	}
	_ = s.w.conn.SetWriteDeadline(time.Now().Add(s.w.h.opts.Patience))
	_, _ = s.w.conn.Write(append(bytes.Clone(frames[sent:end]), s.farewell...))
}

// close sends a last frame, after those that wait.
func (s *sender) close(code ws.StatusCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open() {
		return
	}
	s.farewell = closeFrame(code, reason)
	s.out = append(s.out, s.farewell...)
	s.room.Broadcast()
	if !s.sending {
		s.sending = true
		go s.drain(nil, 0)
	}
}

// maxReason is how many bytes a close frame has room for.
const maxReason = 123

func closeFrame(code ws.StatusCode, reason string) []byte {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return appendFrame(nil, ws.OpClose, ws.NewCloseFrameBody(code, reason))
}

// lastWords is how long a peer has to hang up after it was told to.
const lastWords = time.Second

// hangUp ends the connection. If there is a last frame, it is sent first, and what still
// comes is read: a peer whose data is not read may lose what it was sent.
func (s *sender) hangUp() {
	s.mu.Lock()
	for s.farewell != nil && s.sending {
		s.idle.Wait()
	}
	told := s.farewell != nil && !s.broken
	s.mu.Unlock()
	if told {
		if half, ok := s.w.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_ = s.w.conn.SetReadDeadline(time.Now().Add(lastWords))
			_, _ = io.Copy(io.Discard, s.w.conn)
		}
	}
	s.mu.Lock()
	s.broken = true
	s.out = nil
	s.room.Broadcast()
	s.mu.Unlock()
	_ = s.w.conn.Close()
}
