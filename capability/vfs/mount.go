package vfs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"kernos/message"
)

// A Mount puts a driver into the tree at a path such as /memory.
type Mount struct {
	Path   string
	Driver Driver
}

// mount is a Mount whose path is in its normal form: no slashes around it.
type mount struct {
	path   string
	driver Driver
	can    Can
}

// arrange checks mounts and sorts them so that the first that matches is the right one.
func arrange(given []Mount) ([]mount, error) {
	mounts := make([]mount, 0, len(given))
	for _, m := range given {
		p, err := parse(path.Join("/", m.Path), "")
		if err != nil {
			return nil, fmt.Errorf("mount %q: %w", m.Path, err)
		}
		if m.Driver == nil {
			return nil, fmt.Errorf("mount %q has no driver", m.Path)
		}
		if slices.ContainsFunc(mounts, func(o mount) bool { return o.path == p }) {
			return nil, fmt.Errorf("two mounts at /%s: give one of them another path", p)
		}
		mounts = append(mounts, mount{path: p, driver: m.Driver, can: m.Driver.Can()})
	}
	slices.SortStableFunc(mounts, func(a, b mount) int { return len(b.path) - len(a.path) })
	return mounts, nil
}

// holds reports whether a path is in the mount, and what it is called there.
func (m *mount) holds(p string) (name string, ok bool) {
	if m.path == "" {
		return p, true
	}
	rest, ok := strings.CutPrefix(p, m.path)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// find returns the mount of a path, nil if there is none, and the name in it.
func (t *Tree) find(p string) (*mount, string) {
	for i := range t.mounts {
		if name, ok := t.mounts[i].holds(p); ok {
			return &t.mounts[i], name
		}
	}
	return nil, ""
}

// isPoint reports whether something is mounted below a path: then it is a directory.
func (t *Tree) isPoint(p string) bool {
	for i := range t.mounts {
		at := t.mounts[i].path
		if len(at) > len(p) && at[:len(p)] == p && (p == "" || at[len(p)] == '/') {
			return true
		}
	}
	return false
}

// mountedBelow lists the next segments of the paths of mounts below a path, sorted.
func (t *Tree) mountedBelow(p string) []string {
	var names []string
	if p != "" {
		p += "/"
	}
	for i := range t.mounts {
		if rest, ok := strings.CutPrefix(t.mounts[i].path, p); ok && rest != "" {
			first, _, _ := strings.Cut(rest, "/")
			names = append(names, first)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unmounted is the error for a path that no mount has.
func unmounted(p string) error {
	return message.Errorf(502, "VFS fetch failed: no matching mount for os:///%s and root is undefined", message.Clip(p, 400))
}
