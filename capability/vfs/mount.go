package vfs

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Mount puts a driver into the tree at a path such as /memory.
type Mount struct {
	Path   string
	Driver Driver
}

// arrange checks mounts, brings their paths into the normal form without slashes around them,
// and sorts them so that the first that matches is the right one.
func arrange(given []Mount) ([]Mount, error) {
	mounts := make([]Mount, 0, len(given))
	for _, m := range given {
		p, err := parse(path.Join("/", m.Path), "")
		if err != nil {
			return nil, fmt.Errorf("mount %q: %w", m.Path, err)
		}
		if m.Driver == nil {
			return nil, fmt.Errorf("mount %q has no driver", m.Path)
		}
		if slices.ContainsFunc(mounts, func(o Mount) bool { return o.Path == p }) {
			return nil, fmt.Errorf("two mounts at /%s: give one of them another path", p)
		}
		mounts = append(mounts, Mount{p, m.Driver})
	}
	slices.SortStableFunc(mounts, func(a, b Mount) int { return len(b.Path) - len(a.Path) })
	return mounts, nil
}

// below returns the name of a path within another one, and whether it is there.
func below(p, top string) (name string, ok bool) {
	if top == "" {
		return p, true
	}
	rest, ok := strings.CutPrefix(p, top)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// find returns the mount of a path, nil if there is none, and the name in it.
func (t *Tree) find(p string) (*Mount, string) {
	for i := range t.mounts {
		if name, ok := below(p, t.mounts[i].Path); ok {
			return &t.mounts[i], name
		}
	}
	return nil, ""
}

// isPoint reports whether something is mounted below a path: then it is a directory.
func (t *Tree) isPoint(p string) bool {
	return slices.ContainsFunc(t.mounts, func(m Mount) bool {
		name, ok := below(m.Path, p)
		return ok && name != ""
	})
}

// mountedBelow lists the next segments of the paths of mounts below a path, sorted.
func (t *Tree) mountedBelow(p string) []string {
	var names []string
	for _, m := range t.mounts {
		if name, ok := below(m.Path, p); ok && name != "" {
			first, _, _ := strings.Cut(name, "/")
			names = append(names, first)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
