package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsReleasedAfterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work atomic.Uint64
		var freed atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			releaseMemory(ctx, work.Load, func() { freed.Add(1) })
			close(ended)
		}()
		wants := func(when string, times int64) {
			t.Helper()
			synctest.Wait()
			if freed := freed.Load(); freed != times {
				t.Errorf("%s: it was released %d times, want %d", when, freed, times)
			}
		}
		synctest.Wait()
		time.Sleep(time.Hour + time.Second) // between two looks
		wants("with nothing to do", 0)
		for range 10 {
			work.Add(worthBytes)
			time.Sleep(idleTime)
		}
		wants("while it works", 0)
		time.Sleep(2 * idleTime)
		wants("after that", 1)
		time.Sleep(time.Hour)
		wants("once is enough", 1)
		work.Add(worthBytes / 2)
		time.Sleep(2 * idleTime)
		wants("after little work", 1)
		work.Add(worthBytes)
		time.Sleep(2 * idleTime)
		wants("after more work", 2)
		cancel()
		<-ended
	})
}
