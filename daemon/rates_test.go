package daemon

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestRates(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	r := new(rates)
	wants := func(when string, seconds float64, total uint64, second, minute float64) {
		t.Helper()
		if got := r.over(time.Second, at(seconds), total); math.Abs(got-second) > 1e-9 {
			t.Errorf("%s: %v in a second, want %v", when, got, second)
		}
		if got := r.over(time.Minute, at(seconds), total); math.Abs(got-minute) > 1e-9 {
			t.Errorf("%s: %v in a minute, want %v", when, got, minute)
		}
	}
	wants("without a sample", 0, 5, 0, 0)
	r.take(at(0), 0)
	wants("at once", 0.2, 10, 10, 10)
	r.take(at(1), 10)
	r.take(at(2), 10)
	wants("after two seconds of silence", 2.5, 10, 0, 10)
	total := uint64(10)
	for s := 3; s <= 300; s++ {
		total += 3
		r.take(at(float64(s)), total)
	}
	wants("after five minutes of three a second", 300, total, 3, 180)
	// The sample is a second and a half old: a part of what it knows counts.
	wants("between two samples", 300.5, total+3, 4, 183*60/60.5)
}

func TestRatesLookOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, looked, ended := new(rates), 0, make(chan struct{})
		go func() {
			r.run(ctx, func() uint64 { looked++; return 0 })
			close(ended)
		}()
		time.Sleep(2*time.Minute + time.Millisecond)
		synctest.Wait()
		cancel()
		<-ended
		if looked != 121 || r.n != 121 {
			t.Errorf("it has looked %d times and taken %d samples", looked, r.n)
		}
	})
}
