package connection

import (
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
)

// The timer's goroutine looks at a call that is about to end while the next call, with a
// nearer deadline, sets the timer. The last of the two must not move the timer away.
func TestWatchIsNeverPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, err := kernel.NewRegistry()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		c := New(kernel.New(registry, nil), nil, nil)
		c.watchUntil(start.Add(time.Second)) // by the next call
		c.watchUntil(start.Add(time.Hour))   // by the timer, for the call before
		if due := time.Duration(c.wake.Load()); due > time.Second {
			t.Errorf("the timer fires after %v", due)
		}
		c.stopTimer()
	})
}
