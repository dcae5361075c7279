package door_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/introspect"
	"kernos/cluster/door"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/storetest"
	"kernos/transport"
	httpd "kernos/transport/http"
	"kernos/transport/rpc"
	"kernos/transport/unix"
	"kernos/transport/ws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An owner is a node whose kernel runs, with a door.
type owner struct {
	door *door.Door
	stop func() // as a process that is killed: nothing is drained
}

// token is what callers over TCP send.
const token = "a-token-of-this-test-1"

// startOwner runs a kernel with a server of lines and one of HTTP, which only the door leads to.
func startOwner(t *testing.T, syscalls ...kernel.Syscall) *owner {
	t.Helper()
	k := kerneltest.Around(t, &kernel.Options{Store: storetest.NewMemory()}, introspect.Module, syscalls...)
	path := filepath.Join(testkit.ShortDir(t), "s")
	l, err := unix.Listen(path, unix.Info{})
	if err != nil {
		t.Fatal(err)
	}
	passed, conns := l.Passed()
	visitors, tcp := transport.NewHandoff(), transport.NewHandoff()
	d, err := door.Open(&door.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	lines := unix.NewServer(k, &unix.Options{Grace: time.Millisecond})
	streams := rpc.New(k, nil)
	web := httpd.NewServer(k, &httpd.Options{RPC: streams, WebSocket: ws.New(streams, nil), Grace: time.Millisecond})
	guard := &httpd.Guard{Authenticate: func(secret string) (*principal.Principal, error) {
		if secret != token {
			return nil, nil
		}
		return principal.TheOwner(), nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() { _ = lines.Serve(ctx, passed) })
	running.Go(func() {
		_ = web.Serve(ctx, httpd.Endpoint{Listener: visitors, Remote: true}, httpd.Endpoint{Listener: tcp, Remote: true, Guard: guard})
	})
	running.Go(func() {
		_ = d.Serve(ctx, func(c *door.Conn) error {
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			if err := c.Enter(); err != nil {
				return err
			}
			switch c.Visitor().Kind {
			case door.UnixHTTP:
				return visitors.Pass(ctx, c)
			case door.TCP:
				return tcp.Pass(ctx, c)
			}
			return conns.Pass(ctx, c.Lines())
		})
	})
	stop := sync.OnceFunc(func() {
		mu.Lock()
		for _, c := range open {
			_ = c.(*door.Conn).Conn.Close()
		}
		mu.Unlock()
		cancel()
		running.Wait()
		_ = l.Close()
	})
	t.Cleanup(stop)
	return &owner{d, stop}
}

// A node passes on what comes to its socket and its address.
type node struct {
	t    *testing.T
	path string
	tcp  string

	mu    sync.Mutex
	owner *owner // nil if there is none
}

func startNode(t *testing.T, first *owner, lines *door.Lines) *node {
	t.Helper()
	n := &node{t: t, owner: first, path: filepath.Join(testkit.ShortDir(t), "n")}
	way := func(ctx context.Context, v door.Visitor) (conn net.Conn, err error) {
		for {
			n.mu.Lock()
			o := n.owner
			n.mu.Unlock()
			if o != nil {
				if conn, err = door.Dial(ctx, o.door.Info(), v); err == nil {
					return conn, nil
				}
			}
			select {
			case <-ctx.Done():
				return nil, errors.Join(ctx.Err(), err)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	lines.Way, lines.HungUp = way, func(c net.Conn) bool { return unix.HungUp(c.(*net.UnixConn)) }
	web := door.NewWeb(&door.WebOptions{Way: way, Waiting: lines.Waiting, Query: func(m string) bool { return m == "test/slow" }})
	l, err := unix.Listen(n.path, unix.Info{})
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.tcp = tcp.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	sockets := transport.NewHandoff()
	running.Go(func() { _ = web.Serve(ctx, sockets, door.UnixHTTP, nil) })
	running.Go(func() { _ = web.Serve(ctx, tcp, door.TCP, nil) })
	running.Go(func() {
		_ = l.Share(ctx, nil, func(conn *net.UnixConn) {
			running.Go(func() {
				if !lines.Opaque && unix.SpeaksHTTP(conn) {
					_ = sockets.Pass(ctx, conn)
					return
				}
				lines.Serve(ctx, conn)
			})
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		_ = l.Close()
	})
	return n
}

// become makes another node the owner.
func (n *node) become(o *owner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owner = o
}

// A peer is a client of a node.
type peer struct {
	*net.UnixConn
	t  *testing.T
	in *bufio.Reader
}

func (n *node) connect() *peer {
	n.t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: n.path, Net: "unix"})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return &peer{conn, n.t, bufio.NewReader(conn)}
}

func (p *peer) say(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p, format, args...); err != nil {
		p.t.Fatal(err)
	}
}

// hear returns the next message.
func (p *peer) hear() message.Message {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("%q, %v", line, err)
	}
	m, err := message.Decode(line[:len(line)-1])
	if err != nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	return m
}

// want hears a message of a kind that is caused by another one.
func (p *peer) want(kind message.Kind, causation message.ID) message.Message {
	p.t.Helper()
	m := p.hear()
	if m.Kind != kind || m.Metadata.Causation != causation {
		p.t.Fatalf("got %s %s for %q: %s; want %s for %q", m.Kind, m.Type, m.Metadata.Causation, m.Data, kind, causation)
	}
	return m
}

// wantEnd wants the end of the connection.
func (p *peer) wantEnd() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
	if rest, err := io.ReadAll(p.in); err != nil || len(rest) > 0 {
		p.t.Fatalf("%q, %v", rest, err)
	}
}

func request(kind message.Kind, id, kindOf, more string) string {
	return fmt.Sprintf(`{"kind":%q,"type":%q,"data":{"payload":1},"metadata":{"id":%q,"timestamp":1%s}}`+"\n", kind, kindOf, id, more)
}
