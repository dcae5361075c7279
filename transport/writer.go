package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// writeSize is how many bytes are written without waiting for more.
	writeSize = 64 << 10

	// maxDelay is how long bytes wait for more to be written with.
	maxDelay = 2 * time.Millisecond

	// maxSpare is the largest buffer that is used again.
	maxSpare = 4 * writeSize
)

// An Output is where a [Writer] writes. Its methods are never called at the same time.
type Output interface {
	// TryWrite writes as many bytes of p as there is room for, and does not wait. An output
	// that can't do that returns 0.
	TryWrite(p []byte) (n int, err error)

	// WriteAll writes p, of which the first bytes are sent already, and waits for the peer.
	// The output decides how long a peer may take that does not read.
	WriteAll(p []byte, sent int) error
}

// A Writer collects the lines or frames for one peer, and writes them together. It writes
//
//   - when it is asked to, by Flush or by an Add after which nothing follows soon,
//   - when 64 KB have been collected,
//   - when bytes have waited for 2 ms.
//
// The goroutine that causes a write makes it, if the peer takes everything at once. Otherwise a
// goroutine of the writer continues, and ends when nothing is left. So neither Flush nor Add
// waits for the peer, and a connection can be read while its peer does not read. Memory is
// bounded by its users: they call Writable before Add, which waits from the limit on.
//
// The first error of the output ends writing; what is added after it is dropped. A Writer is
// safe for concurrent use. While nothing waits it holds no buffer.
type Writer struct {
	out    Output
	limit  int
	failed atomic.Bool // err is set
	full   atomic.Bool // the limit is reached

	mu      sync.Mutex
	changed sync.Cond // signalled when the buffer was taken, and when no write runs
	buf     []byte
	home    *[]byte // the pool's element that buf came from; nil without one
	writing bool    // a goroutine is writing, and will take bytes that are added meanwhile
	closed  bool
	err     error
	armed   bool // the timer runs
	timer   *time.Timer
}

// buffers are those that no writer needs at the moment.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// NewWriter returns a writer. The limit is how many bytes may wait for a peer that does not
// read before Writable returns false; 0 means 64 KB.
func NewWriter(out Output, limit int) *Writer {
	if limit <= 0 {
		limit = writeSize
	}
	w := &Writer{out: out, limit: limit}
	w.changed.L = &w.mu
	return w
}

// Writable reports whether fewer bytes than the limit wait for the peer. With wait, it waits until
// fewer do, or until sending has ended.
func (w *Writer) Writable(wait bool) bool {
	if !w.full.Load() {
		return true
	}
	if wait {
		w.mu.Lock()
		defer w.mu.Unlock()
		for w.full.Load() && w.open() {
			w.changed.Wait()
		}
	}
	return wait
}

// Add calls encode, which appends a whole line or frame to the buffer. With more, others
// follow soon, and the bytes may wait for them; otherwise a goroutine of the writer writes them.
func (w *Writer) Add(encode func(dst []byte) []byte, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open() {
		return
	}
	if w.home == nil {
		w.home = buffers.Get().(*[]byte)
		w.buf = *w.home
	}
	w.buf = encode(w.buf)
	if len(w.buf) >= w.limit {
		w.full.Store(true)
	}
	switch {
	case len(w.buf) >= writeSize:
		w.flush()
	case !more && !w.writing && len(w.buf) > 0:
		// On another goroutine: what is added until it runs is written together with this. A
		// stream of items is three times as fast for that.
		w.writing = true
		go w.drain(nil, nil, 0)
	case !more:
	case !w.writing && !w.armed && len(w.buf) > 0:
		// The timer is left to run when the buffer is written: setting one is expensive.
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(maxDelay, w.late)
		} else {
			w.timer.Reset(maxDelay)
		}
	}
}

// open reports whether anything is taken. mu is held.
func (w *Writer) open() bool { return w.err == nil && !w.closed }

func (w *Writer) late() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.flush()
}

// Flush writes what waits, and does not wait for the peer.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

// flush writes what waits. mu is held, but not while it writes.
func (w *Writer) flush() {
	if w.writing || len(w.buf) == 0 {
		return
	}
	w.writing = true
	buf, home := w.take()
	w.mu.Unlock()
	n, err := w.out.TryWrite(buf)
	w.mu.Lock()
	switch {
	case err == nil && n < len(buf):
		go w.drain(buf, home, n)
		return
	case err == nil:
		giveBack(buf, home)
		if len(w.buf) > 0 { // bytes were added during the write
			buf, home = w.take()
			go w.drain(buf, home, 0)
			return
		}
	}
	w.idle(err)
}

// drain writes a buffer, which may be nil and of which some bytes are sent, and those that come
// after it, however long the peer takes.
func (w *Writer) drain(buf []byte, home *[]byte, sent int) {
	for {
		var err error
		if buf != nil {
			err = w.out.WriteAll(buf, sent)
			giveBack(buf, home)
		}
		w.mu.Lock()
		if err != nil || len(w.buf) == 0 {
			w.idle(err)
			w.mu.Unlock()
			return
		}
		buf, home = w.take()
		w.mu.Unlock()
		if sent, err = w.out.TryWrite(buf); err != nil {
			w.mu.Lock()
			w.idle(err)
			w.mu.Unlock()
			return
		}
	}
}

func (w *Writer) take() (buf []byte, home *[]byte) {
	buf, home = w.buf, w.home
	w.buf, w.home = nil, nil
	w.full.Store(false)
	w.changed.Broadcast()
	return buf, home
}

func giveBack(buf []byte, home *[]byte) {
	if cap(buf) <= maxSpare {
		*home = buf[:0]
		buffers.Put(home)
	}
}

// idle notes that nothing is being written, and with an error that nothing will be. mu is
// held.
func (w *Writer) idle(err error) {
	w.writing = false
	if err != nil {
		w.err = err
		w.failed.Store(true)
		w.buf, w.home = nil, nil
	}
	w.changed.Broadcast()
}

// Close writes what waits, and then last, which may be nil, and returns when all of it is
// written, with the error that ended writing. It takes nothing more, and does not close the
// output. A second Close only waits.
func (w *Writer) Close(last []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open() && len(last) > 0 {
		if w.home == nil {
			w.home = new([]byte)
		}
		w.buf = append(w.buf, last...)
	}
	w.closed = true
	w.changed.Broadcast()
	w.flush()
	for w.writing {
		w.changed.Wait()
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.err
}

// Err returns the error that ended writing, or nil.
func (w *Writer) Err() error {
	if !w.failed.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// OutputTo returns the output that writes to w: itself, if it is one.
func OutputTo(w io.Writer) Output {
	if out, ok := w.(Output); ok {
		return out
	}
	return blockingOutput{w}
}

type blockingOutput struct{ io.Writer }

func (b blockingOutput) TryWrite([]byte) (int, error) { return 0, nil }

func (b blockingOutput) WriteAll(p []byte, sent int) error {
	_, err := b.Write(p[sent:])
	return err
}

// A Socket writes to a connection without waiting. A nil Socket writes nothing.
type Socket struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	p       []byte
	n       int
	err     error
}

// NewSocket returns the socket of a connection; nil if it has none that can be written to
// directly, as under TLS.
func NewSocket(conn net.Conn) *Socket {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &Socket{raw: raw}
	s.attempt = func(fd uintptr) bool {
		for {
			if s.n, s.err = unix.Write(int(fd), s.p); s.err != unix.EINTR {
				return true
			}
		}
	}
	return s
}

// TryWrite implements a method of [Output].
func (s *Socket) TryWrite(p []byte) (int, error) {
	if s == nil {
		return 0, nil
	}
	s.p = p
	err := s.raw.Write(s.attempt)
	s.p = nil
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // the deadline belongs to a write that waits
		return 0, nil
	case err != nil:
		return 0, err
	case s.err == unix.EAGAIN:
		return 0, nil
	}
	return max(s.n, 0), os.NewSyscallError("write", s.err)
}
