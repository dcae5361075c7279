package unix

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// holds reports whether a process, by its number here, holds the lock of a file. The number that the file has
// may be that of another process in a container, so it is not enough to send a signal to.
func holds(pid int, f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, nil
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return false, err
	}
	defer func() { _ = locks.Close() }()
	return listsLock(locks, pid, stat.Ino)
}

// listsLock looks for the lock of a process in the list that Linux keeps:
//
//	7: FLOCK  ADVISORY  WRITE 4711 00:2e:1234 0 EOF
//
// The device is not compared: some file systems have one number here and another one there.
func listsLock(locks io.Reader, pid int, inode uint64) (bool, error) {
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[3] != "WRITE" || fields[4] != strconv.Itoa(pid) {
			continue
		}
		file := strings.Split(fields[5], ":")
		if file[len(file)-1] == strconv.FormatUint(inode, 10) {
			return true, nil
		}
	}
	return false, lines.Err()
}

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
