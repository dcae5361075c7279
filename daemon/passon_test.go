package daemon

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"kernos/cluster"
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
