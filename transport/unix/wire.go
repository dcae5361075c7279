package unix

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kernos/transport"
)

// A Passed is a connection that another part of the process hands over, in addition to a socket of the operating system: one
// that another node of a cluster has accepted. See [Listener.Passed].
type Passed interface {
	net.Conn

	// TryWrite is the method of [transport.Output].
	TryWrite(p []byte) (int, error)

	// CloseWrite ends what is sent.
	CloseWrite() error

	// HungUp is called after the end of what the other end sends. It waits until the other end doesn't read either, and reports
	// whether it came to that. A read deadline ends the wait.
	HungUp() bool
}

// A wire is the connection of a [serverConn], without the limits of time.
type wire interface {
	net.Conn

	// receive waits for what comes, and reads it into what lend returns; back is called before it waits without the buffer. The
	// error is errHTTP if the first that comes begins a request of HTTP, of which nothing is read then.
	receive(lend func() []byte, back func()) ([]byte, error)

	// speaksHTTP waits until something has come, and reports whether that is a request of HTTP.
	speaksHTTP() bool

	// finish makes receive return what has come, and not wait.
	finish()

	TryWrite(p []byte) (int, error)

	// hungUp is called after the end of what the peer sends. It waits until the peer doesn't read either, and reports whether it
	// came to that. A read deadline ends the wait.
	hungUp() bool

	// discard reads what has come and was not read, and returns how much that was, and whether the peer has ended its side. A
	// peer that keeps sending is not waited for.
	discard() (n int, ended bool)

	// hangUp closes the connection so that what was sent arrives.
	hangUp()
}

// newWire returns the wire of a connection, which may begin with HTTP.
func newWire(conn net.Conn, http bool) wire {
	if passed, ok := conn.(Passed); ok {
		return &passedWire{Passed: passed, fresh: http}
	}
	w := &socketWire{UnixConn: conn.(*net.UnixConn), fresh: http}
	w.raw, w.err = w.SyscallConn()
	w.attempt, w.socket = w.try, transport.NewSocket(w.UnixConn)
	return w
}

// A socketWire is a socket of this machine. While nothing comes, no buffer waits for it.
type socketWire struct {
	*net.UnixConn
	raw    syscall.RawConn
	socket *transport.Socket // writes without waiting
	fresh  bool              // nothing has been read, and what comes may be HTTP
	last   bool              // reads return what has come, and don't wait
	beyond int               // bytes read since last was set

	// One attempt to read.
	attempt func(fd uintptr) bool // w.try
	lend    func() []byte
	back    func()
	got     []byte
	err     error
}

func (w *socketWire) receive(lend func() []byte, back func()) ([]byte, error) {
	w.lend, w.back = lend, back
	err := w.await()
	if err == nil {
		err = w.err
	}
	got := w.got
	w.got = nil // the buffer belongs to the reader
	return got, err
}

// await reads what has come, or comes.
func (w *socketWire) await() error {
	if !w.last {
		return w.raw.Read(w.attempt)
	}
	return w.raw.Control(func(fd uintptr) {
		if w.beyond > maxDiscarded || !w.try(fd) {
			w.err = io.EOF // nothing more has come, or the peer keeps sending
		}
		w.beyond += len(w.got)
	})
}

func (w *socketWire) finish() { w.last = true }

// try reads what has come, and reports whether that ends the wait.
func (w *socketWire) try(fd uintptr) bool {
	if w.fresh {
		switch http, come := beginsHTTP(fd); {
		case http:
			w.err = errHTTP
			return true
		case !come:
			return false // what comes from here on is looked at first, too
		}
	}
	buf := w.lend()
	n, err := retry(func() (int, error) { return unix.Read(int(fd), buf) })
	switch {
	case err == unix.EAGAIN:
		w.back()
		return false
	case err != nil:
		w.err = os.NewSyscallError("read", err)
	case n == 0:
		w.err = io.EOF
	default:
		w.got, w.fresh = buf[:n], false
	}
	return true
}

func (w *socketWire) speaksHTTP() (http bool) {
	if w.fresh {
		_ = w.raw.Read(func(fd uintptr) (come bool) {
			http, come = beginsHTTP(fd)
			return come
		})
	}
	return http
}

// beginsHTTP reports whether a request of HTTP has come, and whether anything has, the end included. It stays unread.
func beginsHTTP(fd uintptr) (http, come bool) {
	var first [1]byte
	n, err := retry(func() (int, error) {
		n, _, err := unix.Recvfrom(int(fd), first[:], unix.MSG_PEEK)
		return n, err
	})
	return n == 1 && isHTTP(first[0]), err != unix.EAGAIN
}

// isHTTP reports whether a connection that begins with a byte begins with a request of HTTP.
func isHTTP(first byte) bool { return 'A' <= first && first <= 'Z' }

func (w *socketWire) TryWrite(b []byte) (int, error) { return w.socket.TryWrite(b) }

func (w *socketWire) hungUp() bool { return hungUp(w.raw) }

func (w *socketWire) discard() (n int, ended bool) {
	buf := make([]byte, 4<<10)
	_ = w.raw.Control(func(fd uintptr) {
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

// hangUp implements [wire]: a connection that is closed while something is unread is reset.
func (w *socketWire) hangUp() {
	_ = w.CloseRead() // nothing more comes
	w.discard()
	_ = w.Close()
}

// maxDiscarded is more than the buffers of a socket hold.
const maxDiscarded = 8 << 20

// A passedWire is a connection that another node has accepted. A buffer waits for what comes.
type passedWire struct {
	Passed
	fresh bool   // nothing has been read, and what comes may be HTTP
	ahead []byte // was read to know that
	last  bool   // reads return what has come, and don't wait
}

const (
	// arriving is how long what another node has sent may take to be there.
	arriving = 5 * time.Millisecond

	// leaving is how long another node may take to hang up after the end.
	leaving = 100 * time.Millisecond

	// passedAtOnce is how much is written to another node with one deadline. TLS can't continue after one that has passed.
	passedAtOnce = 16 << 10
)

func (w *passedWire) receive(lend func() []byte, _ func()) ([]byte, error) {
	if w.speaksHTTP() {
		return nil, errHTTP
	}
	if w.last {
		_ = w.SetReadDeadline(time.Now().Add(arriving))
	}
	buf := lend()
	n, err := w.Read(buf)
	if w.last && errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return buf[:n], err
}

// Read implements [io.Reader].
func (w *passedWire) Read(b []byte) (int, error) {
	if len(w.ahead) == 0 {
		return w.Passed.Read(b)
	}
	n := copy(b, w.ahead)
	w.ahead = w.ahead[n:]
	return n, nil
}

func (w *passedWire) speaksHTTP() bool {
	if w.fresh && len(w.ahead) == 0 {
		var first [1]byte
		n, _ := w.Passed.Read(first[:]) // an error comes again
		w.ahead = first[:n]
		w.fresh = n == 1 && isHTTP(first[0])
	}
	return w.fresh && len(w.ahead) > 0
}

func (w *passedWire) finish() { w.last = true }

func (w *passedWire) hungUp() bool { return w.HungUp() }

func (w *passedWire) discard() (n int, ended bool) {
	_ = w.SetReadDeadline(time.Now().Add(arriving))
	return w.rest()
}

// rest reads what comes until the deadline.
func (w *passedWire) rest() (n int, ended bool) {
	buf := make([]byte, 4<<10)
	for n < maxDiscarded {
		got, err := w.Read(buf)
		n += got
		if err != nil {
			return n, err == io.EOF
		}
	}
	return n, false
}

// hangUp implements [wire]. The other node hangs up when it has read all.
func (w *passedWire) hangUp() {
	_ = w.SetDeadline(time.Now().Add(leaving))
	if w.CloseWrite() == nil {
		w.rest()
	}
	_ = w.Close()
}
