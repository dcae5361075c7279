package cluster

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// L1, L3: whatever happens to nodes and messages, no two leases hold at once, and the epochs of the log grow.
func TestNoTwoLeasesHoldAtOnce(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) { schedule(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// schedule runs three nodes for a minute, while they are paused, cut off, stopped and started, their messages are late or
// lost, and their clocks run at different rates.
func schedule(t *testing.T, seed uint64) {
	s := newFakeServer()
	s.random = rand.New(rand.NewPCG(seed, 1))
	random := rand.New(rand.NewPCG(seed, 2))
	names := []string{"a", "b", "c"}
	launch := func(name string) *fakeNode {
		return start(t, s, name, func(_ *Options, f *fakeNode) { f.link.rate = 0.97 + 0.06*random.Float64() })
	}
	var nodes []*fakeNode
	for _, name := range names {
		nodes = append(nodes, launch(name))
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			if h := s.holders(); len(h) > 1 {
				t.Errorf("seed %d: leases of %v hold at once", seed, h)
			}
			select {
			case <-done:
				return
			case <-time.After(3 * time.Millisecond):
			}
		}
	})
	for range 30 {
		i := random.IntN(len(nodes))
		n := nodes[i]
		switch random.IntN(6) {
		case 0:
			n.link.pause()
		case 1:
			n.link.set(func() { n.link.cut = true })
		case 2:
			end(n)
			nodes[i] = launch(n.options.Name)
		case 3:
			to := names[random.IntN(len(names))]
			go func() { _ = n.Move(t.Context(), to) }()
		case 4:
			s.mu.Lock()
			s.down = !s.down
			s.mu.Unlock()
		}
		time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
		for _, n := range nodes {
			if random.IntN(3) > 0 {
				n.link.resume()
				n.link.set(func() { n.link.cut = false })
			}
		}
	}
	s.mu.Lock()
	s.down, s.random = false, nil
	s.mu.Unlock()
	for _, n := range nodes {
		n.link.resume()
		n.link.set(func() { n.link.cut = false })
	}
	time.Sleep(10 * time.Second)
	ownerOf(t, nodes...)
	time.Sleep(time.Second)
	if h := s.holders(); len(h) != 1 {
		t.Errorf("seed %d: at the end %v own", seed, h)
	}
	close(done)
	watch.Wait()
	end(nodes...)
	var epoch uint64
	for _, e := range s.log {
		if e.Epoch < epoch {
			t.Errorf("seed %d: epoch %d was accepted after %d", seed, e.Epoch, epoch)
		}
		epoch = e.Epoch
	}
}
