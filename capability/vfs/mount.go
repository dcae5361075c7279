package vfs

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"kernos/message"
)

// A Mount puts a driver into the tree at a path such as /memory.
type Mount struct {
	Path   string
	Driver Driver
}

// Can says what a driver can do.
type Can struct{ Read, Write, Execute bool }

// String returns three signs, as ls does: r-x.
func (c Can) String() string {
	s := []byte("---")
	for i, ok := range []bool{c.Read, c.Write, c.Execute} {
		if ok {
			s[i] = "rwx"[i]
		}
	}
	return string(s)
}

// A Driver is what is behind a mount. It is asked only for what it says that it can, with
// names that have single slashes between their segments, none around them, and neither . nor
// ..; the name of its root is "". It is safe for concurrent use.
//
// Its errors are *message.Error for the caller, or wrap [fs.ErrNotExist],
// [fs.ErrPermission] or an error of the context. What else they say goes to the log.
type Driver interface {
	// Can says what the driver can do. It never changes.
	Can() Can

	// String says what is mounted, for people: directory /srv/os. No secrets.
	String() string

	// Read returns a file whole. The data belongs to the caller. The tree fills in the URI.
	Read(ctx context.Context, name string) (File, error)

	// Stat returns what is known of a file or a directory.
	Stat(ctx context.Context, name string) (Info, error)
}

// A Lister is a driver that can tell what is in a directory: its children, from a name on,
// with their names filled in and in the order of [compare]. Some are left out that no URI
// can name; they are told with the error [ErrUnnamed], and the listing goes on.
type Lister interface {
	List(ctx context.Context, name, from string) iter.Seq2[Info, error]
}

// A Writer is a driver that can be written to.
type Writer interface {
	// Write gives a file its content, whole or not at all, so that it lasts. Directories
	// above it are made. It returns the new version.
	Write(ctx context.Context, name string, data []byte, expect Expect) (version string, err error)

	// Delete removes a file, or an empty directory, or any directory if recursive.
	Delete(ctx context.Context, name string, recursive bool) error
}

// A Locator is a driver whose files are files of this machine.
type Locator interface {
	// Local returns the path of a file, which is not outside of the mount.
	Local(name string) (path string, ok bool)
}

// secretive is a driver under whose names secrets may be written by mistake.
type secretive interface {
	Secret(name string) bool
}

// Expect is what the version of a file must be for it to be written: "" means any, and
// [Absent] that the file must not exist.
type Expect string

// Absent is the version of a file that does not exist.
const Absent Expect = "none"

// A File is a file that was read.
type File struct {
	URI      string
	Data     []byte
	Version  string // another one when the content is another one
	Modified time.Time
}

// Info is what is known of a file or a directory without reading it.
type Info struct {
	URI        string
	Name       string // last segment of the URI
	Dir        bool
	Size       int64     // -1 if it is not known before it is read
	Version    string    // as in File; "" for a directory, and if it is not known
	Modified   time.Time // zero if it is not known
	Writable   bool      // the mount can be written to
	Executable bool      // a file that this machine can run
	Link       bool      // reached by a symbolic link
}

// key is what entries are ordered by: with it, a walk that goes down where a directory
// stands gives URIs in plain order.
func (i *Info) key() string {
	if i.Dir {
		return i.Name + "/"
	}
	return i.Name
}

// compare is the order of names in a listing.
func compare(a, b string) int { return strings.Compare(a, b) }

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
