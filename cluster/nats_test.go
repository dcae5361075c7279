package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/pebble"
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

func newProxy(t testing.TB, server string) *proxy {
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

// A site has what nodes on one server share.
type site struct {
	t       testing.TB
	stream  string
	lease   time.Duration
	servers *clustertest.Servers
	notes   *fakeServer // of leases
	log     testkit.Notes
	keys    atomic.Int64 // tried to write
	count   atomic.Int64 // accepted
	written sync.Map     // keys that were accepted
}

// patient is a lease for machines that have much else to do.
const patient = 3 * time.Second

func newSite(t testing.TB, stream string, lease time.Duration) *site {
	s := &site{t: t, lease: lease, stream: stream, servers: clustertest.Shared(t, 1), notes: newFakeServer()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// start starts a node with a copy in a directory.
func (s *site) start(name, dir string) (*fakeNode, *proxy) {
	s.t.Helper()
	p := newProxy(s.t, strings.TrimPrefix(s.servers.ServerURL(0), "nats://"))
	nc, err := nats.Connect("nats://"+p.Addr().String(), nats.MaxReconnects(-1))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	stream, err := jetstream.Open(s.t.Context(), nc, jetstream.Options{Name: s.stream, Replicas: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	log := s.log.Logger()
	state, err := replicated.Open(dir, stream.Log(store.DefaultOrigin), &replicated.Options{Log: log})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = state.Close() })
	f := &fakeNode{done: make(chan struct{})}
	o := Options{Name: name, Lease: s.lease, Log: log, Own: s.write}
	if f.Node, err = open(o, noted{local{state}, s.notes.link(name)}, stream, wire{nc}, monotonic()); err != nil {
		s.t.Fatal(err)
	}
	f.on(stream)
	ctx, cancel := context.WithCancel(s.t.Context())
	f.vanish = cancel
	go f.run(ctx)
	s.t.Cleanup(func() { end(f) })
	return f, p
}

// write is a kernel, which writes until ctx is done.
func (s *site) write(ctx context.Context, st store.Store) error {
	for sleep(ctx, 5*time.Millisecond) {
		var b store.Batch
		key := fmt.Sprint("m", s.keys.Add(1))
		b.Set([]byte(key), []byte("x"))
		if c, err := st.Apply(&b); err == nil {
			c.Then(func(err error) {
				if err == nil {
					s.written.Store(key, true)
					s.count.Add(1)
				}
			})
		}
	}
	return st.Close()
}

// writes waits until an owner has written something.
func (s *site) writes() {
	s.t.Helper()
	enough := s.count.Load() + 20
	testkit.Until(s.t, "the owner writes", func() bool { return s.count.Load() >= enough })
}

// compare checks that all copies are equal, and that the owner has all that was accepted.
func (s *site) compare(owner *fakeNode, count int) {
	s.t.Helper()
	c, err := owner.Check(s.t.Context())
	if err != nil || !c.Equal() || len(c.Nodes) != count {
		s.t.Errorf("the comparison is %+v, %v", c, err)
	}
	owner.mu.Lock()
	state := owner.store
	owner.mu.Unlock()
	s.written.Range(func(key, _ any) bool {
		if e, err := state.Get([]byte(key.(string))); err != nil || e.Revision == 0 {
			s.t.Errorf("%s was accepted, and isn't there: %v", key, err)
		}
		return true
	})
}

// A cluster begins with the state of a store that was none of a cluster; another such store can't join.
func TestAStoreBecomesACopy(t *testing.T) {
	s := newSite(t, "FOUNDERS", patient)
	var dirs []string
	for range 2 {
		dir := t.TempDir()
		alone, err := pebble.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b store.Batch
		b.Set([]byte("mfirst"), []byte("x"))
		if _, err := alone.Apply(&b); err != nil {
			t.Fatal(err)
		}
		if err := alone.Close(); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	s.written.Store("mfirst", true)
	a, _ := s.start("a", dirs[0])
	if ownerOf(t, a) != a {
		t.Fatal("the node with a state doesn't own")
	}
	s.writes()
	b, _ := s.start("b", t.TempDir())
	c, _ := s.start("c", dirs[1])
	if <-c.done; !errors.Is(c.err, replicated.ErrForeign) {
		t.Errorf("the node with another state ended with %v", c.err)
	}
	testkit.Until(t, "the node follows", func() bool { return a.here("b") })
	if err := a.Move(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	s.compare(ownerOf(t, b), 3)
}

// L1: three nodes with copies on a server of NATS, whose owner is cut off, and then hands over.
func TestOnAServer(t *testing.T) {
	s := newSite(t, "OWNERS", patient)
	proxies := make(map[string]*proxy)
	var nodes []*fakeNode
	for _, name := range []string{"a", "b", "c"} {
		n, p := s.start(name, t.TempDir())
		nodes, proxies[name] = append(nodes, n), p
	}
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
			if h := s.notes.holders(); len(h) > 1 {
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

	s.writes()
	begin := time.Now()
	proxies[owner.options.Name].cut(true)
	next := ownerOf(t, others(nodes, owner)...)
	t.Logf("another node owned %v after the cut", time.Since(begin))
	if m, _ := owner.Owner(); !m.Self {
		t.Error("the owner that was cut off closed its kernel before it could know")
	}
	s.writes()
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
	s.writes()
	begin = time.Now()
	if err := ownerOf(t, nodes...).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := ownerOf(t, others(nodes, to)...)
	t.Logf("stopping took %v", time.Since(begin))
	s.writes()
	s.compare(last, 3)
	t.Logf("%d keys", s.count.Load())
}

// BenchmarkTakeover measures how long it takes until another node's kernel runs once the owner is cut off.
func BenchmarkTakeover(b *testing.B) {
	s := newSite(b, "TAKEOVERS", DefaultLease)
	proxies := make(map[string]*proxy)
	var nodes []*fakeNode
	for _, name := range []string{"a", "b", "c"} {
		n, p := s.start(name, b.TempDir())
		nodes, proxies[name] = append(nodes, n), p
	}
	var took []time.Duration
	for b.Loop() {
		owner := ownerOf(b, nodes...)
		s.writes()
		time.Sleep(rand.N(DefaultLease / renewals)) // cut off at any moment between two renewals
		begin := time.Now()
		proxies[owner.options.Name].cut(true)
		next := ownerOf(b, others(nodes, owner)...)
		took = append(took, time.Since(begin))
		proxies[owner.options.Name].cut(false)
		testkit.Until(b, "the owner from before follows", func() bool {
			m, _ := owner.Owner()
			return m.Name == next.options.Name && owner.sign().Role == Following
		})
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/median")
	b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms/longest")
}
