package cluster

import (
	"sync/atomic"
	"time"
)

// A watch is a clock that knows how long the machine has slept. Go's monotonic clock stands still then, and the system's
// other one costs five times as much (200 ns, for each answer of an owner), so the watch reads that one only when the wall
// clock has moved against the monotonic clock: it does so in each sleep, and otherwise if a person or NTP sets it, which
// then changes nothing.
type watch struct {
	begin time.Time
	sleep func() (total time.Duration) // since some moment
	first time.Duration                // what sleep returned at the beginning
	shift atomic.Int64                 // of the wall clock against the monotonic one, when sleep was called last
	slept atomic.Int64                 // since the beginning
}

// noticed is how far the wall clock moves before the watch looks for a sleep. It is less than the margin of any lease.
const noticed = 20 * time.Millisecond

// monotonic returns a clock that begins now.
func monotonic() clock {
	w := &watch{begin: time.Now(), sleep: asleep, first: asleep()}
	w.shift.Store(w.begin.UnixNano())
	return func() time.Duration {
		now := time.Now()
		return w.at(now.Sub(w.begin), now.UnixNano())
	}
}

// at returns the time at a moment of the monotonic clock and the wall clock.
func (w *watch) at(monotonic time.Duration, wall int64) time.Duration {
	shift := wall - int64(monotonic)
	if moved := time.Duration(shift - w.shift.Load()); moved > noticed || moved < -noticed {
		w.slept.Store(int64(w.sleep() - w.first))
		w.shift.Store(shift)
	}
	return monotonic + time.Duration(w.slept.Load())
}
