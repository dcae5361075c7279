package attack

import (
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// opensAreCounted states that watchOpens counts.
const opensAreCounted = true

// watchOpens returns how often a file was opened, as the system reports it.
func watchOpens(t testing.TB, path string) func() int64 {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	return func() int64 {
		for buffer := make([]byte, 4096); ; {
			n, err := unix.Read(fd, buffer)
			switch {
			case n > 0:
				opened.Add(int64(n / unix.SizeofInotifyEvent))
			case errors.Is(err, unix.EINTR):
			default: // nothing more has happened
				return opened.Load()
			}
		}
	}
}
