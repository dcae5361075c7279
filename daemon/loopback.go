package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"kernos/kernel"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// A Loopback serves a kernel to clients in this process, as the WebSocket of a daemon does
// for others:
//
//	l := d.Loopback()
//	defer l.Close()
//	c, err := client.Dial(ctx, client.Target{URL: "ws://localhost/", Dial: l.Dial})
type Loopback struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
	ws     *ws.Handler
}

// Loopback returns a loopback of the daemon's kernel. The caller closes it before the daemon.
func (d *Daemon) Loopback() *Loopback { return NewLoopback(d.kernel, d.opts.Log) }

// NewLoopback returns a loopback of any kernel. The caller closes it.
func NewLoopback(k *kernel.Kernel, log *slog.Logger) *Loopback {
	l := &Loopback{conns: make(chan net.Conn), ws: ws.New(rpc.New(k, nil), &ws.Options{Log: log})}
	l.closed, l.close = context.WithCancel(context.Background())
	go func() { _ = http.Serve(loopbackListener{l}, l.ws) }() // returns when the listener is closed
	return l
}

// Dial connects to the kernel.
func (l *Loopback) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close ends all connections. Calls that have begun may finish for as long as a WebSocket server waits by default.
func (l *Loopback) Close() error {
	l.close()
	grace, cancel := context.WithTimeout(context.Background(), ws.DefaultPatience)
	defer cancel()
	return l.ws.Shutdown(grace)
}

// loopbackListener is a [net.Listener] for the connections that Dial makes.
type loopbackListener struct{ *Loopback }

func (l loopbackListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l loopbackListener) Close() error   { return nil }
func (l loopbackListener) Addr() net.Addr { return &net.UnixAddr{Name: "loopback", Net: "unix"} }
