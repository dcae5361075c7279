package dirfs

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Linux can follow a path below a directory in one step, where os.Root takes one for each
// segment. The rules are the same. Only a success counts: if it is refused, for whatever
// reason, os.Root is asked, and its error is returned.

// inspectBeneath opens what a name below a directory leads to, to read its state only: that takes no right
// to read it, and a device or a pipe doesn't notice.
func inspectBeneath(dir *os.File, name string) (*os.File, bool) {
	return openat2(dir, name, unix.O_PATH)
}

// openBeneath opens a file or a directory below a directory for reading.
func openBeneath(dir *os.File, name string) (*os.File, bool) {
	return openat2(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
}

func openat2(dir *os.File, name string, flags uint64) (*os.File, bool) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return nil, false
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	var fd int
	var refused error
	err = conn.Control(func(at uintptr) { fd, refused = unix.Openat2(int(at), local(name), &how) })
	if err != nil || refused != nil {
		return nil, false
	}
	// Some file systems make the runtime ask for the kind of a directory's entries by name.
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), true
}
