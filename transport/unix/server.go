// Package unix talks NDJSON over a unix socket: the wire between a daemon and its clients. A connection that begins with
// a request of HTTP is handed to the server of HTTP.
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
// a challenge before anything of it is served: the challenge and the signature are the first two lines
// of the connection, whatever follows.
//
// # Goroutines
//
//   - A peer that has to sign, and an operator for whom there is no free place, one per connection: [Server.Serve],
//     which accepts, starts it. It becomes the loop of package connection, or ends with the connection.
//   - Restoring the socket's files, one: Serve or [Listener.Share] starts it, and it ends when that does.
//   - Watching a peer that isn't read, one per connection: it ends when the peer has left, or the connection is read
//     again.
//   - What the end of a context causes: a connection is closed, or the server stops accepting.
package unix

import (
	"cmp"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

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

const (
	// operatorPlaces is how many connections beyond the limit are served, for the operator of the
	// daemon.
	operatorPlaces = 8

	// operatorTime is how long such a connection may take to send its request.
	operatorTime = 2 * time.Second
)

// Options are the settings of a Server. The zero value is usable.
type Options struct {
	// MaxConnections is how many connections that carry lines there may be at a time. One more is refused with a
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

// errStopping is the error for a peer that the end of the server finds connected, or that comes
// then.
var errStopping = message.Errorf(503, "The daemon is shutting down, and what it has not answered was not begun; try again")

// A Server serves a kernel on a socket.
type Server struct {
	k     *kernel.Kernel
	opts  Options
	conns *transport.Server
	http  *transport.Handoff // nil if HTTP isn't served

	// Tests replace these.
	now          func() time.Time
	deadlines    func(net.Conn) deadlines
	peer         func(*net.UnixConn) (uid int, err error)
	patience     time.Duration // how long an answer to a challenge may take
	operatorTime time.Duration // how long a request in an extra place may take
	watchEvery   time.Duration // how often the name of the socket is checked

	served atomic.Bool
}

// NewServer returns a server of a kernel. Nil options mean defaults.
func NewServer(k *kernel.Kernel, opts *Options) *Server {
	s := &Server{
		k: k, now: time.Now, deadlines: func(conn net.Conn) deadlines { return conn },
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

// HTTP returns a listener of the connections that begin with a request of HTTP, that is, with a capital letter, which
// begins no message. From then on, their server counts and limits them. All other connections carry lines, and without a
// call of HTTP, all do. It is called once, before Serve.
func (s *Server) HTTP() net.Listener {
	s.http = transport.NewHandoff()
	return s.http
}

// Stats returns the figures of the moment.
func (s *Server) Stats() transport.Stats { return s.conns.Stats() }

// MaxConnections returns how many connections are served at a time.
func (s *Server) MaxConnections() int { return s.conns.MaxConnections() }

// SetMaxConnections changes how many connections are served at a time, as far as the process
// may have files open. Those that are open stay.
func (s *Server) SetMaxConnections(n int) { s.conns.SetMaxConnections(transport.Share(n, ownersPart)) }

// ownersPart is the part of the process's files that is for the socket: one of two.
const ownersPart = 2
