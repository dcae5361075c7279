package backoff_test

import (
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/backoff"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.Backoff{First: 10 * time.Millisecond, Longest: 35 * time.Millisecond}
		measure := func() time.Duration {
			start := time.Now()
			if !b.Wait(nil) {
				t.Fatal("nothing could have ended the pause")
			}
			return time.Since(start)
		}
		for _, want := range []time.Duration{10, 20, 35, 35} {
			if got := measure(); got != want*time.Millisecond {
				t.Errorf("a pause of %v, want %v", got, want*time.Millisecond)
			}
		}
		b.Reset()
		if got := measure(); got != 10*time.Millisecond {
			t.Errorf("the first pause after a reset took %v, want 10ms", got)
		}
	})
}

func TestAPauseEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		close(done)
		b := backoff.Backoff{First: time.Hour, Longest: time.Hour}
		if b.Wait(done) {
			t.Error("the pause was not cut short")
		}
	})
}

func TestJitterStaysWithinHalfOfThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 1000 {
			b := backoff.Backoff{First: time.Second, Longest: time.Second, Jitter: true}
			start := time.Now()
			b.Wait(nil)
			if took := time.Since(start); took < time.Second/2 || took >= 3*time.Second/2 {
				t.Fatalf("a pause of %v, want 0.5 s to 1.5 s", took)
			}
		}
	})
}
