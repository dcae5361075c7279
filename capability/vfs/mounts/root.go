package mounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/message"
	"kernos/store/blobs"
)

// DefaultRoot returns the root of a tree without a configured one: the folder os of a directory
// as long as it exists, and the greeting otherwise. The folder can be written if it belongs to
// this user, and the first file that is written makes it. Private are directories of which
// nothing can be reached.
func DefaultRoot(dir string, private []string) (vfs.Mount, error) {
	r := &root{path: filepath.Join(dir, "os"), private: private, greeting: kernelfs.Greeting()}
	_, _, err := r.now()
	return vfs.Mount{Path: "/", Driver: r}, err
}

// A folder is the driver of a directory.
type folder interface {
	vfs.Driver
	vfs.Lister
	vfs.Writer
	vfs.Locator
	io.Closer
}

type root struct {
	path     string
	private  []string
	greeting vfs.Driver

	mu   sync.Mutex
	open folder // nil until it exists
}

// now returns the folder, nil if it doesn't exist, and whether it belongs to this user.
func (r *root) now() (f folder, own bool, err error) {
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("vfs: the folder os can't be looked at: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		own = int(stat.Uid) == os.Geteuid()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		d, err := dirfs.Open(r.path, dirfs.Options{Private: r.private})
		if err != nil {
			return nil, own, err
		}
		f, ok := d.(folder)
		if !ok {
			return nil, own, fmt.Errorf("vfs: the driver of the folder %s lacks an interface that a root needs", r.path)
		}
		r.open = f
	}
	return r.open, own, nil
}

// driver returns what the root shows now.
func (r *root) driver() (vfs.Driver, error) {
	f, _, err := r.now()
	if err != nil || f != nil {
		return f, err
	}
	return r.greeting, nil
}

func (r *root) Can() vfs.Can {
	f, own, err := r.now()
	can := vfs.Can{Read: true, Write: own, Execute: f != nil}
	if err == nil && !own {
		can.Because = fmt.Sprintf("%s belongs to another user; start the daemon with --mount /=%s to write there", r.path, r.path)
	}
	return can
}

func (r *root) String() string {
	if d, err := r.driver(); err == nil {
		return d.String()
	}
	return "directory " + r.path
}

func (r *root) Read(ctx context.Context, name string) (vfs.File, error) {
	d, err := r.driver()
	if err != nil {
		return vfs.File{}, err
	}
	return d.Read(ctx, name)
}

func (r *root) Stat(ctx context.Context, name string) (vfs.Info, error) {
	d, err := r.driver()
	if err != nil {
		return vfs.Info{}, err
	}
	return d.Stat(ctx, name)
}

// List implements [vfs.Lister].
func (r *root) List(ctx context.Context, name, from string) iter.Seq2[vfs.Info, error] {
	d, err := r.driver()
	if err != nil {
		return func(yield func(vfs.Info, error) bool) { yield(vfs.Info{}, err) }
	}
	l, ok := d.(vfs.Lister)
	if !ok {
		return func(yield func(vfs.Info, error) bool) { yield(vfs.Info{}, vfs.ErrUnlistable) }
	}
	return l.List(ctx, name, from)
}

// Write implements [vfs.Writer].
func (r *root) Write(ctx context.Context, name string, data []byte, expect vfs.Expect) (string, error) {
	f, _, err := r.now()
	if err == nil && f == nil {
		if err := r.makeFolder(); err != nil {
			return "", err
		}
		f, _, err = r.now()
	}
	if err != nil {
		return "", err
	}
	return f.Write(ctx, name, data, expect)
}

// makeFolder makes the folder, unless it would be private.
func (r *root) makeFolder() error {
	for _, p := range r.private {
		if blobs.Within(p, filepath.Dir(r.path)) {
			return vfs.ErrPrivate
		}
	}
	if err := os.Mkdir(r.path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return message.Errorf(403, "Operation not allowed: the mount / has no folder, and %s can't be made (%v); start the daemon with --mount /=DIRECTORY", r.path, errors.Unwrap(err))
	}
	if info, err := os.Stat(r.path); err == nil && !info.IsDir() {
		return message.Errorf(403, "Operation not allowed: the mount / has no folder, since %s is a file; start the daemon with --mount /=DIRECTORY", r.path)
	}
	return nil
}

// Delete implements [vfs.Writer].
func (r *root) Delete(ctx context.Context, name string, recursive bool) error {
	f, _, err := r.now()
	switch {
	case err != nil:
		return err
	case f == nil:
		return message.Errorf(403, "Operation not allowed: the greeting belongs to the kernel; it is hidden when the folder %s exists", r.path)
	}
	return f.Delete(ctx, name, recursive)
}

// Local implements [vfs.Locator].
func (r *root) Local(name string) (string, bool) {
	f, _, err := r.now()
	if err != nil || f == nil {
		return "", false
	}
	return f.Local(name)
}

// Dir implements [vfs.Locator].
func (r *root) Dir() string { return r.path }

// Close implements [io.Closer].
func (r *root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		return nil
	}
	return r.open.Close()
}
