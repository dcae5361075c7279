package daemon

import (
	"context"
	"net"
	"time"

	"kernos/cluster/door"
	"kernos/transport"
	"kernos/transport/unix"
)

// doors are the listeners of a daemon whose process has the socket and the TCP address for longer than the daemon runs: each is
// handed connections that the process has accepted, or that other nodes of the cluster vouch for.
type doors struct {
	socket *unix.Listener // messages and requests of the owner of the home
	web    *named         // what the process accepts at its TCP address; nil if it has none

	lines       *transport.Handoff // hands over to socket
	visitors    *transport.Handoff // requests of HTTP to the sockets of other nodes
	tcpVisitors *transport.Handoff // requests of HTTP to the addresses of other nodes, without their TLS
}

// named is a handoff with an address.
type named struct {
	*transport.Handoff
	addr net.Addr
}

// Addr implements [net.Listener].
func (n *named) Addr() net.Addr { return n.addr }

// newDoors returns the listeners of a daemon that serves the socket of lock, and the address of tcp, which may be nil.
func newDoors(lock *unix.Listener, tcp net.Listener) *doors {
	d := &doors{visitors: transport.NewHandoff(), tcpVisitors: transport.NewHandoff()}
	d.socket, d.lines = lock.Passed()
	if tcp != nil {
		d.web = &named{transport.NewHandoff(), tcp.Addr()}
	}
	return d
}

// close makes what is handed over from here on an error.
func (d *doors) close() {
	for _, h := range []*transport.Handoff{d.lines, d.visitors, d.tcpVisitors} {
		_ = h.Close()
	}
	if d.web != nil {
		_ = d.web.Close()
	}
}

// handing is how long a connection may wait for the daemon to accept it: its loop accepts one after the other.
const handing = 5 * time.Second

// pass hands a connection over.
func pass(ctx context.Context, to *transport.Handoff, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, handing)
	defer cancel()
	return to.Pass(ctx, conn)
}

// enter hands over a connection that another node vouches for.
func (d *doors) enter(ctx context.Context, c *door.Conn) error {
	switch c.Visitor().Kind {
	case door.UnixHTTP:
		return pass(ctx, d.visitors, c)
	case door.TCP:
		return pass(ctx, d.tcpVisitors, c)
	}
	return pass(ctx, d.lines, c.Lines())
}
