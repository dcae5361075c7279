//go:build darwin || freebsd

package unix

import (
	"encoding/json"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// holds reports whether a process, by its number here, holds the lock of a file. These
// systems do not show which process does; the file names it, and a number means the same process everywhere.
func holds(pid int, f *os.File) (bool, error) {
	if flock(f, unix.LOCK_SH) == nil {
		return false, nil
	}
	var info Info
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxInfo))
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	return err == nil && info.PID == pid, err
}

// credentials returns the user who is at the other end of a socket.
func credentials(fd int) (uid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}

// hungUp waits until the other end of a socket, which sends nothing more, does not read
// either. These systems don't distinguish that from a half-closed socket, so it never comes to
// that: a deadline of the socket ends the wait.
func hungUp(c syscall.RawConn) bool {
	return c.Read(func(uintptr) bool { return false }) == nil
}
