//go:build !unix

package dirfs

import "io/fs"

// inode returns 0: there is no number to tell files apart.
func inode(fs.FileInfo) uint64 { return 0 }
