package testkit

import (
	"sync/atomic"
	"time"
)

// A Clock runs ahead of the machine's clock by what a test has set. Its zero value shows the machine's time.
type Clock struct{ ahead atomic.Int64 }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Advance sets the clock forward, or back if d is negative.
func (c *Clock) Advance(d time.Duration) { c.ahead.Add(int64(d)) }
