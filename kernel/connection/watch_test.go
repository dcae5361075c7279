package connection

import (
	"testing"
	"testing/synctest"
	"time"
)

// The timer's goroutine looks at a call that is about to end while the next call, with a
// nearer deadline, sets the timer. The last of the two must not move the timer away.
func TestWatchIsNeverPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := &Connection{begun: start}
		c.watchUntil(start.Add(time.Second)) // by the next call
		c.watchUntil(start.Add(time.Hour))   // by the timer, for the call before
		if due := time.Duration(c.wake.Load()); due > time.Second {
			t.Errorf("the timer fires after %v", due)
		}
		c.stopTimer()
	})
}
