package dirfs

import (
	"io/fs"
	"strconv"
	"syscall"
	"time"

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

// version is made of what changes when the content of a file does.
func (s state) version() string {
	b := make([]byte, 0, 40)
	b = strconv.AppendInt(b, s.modified.UnixNano(), 36)
	b = strconv.AppendInt(append(b, '-'), s.size, 36)
	b = strconv.AppendUint(append(b, '-'), s.inode, 36)
	if s.mode&0o111 != 0 { // a tool that may not be executed any more is another one
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
