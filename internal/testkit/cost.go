package testkit

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Cost returns how much processor time a function takes on its goroutine. Unlike what a clock
// measures, that does not include what other processes do on a busy machine.
func Cost(t testing.TB, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime(t)
	f()
	return threadTime(t) - start
}

// threadTime returns the processor time that the calling thread has used.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
