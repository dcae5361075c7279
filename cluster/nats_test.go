package cluster

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/replicated/jetstream"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// A proxy passes connections on to a server, unless it is cut: then all that is sent waits, as if a cable was pulled.
type proxy struct {
	net.Listener
	server string

	mu    sync.Mutex
	heal  chan struct{} // closed when bytes pass; nil if they do
	conns []net.Conn
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, server: server}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			work.Go(func() { p.pass(in, out) })
			work.Go(func() { p.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		p.cut(false)
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		work.Wait()
	})
	return p
}

func (p *proxy) pass(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		heal := p.heal
		p.mu.Unlock()
		if heal != nil {
			<-heal
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				_ = from.Close()
			}
			return
		}
	}
}

func (p *proxy) cut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case cut && p.heal == nil:
		p.heal = make(chan struct{})
	case !cut && p.heal != nil:
		close(p.heal)
		p.heal = nil
	}
}

// L1: three nodes on a server of NATS, whose owner is cut off, and then hands over.
func TestOnAServer(t *testing.T) {
	servers := clustertest.Shared(t, 1)
	log := newFakeServer()
	proxies := make(map[string]*proxy)
	var nodes []*fakeNode
	for _, name := range []string{"a", "b", "c"} {
		p := newProxy(t, strings.TrimPrefix(servers.ServerURL(0), "nats://"))
		proxies[name] = p
		nc, err := nats.Connect("nats://"+p.Addr().String(), nats.MaxReconnects(-1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		stream, err := jetstream.Open(t.Context(), nc, jetstream.Options{Name: "OWNERS", Replicas: 1})
		if err != nil {
			t.Fatal(err)
		}
		f := &fakeNode{link: log.link(name), done: make(chan struct{})}
		f.copy = &fakeCopy{fakeLink: f.link}
		if f.Node, err = open(Options{Name: name, Lease: 3 * time.Second, Own: func(ctx context.Context, _ store.Store) error {
			<-ctx.Done()
			return nil
		}}, f.copy, stream, wire{nc}, monotonic()); err != nil {
			t.Fatal(err)
		}
		f.on(stream)
		ctx, cancel := context.WithCancel(t.Context())
		f.vanish = cancel
		go f.run(ctx)
		nodes = append(nodes, f)
	}
	t.Cleanup(func() { end(nodes...) })
	owner := ownerOf(t, nodes...)
	testkit.Until(t, "all nodes know each other", func() bool {
		for _, n := range nodes {
			if len(n.Status().Nodes) != 3 || n.Status().Owner != owner.options.Name {
				return false
			}
		}
		return true
	})

	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			if h := log.holders(); len(h) > 1 {
				t.Errorf("leases of %v hold at once", h)
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	defer watch.Wait()
	defer close(done)

	begin := time.Now()
	proxies[owner.options.Name].cut(true)
	next := ownerOf(t, others(nodes, owner)...)
	t.Logf("another node owned %v after the cut", time.Since(begin))
	if m, _ := owner.Owner(); !m.Self {
		t.Error("the owner that was cut off closed its kernel before it could know")
	}
	proxies[owner.options.Name].cut(false)
	testkit.Until(t, "the owner from before follows", func() bool {
		m, _ := owner.Owner()
		return m.Name == next.options.Name && owner.sign().Role == Following
	})

	to := others(nodes, next)[0]
	begin = time.Now()
	if err := owner.Move(t.Context(), to.options.Name); err != nil {
		t.Fatal(err)
	}
	t.Logf("moving took %v", time.Since(begin))
	begin = time.Now()
	if err := ownerOf(t, nodes...).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := ownerOf(t, others(nodes, to)...)
	t.Logf("stopping took %v", time.Since(begin))
	c, err := last.Check(t.Context())
	if err != nil || !c.Equal() || len(c.Nodes) != 3 {
		t.Errorf("the comparison is %+v, %v", c, err)
	}
}
