package unix

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Terminate tells a process to end, as kill does, if it is the one that serves the socket at
// path: for a daemon that can't be asked. It is an error if it is another one that does, or
// if that can't be seen: a daemon may live in a container, where its number means another
// process than here.
func Terminate(path string, pid int) error {
	f, err := os.OpenFile(lockName(path), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// The process is the same from here on, even if it ends and its number is used again.
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if held, err := holds(pid, f); err != nil || !held {
		return errors.Join(fmt.Errorf("process %d is not seen to serve %s from here; end it where it runs", pid, path), err)
	}
	return p.Signal(syscall.SIGTERM)
}
