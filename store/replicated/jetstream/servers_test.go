package jetstream

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store/replicated"
)

// faults is how many faults the servers have in TestServersFail.
var faults = flag.Int("faults", 1, "")

// A history is what became of the entries of several owners.
type history struct {
	mu       sync.Mutex
	accepted map[uint64]string // the entries that Append has confirmed, by their sequence
	tried    map[string]bool   // all entries
	newest   uint64            // the largest sequence that Append has confirmed
	count    int
}

func nameOf(e replicated.Entry) string {
	if e.Begins() {
		return fmt.Sprintf("epoch %d", e.Epoch)
	}
	return string(e.Groups[0][:min(len(e.Groups[0]), 40)])
}

// append appends an entry, and notes what became of it.
func (h *history) append(ctx context.Context, t *testing.T, l replicated.Log, after uint64, e replicated.Entry) (uint64, error) {
	name := nameOf(e)
	h.mu.Lock()
	h.tried[name] = true
	h.mu.Unlock()
	sequence, err := l.Append(ctx, after, e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		if other, taken := h.accepted[sequence]; taken {
			t.Errorf("%q and %q were both accepted with the sequence %d", name, other, sequence)
		}
		h.accepted[sequence] = name
		h.newest = max(h.newest, sequence)
		h.count++
	}
	return sequence, err
}

// own owns the log again and again: it begins an epoch, and appends entries until another owner deposes it.
func (h *history) own(ctx context.Context, t *testing.T, l replicated.Log, owner int) {
	for ctx.Err() == nil {
		h.mu.Lock()
		newest := h.newest
		h.mu.Unlock()
		last, err := l.Last(ctx)
		if err != nil {
			continue
		}
		if last.Sequence < newest {
			t.Errorf("the last entry is %d, after %d was accepted", last.Sequence, newest)
		}
		epoch, first := last.Epoch+1, last.Next() // the other owner may begin the same epoch
		after, err := h.append(ctx, t, l, last.Sequence, replicated.Entry{Epoch: epoch, First: first})
		for n := 0; err == nil && n < 100; n++ {
			e := replicated.Entry{Epoch: epoch, First: first, Groups: [][]byte{fmt.Appendf(nil, "%d by %d after %d", first, owner, after)}}
			if n%40 == 39 {
				e.Groups = append(e.Groups, make([]byte, 1<<20)) // by the object store
			}
			after, err = h.append(ctx, t, l, after, e)
			first = e.Next()
		}
		if err != nil && !errors.Is(err, replicated.ErrDeposed) && ctx.Err() == nil {
			t.Errorf("Append: %v", err)
		}
	}
}

// TestServersFail has two owners that depose each other, and a follower, while servers are killed and paused: an entry
// that was accepted is in the log once, the entries that weren't are there at most once, the last entry is never older
// than one that was accepted before, and nothing is missing for the follower.
func TestServersFail(t *testing.T) {
	servers := clustertest.Start(t, 3)
	stream := open(t, servers, servers.Connect(t), Options{Replicas: 3})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &history{accepted: make(map[uint64]string), tried: make(map[string]bool)}
	var owners, follower sync.WaitGroup
	for owner := range 2 {
		log := open(t, servers, servers.Connect(t), Options{Replicas: 3}).Log(origin)
		owners.Go(func() { h.own(ctx, t, log, owner) })
	}
	followed := make(map[uint64]string)
	end := make(chan uint64, 1)
	follower.Go(func() {
		log, last := open(t, servers, servers.Connect(t), Options{Replicas: 3}).Log(origin), uint64(1<<62)
		err := log.Follow(t.Context(), 0, func(e replicated.Entry) error {
			select {
			case last = <-end:
			default:
			}
			if _, again := followed[e.Sequence]; again {
				t.Errorf("the entry %d was seen again", e.Sequence)
			}
			if followed[e.Sequence] = nameOf(e); e.Sequence >= last {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Errorf("Follow: %v", err)
		}
	})
	more := func(n int) {
		h.mu.Lock()
		count := h.count
		h.mu.Unlock()
		testkit.Until(t, "entries are accepted", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.count >= count+n
		})
	}
	more(50)
	random := rand.New(rand.NewPCG(1, uint64(*faults)))
	for n := range *faults {
		kind := n
		if n >= 5 {
			kind = random.IntN(5)
		}
		at, began := leader(t, servers, stream), time.Now()
		switch kind {
		case 0:
			servers.Kill(at)
			more(50)
			servers.Restart(t, at)
		case 1:
			at = (at + 1) % 3
			servers.Pause(at)
			more(50)
			servers.Resume(at)
		case 2: // a leader that was cut off, and comes back as if nothing had happened
			servers.Pause(at)
			more(50)
			servers.Resume(at)
		case 3:
			for i := range 3 {
				servers.Kill(i)
			}
			for i := range 3 {
				servers.Restart(t, i)
			}
		case 4: // the second majority has one server of the first
			servers.Kill((at + 1) % 3)
			more(20)
			servers.Kill((at + 2) % 3)
			servers.Restart(t, (at+1)%3)
			more(50)
			servers.Restart(t, (at+2)%3)
		}
		more(50)
		t.Logf("fault %d of kind %d: 50 entries after %v", n, kind, time.Since(began))
	}
	cancel()
	owners.Wait()
	log := stream.Log(origin)
	last, err := log.Last(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	end <- last.Sequence
	mustAppend(t, log, last.Sequence, replicated.Entry{Epoch: last.Epoch + 1, First: last.Next()})
	follower.Wait()
	seen := make(map[string]bool)
	for sequence, name := range followed {
		if seen[name] {
			t.Errorf("%q is in the log twice", name)
		}
		if seen[name] = true; !h.tried[name] && sequence <= last.Sequence {
			t.Errorf("%q is in the log, and no owner has appended it", name)
		}
	}
	for sequence, name := range h.accepted {
		if followed[sequence] != name {
			t.Errorf("%q was accepted with the sequence %d, which has %q", name, sequence, followed[sequence])
		}
	}
	t.Logf("%d entries were accepted, and %d are in the log", h.count, len(followed))
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
