package blobs

import (
	"os"
	"path/filepath"
)

// Within reports whether a path leads to a directory or into it, by whatever link or spelling,
// and whether or not something is there.
func Within(dir, path string) bool { return within(dir, withoutLinks(path)) }

// within is Within for a path without links. Directories are compared by device and inode, and not by
// their names, which may have several spellings.
func within(dir, path string) bool {
	home, err := os.Stat(dir)
	if err != nil { // nothing else leads to what is not there
		inner, err := filepath.Rel(withoutLinks(dir), path)
		return err == nil && filepath.IsLocal(inner)
	}
	for at := path; ; {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, home) {
			return true
		}
		up := filepath.Dir(at)
		if up == at {
			return false
		}
		at = up
	}
}

// withoutLinks returns a path without symbolic links in it, as far as it leads to something.
func withoutLinks(path string) string {
	for at, rest := path, ""; ; {
		if to, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(to, rest)
		}
		up := filepath.Dir(at)
		if up == at {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
		at = up
	}
}
