package cluster

import (
	"testing"
	"time"
)

// L1: the lease of a machine that slept is over when it wakes up, and moving the wall clock doesn't change it.
func TestTheClockRunsWhileTheMachineSleeps(t *testing.T) {
	var slept time.Duration
	calls := 0
	w := &watch{sleep: func() time.Duration { calls++; return slept }}
	at := func(want, monotonic, wall time.Duration) {
		t.Helper()
		if got := w.at(monotonic, int64(wall)); got != want {
			t.Errorf("the time is %v, not %v", got, want)
		}
	}
	at(time.Second, time.Second, time.Second)
	at(2*time.Second, 2*time.Second, time.Hour)  // set forward
	at(3*time.Second, 3*time.Second, -time.Hour) // set back
	if calls != 2 {
		t.Errorf("the system was asked %d times", calls)
	}
	slept = time.Minute
	at(64*time.Second, 4*time.Second, -time.Hour+61*time.Second)
	at(65*time.Second, 5*time.Second, -time.Hour+62*time.Second)
	if calls != 3 {
		t.Errorf("the system was asked %d times", calls)
	}
	now := monotonic()
	if first, second := now(), now(); first < 0 || second < first {
		t.Errorf("the clock has %v after %v", second, first)
	}
}

func BenchmarkHolds(b *testing.B) {
	l := &lease{now: monotonic()}
	l.extend(time.Hour)
	for b.Loop() {
		if l.Holds() != nil {
			b.Fatal("it doesn't hold")
		}
	}
}
