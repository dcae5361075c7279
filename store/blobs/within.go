package blobs

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Within reports whether a path leads to a directory or into it, by whatever link or spelling,
// and whether or not something is there.
func Within(dir, path string) bool { return within(dir, withoutLinks(path), nil) }

// within is Within for a path without links. Directories are told by what they are, and not by
// their names, which may have several spellings. On the way up, except may say of a directory
// that what is in it does not count.
func within(dir, path string, except func(at string, info fs.FileInfo) bool) bool {
	home, err := os.Stat(dir)
	if err != nil { // nothing else leads to what is not there
		inner, err := filepath.Rel(withoutLinks(dir), path)
		return err == nil && filepath.IsLocal(inner)
	}
	for at := path; ; {
		if info, err := os.Stat(at); err == nil {
			if except != nil && except(at, info) {
				return false
			}
			if os.SameFile(info, home) {
				return true
			}
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
