// Package unix talks NDJSON over a unix socket: the wire between a daemon and its clients.
//
// A daemon finds its [Path], makes itself the only one there with [Listen], and serves a
// kernel:
//
//	path, err := unix.Path(home, origin)
//	l, err := unix.Listen(path, unix.Info{Version: version, Home: home, Origin: origin})
//	err = unix.NewServer(k, nil).Serve(ctx, l) // until ctx is done
//	err = l.Close()
//
// A client finds the same path, and talks to the daemon there:
//
//	c, err := new(unix.Dialer).Dial(ctx, path)
//	outcome, err := c.Ask(ctx, request)
//
// Only the owner of the daemon may connect. With keys configured, a client must also sign
// a challenge before anything of it is served.
package unix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
)

// Limits, if the options don't set them.
const (
	DefaultMaxConnections = 16384
	DefaultLine           = time.Minute
	DefaultStall          = 5 * time.Minute
	DefaultGrace          = 10 * time.Second
)

// Options are the settings of a Server. The zero value is usable.
type Options struct {
	// MaxConnections is how many connections there may be at a time. One more is refused with a
	// 429, unless it asks for Kernel.Status or Syscall.Shutdown: a few can always do that. There
	// are fewer if the process may not have so many files open. 0 means DefaultMaxConnections.
	MaxConnections int

	// Idle is how long a connection may be silent, in both directions, while nothing that it has
	// asked for is under way. Then it is closed with a 408. One that serves others waits for
	// them, and may be silent. 0 means for ever.
	Idle time.Duration

	// Line is how long the rest of a line may take that has begun. Then the connection is
	// closed with a 408. 0 means DefaultLine.
	Line time.Duration

	// Stall is how long a peer may take nothing of what is sent to it. Then its connection is
	// closed, with a 408 if there is room for that. 0 means DefaultStall.
	Stall time.Duration

	// FrameRate is how many messages per second are taken from one connection, after as many
	// as a second allows at once. A message beyond it waits, unread, and nothing is lost. A peer
	// that continues to send more gets the event [transport.Throttled]. 0 means no limit.
	FrameRate float64

	// Keys are those of which one must have signed before anything is served: Ed25519 or RSA.
	// None means that the peer's user is enough.
	Keys []ssh.PublicKey

	// Grace is how long what has begun may take to end when the server stops. 0 means
	// DefaultGrace.
	Grace time.Duration

	// Lenient gives messages that come without an id or a timestamp one.
	Lenient bool

	// Log is for the operator: which clients came, which were refused and why. Nil means silence.
	Log *slog.Logger
}

// The reasons for which a [Server] refuses connections and closes them, beside those of
// every wire.
const (
	refusedForeign         transport.Reason = "foreign"         // the peer is another user
	refusedUnauthenticated transport.Reason = "unauthenticated" // no key of ours has signed the challenge
	closedUnfinished       transport.Reason = "unfinished"      // the peer did not end a line
	closedStalled          transport.Reason = "stalled"         // the peer did not read
)

// A Server serves a kernel on a socket.
type Server struct {
	k     *kernel.Kernel
	opts  Options
	conns *transport.Server

	// Tests replace these.
	now          func() time.Time
	deadlines    func(*net.UnixConn) deadlines
	peer         func(*net.UnixConn) (uid int, err error)
	patience     time.Duration // how long an answer to a challenge may take
	operatorTime time.Duration // how long a request in an extra place may take
	watchEvery   time.Duration // how often the name of the socket is checked

	served atomic.Bool
}

// NewServer returns a server of a kernel. Nil options mean defaults.
func NewServer(k *kernel.Kernel, opts *Options) *Server {
	s := &Server{
		k: k, now: time.Now, deadlines: func(conn *net.UnixConn) deadlines { return conn },
		peer: peerUser, patience: authPatience, operatorTime: operatorTime, watchEvery: watchEvery,
	}
	if opts != nil {
		s.opts = *opts
	}
	transport.Default(&s.opts.MaxConnections, DefaultMaxConnections)
	transport.Default(&s.opts.Line, DefaultLine)
	transport.Default(&s.opts.Stall, DefaultStall)
	transport.Default(&s.opts.Grace, DefaultGrace)
	s.opts.Log = cmp.Or(s.opts.Log, slog.New(slog.DiscardHandler))
	s.conns = transport.NewServer(k,
		transport.Limits{Connections: transport.Share(s.opts.MaxConnections, ownersPart), Extra: operatorPlaces, FrameRate: s.opts.FrameRate},
		[]transport.Reason{refusedForeign, transport.TooMany, refusedUnauthenticated, transport.Stopping},
		[]transport.Reason{transport.Idle, closedUnfinished, closedStalled}, s.opts.Log)
	return s
}

// Stats returns the figures of the moment.
func (s *Server) Stats() transport.Stats { return s.conns.Stats() }

// MaxConnections returns how many connections are served at a time.
func (s *Server) MaxConnections() int { return s.conns.MaxConnections() }

var past = time.Unix(1, 0)

// Serve accepts and serves connections until ctx is done. If something removes the socket's
// name in the meantime, it is made again. Then it drains: it accepts nothing more and
// withdraws the socket; it stops the kernel ([kernel.Kernel.Stop]); every connection stops
// reading, finishes what has begun, flushes, and gets a 503 with the reason. What takes
// longer than the grace is cut.
//
// Serve returns when every connection has ended: nil, or what ended it before ctx did. A
// handler that still runs although its context has ended is not waited for; that is an error,
// too. A server serves once, and leaves the listener for its owner to close.
func (s *Server) Serve(ctx context.Context, l *Listener) error {
	if err := s.begin(l); err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watched sync.WaitGroup
	watched.Go(func() { l.watchNames(watching, s.watchEvery, s.opts.Log) })
	stopped := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(stopped)
		l.announceEnd()
		watched.Wait()
		_ = l.socket.current().SetDeadline(past)
	})
	err := s.accept(ctx, l)
	if !forget() {
		<-stopped
	}
	stopWatching()
	watched.Wait()
	l.announceEnd()
	l.socket.withdraw()
	// No further connection can come. Those that were not accepted are refused.
	_ = l.socket.current().SetDeadline(time.Now().Add(10 * time.Millisecond))
	for conn, e := l.socket.accept(); e == nil; conn, e = l.socket.accept() {
		s.refuseLate(conn)
	}
	grace, cancel := context.WithTimeout(context.Background(), s.opts.Grace)
	defer cancel()
	return errors.Join(err, s.conns.Drain(grace))
}

// begin checks what a programmer may have got wrong.
func (s *Server) begin(l *Listener) error {
	if auth, want := l.Info().Auth, len(s.opts.Keys) > 0; auth != want {
		return fmt.Errorf("the listener was made with Auth %t, and the server has %d keys: give both the same", auth, len(s.opts.Keys))
	}
	for _, key := range s.opts.Keys {
		if _, ok := signatureFormats[key.Type()]; !ok {
			return fmt.Errorf("the key %s is of type %s; use an Ed25519 or an RSA key", ssh.FingerprintSHA256(key), key.Type())
		}
	}
	if s.served.Swap(true) {
		return errors.New("a server serves once; make another one")
	}
	return nil
}

func (s *Server) accept(ctx context.Context, l *Listener) error {
	pauses := backoff.Backoff{First: 5 * time.Millisecond, Longest: time.Second}
	for {
		conn, err := l.socket.accept()
		switch {
		case err == nil && ctx.Err() != nil:
			l.announceEnd()
			s.refuseLate(conn)
			return nil
		case err == nil:
			pauses.Reset()
			s.admit(conn)
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("the listener was closed while it was served: %w", err)
		}
		// No descriptors or no memory are left. Others may give some back.
		s.opts.Log.Error("can't accept a connection; trying again", "error", err, "pause", pauses.Pause())
		if !pauses.Wait(ctx.Done()) {
			return nil
		}
	}
}

func (s *Server) admit(conn *net.UnixConn) {
	c := newServerConn(s, conn)
	if uid, err := s.peer(conn); err != nil || uid != os.Geteuid() {
		s.opts.Log.Warn("a connection of another user was refused", "uid", uid, "error", err)
		s.conns.Refuse(refusedForeign)
		c.refuse(message.Errorf(403, "This daemon belongs to another user; start one of your own with kernos serve"))
		return
	}
	extra, reason := s.conns.Admit(c)
	switch {
	case reason == transport.Stopping:
		c.refuse(errStopping)
	case reason != "":
		s.refuseTooMany(c)
	case extra:
		go func() {
			s.serveOperator(c)
			s.ended(c)
		}()
	case len(s.opts.Keys) > 0:
		s.conns.Accept()
		go s.serve(c) // the peer has to sign
	default:
		s.conns.Accept()
		s.serve(c)
	}
}

func (s *Server) ended(c *serverConn) {
	s.conns.Leave(c)
	s.conns.Done()
}

func (s *Server) serve(c *serverConn) {
	if !s.authenticated(c) {
		_ = c.conn.Close()
		s.ended(c)
		return
	}
	transport.Start(kernel.ActFor(s.conns.Work(), kernel.From(nil, "unix")), s.k, c, c, c.options(), func(_ transport.Result, err error) {
		s.explainEnd(c, err)
		_ = c.conn.Close()
		s.ended(c)
	})
}

// explainEnd sends the peer of a connection the reason why it ends, if the peer can't know.
func (s *Server) explainEnd(c *serverConn, err error) {
	switch {
	case err == nil && c.interrupted():
		c.refuse(errStopping)
	case err == nil:
	case errors.Is(err, transport.ErrIdle):
		c.disconnect(transport.Idle, transport.IdleError(s.opts.Idle, "connect again"))
	case errors.Is(err, errUnfinished):
		c.disconnect(closedUnfinished, message.Errorf(408, "A line was begun and not ended within %v; connect again, and send whole lines", s.opts.Line))
	case errors.Is(err, errStalled):
		s.opts.Log.Warn("a connection was closed: it did not take what was sent to it", "stall", s.opts.Stall)
		c.disconnect(closedStalled, message.Errorf(408, "Nothing of what was sent to this connection was taken for %v; connect again, and read the answers", s.opts.Stall))
	default:
		s.opts.Log.Debug("a connection broke", "error", err)
	}
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

// errStopping is the error for a peer that the end of the server finds connected, or that comes
// then.
var errStopping = message.Errorf(503, "The daemon is shutting down, and what it has not answered was not begun; try again")

// refuseLate refuses a connection that has come at the end.
func (s *Server) refuseLate(conn *net.UnixConn) {
	s.conns.Refuse(transport.Stopping)
	newServerConn(s, conn).refuse(errStopping)
}

// SetMaxConnections changes how many connections are served at a time, as far as the process
// may have files open. Those that are open stay.
func (s *Server) SetMaxConnections(n int) { s.conns.SetMaxConnections(transport.Share(n, ownersPart)) }

// ownersPart is the part of the process's files that is for the socket: one of two.
const ownersPart = 2

func peerUser(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	if controlErr := raw.Control(func(fd uintptr) { uid, err = credentials(int(fd)) }); controlErr != nil {
		return -1, controlErr
	}
	return uid, err
}
