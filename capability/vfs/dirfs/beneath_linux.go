package dirfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Linux can follow a path below a directory in one step, where os.Root takes one for each
// segment. The rules are the same. Only a success counts: if it is refused, for whatever
// reason, os.Root is asked, and its error is the one that is told.

// beneath looks at what a name below a directory leads to.
func beneath(dir *os.File, name string) (s state, ok bool) {
	fd, ok := openat2(dir, name, unix.O_PATH)
	if !ok {
		return state{}, false
	}
	defer func() { _ = unix.Close(fd) }()
	var found unix.Stat_t
	if unix.Fstat(fd, &found) != nil {
		return state{}, false
	}
	s = state{size: found.Size, modified: time.Unix(found.Mtim.Unix()), inode: found.Ino, mode: fs.FileMode(found.Mode & 0o777)}
	switch found.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		s.mode |= fs.ModeDir
	default:
		s.mode |= fs.ModeIrregular
	}
	return s, true
}

// openBeneath opens a file or a directory below a directory for reading.
func openBeneath(dir *os.File, name string) (*os.File, bool) {
	fd, ok := openat2(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if !ok {
		return nil, false
	}
	// Some file systems make the runtime ask for the kind of a directory's entries by name.
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), true
}

func openat2(dir *os.File, name string, flags uint64) (fd int, ok bool) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return 0, false
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	var refused error
	err = conn.Control(func(at uintptr) { fd, refused = unix.Openat2(int(at), local(name), &how) })
	return fd, err == nil && refused == nil
}
