package main

import (
	"context"
	"runtime/metrics"
	"time"
)

const (
	// quiet is how long there must be next to nothing to do before a daemon is at rest.
	quiet = 3 * time.Second

	// What is allocated tells how much there was to do: nextToNothing in the time above,
	// and worthIt for what is left behind to be worth a collection.
	nextToNothing = 1 << 20
	worthIt       = 4 << 20
)

// rest gives memory that work has left behind back to the system when the work is over, as
// long as ctx lasts.
//
// The runtime does so too, but only after the next collection, and a daemon that has
// nothing to do collects nothing.
func rest(ctx context.Context, allocated func() uint64, free func()) {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	last := allocated()
	rested := last
	for {
		select {
		case <-tick.C:
			now := allocated()
			if now-last < nextToNothing && now-rested > worthIt {
				free()
				rested = now
			}
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// allocated is how many bytes this process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
