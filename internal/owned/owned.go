// Package owned checks that a file or a directory is in the hands of its user alone, before
// what is in it is obeyed.
package owned

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Check returns nil if no other user, except root, can change what info describes: it belongs
// to this user or to root, and neither its group nor others may write it. The error reads on
// after the path, as in "belongs to another user".
func Check(info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() && stat.Uid != 0 {
		return fmt.Errorf("belongs to another user (number %d)", stat.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("may be written by other users (mode %04o); take that away with chmod go-w", mode)
	}
	return nil
}
