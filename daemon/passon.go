package daemon

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kernos/cluster"
	"kernos/cluster/door"
	"kernos/internal/backoff"
	"kernos/transport"
	"kernos/transport/unix"
)

// accept accepts connections at the socket, the TCP address and the door, each in what run is given, until ctx is done. They go to
// the daemon of this node if it owns the kernel, and to the owner otherwise.
func (m *Member) accept(ctx context.Context, run func(func() error)) {
	sockets, addresses := transport.NewHandoff(), transport.NewHandoff()
	run(func() error { return m.web.Serve(ctx, sockets, door.UnixHTTP, nil) })
	run(func() error {
		return m.lock.Share(ctx, m.log, func(conn *net.UnixConn) {
			if d := m.current(); d != nil && pass(ctx, d.lines, conn) == nil {
				return
			}
			run(func() error {
				m.passOn(ctx, conn, sockets)
				return nil
			})
		})
	})
	run(func() error { return m.door.Serve(ctx, func(c *door.Conn) error { return m.enter(ctx, c) }) })
	if m.tcp == nil {
		return
	}
	run(func() error { return m.web.Serve(ctx, &named{addresses, m.tcp.Addr()}, door.TCP, m.tls) })
	run(func() error { return m.acceptTCP(ctx, addresses) })
}

// current returns the listeners of the daemon of this node; nil if another node owns the kernel.
func (m *Member) current() *doors {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doors
}

// acceptTCP accepts connections at the TCP address.
func (m *Member) acceptTCP(ctx context.Context, elsewhere *transport.Handoff) error {
	defer context.AfterFunc(ctx, func() { _ = m.tcp.Close() })()
	pauses := backoff.Backoff{First: 5 * time.Millisecond, Longest: time.Second}
	var visitors atomic.Int64
	most := int64(transport.Share(cmp.Or(m.opts.Limits.MaxConnections, 4096), webPart)) // as the server of a daemon has
	for {
		conn, err := m.tcp.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			m.log.Error("can't accept a connection; trying again", "error", err, "pause", pauses.Pause())
			pauses.Wait(ctx.Done())
			continue
		}
		pauses.Reset()
		if d := m.current(); d != nil && d.web != nil && pass(ctx, d.web.Handoff, conn) == nil {
			continue
		}
		if visitors.Add(1) > most {
			visitors.Add(-1)
			_ = conn.Close()
			continue
		}
		v := &visitor{Conn: conn, leave: sync.OnceFunc(func() { visitors.Add(-1) })}
		if pass(ctx, elsewhere, v) != nil {
			_ = v.Close()
		}
	}
}

// A visitor is a connection to the TCP address that is passed on.
type visitor struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}

// CloseWrite ends what is sent, as the server of HTTP does before it closes a connection.
func (v *visitor) CloseWrite() error {
	if c, ok := v.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// passOn passes a connection to the socket on to the owner.
func (m *Member) passOn(ctx context.Context, conn *net.UnixConn, web *transport.Handoff) {
	if !m.opts.signed() {
		stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
		http := unix.SpeaksHTTP(conn)
		stop()
		if http && pass(ctx, web, conn) == nil {
			return
		}
	}
	m.lines.Serve(ctx, conn)
}

// enter lets in what another node passes on, if this one owns the kernel.
func (m *Member) enter(ctx context.Context, c *door.Conn) error {
	d := m.current()
	if d == nil {
		return door.ErrElsewhere
	}
	if err := c.Enter(); err != nil {
		return err
	}
	return d.enter(ctx, c)
}

// way leads a visitor to the owner, for which it waits. It is a [door.Way].
func (m *Member) way(ctx context.Context, v door.Visitor) (net.Conn, error) {
	pauses := backoff.Backoff{First: 5 * time.Millisecond, Longest: 250 * time.Millisecond}
	for {
		m.mu.Lock()
		d, node, changed := m.doors, m.node, m.changed
		m.mu.Unlock()
		var next <-chan struct{}
		err := door.ErrElsewhere
		if d != nil {
			var conn net.Conn
			if conn, err = m.within(ctx, d, v); err == nil {
				return conn, nil
			}
		} else if node != nil {
			owner, other := node.Owner()
			next = other
			if owner.Name != "" && !owner.Self {
				var conn net.Conn
				if conn, err = door.Dial(ctx, door.Info(owner.Door), v); err == nil {
					return until(conn, node, owner), nil
				}
				m.log.Debug("the owner can't be reached; trying again", "owner", owner.Name, "error", err)
			}
		}
		pause := time.NewTimer(pauses.Next())
		select {
		case <-changed:
		case <-next:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// until returns a connection to an owner that is closed when there is another one. The old one may be paused, or be cut off from
// the cluster, and wouldn't close it.
func until(conn net.Conn, node clusterNode, owner cluster.Member) net.Conn {
	p := &passed{outward: conn.(outward), closed: make(chan struct{})}
	go func() {
		for {
			now, changed := node.Owner()
			if now.Name != "" && now.Epoch != owner.Epoch {
				_ = p.Close()
			}
			select {
			case <-changed:
			case <-p.closed:
				return
			}
		}
	}()
	return p
}

// outward is a connection whose directions end one by one.
type outward interface {
	net.Conn
	CloseWrite() error
}

// passed is a connection to the owner.
type passed struct {
	outward
	once   sync.Once
	closed chan struct{}
}

// Close implements [net.Conn].
func (p *passed) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.outward.Close()
}

// within leads a visitor to the daemon of this node.
func (m *Member) within(ctx context.Context, d *doors, v door.Visitor) (net.Conn, error) {
	near, c, err := door.Within(v)
	if err != nil {
		return nil, err
	}
	if err := d.enter(ctx, c); err != nil {
		_ = near.Close()
		return nil, errors.Join(err, c.Close())
	}
	return near, nil
}
