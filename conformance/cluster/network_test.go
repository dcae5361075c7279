package cluster

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// nodeCount is how many nodes the cluster has.
const nodeCount = 3

// A network is the links between the servers of the nodes. What a node sends to another one can be held back, as
// packets are that a network loses until it is whole again, or slowed down.
type network struct {
	mu      sync.Mutex
	held    [nodeCount][nodeCount]bool // by the node that sends, and the node that receives
	delay   [nodeCount][nodeCount]time.Duration
	changed chan struct{} // closed when something is held or let through
	closed  bool
	open    map[net.Conn]bool
	proxies [nodeCount][nodeCount]net.Listener // by the node that connects, and the node that it connects to
	running sync.WaitGroup
}

// newNetwork returns links to nodes that listen at these addresses. It is closed at the end of the test.
func newNetwork(t testing.TB, addresses [nodeCount]string) *network {
	t.Helper()
	n := &network{changed: make(chan struct{}), open: make(map[net.Conn]bool)}
	t.Cleanup(n.close)
	for from := range nodeCount {
		for to := range nodeCount {
			if from == to {
				continue
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			n.proxies[from][to] = l
			n.running.Go(func() { n.accept(l, from, to, addresses[to]) })
		}
	}
	return n
}

// peers returns the addresses of all nodes for one of them, whose own is that.
func (n *network) peers(of int, own string) (peers []string) {
	for to := range nodeCount {
		if to == of {
			peers = append(peers, own)
		} else {
			peers = append(peers, n.proxies[of][to].Addr().String())
		}
	}
	return peers
}

func (n *network) accept(l net.Listener, from, to int, address string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		n.running.Go(func() { n.join(in, from, to, address) })
	}
}

// join copies both ways between a connection and the node that it is for.
func (n *network) join(in net.Conn, from, to int, address string) {
	if !n.keep(in) {
		return
	}
	defer n.drop(in)
	if !n.pass(from, to) || !n.pass(to, from) {
		return
	}
	out, err := net.Dial("tcp", address)
	if err != nil || !n.keep(out) {
		return
	}
	defer n.drop(out)
	var back sync.WaitGroup
	back.Go(func() { n.copy(in, out, to, from) })
	n.copy(out, in, from, to)
	back.Wait()
}

// copy copies what one node sends to another one. Also the end of a connection waits until the link is whole.
func (n *network) copy(dst, src net.Conn, from, to int) {
	buf := make([]byte, 64<<10)
	for {
		k, err := src.Read(buf)
		if !n.pass(from, to) {
			return
		}
		if _, failure := dst.Write(buf[:k]); failure != nil || err != nil {
			_, _ = dst.Close(), src.Close()
			return
		}
	}
}

// pass waits until what a node sends to another one is let through, and reports whether the network is still open.
func (n *network) pass(from, to int) bool {
	slowed := false
	for {
		n.mu.Lock()
		held, delay, changed, closed := n.held[from][to], n.delay[from][to], n.changed, n.closed
		n.mu.Unlock()
		switch {
		case closed:
			return false
		case held:
			<-changed
		case delay > 0 && !slowed:
			slowed = true
			timer := time.NewTimer(delay)
			select {
			case <-timer.C:
			case <-changed:
				timer.Stop()
			}
		default:
			return true
		}
	}
}

func (n *network) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = c.Close()
		return false
	}
	n.open[c] = true
	return true
}

func (n *network) drop(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
	_ = c.Close()
}

// change changes what is held and slowed.
func (n *network) change(how func(held *[nodeCount][nodeCount]bool, delay *[nodeCount][nodeCount]time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	how(&n.held, &n.delay)
	close(n.changed)
	n.changed = make(chan struct{})
}

// hold holds back what a node sends to another one.
func (n *network) hold(from, to int) {
	n.change(func(held *[nodeCount][nodeCount]bool, _ *[nodeCount][nodeCount]time.Duration) {
		held[from][to] = from != to
	})
}

// cut holds back what two nodes send to each other.
func (n *network) cut(a, b int) {
	n.hold(a, b)
	n.hold(b, a)
}

// isolate cuts a node off from all others.
func (n *network) isolate(node int) {
	for other := range nodeCount {
		n.cut(node, other)
	}
}

// slow delays everything that is sent.
func (n *network) slow(by time.Duration) {
	n.change(func(_ *[nodeCount][nodeCount]bool, delay *[nodeCount][nodeCount]time.Duration) {
		for from := range delay {
			for to := range delay[from] {
				delay[from][to] = by
			}
		}
	})
}

// heal lets everything through.
func (n *network) heal() {
	n.change(func(held *[nodeCount][nodeCount]bool, delay *[nodeCount][nodeCount]time.Duration) {
		*held, *delay = [nodeCount][nodeCount]bool{}, [nodeCount][nodeCount]time.Duration{}
	})
}

func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	close(n.changed)
	n.changed = make(chan struct{})
	for _, row := range n.proxies {
		for _, l := range row {
			if l != nil {
				_ = l.Close()
			}
		}
	}
	for c := range n.open {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.running.Wait()
}

// TestNetwork holds back one way of a link, and lets it through again.
func TestNetwork(t *testing.T) {
	var addresses [nodeCount]string
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addresses[1] = l.Addr().String()
	n := newNetwork(t, addresses)
	in, err := net.Dial("tcp", n.peers(0, "")[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	read := func(c net.Conn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	}
	send := func(c net.Conn) {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	send(in)
	if err := read(out); err != nil {
		t.Fatal(err)
	}
	n.hold(0, 1)
	send(in)
	send(out)
	if err := read(in); err != nil {
		t.Fatalf("the other way: %v", err)
	}
	_ = out.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if err := read(out); err == nil {
		t.Error("what was held back has come")
	}
	_ = out.SetReadDeadline(time.Time{})
	n.heal()
	if err := read(out); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if err := read(out); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("the end of a connection: %v", err)
	}
}
