package unix

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"kernos/message"
	"kernos/message/ndjson"
	"kernos/transport"
)

const (
	// operatorPlaces is how many connections there may be beyond those that there may be,
	// for the operator of the daemon.
	operatorPlaces = 8

	// operatorTime is how long one of them may take to ask.
	operatorTime = 2 * time.Second
)

// operatorSyscalls are what a daemon that has no place left can still be asked.
var operatorSyscalls = []message.Type{"Kernel.Status", "Syscall.Shutdown"}

// ErrFull is the reason of the error with which a daemon that has no place left closes a connection:
// one that wants more than that, or one that finds the operator's places taken too.
var ErrFull = errors.New("there are too many connections")

// attend serves a connection that there is no place for: it is asked how the daemon is doing,
// or to end, or learns why it is not served.
func (s *Server) attend(l *serverConn) {
	defer l.close()
	if !s.authenticated(l) {
		return
	}
	l.arm(s.now().Add(s.operatorTime))
	in := &gate{lines: ndjson.NewReader(l.conn, nil), open: operatorSyscalls}
	if len(s.opts.Keys) > 0 {
		in.first = message.Ping // a client's first Ping after it has authenticated
	}
	_, err := transport.Serve(s.conns.Work(), s.k, in, l, &transport.Options{})
	switch {
	case err == nil:
		s.conns.Accept()
	case l.hasStopped():
		l.refuse(errStopping)
	default:
		s.conns.Refuse(transport.TooMany)
		s.refuseTooMany(l)
	}
}

func (s *Server) refuseTooMany(l *serverConn) {
	s.opts.Log.Warn("a connection was refused: there are too many", "limit", s.conns.MaxConnections())
	l.refuse(s.conns.Full())
}

// A gate lets messages of some types through. Anything else is an [ErrFull].
type gate struct {
	lines *ndjson.Reader
	open  []message.Type
	first message.Type // a type that may come once, before the others
	rest  []byte       // the unread part of a line that was let through
}

// Read implements [io.Reader].
func (g *gate) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		line, err := g.lines.Next()
		if _, tooLong := err.(*ndjson.TooLong); tooLong {
			return 0, ErrFull
		}
		if err != nil {
			return 0, err
		}
		m, err := message.Decode(line)
		if err != nil || m.Type != g.first && !slices.Contains(g.open, m.Type) {
			return 0, ErrFull
		}
		g.first = ""
		g.rest = append(bytes.Clone(line), '\n')
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}
