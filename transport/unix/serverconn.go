package unix

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kernos/message"
	"kernos/transport"
)

// What ends a connection from our side.
var (
	errUnfinished = errors.New("the peer did not end a line")
	errStalled    = errors.New("the peer did not take what was sent to it")
)

// serverConn is the server's end of one connection: it reads and writes, and keeps the time. A
// connection that has no limits and is between two lines has no timer.
type serverConn struct {
	s         *Server
	conn      *net.UnixConn
	deadlines deadlines // sets the deadlines of conn

	open    atomic.Int64 // requests that are not answered
	written atomic.Int64 // time of the last write, in nanoseconds; kept if there is a limit of silence

	serves atomic.Pointer[func() bool] // reports whether others wait for what the peer sends; nil before the connection is served

	// One attempt to read.
	raw     syscall.RawConn
	attempt func(fd uintptr) bool // l.try
	lend    func() []byte
	back    func()
	got     []byte
	err     error

	socket *transport.Socket // writes without waiting

	pacer *transport.Pacer // nil if there is no frame rate

	// What the reader knows.
	last    bool          // reads return what has come, and don't wait
	beyond  int           // bytes read since last was set
	partial bool          // the last line that came has no end yet
	spent   time.Duration // time spent waiting for the end of that line
	halted  bool          // reading has ended because of stop

	mu      sync.Mutex // guards what follows
	armed   time.Time  // the read deadline; zero if there is none
	stopped bool       // nothing more is read
	stalled bool       // nothing more is written
	watched bool       // nothing is read: left uses the read deadline
}

func (l *serverConn) options() *transport.Options {
	opts := &transport.Options{Lenient: l.s.opts.Lenient, Left: l.left, Gone: l.finish, Asked: func(serves func() bool) { l.serves.Store(&serves) }, Pacer: l.pacer}
	if l.s.opts.Idle > 0 {
		opts.Open = &l.open
	}
	return opts
}

// Serves implements [transport.Conn].
func (l *serverConn) Serves() bool {
	serves := l.serves.Load()
	return serves != nil && (*serves)()
}

// Throttled implements [transport.Conn].
func (l *serverConn) Throttled() bool { return l.pacer.Waits() }

// Cut implements [transport.Conn].
func (l *serverConn) Cut() { _ = l.conn.Close() }

// deadlines end the reads and writes of a connection.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

func newLink(s *Server, conn *net.UnixConn) *serverConn {
	l := &serverConn{s: s, conn: conn, deadlines: s.deadlines(conn)}
	l.raw, l.err = conn.SyscallConn()
	l.attempt, l.socket = l.try, transport.NewSocket(conn)
	l.pacer = s.conns.Pacer()
	return l
}

// Read implements [io.Reader].
func (l *serverConn) Read(p []byte) (int, error) {
	return l.ReadLazily(func() []byte { return p }, func() {})
}

// ReadLazily implements [ndjson.LazyReader]. The error is transport.ErrStopped after stop.
func (l *serverConn) ReadLazily(lend func() []byte, giveBack func()) (int, error) {
	var begun time.Time
	if l.partial || l.s.opts.Idle > 0 {
		begun = l.s.now()
		l.arm(begun.Add(l.allowed()))
	}
	l.lend, l.back = lend, giveBack
	for {
		err := l.await()
		if err == nil {
			err = l.err
		}
		if l.partial {
			l.spent += l.s.now().Sub(begun)
		}
		if got := l.got; len(got) > 0 {
			l.got = nil // the buffer belongs to the reader
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
			begun = l.s.now()
		}
	}
}

// await reads what is there, or comes.
func (l *serverConn) await() error {
	if !l.last {
		return l.raw.Read(l.attempt)
	}
	return l.raw.Control(func(fd uintptr) {
		if l.beyond > maxDiscarded || !l.try(fd) {
			l.err = io.EOF // nothing more has come, or the peer keeps sending
		}
		l.beyond += len(l.got)
	})
}

// finish makes reading end when nothing is left of what has come. It is called by the
// goroutine that reads.
func (l *serverConn) finish() { l.last = true }

// try reads what is there, and reports whether that ends the wait.
func (l *serverConn) try(fd uintptr) bool {
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

func (l *serverConn) allowed() time.Duration {
	if l.partial {
		return l.s.opts.Line - l.spent
	}
	return l.s.opts.Idle
}

// saw keeps track of where lines end.
func (l *serverConn) saw(p []byte) {
	switch end := bytes.LastIndexByte(p, '\n'); {
	case end == len(p)-1:
		l.partial, l.spent = false, 0
	case end >= 0 || !l.partial:
		l.partial, l.spent = true, 0
	}
}

// expired reports what it means that the deadline of a read that began at a time has passed,
// or sets the next one.
func (l *serverConn) expired(begun time.Time) error {
	l.mu.Lock()
	l.armed = time.Time{}
	stopped, stalled := l.stopped, l.stalled
	l.mu.Unlock()
	now := l.s.now()
	switch {
	case stalled:
		return errStalled
	case stopped:
		l.halted = true
		return transport.ErrStopped
	case l.partial && l.spent >= l.s.opts.Line:
		return errUnfinished
	case l.partial:
		l.arm(now.Add(l.allowed()))
	case l.s.opts.Idle == 0:
		l.arm(time.Time{}) // the deadline was for an earlier line
	case l.open.Load() > 0 || l.Serves():
		l.arm(now.Add(l.s.opts.Idle))
	default:
		last := begun
		if w := time.Unix(0, l.written.Load()); w.After(last) {
			last = w
		}
		if now.Sub(last) >= l.s.opts.Idle {
			return transport.ErrIdle
		}
		l.arm(last.Add(l.s.opts.Idle))
	}
	return nil
}

// arm makes a read end at t at the latest; the zero time means never. An earlier deadline
// stays: a reader that finds that it has come too early arms anew.
func (l *serverConn) arm(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.stalled || !l.armed.IsZero() && !t.IsZero() && !t.Before(l.armed) {
		return
	}
	l.armed = t
	_ = l.deadlines.SetReadDeadline(t)
}

// Stop implements [transport.Conn].
func (l *serverConn) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if !l.watched {
		_ = l.deadlines.SetReadDeadline(past)
	}
}

// hasStopped reports whether Stop was called: then that is why reading ended.
func (l *serverConn) hasStopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// Write implements [io.Writer].
func (l *serverConn) Write(p []byte) (int, error) { return len(p), l.WriteAll(p, 0) }

// TryWrite implements [transport.Output].
func (l *serverConn) TryWrite(p []byte) (int, error) {
	n, err := l.socket.TryWrite(p)
	l.noteWritten()
	return n, err
}

// WriteAll implements [transport.Output]. The error is errStalled if the peer takes nothing
// for as long as it may; then nothing more is read either.
func (l *serverConn) WriteAll(p []byte, sent int) (err error) {
	for sent < len(p) && err == nil {
		_ = l.deadlines.SetWriteDeadline(l.s.now().Add(l.s.opts.Stall))
		var n int
		n, err = l.conn.Write(p[sent:])
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if err = nil; n == 0 {
				err = errStalled
				l.stall()
			}
		}
	}
	_ = l.deadlines.SetWriteDeadline(time.Time{}) // otherwise it would apply to TryWrite
	l.noteWritten()
	return err
}

func (l *serverConn) noteWritten() {
	if l.s.opts.Idle > 0 {
		l.written.Store(l.s.now().UnixNano())
	}
}

// stall makes reading end: the peer does not take the answers.
func (l *serverConn) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = true
	_ = l.deadlines.SetReadDeadline(past)
}

// left waits, while nothing is read, until the peer has closed both directions or takes nothing
// any more, or until finished is closed.
func (l *serverConn) left(finished <-chan struct{}) bool {
	l.mu.Lock()
	l.watched = true
	if !l.stalled {
		_ = l.deadlines.SetReadDeadline(time.Time{})
	}
	l.mu.Unlock()
	gone := make(chan bool, 1)
	go func() { gone <- hungUp(l.raw) }()
	left := false
	select {
	case left = <-gone:
	case <-finished:
		_ = l.deadlines.SetReadDeadline(past)
		<-gone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = false
	deadline := l.armed
	if l.stopped || l.stalled {
		deadline = past
	}
	_ = l.deadlines.SetReadDeadline(deadline)
	return left || l.stalled
}

// refuse tells the peer why it is not served, and closes the connection.
func (l *serverConn) refuse(e *message.Error) {
	_ = l.tell(transport.LastLine(l.s.k, e))
	l.close()
}

// disconnect counts a connection that the server closes, and tells its peer why.
func (l *serverConn) disconnect(reason transport.Reason, why *message.Error) {
	l.s.conns.Close(l, reason)
	l.refuse(why)
}

// close closes the connection so that what the peer was told arrives: a connection that is
// closed while something is unread is reset instead.
func (l *serverConn) close() {
	_ = l.conn.CloseRead() // nothing more comes
	l.discard()
	_ = l.conn.Close()
}

// interrupted reports, after the conversation, whether the peer had more to say, or might
// have had, when it was stopped.
func (l *serverConn) interrupted() bool {
	if !l.halted {
		return false
	}
	n, ended := l.discard()
	return l.partial || n > 0 || !ended
}

// discard reads what has come and was not read, and says how much that was, and whether the
// peer has ended its side. A peer that keeps sending is not waited for.
func (l *serverConn) discard() (n int, ended bool) {
	buf := make([]byte, 4<<10)
	_ = l.raw.Control(func(fd uintptr) {
		for n < maxDiscarded {
			got, err := retry(func() (int, error) { return unix.Read(int(fd), buf) })
			if err != nil || got == 0 {
				ended = err == nil
				return
			}
			n += got
		}
	})
	return n, ended
}

// maxDiscarded is more than the buffers of a socket hold.
const maxDiscarded = 8 << 20

// tell writes one line to a peer that may not read. Most often there is room for it.
func (l *serverConn) tell(line []byte) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := l.conn.Write(line)
	_ = l.conn.SetWriteDeadline(time.Time{})
	return err
}
