package unix

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// credentials returns the user who is at the other end of a socket.
func credentials(fd int) (uid int, err error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}

// hungUp waits until the other end of a socket, which sends nothing more, does not read
// either, and reports whether it came to that. A deadline of the socket ends the wait.
func hungUp(c syscall.RawConn) bool {
	gone := false
	err := c.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd)}} // hanging up is always reported
		_, _ = retry(func() (int, error) { return unix.Poll(poll, 0) })
		gone = poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		return gone
	})
	return err == nil && gone
}
