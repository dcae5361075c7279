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
	"slices"
	"strings"
	"sync"
	"syscall"

	"kernos/capability/vfs"
	"kernos/capability/vfs/dirfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/message"
	"kernos/store/blobs"
)

// A Folder is a directory whose files are at the root of the tree.
type Folder struct {
	Path     string   // absolute, such as /home/ada/project/os; it needn't exist
	New      bool     // new files are made in it, and the first one makes the folder
	Optional bool     // it is left out if it can't be opened
	Programs bool     // tools in it are executed, so it can't be written; see [dirfs.Options]
	Private  []string // directories of which nothing can be reached; see [dirfs.Options]
}

// Root returns the root of a tree: the files of all folders that exist, or the greeting if none does. The folders are asked for
// with each access, so that they may change. A file hides files of the same name in later folders, and directories of
// one name are shown as one. A folder can be written if it belongs to this user.
func Root(folders func() []Folder) (vfs.Mount, error) {
	r := &root{folders: folders, greeting: kernelfs.Greeting(), open: make(map[string]folder)}
	_, err := r.now()
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
	folders  func() []Folder
	greeting vfs.Driver

	mu   sync.Mutex
	open map[string]folder // the drivers of folders that exist, by key
}

// A layer is a folder that exists now.
type layer struct {
	Folder
	folder
	own bool // it belongs to this user
}

func (f *Folder) key() string { return fmt.Sprintf("%s\x00%v", f.Path, f.Programs) }

// now returns the folders that exist.
func (r *root) now() (layers []layer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := make(map[string]bool)
	for _, f := range r.folders() {
		l, err := r.layer(&f)
		switch {
		case err != nil && !f.Optional:
			return nil, err
		case err == nil && l != nil:
			used[f.key()] = true
			layers = append(layers, *l)
		}
	}
	for key := range r.open {
		if !used[key] {
			delete(r.open, key) // the runtime closes it when it is no longer used
		}
	}
	return layers, nil
}

// layer opens a folder; nil if it doesn't exist. mu is held.
func (r *root) layer(f *Folder) (*layer, error) {
	info, err := os.Stat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && !info.IsDir():
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("vfs: the folder os can't be looked at: %w", err)
	}
	l := &layer{Folder: *f, own: true}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		l.own = int(stat.Uid) == os.Geteuid()
	}
	if l.folder = r.open[f.key()]; l.folder != nil {
		return l, nil
	}
	d, err := dirfs.Open(f.Path, dirfs.Options{Programs: f.Programs, Private: f.Private})
	if err != nil {
		return nil, err
	}
	var ok bool
	if l.folder, ok = d.(folder); !ok {
		return nil, fmt.Errorf("vfs: the driver of the folder %s lacks an interface that a root needs", f.Path)
	}
	r.open[f.key()] = l.folder
	return l, nil
}

func (l *layer) writable() bool { return l.own && l.folder.Can().Write }

// locked returns the error for a layer that can't be written.
func (l *layer) locked(name string) error {
	if l.Programs {
		return message.Errorf(403, "Operation not allowed: %s is in %s, which was trusted with --execute, and what is executed can't be written; kernos trust %s without it allows that", message.Clip(name, 400), l.Path, filepath.Dir(l.Path))
	}
	return message.Errorf(403, "Operation not allowed: %s is in %s, which belongs to another user", message.Clip(name, 400), l.Path)
}

// first calls f with the folders in turn, until one has the file.
func (r *root) first(f func(*layer) error) error {
	layers, err := r.now()
	if err != nil {
		return err
	}
	if len(layers) == 0 {
		return errGreeting
	}
	for i := range layers {
		if err = f(&layers[i]); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// errGreeting means that no folder exists, so that the greeting is shown.
var errGreeting = errors.New("no folder exists")

func (r *root) Can() vfs.Can {
	layers, err := r.now()
	created := func(l layer) bool { return l.New } // otherwise the first new file makes the folder
	can := vfs.Can{Read: true, Write: err == nil && !slices.ContainsFunc(layers, created), Code: len(layers) > 0}
	for i := range layers {
		l := &layers[i]
		can.Write = can.Write || l.writable()
		can.Execute = can.Execute || l.Programs
		if !l.own {
			can.Because = fmt.Sprintf("%s belongs to another user; start the daemon with --mount /=%s to write there", l.Path, l.Path)
		}
	}
	return can
}

func (r *root) String() string {
	layers, err := r.now()
	if err != nil || len(layers) == 0 {
		return r.greeting.String()
	}
	texts := make([]string, len(layers))
	for i := range layers {
		texts[i] = layers[i].folder.String()
	}
	return strings.Join(texts, ", ")
}

func (r *root) Read(ctx context.Context, name string) (file vfs.File, err error) {
	err = r.first(func(l *layer) error {
		file, err = l.folder.Read(ctx, name)
		return err
	})
	if errors.Is(err, errGreeting) {
		return r.greeting.Read(ctx, name)
	}
	return file, err
}

func (r *root) Stat(ctx context.Context, name string) (info vfs.Info, err error) {
	err = r.first(func(l *layer) error {
		info, err = l.folder.Stat(ctx, name)
		info.ReadOnly = !l.writable()
		return err
	})
	if errors.Is(err, errGreeting) {
		return r.greeting.Stat(ctx, name)
	}
	return info, err
}

// List implements [vfs.Lister].
func (r *root) List(ctx context.Context, name, from string) iter.Seq2[vfs.Info, error] {
	return func(yield func(vfs.Info, error) bool) {
		layers, err := r.now()
		if err == nil && len(layers) == 0 {
			if l, ok := r.greeting.(vfs.Lister); ok {
				l.List(ctx, name, from)(yield)
				return
			}
			err = vfs.ErrUnlistable
		}
		found, unnamed := []vfs.Info(nil), 0
		if err == nil {
			found, unnamed, err = merge(ctx, layers, name)
		}
		if err != nil {
			yield(vfs.Info{}, err)
			return
		}
		for ; unnamed > 0 && from == ""; unnamed-- {
			if !yield(vfs.Info{}, vfs.ErrUnnamed) {
				return
			}
		}
		for _, info := range found {
			if info.Key() >= from && !yield(info, nil) {
				return
			}
		}
	}
}

// merge returns what the folders have in a directory, in order, and how many of its entries no URI can name. The whole
// directory is read: an entry that comes early may hide one of the same name that comes late.
func merge(ctx context.Context, layers []layer, name string) (found []vfs.Info, unnamed int, err error) {
	missing, seen := error(nil), make(map[string]bool)
	exists := false
	for i := range layers {
		l := &layers[i]
		if info, err := l.folder.Stat(ctx, name); name != "" && err == nil && !info.Dir {
			if exists {
				continue // a directory hides the file
			}
			return nil, 0, vfs.ErrNotDirectory
		}
		var own []vfs.Info
		for info, err := range l.folder.List(ctx, name, "") {
			if errors.Is(err, vfs.ErrUnnamed) {
				unnamed++
				continue
			}
			if errors.Is(err, fs.ErrNotExist) {
				missing = err
				break
			}
			if err != nil {
				return nil, 0, err
			}
			exists = true
			info.ReadOnly = !l.writable()
			own = append(own, info)
		}
		exists = exists || missing == nil
		for _, info := range own {
			if !seen[info.Name] {
				found = append(found, info)
			}
		}
		for _, info := range own {
			seen[info.Name] = true
		}
	}
	if !exists && missing != nil {
		return nil, 0, missing
	}
	slices.SortFunc(found, func(a, b vfs.Info) int { return strings.Compare(a.Key(), b.Key()) })
	return found, unnamed, nil
}

// Write implements [vfs.Writer]: a file is written where it is, and a new one is made in the folder for new files.
func (r *root) Write(ctx context.Context, name string, data []byte, expect vfs.Expect) (version string, err error) {
	err = r.first(func(l *layer) error {
		if _, err := l.folder.Stat(ctx, name); errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !l.writable() {
			return l.locked(name)
		}
		version, err = l.folder.Write(ctx, name, data, expect)
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errGreeting) {
		return version, err
	}
	for _, f := range r.folders() {
		if f.New {
			return r.create(ctx, &f, name, data, expect)
		}
	}
	return "", err
}

// create makes a new file in a folder, and the folder if it doesn't exist.
func (r *root) create(ctx context.Context, f *Folder, name string, data []byte, expect vfs.Expect) (string, error) {
	if err := f.make(); err != nil {
		return "", err
	}
	r.mu.Lock()
	l, err := r.layer(f)
	r.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case l == nil:
		return "", fs.ErrNotExist // it was removed at this moment
	case !l.writable():
		return "", l.locked(name)
	}
	return l.folder.Write(ctx, name, data, expect)
}

// make makes the folder, unless it would be private.
func (f *Folder) make() error {
	for _, p := range f.Private {
		if blobs.Within(p, filepath.Dir(f.Path)) {
			return vfs.ErrPrivate
		}
	}
	if err := os.Mkdir(f.Path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return message.Errorf(403, "Operation not allowed: the mount / has no folder, and %s can't be made (%v); start the daemon with --mount /=DIRECTORY", f.Path, errors.Unwrap(err))
	}
	if info, err := os.Stat(f.Path); err == nil && !info.IsDir() {
		return message.Errorf(403, "Operation not allowed: the mount / has no folder, since %s is a file; start the daemon with --mount /=DIRECTORY", f.Path)
	}
	return nil
}

// Delete implements [vfs.Writer]. What later folders have of the name is shown then.
func (r *root) Delete(ctx context.Context, name string, recursive bool) error {
	err := r.first(func(l *layer) error {
		if !l.writable() {
			if _, err := l.folder.Stat(ctx, name); errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return l.locked(name)
		}
		return l.folder.Delete(ctx, name, recursive)
	})
	if errors.Is(err, errGreeting) {
		return message.Errorf(403, "Operation not allowed: the greeting belongs to the kernel; it is hidden when a folder with files exists: write one")
	}
	return err
}

// Local implements [vfs.Locator].
func (r *root) Local(name string) (p vfs.Place, ok bool) {
	_ = r.first(func(l *layer) error {
		if _, err := l.folder.Stat(context.Background(), name); err != nil {
			return err
		}
		p, ok = l.folder.Local(name)
		p.Root = l.Path
		return nil
	})
	return p, ok
}

// Roots implements [vfs.Locator].
func (r *root) Roots() (roots []string) {
	layers, _ := r.now()
	for i := range layers {
		roots = append(roots, layers[i].Path)
	}
	return roots
}

// Writes implements [vfs.Locator].
func (r *root) Writes(file string) bool {
	layers, _ := r.now()
	return slices.ContainsFunc(layers, func(l layer) bool { return l.writable() && l.folder.Writes(file) })
}

// Close implements [io.Closer].
func (r *root) Close() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.open {
		err = errors.Join(err, f.Close())
	}
	return err
}
