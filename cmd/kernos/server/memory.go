package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"kernos/store/pebble"
)

const (
	// A daemon is idle if it allocates less than idleBytes in idleTime. A collection is worth
	// its cost if worthBytes were allocated since the last one.
	idleTime   = 3 * time.Second
	idleBytes  = 1 << 20
	worthBytes = 4 << 20

	// Garbage is collected when it has grown to this many percent of what is alive. Without a
	// store almost nothing lives long, and collecting every 16 MB instead of every 4 costs some
	// memory and saves time. A process with a store of its own has more that lives long; one that ends
	// after its messages still gains a tenth by having more garbage than a daemon (daemonGarbage).
	StartGarbage  = 400
	inlineGarbage = 200
)

// releaseMemory returns memory to the operating system after each burst of work, until ctx is
// done. The runtime does so only after the next collection, and an idle daemon collects nothing.
func releaseMemory(ctx context.Context, allocated func() uint64, free func()) {
	tick := time.NewTicker(idleTime)
	defer tick.Stop()
	last := allocated()
	released := last
	for {
		select {
		case <-tick.C:
			now := allocated()
			if now-last < idleBytes && now-released > worthBytes {
				free()
				released = now
			}
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// SetGarbage sets how much garbage there may be, unless GOGC does.
func SetGarbage(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// daemonStore are the settings of the store of a daemon: while it is idle, which is most of its
// life, it is to have little memory of its own, about 30 MB after a burst of work. The pages of the
// program file, which the system shares and takes back, aren't counted.
var daemonStore = pebble.Options{CacheSize: 8 << 20, MemTableSize: 8 << 20}

// allocated returns how many bytes this process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
