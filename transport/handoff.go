package transport

import (
	"context"
	"net"
	"sync"
)

// A Handoff is a [net.Listener] of connections that another part of the process has accepted or made.
type Handoff struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// NewHandoff returns a handoff. The caller closes it.
func NewHandoff() *Handoff {
	h := &Handoff{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// Pass waits until a connection is accepted, whose owner is then the one that accepts it. If the error isn't nil, the
// connection still belongs to the caller. The error is net.ErrClosed after Close.
func (h *Handoff) Pass(ctx context.Context, conn net.Conn) error {
	select {
	case h.conns <- conn:
		return nil
	case <-h.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept implements [net.Listener].
func (h *Handoff) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (h *Handoff) Close() error {
	h.close()
	return nil
}

// Addr implements [net.Listener]. The connections have addresses of their own.
func (h *Handoff) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
