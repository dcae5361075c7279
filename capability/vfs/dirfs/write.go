package dirfs

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"kernos/capability/vfs"
)

// newPrefix begins the names of files that are not whole yet.
const newPrefix = ".kernos-new-"

var seed = maphash.MakeSeed()

func (d *directory) lock(name string) *sync.Mutex {
	return &d.writing[maphash.String(seed, name)%uint64(len(d.writing))]
}

// Write implements [vfs.Writer]: the content goes to a file beside the one that is meant, which
// then takes its name. An existing file keeps its mode.
func (d *directory) Write(ctx context.Context, name string, data []byte, expect vfs.Expect) (string, error) {
	o, err := d.at(name)
	if err != nil {
		return "", err
	}
	lock := d.lock(name)
	lock.Lock()
	defer lock.Unlock()
	dir, err := o.pin(ctx, path.Dir(name), true)
	if err != nil {
		return "", guarded(o.refused(ctx, path.Dir(name), err))
	}
	defer func() { _ = dir.Close() }()
	return writeIn(dir, path.Base(name), data, expect)
}

// writeIn is Write in a directory that is pinned.
func writeIn(root *os.Root, name string, data []byte, expect vfs.Expect) (string, error) {
	old, err := root.Lstat(local(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old, err = nil, nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		err = vfs.ErrName
	case err == nil:
		err = replaceable(old)
	}
	if err == nil {
		err = expect.Check(version(old))
	}
	if err != nil {
		return "", err
	}
	temporary := newPrefix + rand.Text()
	info, err := writeNew(root, temporary, data, old)
	if err == nil {
		err = place(root, temporary, name, old == nil && expect == vfs.Absent)
	}
	if err != nil {
		if removeErr := root.Remove(local(temporary)); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return "", err
	}
	return version(info), nil
}

// replaceable refuses what a file must not take the place of: a write is a rename, which would replace a link.
func replaceable(old fs.FileInfo) error {
	if old.Mode()&fs.ModeSymlink != 0 {
		return vfs.ErrLink
	}
	if err := regular(old.Mode()); err != nil {
		return err
	}
	if old.Mode().Perm()&0o222 == 0 { // renaming would not ask
		return fs.ErrPermission
	}
	return nil
}

// version returns the version of a file that may not be there.
func version(info fs.FileInfo) string {
	if info == nil {
		return string(vfs.Absent)
	}
	return stateOf(info).version()
}

// writeNew makes a file with some content, on disk, and returns what it is.
func writeNew(root *os.Root, name string, data []byte, like fs.FileInfo) (info fs.FileInfo, err error) {
	f, err := root.OpenFile(local(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	if like != nil {
		err = f.Chmod(like.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		info, err = f.Stat()
	}
	return info, errors.Join(err, f.Close())
}

// place gives a file its name so that it lasts. If it must be the first of that name, a file
// that another program has made since is not replaced.
func place(root *os.Root, temporary, name string, first bool) error {
	err := errors.ErrUnsupported
	if first {
		err = root.Link(local(temporary), local(name))
	}
	switch {
	case err == nil:
		err = root.Remove(local(temporary))
	case errors.Is(err, fs.ErrExist):
		actual := "unknown"
		if info, err := root.Lstat(local(name)); err == nil {
			actual = version(info)
		}
		return vfs.Absent.Check(actual)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EPERM): // no hard links here
		err = root.Rename(local(temporary), local(name))
	}
	if err != nil {
		return err
	}
	return syncDir(root)
}

func syncDir(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

// Delete implements [vfs.Writer]. Of a link, the link goes.
func (d *directory) Delete(ctx context.Context, name string, recursive bool) error {
	o, err := d.at(name)
	if err != nil {
		return err
	}
	lock := d.lock(name)
	lock.Lock()
	defer lock.Unlock()
	root, err := o.pin(ctx, path.Dir(name), false)
	if errors.Is(err, vfs.ErrAbove) || errors.Is(err, vfs.ErrName) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return guarded(o.refused(ctx, path.Dir(name), err))
	}
	defer func() { _ = root.Close() }()
	name = path.Base(name)
	info, err := root.Lstat(local(name))
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := o.holdsHome(root, name); err != nil {
			return err
		}
	}
	if info.IsDir() && recursive {
		err = root.RemoveAll(local(name))
	} else {
		err = root.Remove(local(name))
	}
	if err != nil {
		return err
	}
	return syncDir(root)
}
