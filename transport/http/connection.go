package http

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"kernos/transport"
)

// listener counts the connections of an endpoint. Connections beyond the limit are admitted to
// extra places, where their requests are answered with a 429.
type listener struct {
	net.Listener
	conns      *transport.Server
	unadmitted *unadmitted // nil for an endpoint that only the owner reaches, who has the extra places too
}

// extraPlaces is how many connections there may be whose requests are refused.
const extraPlaces = 64

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: conn, conns: l.conns}
		c.fresh.Store(true)
		if l.unadmitted != nil {
			l.unadmitted.closeOldest()
			l.unadmitted.add(c) // added before Admit, after which a drain may stop the connection
		}
		extra, reason := l.conns.Admit(c)
		if reason == "" {
			c.tooMany = extra && l.unadmitted != nil
			return c, nil
		}
		_ = c.Close()
	}
}

// connection is a connection of HTTP. It implements [transport.Conn].
type connection struct {
	net.Conn
	conns   *transport.Server
	tooMany bool
	fresh   atomic.Bool // no request has come yet

	unadmitted *unadmitted   // the set that the connection is or was in; nil if it was in none
	listed     *list.Element // the place of the connection in that set; nil if it is no longer there
	late       *time.Timer   // closes the connection
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

// admitted notes that a request was let in: the connection is no longer unadmitted.
func (c *connection) admitted() {
	if c.unadmitted != nil {
		c.unadmitted.remove(c)
	}
}

// leave takes the connection out of the count.
func (c *connection) leave() {
	c.admitted()
	if c.conns.Leave(c) {
		c.conns.Done()
	}
}

// Stop closes a connection over which no request has come. Browsers open some in advance, and
// [http.Server.Shutdown] would wait for them for five seconds. It closes the others when they
// are idle.
func (c *connection) Stop() {
	if c.fresh.Load() {
		go c.Close()
	}
}

// Cut implements [transport.Conn].
func (c *connection) Cut() { go c.Close() }

// Serves implements [transport.Conn].
func (c *connection) Serves() bool { return false }

// Throttled implements [transport.Conn].
func (c *connection) Throttled() bool { return false }

// connectionOf returns what was accepted, under TLS too.
func connectionOf(conn net.Conn) *connection {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// noteState is the ConnState of an [http.Server].
func noteState(conn net.Conn, state http.ConnState) {
	if c := connectionOf(conn); c != nil && state != http.StateNew {
		c.fresh.Store(false)
	}
}

type connectionKey struct{}

// withConnection is the ConnContext of an [http.Server]: a request finds its connection.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connectionOf(conn))
}
