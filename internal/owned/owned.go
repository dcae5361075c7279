// Package owned checks that a file or a directory is in the hands of its user alone, before
// what is in it is obeyed.
package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// Above returns nil if no directory above an absolute path, which need not exist, lets other users put something else in the
// place of what is there: neither the group nor others may write the directory, or it is sticky, as /tmp is. Links are
// followed. The owners of the directories aren't checked: in a container, these may be users that it doesn't know. The error
// continues after the path, as the error of [Check] does.
func Above(path string) error {
	places := []string{filepath.Dir(path)}
	// A link may lead to a directory that has other ones above it.
	for real := path; ; real = filepath.Dir(real) {
		at, err := filepath.EvalSymlinks(real)
		if err == nil {
			places = append(places, filepath.Dir(at))
		}
		if err == nil || real == filepath.Dir(real) {
			break
		}
	}
	for _, at := range slices.Compact(places) {
		for ; ; at = filepath.Dir(at) {
			info, err := os.Stat(at)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // it is made below what exists, or can't be
			case err != nil:
				return fmt.Errorf("is in %s, which can't be looked at: %w", at, err)
			case info.Mode()&fs.ModeSticky == 0 && info.Mode().Perm()&0o022 != 0:
				return fmt.Errorf("is in %s, which may be written by other users (mode %04o); take that away with chmod go-w %[1]s", at, info.Mode().Perm())
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return nil
}
