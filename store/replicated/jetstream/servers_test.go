package jetstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store/replicated"
)

// TestALeaderIsKilled appends while the leader of the stream is killed and comes back, then while another server is
// paused, and follows meanwhile: every entry that was accepted is there once, in order.
func TestALeaderIsKilled(t *testing.T) {
	servers := clustertest.Start(t, 3)
	stream := open(t, servers, servers.Connect(t), Options{Replicas: 3})
	log := stream.Log(origin)

	const count = 300
	steps := make(chan uint64, count) // numbers of groups that were accepted
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait.Go(func() {
		defer close(steps)
		for first, after := uint64(1), uint64(0); first <= count; first++ {
			e := entry(1, first, 1)
			if first%50 == 0 {
				e.Groups[0] = make([]byte, 1<<20) // by the object store
			}
			sequence, err := log.Append(ctx, after, e)
			if err != nil {
				t.Errorf("Append of %d: %v", first, err)
				return
			}
			after = sequence
			steps <- first
		}
	})
	followed := make(chan error)
	wait.Go(func() {
		next := uint64(1)
		follower := open(t, servers, servers.Connect(t), Options{Replicas: 3})
		err := follower.Log(origin).Follow(ctx, 0, func(e replicated.Entry) error {
			if e.First != next || e.Epoch != 1 || len(e.Groups) != 1 {
				t.Errorf("the entry %d of epoch %d with %d groups follows %d", e.First, e.Epoch, len(e.Groups), next-1)
				return errEnough
			}
			if next++; next > count {
				return errEnough
			}
			return nil
		})
		followed <- err
	})

	reach := func(n uint64) {
		for first := range steps {
			if first >= n {
				return
			}
		}
	}
	reach(50)
	killed := leader(t, servers, stream)
	t.Logf("killing the leader s%d", killed)
	began := time.Now()
	servers.Kill(killed)
	reach(100)
	t.Logf("50 more after %v", time.Since(began))
	servers.Restart(t, killed)
	reach(150)
	began = time.Now()
	paused := (leader(t, servers, stream) + 1) % 3
	servers.Pause(paused)
	reach(250)
	t.Logf("100 more beside a paused server after %v", time.Since(began))
	servers.Resume(paused)
	reach(count)
	if err := <-followed; !errors.Is(err, errEnough) {
		t.Errorf("Follow: %v", err)
	}
}

// leader returns the number of the server that leads the stream.
func leader(t testing.TB, s *clustertest.Servers, stream *Stream) (number int) {
	t.Helper()
	testkit.Until(t, "the stream has a leader", func() bool {
		ctx, cancel := context.WithTimeout(patient(t), attempt)
		defer cancel()
		state, err := stream.State(ctx)
		if err != nil || len(state.Leader) != 2 {
			return false
		}
		number = int(state.Leader[1] - '0')
		return true
	})
	return number
}

// TestAnUnknownOutcomeIsFoundOut cuts the connection while messages are on their way, again and again.
func TestAnUnknownOutcomeIsFoundOut(t *testing.T) {
	servers := clustertest.Shared(t, 1)
	nc := servers.Connect(t)
	log := open(t, servers, nc, Options{}).Log(origin)
	const count = 200
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				_ = nc.ForceReconnect()
			}
		}
	})
	after := uint64(0)
	for first := uint64(1); first <= count; first++ {
		after = mustAppend(t, log, after, entry(1, first, 1))
	}
	close(stop)
	wait.Wait()
	for i, e := range take(t, log, 0, count) {
		if e.First != uint64(i+1) {
			t.Fatalf("the entry %d is at the place of %d", e.First, i+1)
		}
	}
}

func TestAppendEndsWithItsContext(t *testing.T) {
	servers := clustertest.Start(t, 1)
	log := open(t, servers, servers.Connect(t), Options{}).Log(origin)
	after := mustAppend(t, log, 0, entry(1, 1, 1))
	servers.Kill(0)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := log.Append(ctx, after, entry(1, 2, 1)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnknown) {
		t.Errorf("Append: %v; want an unknown outcome", err)
	}
	servers.Restart(t, 0)
	last, err := log.Last(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	// It may have arrived after all.
	mustAppend(t, log, last.Sequence, entry(1, last.Next(), 1))
}

func TestAClosedConnectionIsAnError(t *testing.T) {
	servers := clustertest.Shared(t, 1)
	nc := servers.Connect(t)
	log := open(t, servers, nc, Options{}).Log(origin)
	ended := make(chan error)
	go func() { ended <- log.Follow(t.Context(), 0, nil) }()
	nc.Close()
	if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Follow: %v", err)
	}
	if _, err := log.Append(t.Context(), 0, entry(1, 1, 1)); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Append: %v", err)
	}
	if _, err := log.Last(t.Context()); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Last: %v", err)
	}
}
