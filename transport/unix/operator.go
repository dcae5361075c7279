package unix

import (
	"bytes"
	"errors"
	"slices"

	"kernos/message"
	"kernos/message/ndjson"
	"kernos/transport"
)

// operatorSyscalls are the types that a daemon with all its places taken still serves.
var operatorSyscalls = []message.Type{"Kernel.Status", "Syscall.Shutdown"}

// ErrFull is the reason of the error with which a daemon that has no place left closes a connection:
// a connection that wants more than the operator's syscalls, or that finds the operator's places taken too.
var ErrFull = errors.New("there are too many connections")

// serveOperator serves a connection beyond the limit: its peer can ask for the status of the daemon or
// for its shutdown. A peer that asks for anything else gets the reason why it is not served. A connection of HTTP is
// handed on, to limits of its own.
func (s *Server) serveOperator(c *serverConn) {
	if !s.authenticated(c) {
		c.close()
		return
	}
	c.arm(s.now().Add(s.operatorTime))
	if c.wire.speaksHTTP() {
		s.passOn(c)
		return
	}
	defer c.close()
	in := &typeFilter{lines: ndjson.NewReader(c.wire, nil), allowed: operatorSyscalls}
	if len(s.opts.Keys) > 0 {
		in.first = message.Ping // a client's first Ping after it has authenticated
	}
	_, err := transport.Serve(s.conns.Work(), s.k, in, c, &transport.Options{})
	switch {
	case err == nil:
		s.conns.Accept()
	case c.hasStopped():
		c.refuse(errStopping)
	default:
		s.conns.Refuse(transport.TooMany)
		s.refuseTooMany(c)
	}
}

func (s *Server) refuseTooMany(c *serverConn) {
	s.opts.Log.Warn("a connection was refused: there are too many", "limit", s.conns.MaxConnections())
	c.refuse(s.conns.Full())
}

// A typeFilter lets messages of some types through. Anything else is an [ErrFull].
type typeFilter struct {
	lines   *ndjson.Reader
	allowed []message.Type
	first   message.Type // a type that may come once, before the others
	rest    []byte       // the unread part of a line that was let through
}

// Read implements [io.Reader].
func (f *typeFilter) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		line, err := f.lines.Next()
		if _, tooLong := err.(*ndjson.TooLong); tooLong {
			return 0, ErrFull
		}
		if err != nil {
			return 0, err
		}
		m, err := message.Decode(line)
		if err != nil || m.Type != f.first && !slices.Contains(f.allowed, m.Type) {
			return 0, ErrFull
		}
		f.first = ""
		f.rest = append(bytes.Clone(line), '\n')
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
