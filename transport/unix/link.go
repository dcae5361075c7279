package unix

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"kernos/message"
	"kernos/transport"
)

// Disconnected is the type of the error that is the last line of a connection which is
// refused or closed by the daemon. It answers nothing, so it has no causation.
const Disconnected message.Type = "Syscall.Disconnected"

// What ends a connection from our side.
var (
	errIdle       = errors.New("the peer was silent for too long")
	errUnfinished = errors.New("the peer did not end a line")
)

// link is the server's end of one connection: it reads and writes, and keeps the time. A
// connection that has no limits and is between two lines has no timer.
type link struct {
	s    *Server
	conn *net.UnixConn

	open    atomic.Int64 // requests that are not answered
	written atomic.Int64 // when something was last written, in nanoseconds; kept if there is a limit of silence

	serves atomic.Bool // others wait for what its peer says

	// One attempt to read.
	raw     syscall.RawConn
	attempt func(fd uintptr) bool // l.try
	lend    func() []byte
	back    func()
	got     []byte
	err     error

	// What the reader knows.
	rest    []byte        // was read with what came before it
	partial bool          // the last line that came has no end yet
	spent   time.Duration // waiting for its end

	mu      sync.Mutex // guards what follows
	armed   time.Time  // when the deadline for reading is; zero if there is none
	stopped bool       // nothing more is read
	ended   bool       // nobody reads: the deadline is that of left
}

// options returns the settings of the conversation over the link.
func (l *link) options() *transport.Options {
	opts := &transport.Options{Lenient: l.s.opts.Lenient, Left: l.left, Asked: func() { l.serves.Store(true) }}
	if l.s.opts.Idle > 0 {
		opts.Open = &l.open
	}
	if r := l.s.opts.FrameRate; r > 0 {
		bucket := rate.NewLimiter(rate.Limit(r), int(min(max(1, math.Ceil(r)), math.MaxInt32)))
		opts.Pace = func() { _ = bucket.Wait(l.s.reading) } // what was read before the end is not held up by it
	}
	return opts
}

// newLink returns the link over a connection that was accepted.
func newLink(s *Server, conn *net.UnixConn) *link {
	l := &link{s: s, conn: conn}
	l.raw, l.err = conn.SyscallConn()
	l.attempt = l.try
	return l
}

// Read implements [io.Reader].
func (l *link) Read(p []byte) (int, error) {
	return l.ReadLazily(func() []byte { return p }, func() {})
}

// ReadLazily implements [ndjson.LazyReader]. The error is transport.ErrStopped after stop.
func (l *link) ReadLazily(lend func() []byte, giveBack func()) (int, error) {
	if len(l.rest) > 0 {
		p := lend()
		n := copy(p, l.rest)
		if l.rest = l.rest[n:]; len(l.rest) == 0 {
			l.rest = nil
		}
		l.saw(p[:n])
		return n, nil
	}
	var begun time.Time
	if l.partial || l.s.opts.Idle > 0 {
		begun = time.Now()
		l.arm(begun.Add(l.allowed()))
	}
	l.lend, l.back = lend, giveBack
	for {
		err := l.raw.Read(l.attempt)
		if err == nil {
			err = l.err
		}
		if l.partial {
			l.spent += time.Since(begun)
		}
		if got := l.got; len(got) > 0 {
			l.got = nil // it is lent
			l.saw(got)
			return len(got), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if err := l.expired(begun); err != nil {
			return 0, err
		}
		if l.partial {
			begun = time.Now()
		}
	}
}

// try reads what is there, and reports whether that ends the wait.
func (l *link) try(fd uintptr) bool {
	p := l.lend()
	n, err := retry(func() (int, error) { return unix.Read(int(fd), p) })
	switch {
	case err == unix.EAGAIN:
		l.back()
		return false
	case err != nil:
		l.err = os.NewSyscallError("read", err)
	case n == 0:
		l.err = io.EOF
	default:
		l.got = p[:n]
	}
	return true
}

// allowed is how long the next read may take.
func (l *link) allowed() time.Duration {
	if l.partial {
		return l.s.opts.Line - l.spent
	}
	return l.s.opts.Idle
}

// saw keeps track of where lines end.
func (l *link) saw(p []byte) {
	switch end := bytes.LastIndexByte(p, '\n'); {
	case end == len(p)-1:
		l.partial, l.spent = false, 0
	case end >= 0 || !l.partial:
		l.partial, l.spent = true, 0
	}
}

// expired says what it means that the deadline of a read that began at a time has passed,
// or sets the next one.
func (l *link) expired(begun time.Time) error {
	l.mu.Lock()
	l.armed = time.Time{}
	stopped := l.stopped
	l.mu.Unlock()
	now := time.Now()
	switch {
	case stopped:
		return transport.ErrStopped
	case l.partial && l.spent >= l.s.opts.Line:
		return errUnfinished
	case l.partial:
		l.arm(now.Add(l.allowed()))
	case l.s.opts.Idle == 0:
		l.arm(time.Time{}) // it was that of an earlier line
	case l.open.Load() > 0 || l.serves.Load():
		l.arm(now.Add(l.s.opts.Idle))
	default:
		last := begun
		if w := time.Unix(0, l.written.Load()); w.After(last) {
			last = w
		}
		if now.Sub(last) >= l.s.opts.Idle {
			return errIdle
		}
		l.arm(last.Add(l.s.opts.Idle))
	}
	return nil
}

// arm makes a read end at t at the latest; the zero time means never. An earlier deadline
// stays: who finds that it has come too early arms anew.
func (l *link) arm(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || !l.armed.IsZero() && !t.IsZero() && !t.Before(l.armed) {
		return
	}
	l.armed = t
	_ = l.conn.SetReadDeadline(t)
}

// stop makes reading end, at once and for good.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if !l.ended {
		_ = l.conn.SetReadDeadline(past)
	}
}

// Write implements [io.Writer].
func (l *link) Write(p []byte) (int, error) {
	n, err := l.conn.Write(p)
	if l.s.opts.Idle > 0 {
		l.written.Store(time.Now().UnixNano())
	}
	return n, err
}

// left waits, after the end of reading, until the peer has closed its other direction too,
// or until finished is closed.
func (l *link) left(finished <-chan struct{}) bool {
	l.mu.Lock()
	l.ended = true
	_ = l.conn.SetReadDeadline(time.Time{})
	l.mu.Unlock()
	gone := make(chan bool, 1)
	go func() { gone <- hungUp(l.raw) }()
	select {
	case left := <-gone:
		return left
	case <-finished:
		_ = l.conn.SetReadDeadline(past)
		<-gone
		return false
	}
}

// refuse tells the peer why it is not served, and closes the connection.
func (l *link) refuse(e *message.Error) {
	_ = l.tell(message.Message{Kind: message.KindError, Type: Disconnected, Data: e.Append(nil)})
	_ = l.conn.Close()
}

// tell writes one line to a peer that may not read. Most often there is room for it.
func (l *link) tell(m message.Message) error {
	l.s.k.Stamp(&m)
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := l.conn.Write(append(message.Append(nil, &m), '\n'))
	_ = l.conn.SetWriteDeadline(time.Time{})
	return err
}
