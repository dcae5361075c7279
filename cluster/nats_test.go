package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/replicated"
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

// A noted copy notes the leases of its owners.
type noted struct {
	local
	*fakeLink
}

func (c noted) Own(ctx context.Context, epoch uint64, l replicated.Lease) (owned, error) {
	o, err := c.local.Own(ctx, epoch, l)
	if err == nil {
		c.set(func() { c.leases = append(c.leases, namedLease{c.node, epoch, l}) })
	}
	return o, err
}

// L1: three nodes with copies on a server of NATS, whose owner is cut off, and then hands over.
func TestOnAServer(t *testing.T) {
	servers := clustertest.Shared(t, 1)
	notes := newFakeServer()
	proxies := make(map[string]*proxy)
	var nodes []*fakeNode
	var keys, accepted atomic.Int64
	writes := func() {
		t.Helper()
		enough := accepted.Load() + 20
		testkit.Until(t, "the owner writes", func() bool { return accepted.Load() >= enough })
	}
	var written sync.Map // keys whose commits were accepted
	note := new(testkit.Notes)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(note)
		}
	})
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
		state, err := replicated.Open(t.TempDir(), stream.Log(store.DefaultOrigin), &replicated.Options{Log: note.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = state.Close() })
		f := &fakeNode{done: make(chan struct{})}
		f.Node, err = open(Options{Name: name, Lease: 3 * time.Second, Log: note.Logger(), Own: func(ctx context.Context, s store.Store) error {
			for sleep(ctx, 5*time.Millisecond) {
				var b store.Batch
				key := fmt.Sprint("m", keys.Add(1))
				b.Set([]byte(key), []byte("x"))
				if c, err := s.Apply(&b); err == nil {
					c.Then(func(err error) {
						if err == nil {
							written.Store(key, true)
							accepted.Add(1)
						}
					})
				}
			}
			return s.Close()
		}}, noted{local{state}, notes.link(name)}, stream, wire{nc}, monotonic())
		if err != nil {
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
			if h := notes.holders(); len(h) > 1 {
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

	writes()
	begin := time.Now()
	proxies[owner.options.Name].cut(true)
	next := ownerOf(t, others(nodes, owner)...)
	t.Logf("another node owned %v after the cut", time.Since(begin))
	if m, _ := owner.Owner(); !m.Self {
		t.Error("the owner that was cut off closed its kernel before it could know")
	}
	writes()
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
	writes()
	begin = time.Now()
	if err := ownerOf(t, nodes...).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := ownerOf(t, others(nodes, to)...)
	t.Logf("stopping took %v", time.Since(begin))
	writes()
	c, err := last.Check(t.Context())
	if err != nil || !c.Equal() || len(c.Nodes) != 3 {
		t.Errorf("the comparison is %+v, %v", c, err)
	}
	count := 0
	last.mu.Lock()
	state := last.store
	last.mu.Unlock()
	written.Range(func(key, _ any) bool {
		count++
		if e, err := state.Get([]byte(key.(string))); err != nil || e.Revision == 0 {
			t.Errorf("%s was accepted, and isn't there: %v", key, err)
		}
		return true
	})
	t.Logf("%d keys", count)
}
