package unix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
)

// Serve accepts and serves connections until ctx is done. If something removes the socket's
// name in the meantime, it is made again. Then it drains: it accepts nothing more and
// withdraws the socket, unless it was adopted; it stops the kernel ([kernel.Kernel.Stop]); every connection stops
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
		l.interrupt()
	})
	err := s.accept(ctx, l)
	if !forget() {
		<-stopped
	}
	stopWatching()
	watched.Wait()
	l.announceEnd()
	if l.passed == nil {
		l.socket.withdraw()
		if !l.socket.kept() { // what connects to one that is kept waits for the next daemon
			l.refuseRest(s.refuseLate)
		}
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
		conn, err := l.accept()
		switch {
		case err == nil && ctx.Err() != nil:
			l.announceEnd()
			s.refuseLate(conn)
			return nil
		case err == nil:
			pauses.Reset()
			s.admit(conn, l.passed != nil)
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

// admit serves a connection, or refuses it. That the peer is the owner of this process has been checked if it is vouched for; see
// [Listener.Passed].
func (s *Server) admit(conn net.Conn, vouched bool) {
	c := newServerConn(s, conn)
	if !vouched {
		if uid, err := s.peer(conn.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
			s.opts.Log.Warn("a connection of another user was refused", "uid", uid, "error", err)
			s.conns.Refuse(refusedForeign)
			c.refuse(errForeign)
			return
		}
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
		if errors.Is(err, errHTTP) {
			s.passOn(c)
		} else {
			s.explainEnd(c, err)
			_ = c.conn.Close()
		}
		s.ended(c)
	})
}

// passOn hands a connection to the server of HTTP, which has places of its own.
func (s *Server) passOn(c *serverConn) {
	s.conns.Leave(c) // nothing stops the connection from here on
	_ = c.conn.SetReadDeadline(time.Time{})
	conn := c.conn
	if _, passed := c.wire.(*passedWire); passed {
		conn = c.wire // has read the first byte
	}
	if err := s.http.Pass(s.conns.Work(), conn); err != nil {
		c.close()
	}
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

// refuseLate refuses a connection that has come at the end.
func (s *Server) refuseLate(conn net.Conn) {
	s.conns.Refuse(transport.Stopping)
	newServerConn(s, conn).refuse(errStopping)
}
