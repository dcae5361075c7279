package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/store"
	"kernos/store/replicated"
)

// A fakeNode is a node in a synctest bubble.
type fakeNode struct {
	*Node
	link   *fakeLink
	copy   *fakeCopy
	vanish context.CancelFunc // ends Run without a goodbye
	done   chan struct{}      // closed when Run has ended
	err    error              // of Run, once it has ended
}

// start starts a node whose kernel appends to the log every 20 ms.
func start(t *testing.T, s *fakeServer, name string, with func(*Options, *fakeNode)) *fakeNode {
	t.Helper()
	f := &fakeNode{link: s.link(name), done: make(chan struct{})}
	f.copy = &fakeCopy{fakeLink: f.link}
	o := Options{Name: name, Own: func(ctx context.Context, st store.Store) error {
		for sleep(ctx, 20*time.Millisecond) {
			_ = st.(*fakeOwner).append([][]byte{{1}})
		}
		return nil
	}}
	if with != nil {
		with(&o, f)
	}
	var err error
	if f.Node, err = open(o, f.copy, f.link, f.link, f.link.clock()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.vanish = func() {
		cancel()
		f.link.resume()
	}
	go f.run(ctx)
	return f
}

func (f *fakeNode) run(ctx context.Context) {
	defer close(f.done)
	f.err = f.Run(ctx)
}

// ownerOf waits until a node owns whose kernel runs.
func ownerOf(t testing.TB, nodes ...*fakeNode) *fakeNode {
	t.Helper()
	for range 100_000 {
		for _, n := range nodes {
			n.mu.Lock()
			runs := n.store != nil
			n.mu.Unlock()
			if m, _ := n.Owner(); runs && m.Self {
				return n
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no node owns")
	return nil
}

// others returns the nodes without one.
func others(nodes []*fakeNode, without *fakeNode) []*fakeNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *fakeNode) bool { return n == without })
}

// three starts three nodes, and waits until one owns and all know each other.
func three(t *testing.T, s *fakeServer) (nodes []*fakeNode, owner *fakeNode) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, start(t, s, name, nil))
	}
	owner = ownerOf(t, nodes...)
	time.Sleep(3 * time.Second)
	return nodes, owner
}

// end ends nodes, and waits for them.
func end(nodes ...*fakeNode) {
	for _, n := range nodes {
		n.vanish()
	}
	for _, n := range nodes {
		<-n.done
	}
}

func TestALeaseHoldsForItsLengthAndNotAfterItsEnd(t *testing.T) {
	var now time.Duration
	l := &lease{now: func() time.Duration { return now }}
	holds := func(want bool) {
		t.Helper()
		if got := l.Holds() == nil; got != want {
			t.Errorf("at %v the lease holds: %v", now, got)
		}
	}
	holds(false)
	l.extend(2 * time.Second)
	holds(true)
	now = 2*time.Second - 1
	holds(true)
	now = 2 * time.Second
	holds(false)
	l.extend(3 * time.Second)
	l.extend(time.Second) // never shorter
	holds(true)
	l.end()
	l.extend(time.Hour)
	holds(false)
	var e *store.Error
	if err := l.Holds(); !errors.As(err, &e) || e.Code != 503 {
		t.Errorf("the error is %v", err)
	}
}

// L1: a renewal counts from before it was published, however long it takes, and also if only the next attempt finds
// out that it had arrived.
func TestARenewalCountsFromBeforeItWasPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		link := s.link("a")
		l := &lease{now: link.clock()}
		c := &claim{
			register: register{link, "kernos.owner"}, length: 1800 * time.Millisecond, lease: l,
			record: record{Node: "a", Instance: "i", Epoch: 1}, begun: make(map[uint64]time.Duration),
		}
		if err := c.attempt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if until := time.Duration(l.until.Load()); until != c.length {
			t.Errorf("the lease holds until %v", until)
		}
		time.Sleep(500 * time.Millisecond)
		begin := l.now()
		s.late = 4 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := c.attempt(ctx); !errors.Is(err, errUnsettled) {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(10 * time.Second)
		s.late = 0
		if err := c.attempt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if until := time.Duration(l.until.Load()); until != begin+c.length {
			t.Errorf("the lease holds until %v; the renewal was published at %v", until, begin)
		}
	})
}

func TestACandidateWaitsForAWholeLeaseAfterItReceivedTheLastRenewal(t *testing.T) {
	const l = 2 * time.Second
	var s sight
	r := record{Node: "a", Instance: "ia", Epoch: 1, Lease: l}
	s.see(7, r, 10*time.Second, l, false)
	at := func(want time.Duration, inTurn bool) {
		t.Helper()
		if got, turn := s.free("b", "ib", l); got != want || turn != inTurn {
			t.Errorf("free at %v (in turn: %v), not %v", got, turn, want)
		}
	}
	at(12*time.Second, true)
	s.see(7, r, 10500*time.Millisecond, l, false) // the same again
	at(12*time.Second, true)
	r.Renewal++
	s.see(9, r, 11*time.Second, l, false)
	at(13*time.Second, true)
	s.see(7, r, 11500*time.Millisecond, l, false) // from a leader that was cut off
	at(13*time.Second, true)
	s.see(9, r, 20*time.Second, l, false) // after an outage, the owner may renew first
	at(21*time.Second, true)
	r.Lease = 5 * time.Second // the owner's is longer
	s.see(10, r, 20*time.Second, l, false)
	at(25*time.Second, true)
	r.Stopping, r.Successor = true, "c"
	s.see(11, r, 21*time.Second, l, false)
	at(26*time.Second, true)
	r.Successor = "b"
	s.see(12, r, 22*time.Second, l, false)
	at(22*time.Second, false)
}

func TestAnotherNodeTakesOverWhenTheOwnerVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		left := others(nodes, owner)
		var took []time.Duration
		for len(left) > 0 {
			time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
			_, changed := left[0].Owner()
			begin := time.Now()
			end(owner)
			owner = ownerOf(t, left...)
			took = append(took, time.Since(begin))
			if len(left) == 2 {
				<-changed
			}
			left = others(left, owner)
		}
		end(owner)
		for _, d := range took {
			if d > 2500*time.Millisecond {
				t.Errorf("taking over took %v", took)
			}
		}
		t.Log(took)
	})
}

// L2: a node that was stopped for longer than its lease finds its lease gone at once, and what it writes isn't accepted.
func TestAPausedOwnerIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		held := s.leases[len(s.leases)-1]
		owner.link.pause()
		next := ownerOf(t, others(nodes, owner)...)
		if held.Holds() == nil {
			t.Error("the lease of the paused owner holds")
		}
		old := owner.Node.store.(*fakeOwner)
		owner.link.resume()
		if err := old.append([][]byte{{1}}); !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("the owner from before could write: %v", err)
		}
		time.Sleep(5 * time.Second)
		if m, _ := owner.Owner(); m.Name != next.options.Name || m.Self {
			t.Errorf("the owner from before knows %+v as the owner", m)
		}
		if owner.Status().Nodes[slices.Index(nodes, owner)].State != Level {
			t.Errorf("it doesn't follow: %+v", owner.Status())
		}
		end(nodes...)
	})
}

// An owner that can't renew while the servers are away continues when they are back, and no other node takes over.
func TestTheOwnerContinuesAfterAnOutageOfTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		s.mu.Lock()
		s.down = true
		s.mu.Unlock()
		time.Sleep(9 * time.Second)
		if h := s.holders(); len(h) != 0 {
			t.Errorf("the lease of %v holds without servers", h)
		}
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		if m, _ := owner.Owner(); !m.Self || m.Epoch != 1 || len(s.holders()) != 1 {
			t.Errorf("the owner is %+v", m)
		}
		end(nodes...)
	})
}

func TestAnOwnerThatIsCutOffClosesItsKernelOnceItHearsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		owner.link.set(func() { owner.link.cut = true })
		next := ownerOf(t, others(nodes, owner)...)
		if _, own := owner.mark(t.Context(), struct{}{}); own != errCut {
			t.Errorf("the kernel was closed before it could know: %v", own)
		}
		owner.link.set(func() { owner.link.cut = false })
		time.Sleep(2 * time.Second)
		if m, _ := owner.Owner(); m.Name != next.options.Name || owner.Node.store != nil {
			t.Errorf("the owner is %+v", m)
		}
		end(nodes...)
	})
}

func TestStopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		left := others(nodes, owner)
		begin := time.Now()
		if err := owner.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-owner.done; owner.err != nil {
			t.Error(owner.err)
		}
		next := ownerOf(t, left...)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the hand-over took %v", took)
		}
		time.Sleep(10 * time.Millisecond) // the goodbye is on its way
		if st := next.Status(); st.Nodes[slices.Index(nodes, owner)].State != Away {
			t.Errorf("the node that stopped isn't away: %+v", st)
		}
		if err := others(left, next)[0].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := next.Stop(t.Context()); err != nil { // no node is left
			t.Fatal(err)
		}
		begin = time.Now()
		again := start(t, s, "a", nil)
		ownerOf(t, again)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a node took %v to take over what was given away", took)
		}
		end(again)
	})
}

// When all nodes stop at once, the ownership isn't handed to one that stops, too.
func TestAllStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, _ := three(t, s)
		for _, n := range nodes {
			n.stop()
		}
		for _, n := range nodes {
			if <-n.done; n.err != nil {
				t.Error(n.err)
			}
		}
		var r record
		if _, err := (register{s.link("d"), "kernos.owner"}).last(t.Context(), &r, false); err != nil || !r.Stopping || r.Successor != "" {
			t.Errorf("the record is %+v, %v", r, err)
		}
	})
}

func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		left := others(nodes, owner)
		for i, to := range []*fakeNode{left[1], left[0], owner} {
			begin := time.Now()
			if err := nodes[i].Move(t.Context(), to.options.Name); err != nil {
				t.Fatal(err)
			}
			if m, _ := nodes[i].Owner(); m.Name != to.options.Name {
				t.Errorf("the owner is %+v", m)
			}
			ownerOf(t, to)
			if took := time.Since(begin); took > time.Second {
				t.Errorf("moving took %v", took)
			}
			time.Sleep(time.Second)
		}
		if err := left[0].Move(t.Context(), "d"); err == nil || !strings.Contains(err.Error(), "it has a, b, c") {
			t.Errorf("moving to a node that doesn't exist: %v", err)
		}
		left[0].vanish()
		<-left[0].done
		time.Sleep(4 * time.Second)
		if err := left[1].Move(t.Context(), left[0].options.Name); err == nil || !strings.Contains(err.Error(), "isn't there") {
			t.Errorf("moving to a node that is away: %v", err)
		}
		ownerOf(t, owner)
		end(owner, left[1])
	})
}

func TestTheNodeWithAllKeysAndMostOfTheLogGoesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		b, c  sign
		first string
	}{
		"level":          {sign{Number: 7}, sign{Number: 8}, "c"},
		"keys":           {sign{Number: 5, Keys: []string{"k", "l"}}, sign{Number: 8, Keys: []string{"l"}}, "b"},
		"name":           {sign{Number: 7}, sign{Number: 7}, "b"},
		"can't":          {sign{Number: 9, Unable: "no disk"}, sign{Number: 7}, "c"},
		"the owner's":    {sign{Number: 9, Role: Owner}, sign{Number: 7}, "c"},
		"founder":        {sign{Number: 7}, sign{Founder: true}, "c"},
		"different keys": {sign{Number: 6, Keys: []string{"k"}}, sign{Number: 7, Keys: []string{"l"}}, "c"},
	} {
		turn := func(own, other sign) (int, bool) {
			p := presence{peers: map[string]*peer{other.Name: {sign: other, ever: true}}}
			return p.turn(own, time.Second, 2*time.Second)
		}
		test.b.Name, test.c.Name = "b", "c"
		for _, s := range []*sign{&test.b, &test.c} {
			if s.Role == "" {
				s.Role = Following
			}
		}
		b, _ := turn(test.b, test.c)
		c, wait := turn(test.c, test.b)
		if first := map[bool]string{true: "b", false: "c"}[b < c]; first != test.first {
			t.Errorf("%s: node %s goes first (b %d, c %d)", name, first, b, c)
		}
		if wait != (name == "keys") {
			t.Errorf("%s: c waits for b: %v", name, wait)
		}
	}
}

// A new cluster begins with the state of the node that has one, also if another node starts first.
func TestTheNodeWithAStateBeginsTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		a := start(t, s, "a", nil)
		time.Sleep(300 * time.Millisecond)
		b := start(t, s, "b", func(_ *Options, f *fakeNode) { f.copy.founder = true })
		if owner := ownerOf(t, a, b); owner != b {
			t.Errorf("node %s owns", owner.options.Name)
		}
		end(a, b)
	})
}

func TestANodeThatLacksAKeyTakesOverOnlyIfNoOtherCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		keys := func(keys ...string) func(*Options, *fakeNode) {
			return func(o *Options, _ *fakeNode) { o.Keys = func() []string { return keys } }
		}
		a := start(t, s, "a", keys("k"))
		ownerOf(t, a)
		b, c := start(t, s, "b", nil), start(t, s, "c", keys("k"))
		time.Sleep(3 * time.Second)
		st := a.Status()
		if !slices.Equal(st.Nodes[1].Lacks, []string{"k"}) || st.Nodes[2].Lacks != nil {
			t.Errorf("the status is %+v", st)
		}
		end(a)
		if owner := ownerOf(t, b, c); owner != c {
			t.Errorf("the owner is %s", owner.options.Name)
		}
		end(c)
		ownerOf(t, b)
		end(b)
	})
}

func TestACopyThatDivergedEndsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		lost := fmt.Errorf("%w: 7 groups", replicated.ErrDiverged)
		bad := others(nodes, owner)[0]
		bad.copy.mu.Lock()
		bad.copy.broken = lost
		bad.copy.mu.Unlock()
		<-bad.done
		if !errors.Is(bad.err, replicated.ErrDiverged) {
			t.Errorf("the node ended with %v", bad.err)
		}
		ownerOf(t, owner)
		end(others(nodes, bad)...)
	})
}

// A kernel that can't run gives its ownership away, and its node doesn't take it again at once.
func TestAKernelThatFailsGivesTheOwnershipAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		a := start(t, s, "a", func(o *Options, _ *fakeNode) {
			o.Own = func(context.Context, store.Store) error { return errors.New("no room") }
		})
		b := start(t, s, "b", nil)
		ownerOf(t, b)
		time.Sleep(500 * time.Millisecond)
		if p := b.Status().Nodes[0].Problem; !strings.Contains(p, "no room") {
			t.Errorf("the problem of the node is %q", p)
		}
		end(a, b)
	})
}

func TestAKernelThatWasToldToStopEndsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		a := start(t, s, "a", func(o *Options, _ *fakeNode) {
			o.Own = func(ctx context.Context, _ store.Store) error { sleep(ctx, time.Second); return nil }
		})
		<-a.done
		if a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestTwoNodesOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		a := start(t, s, "a", nil)
		time.Sleep(time.Second)
		second := start(t, s, "a", nil)
		<-second.done
		if second.err == nil || !strings.Contains(second.err.Error(), "has the name a") {
			t.Errorf("the second node ended with %v", second.err)
		}
		ownerOf(t, a)
		end(a)
	})
}

func TestStatusAndCheckAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		nodes, owner := three(t, s)
		slow := others(nodes, owner)[0]
		slow.copy.mu.Lock()
		slow.copy.slow = time.Second
		slow.copy.mu.Unlock()
		time.Sleep(10 * time.Second)
		at := slices.Index(nodes, slow)
		for _, n := range nodes {
			st := n.Status()
			if st.Owner != owner.options.Name || len(st.Nodes) != 3 || st.Nodes[at].State != Following || st.Nodes[at].Behind < 50 {
				t.Errorf("the status is %+v", st)
			}
		}
		slow.copy.mu.Lock()
		slow.copy.slow = 0
		slow.copy.mu.Unlock()
		for _, n := range nodes {
			c, err := n.Check(t.Context())
			if err != nil || !c.Equal() || len(c.Nodes) != 3 || c.Nodes[at].Checksum == "" {
				t.Errorf("the comparison is %+v, %v", c, err)
			}
		}
		end(slow)
		if err := owner.Leave(t.Context(), slow.options.Name); err == nil || !strings.Contains(err.Error(), "runs") {
			t.Errorf("a node could be taken out that runs: %v", err)
		}
		time.Sleep(4 * time.Second)
		left := others(nodes, slow)
		c, err := left[1].Check(t.Context())
		if err != nil || !c.Equal() || c.Nodes[at].Problem != "it is away" {
			t.Errorf("the comparison is %+v, %v", c, err)
		}
		late := start(t, s, "d", nil) // knows of the one that is away
		time.Sleep(time.Second)
		if st := late.Status(); len(st.Nodes) != 4 || st.Nodes[at].State != Away {
			t.Errorf("the status is %+v", st)
		}
		if err := owner.Leave(t.Context(), slow.options.Name); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if st := late.Status(); len(st.Nodes) != 3 {
			t.Errorf("the status is %+v", st)
		}
		end(append(left, late)...)
	})
}
