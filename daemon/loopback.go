package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"kernos/kernel"
	"kernos/transport"
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
	conns *transport.Handoff
	ws    *ws.Handler
}

// Loopback returns a loopback of the daemon's kernel. The caller closes it before the daemon.
func (d *Daemon) Loopback() *Loopback { return NewLoopback(d.kernel, d.opts.Log) }

// NewLoopback returns a loopback of any kernel. The caller closes it.
func NewLoopback(k *kernel.Kernel, log *slog.Logger) *Loopback {
	l := &Loopback{conns: transport.NewHandoff(), ws: ws.New(rpc.New(k, nil), &ws.Options{Log: log})}
	go func() { _ = http.Serve(l.conns, l.ws) }() // returns when the listener is closed
	return l
}

// Dial connects to the kernel.
func (l *Loopback) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	if err := l.conns.Pass(ctx, server); err != nil {
		return nil, err
	}
	return client, nil
}

// Close ends all connections. Calls that have begun may finish for as long as a WebSocket server waits by default.
func (l *Loopback) Close() error {
	_ = l.conns.Close() // never fails
	grace, cancel := context.WithTimeout(context.Background(), ws.DefaultPatience)
	defer cancel()
	return l.ws.Shutdown(grace)
}
