package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// A Reason is why a connection or a request was refused, or why the server closed it. It
// is the value of a label in the metrics.
type Reason string

// The reasons that several wires have.
const (
	TooMany  Reason = "connections" // the limit is reached
	Stopping Reason = "stopping"    // the server drains
	Idle     Reason = "idle"        // neither side had anything to send for too long
)

// A Conn is what a [Server] has to know about a connection, or about a request on a wire
// whose connections carry many of them. Its methods are called with the server's lock held,
// so they must not wait, nor call the server.
type Conn interface {
	// Stop ends reading: requests that have begun are finished, and nothing more is taken.
	Stop()

	// Cut closes the connection, whatever is under way.
	Cut()

	// Serves reports whether other connections wait for what the peer sends, or may.
	Serves() bool

	// Throttled reports whether the peer sends more than the frame rate allows.
	Throttled() bool
}

// Limits are the settings of a [Server].
type Limits struct {
	// Connections is how many connections there may be at a time. Extra is how many more
	// are admitted to extra places: the wire serves them some other way, or sends them the reason why
	// it does not serve them.
	Connections, Extra int

	// FrameRate is how many messages per second are taken from one connection, after as
	// many as a second allows at once. 0 means that there is no limit.
	FrameRate float64
}

// Stats are the figures of a [Server].
type Stats struct {
	Connections int               // connections at the moment
	Throttled   int               // connections that send more than the frame rate allows, at the moment
	Accepted    uint64            // connections that were served
	Refused     map[Reason]uint64 // connections that were not served
	Closed      map[Reason]uint64 // connections that were served until the server closed them
}

// Rejected returns how many connections were refused, for whatever reason.
func (s *Stats) Rejected() (n uint64) {
	for _, count := range s.Refused {
		n += count
	}
	return n
}

// A Server is the part of a server that all wires share. It admits connections up to a
// limit, counts them, paces them, drains them in order, and cuts off those that don't end.
// The wire accepts, reads, writes and closes:
//
//	if _, reason := s.Admit(c); reason != "" { … } // send the peer the reason, and close
//	s.Accept()
//	transport.Start(s.Work(), k, c, c, options, func(…) { s.Leave(c); s.Done() })
//	…
//	err := s.Drain(grace)
//
// A connection has its place from Admit to Leave. A drain waits for it until Done, since
// calls may outlive their connection.
type Server struct {
	k   *kernel.Kernel
	log *slog.Logger

	work     context.Context // the parent of all calls
	cut      context.CancelCauseFunc
	stopping context.Context
	stop     context.CancelFunc

	changed chan struct{} // gets a token when a connection has left
	running sync.WaitGroup

	mu     sync.Mutex
	limits Limits
	conns  map[Conn]bool // true for a connection in an extra place
	extra  int           // connections in extra places
	stats  Stats
}

// NewServer returns a server of a kernel. The reasons are those for which the wire refuses
// and closes connections; [Stats] has all of them from the beginning. A nil log means silence.
func NewServer(k *kernel.Kernel, limits Limits, refused, closed []Reason, log *slog.Logger) *Server {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	s := &Server{k: k, log: log, limits: limits, conns: make(map[Conn]bool), changed: make(chan struct{}, 1)}
	s.work, s.cut = context.WithCancelCause(context.Background())
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.stats.Refused, s.stats.Closed = make(map[Reason]uint64), make(map[Reason]uint64)
	for _, r := range refused {
		s.stats.Refused[r] = 0
	}
	for _, r := range closed {
		s.stats.Closed[r] = 0
	}
	return s
}

// Work returns the context of all calls. It ends when a drain cuts them off.
func (s *Server) Work() context.Context { return s.work }

// Stopping ends when a drain begins.
func (s *Server) Stopping() context.Context { return s.stopping }

// Admit gives a connection a place, and reports whether it is an extra one. A reason other
// than "" means that there is none; the refusal is counted.
func (s *Server) Admit(c Conn) (extra bool, reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.conns)-s.extra >= s.limits.Connections
	switch {
	case s.stopping.Err() != nil:
		reason = Stopping
	case full && s.extra >= s.limits.Extra:
		reason = TooMany
	}
	if reason != "" {
		s.stats.Refused[reason]++
		return false, reason
	}
	s.conns[c] = full
	if full {
		s.extra++
	}
	s.running.Add(1)
	return full, ""
}

// Accept counts a connection that is served.
func (s *Server) Accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Accepted++
}

// Refuse counts a connection that is refused although it may have a place.
func (s *Server) Refuse(reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Refused[reason]++
}

// Close counts a connection that is about to be closed, and takes its place back. It has no
// effect on one that has left.
func (s *Server) Close(c Conn, reason Reason) {
	if s.Leave(c) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.Closed[reason]++
	}
}

// Leave takes the place of a connection back, and reports whether it had one.
func (s *Server) Leave(c Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	extra, there := s.conns[c]
	if !there {
		return false
	}
	delete(s.conns, c)
	if extra {
		s.extra--
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return true
}

// Done must be called once for every connection that was admitted, when nothing that it began
// still runs.
func (s *Server) Done() { s.running.Done() }

// Go runs a function that a drain waits for. The caller has a connection that was admitted and
// is not done.
func (s *Server) Go(f func()) { s.running.Go(f) }

// Pacer returns a new pacer for one connection; nil if there is no frame rate.
func (s *Server) Pacer() *Pacer {
	if s.limits.FrameRate <= 0 {
		return nil
	}
	return newPacer(s.stopping, s.limits.FrameRate)
}

// Stats returns the figures of the moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stats
	now.Refused, now.Closed = maps.Clone(now.Refused), maps.Clone(now.Closed)
	now.Connections = len(s.conns)
	for c := range s.conns {
		if c.Throttled() {
			now.Throttled++
		}
	}
	return now
}

// MaxConnections returns how many connections there may be at a time.
func (s *Server) MaxConnections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.Connections
}

// Full returns the error of a client that finds every place taken, the same over every wire. It is a
// 429: after a 503, which means that the daemon is shutting down, a client connects to the next daemon.
func (s *Server) Full() *message.Error {
	return message.Errorf(429, "There are %d connections, and no more are taken; close some, or try again later", s.MaxConnections())
}

// SetMaxConnections changes how many connections there may be at a time. Those that are open
// stay.
func (s *Server) SetMaxConnections(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.Connections = n
}

const (
	// drainPause is how often a drain checks whether slow calls still run.
	drainPause = 5 * time.Millisecond

	// lastWait is how long calls that were cut off, and then connections that were closed,
	// may take to end.
	lastWait = time.Second
)

// errCut is the cause of the end of calls that took longer than the grace.
var errCut = errors.New("the server has stopped")

// Drain ends all connections in order. No further connection is admitted; endless calls end
// ([kernel.Kernel.Stop]); connections stop reading, and finish what has begun. Connections
// that serve others continue until no call runs that may wait for them, and stop last.
//
// When grace ends, the context of all calls does, and a second later the connections that are
// left are closed. The error names how many still run in spite of that.
func (s *Server) Drain(grace context.Context) error {
	s.k.Stop()
	s.stopCallers() // callers must not read when Stopping ends
	s.stop()
	for s.stopCallers() > 0 && grace.Err() == nil {
		select {
		case <-s.changed:
		case <-grace.Done():
		}
	}
	// Connections that serve may wait for one another.
	for s.count() > 0 && s.k.InFlight() > 0 && grace.Err() == nil {
		select {
		case <-time.After(drainPause):
		case <-grace.Done():
		}
	}
	s.each(Conn.Stop)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-grace.Done():
	}
	s.cut(errCut)
	if within(ended, lastWait) { // peers that read are sent the error of their calls
		return nil
	}
	s.log.Warn("connections were cut off: they did not end in time", "connections", s.count())
	s.each(Conn.Cut)
	if within(ended, lastWait) {
		return nil
	}
	return fmt.Errorf("%d connections have handlers that still run although their context has ended", max(1, s.count()))
}

// stopCallers stops the connections that serve no others, and returns how many there are.
func (s *Server) stopCallers() (n int) {
	s.each(func(c Conn) {
		if !c.Serves() {
			c.Stop()
			n++
		}
	})
	return n
}

func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) each(do func(Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}

func within(closed <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-closed:
		return true
	case <-t.C:
		return false
	}
}
