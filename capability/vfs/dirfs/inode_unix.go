//go:build unix

package dirfs

import (
	"io/fs"
	"syscall"
)

// inode returns the number of a file, which is another one for a file that took its place.
func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}
