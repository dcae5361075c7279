package dirfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"kernos/capability/vfs"
	"kernos/internal/fence"
	"kernos/store/blobs"
)

// leadsHome reports whether a name leads into a private directory at the moment, whether or not
// something is there. It looks at the segments of the name only, as long as there is no link
// among them. It is for a plain answer to an honest request; what is opened decides.
func (o *opened) leadsHome(name string) bool {
	if len(o.private) == 0 {
		return false
	}
	within := func() bool {
		full := filepath.Join(o.path, local(name))
		return slices.ContainsFunc(o.private, func(dir string) bool { return blobs.Within(dir, full) })
	}
	homes := make([]fs.FileInfo, len(o.private))
	for i, dir := range o.private {
		var err error
		if homes[i], err = os.Stat(dir); err != nil {
			return within()
		}
	}
	for end := 0; end < len(name); end++ {
		if next := strings.IndexByte(name[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(name)
		}
		info, err := os.Lstat(filepath.Join(o.path, local(name[:end])))
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return within()
		}
		if slices.ContainsFunc(homes, func(home fs.FileInfo) bool { return os.SameFile(info, home) }) {
			return true
		}
	}
	return o.private.CheckDir(o.dir) != nil
}

// guarded returns the error of a fence in words for the caller.
func guarded(err error) error {
	switch {
	case errors.Is(err, fence.ErrPrivate):
		return vfs.ErrPrivate
	case errors.Is(err, fence.ErrMoved):
		return vfs.ErrMoved
	}
	return err
}

// pin opens the directory of a name, for what is made or removed in it: it stays the same one,
// whatever its path leads to by then. If make is set, it is made with those above it. A private
// one is refused, and so is one that the caller reaches by a link only.
func (o *opened) pin(ctx context.Context, dir string, make bool) (*os.Root, error) {
	pinned, err := o.root.OpenRoot(local(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist) && make && dir != ".":
		if pinned, err = o.makeDir(ctx, dir); err != nil {
			return nil, err
		}
	case errors.Is(err, syscall.ENOTDIR):
		return nil, vfs.ErrAbove
	case errors.Is(err, syscall.ENAMETOOLONG):
		return nil, vfs.ErrName
	case err != nil:
		if info, statErr := o.root.Stat(local(dir)); statErr == nil && !info.IsDir() {
			err = vfs.ErrAbove
		}
		return nil, err
	}
	self, err := pinned.Open(".")
	if err == nil {
		err = errors.Join(o.private.CheckDir(self), o.lands(ctx, self, dir), self.Close())
	}
	if err != nil {
		_ = pinned.Close()
		return nil, guarded(err)
	}
	return pinned, nil
}

// makeDir makes a directory, and those above it, so that they last.
func (o *opened) makeDir(ctx context.Context, dir string) (*os.Root, error) {
	above, err := o.pin(ctx, path.Dir(dir), true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = above.Close() }()
	if err := above.Mkdir(path.Base(dir), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, syscall.ENAMETOOLONG) {
			return nil, vfs.ErrName
		}
		return nil, err
	}
	if err := syncDir(above); err != nil {
		return nil, err
	}
	return above.OpenRoot(path.Base(dir))
}

// holdsHome fails if a private directory is in a directory, which is named in a pinned one.
func (o *opened) holdsHome(pinned *os.Root, name string) error {
	dir, err := pinned.Open(name)
	if err != nil {
		return err
	}
	held, err := o.private.Below(dir)
	if err == nil && held {
		err = vfs.ErrHolds
	}
	if err == nil {
		err = guarded(o.private.CheckDir(dir))
	}
	return errors.Join(err, dir.Close())
}
