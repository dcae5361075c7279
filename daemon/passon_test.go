package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"

	"kernos/cluster"
	"kernos/transport"
)

// A knowingNode knows an owner.
type knowingNode struct {
	clusterNode
	mu      sync.Mutex
	owner   cluster.Member
	changed chan struct{}
}

func (n *knowingNode) Owner() (cluster.Member, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.owner, n.changed
}

func (n *knowingNode) learn(owner cluster.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owner = owner
	close(n.changed)
	n.changed = make(chan struct{})
}

// A connection to an owner that doesn't hang up ends when another node owns, and not when it isn't known which one does.
func TestAConnectionEndsWithTheOwnership(t *testing.T) {
	first := cluster.Member{Name: "a", Epoch: 1}
	n := &knowingNode{owner: first, changed: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }()
	conn := until(near, n, first)
	defer func() { _ = conn.Close() }()
	n.learn(cluster.Member{})
	n.learn(first)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("while its owner owns: %v", err)
	}
	n.learn(cluster.Member{Name: "b", Epoch: 2})
	if text, err := io.ReadAll(far); err != nil || string(text) != "x" {
		t.Errorf("the other end has %q, %v", text, err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after another node has become the owner: %v", err)
	}
}

// A node passes on as many connections to its TCP address at a time as a daemon serves there; one more is closed.
func TestVisitorsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &Member{tcp: l, log: slog.New(slog.DiscardHandler)}
	m.opts.Limits.MaxConnections = 1
	elsewhere := transport.NewHandoff()
	defer func() { _ = elsewhere.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.acceptTCP(ctx, elsewhere) }()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	visit, err := elsewhere.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("one connection more is served")
	}
	_ = visit.Close()
	_ = visit.Close() // it leaves once
	dial()
	if visit, err = elsewhere.Accept(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was closed twice left two places")
	}
	_ = visit.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Settings that can't be those of a node are refused before anything is opened.
func TestSettingsOfANode(t *testing.T) {
	for _, c := range []Cluster{
		{},
		{Name: "a"},
		{Peers: []string{"a:1"}},
		{Servers: []string{"http://x"}},
		{Servers: []string{"x"}},
		{Servers: []string{"context:"}},
		{Servers: []string{"nats://x"}, Listen: "a:1"},
		{Listen: "a", Peers: []string{"a"}},
		{Listen: "a:1", Peers: []string{"a:1", "b:1"}},
		{Listen: "a:1", Name: "a b"},
	} {
		if err := c.check(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	for _, c := range []Cluster{{Servers: []string{"tls://x:4222"}}, {Listen: "a:1"}, {Servers: []string{"context:prod"}}} {
		if err := c.check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
