package daemon

import (
	"context"
	"sync"
	"time"
)

// rates measures how fast a counter has grown in the last second and minute, from a sample per
// second.
type rates struct {
	mu      sync.Mutex
	samples [62]sample // a ring: a minute, and one sample on each side of it
	n       int        // samples taken so far
}

type sample struct {
	at    time.Time
	total uint64
}

// run takes samples until ctx is done.
func (r *rates) run(ctx context.Context, total func() uint64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	r.take(time.Now(), total())
	for {
		select {
		case now := <-tick.C:
			r.take(now, total())
		case <-ctx.Done():
			return
		}
	}
}

func (r *rates) take(at time.Time, total uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.n%len(r.samples)] = sample{at, total}
	r.n++
}

// over returns by how much the counter has grown over a window of time that ends now.
func (r *rates) over(window time.Duration, now time.Time, total uint64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Use the newest sample that is as old as the window, or else the oldest sample.
	for i := r.n - 1; i >= 0 && i >= r.n-len(r.samples); i-- {
		s := r.samples[i%len(r.samples)]
		age := now.Sub(s.at)
		if oldest := i == 0 || i == r.n-len(r.samples); age < window && !oldest {
			continue
		}
		grown := float64(total - s.total)
		if age > window {
			grown *= float64(window) / float64(age)
		}
		return grown
	}
	return 0
}
