package vfs

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// flat is a tree that is given by the names of its files.
type flat []string

// directory reports whether some name is below a directory.
func (f flat) directory(dir string) bool {
	return dir == "" || slices.ContainsFunc(f, func(name string) bool { return strings.HasPrefix(name, dir+"/") })
}

// children lists what is directly in a directory, from a name on.
func (f flat) children(dir, from string) []Info {
	if dir != "" {
		dir += "/"
	}
	keys := make([]string, 0, len(f))
	for _, name := range f {
		rest, ok := strings.CutPrefix(name, dir)
		if !ok {
			continue
		}
		if first, _, below := strings.Cut(rest, "/"); below {
			rest = first + "/"
		}
		if compare(rest, from) >= 0 {
			keys = append(keys, rest)
		}
	}
	slices.SortFunc(keys, compare)
	keys = slices.Compact(keys)
	infos := make([]Info, 0, len(keys))
	for _, key := range keys {
		name, isDir := strings.CutSuffix(key, "/")
		infos = append(infos, Info{Name: name, Dir: isDir})
	}
	return infos
}

// digest is the version of a content that has no other.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}
