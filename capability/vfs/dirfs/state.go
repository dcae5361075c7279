package dirfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kernos/capability/vfs"
)

// state is what a file of this machine was at one moment.
type state struct {
	mode     fs.FileMode
	size     int64
	modified time.Time
	inode    uint64 // another one for a file that took its place
}

func stateOf(info fs.FileInfo) state {
	s := state{mode: info.Mode(), size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = uint64(sys.Ino)
	}
	return s
}

// stateIn returns what is under a name in a directory that is open; of a link, the link itself.
func stateIn(dir *os.File, name string) (s state, err error) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return s, err
	}
	var found unix.Stat_t
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.Fstatat(int(fd), name, &found, unix.AT_SYMLINK_NOFOLLOW) })
	if err = errors.Join(err, failed); err != nil {
		return s, err
	}
	s = state{size: found.Size, modified: time.Unix(found.Mtim.Unix()), inode: uint64(found.Ino), mode: fs.FileMode(found.Mode & 0o777)}
	switch found.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		s.mode |= fs.ModeDir
	default:
		s.mode |= fs.ModeIrregular
	}
	return s, nil
}

// version is made of what changes when the content of a file does.
func (s state) version() string {
	b := make([]byte, 0, 40)
	b = strconv.AppendInt(b, s.modified.UnixNano(), 36)
	b = strconv.AppendInt(append(b, '-'), s.size, 36)
	b = strconv.AppendUint(append(b, '-'), s.inode, 36)
	if s.mode&0o111 != 0 { // a tool that may no longer be executed has another version
		b = append(b, 'x')
	}
	return string(b)
}

func (s state) info() (vfs.Info, error) {
	i := vfs.Info{Dir: s.mode.IsDir(), Modified: s.modified}
	switch {
	case i.Dir:
	case s.mode.IsRegular():
		i.Size, i.Version = s.size, s.version()
		i.Executable = s.mode&0o111 != 0
	default:
		return vfs.Info{}, vfs.ErrIrregular
	}
	return i, nil
}
