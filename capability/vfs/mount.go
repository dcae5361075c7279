package vfs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"kernos/kernel/principal"
	"kernos/message"
)

// A Mount puts a driver into the tree at a path such as /memory.
type Mount struct {
	Path   string
	Driver Driver
	Tokens Access
}

// Access is what callers may do in a mount that are not the owner. Nothing is executed in a
// mount that they may write.
type Access string

const (
	TokensRead  Access = "" // the default
	TokensWrite Access = "write"
	TokensNone  Access = "none"
)

// admit returns nil if a caller may read, or write, in a mount, or else a 403.
func (m *Mount) admit(p *principal.Principal, write bool) *message.Error {
	switch {
	case m == nil || p.IsOwner() || m.Tokens == TokensWrite || m.Tokens == TokensRead && !write:
		return nil
	case write:
		return message.Errorf(403, "The token %q may not write in the mount /%s, which is for the owner to write; the owner can open it to tokens: start the daemon with --mount /%s=…:tokens=write", p.Name(), m.Path, m.Path)
	}
	return message.Errorf(403, "The token %q may not read in the mount /%s, which is closed to tokens; the owner can open it: start the daemon without tokens=none in --mount /%s=…", p.Name(), m.Path, m.Path)
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
		mounts = append(mounts, Mount{p, m.Driver, m.Tokens})
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
