package dirfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kernos/store/blobs"
)

// private reports whether a name leads into the private directory, as [blobs.Within] does. It
// looks at the segments of the name only, as long as there is no link among them.
func (o *opened) private(name string) bool {
	if o.home == "" {
		return false
	}
	full := filepath.Join(o.path, local(name))
	home, err := os.Stat(o.home)
	if err != nil {
		return blobs.Within(o.home, full)
	}
	if o.inside {
		return true
	}
	for end := 0; end < len(name); end++ {
		if next := strings.IndexByte(name[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(name)
		}
		switch info, err := os.Lstat(filepath.Join(o.path, local(name[:end]))); {
		case err != nil || info.Mode()&fs.ModeSymlink != 0:
			return blobs.Within(o.home, full)
		case os.SameFile(info, home):
			return true
		}
	}
	return false
}

// holds reports whether the private directory is below what a name leads to.
func (o *opened) holds(name string) bool {
	return o.home != "" && blobs.Within(filepath.Join(o.path, local(name)), o.home)
}
