// Package dirfs mounts a directory of this machine in the tree of files. Nothing in it leads
// out of it.
//
// # Goroutines
//
//   - What the end of a context causes: a read that blocks, as of a pipe, is interrupted.
package dirfs

import (
	"bytes"
	"cmp"
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
	"sync/atomic"
	"syscall"
	"time"

	"kernos/capability/vfs"
	"kernos/internal/fence"
	"kernos/store/blobs"
)

// Options are the settings of a directory. With the zero value, files are read, written and registered as code, and none is
// executed.
type Options struct {
	ReadOnly bool // nothing in it can be written or deleted
	NoExec   bool // nothing in it is executed, nor registered as code
	Programs bool // tools in it are executed; then nothing in it can be written or deleted

	// Private are directories of which nothing can be reached, by whatever path or link: the
	// home of the kernel, where keys are, and the state of all origins, and its runtime
	// directory.
	Private []string
}

// directory is a directory of this machine. It is held open, so that a change of its
// path doesn't lead out of it; [os.Root] takes care of what is below. When another directory
// takes its place, that one is opened.
type directory struct {
	path    string // absolute
	private fence.Fence
	can     vfs.Can
	open    atomic.Pointer[opened]

	// writing makes looking at a version and writing one step, for files whose names fall
	// on the same lock.
	writing [64]sync.Mutex
}

// opened is a directory that is open, by both ways to look into it.
type opened struct {
	*directory
	root *os.Root
	dir  *os.File
	info fs.FileInfo
}

func (o *opened) close() error { return errors.Join(o.root.Close(), o.dir.Close()) }

// Open returns the driver of a directory, which must exist.
func Open(dir string, opts Options) (vfs.Driver, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("vfs: %w", err)
	}
	d := &directory{path: abs, can: vfs.Can{Read: true, Write: !opts.ReadOnly && !opts.Programs, Execute: opts.Programs && !opts.NoExec, Code: !opts.NoExec}}
	switch {
	case opts.Programs:
		d.can.Because = "what is executed can't be written: start the daemon without :exec in --mount …=" + abs + ":exec"
	case opts.ReadOnly:
		d.can.Because = fmt.Sprintf("start the daemon without :ro in --mount …=%s:ro", abs)
	}
	for _, p := range opts.Private {
		if p, err = filepath.Abs(p); err != nil {
			return nil, fmt.Errorf("vfs: %w", err)
		}
		d.private = append(d.private, p)
	}
	if _, err := d.now(); err != nil {
		return nil, fmt.Errorf("vfs: the directory can't be opened: %w", err)
	}
	return d, nil
}

func (d *directory) Can() vfs.Can { return d.can }

func (d *directory) String() string { return "directory " + d.path }

// Close implements [io.Closer].
func (d *directory) Close() error {
	if o := d.open.Swap(nil); o != nil {
		return o.close()
	}
	return nil
}

// now returns the directory that is at the path now. One that was replaced is closed
// by the runtime when it is no longer used.
func (d *directory) now() (*opened, error) {
	o := d.open.Load()
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, err
	}
	if o != nil && os.SameFile(o.info, info) {
		return o, nil
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	o = &opened{directory: d, root: root, dir: dir}
	if o.info, err = dir.Stat(); err != nil {
		return nil, errors.Join(err, o.close())
	}
	d.open.Store(o)
	return o, nil
}

// at returns the directory that is at the path now, if a name in it is not private. That may
// have changed when the name is used: what is opened is checked again.
func (d *directory) at(name string) (*opened, error) {
	o, err := d.now()
	if err == nil && o.leadsHome(name) {
		err = vfs.ErrPrivate
	}
	return o, err
}

// tries is how often a file is opened that is exchanged all the time.
const tries = 10

// try calls f with the directory that is at the path now, and again if what f has opened was
// exchanged meanwhile. What f opens decides what is private; where f fails, a name that leads home
// is private, also if nothing is there.
func (d *directory) try(ctx context.Context, name string, f func(*opened) error) error {
	for range tries {
		o, err := d.now()
		if err != nil {
			return err
		}
		switch err = f(o); {
		case errors.Is(err, fence.ErrMoved):
		case err != nil && o.leadsHome(name):
			return vfs.ErrPrivate
		case err != nil:
			return guarded(o.refused(ctx, name, err))
		default:
			return nil
		}
	}
	return vfs.ErrMoved
}

// inspect opens what a name leads to, if that is below the directory, to read its state only. It may be private.
func (o *opened) inspect(name string) (*os.File, state, error) {
	f, ok := inspectBeneath(o.dir, name)
	if !ok {
		info, err := o.root.Stat(local(name))
		if err == nil && !info.IsDir() {
			err = regular(info.Mode()) // to open a device may do something
		}
		if err == nil {
			f, err = o.openFile(name)
		}
		if err != nil {
			return nil, state{}, err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, state{}, errors.Join(err, f.Close())
	}
	return f, stateOf(info), nil
}

// lookAt returns what a name leads to, if that is not private.
func (o *opened) lookAt(ctx context.Context, name string) (state, error) {
	f, s, err := o.inspect(name)
	if err != nil {
		return s, err
	}
	return s, errors.Join(cmp.Or(o.check(f, s, name), o.lands(ctx, f, name)), f.Close())
}

// check fails if what was opened by a name is private.
func (o *opened) check(f *os.File, s state, name string) error {
	switch {
	case len(o.private) == 0:
		return nil
	case s.mode.IsDir():
		return o.private.CheckDir(f)
	}
	return o.private.Check(f, filepath.Join(o.path, local(name)))
}

// openTo opens a file or a directory for reading, if it is not private.
func (o *opened) openTo(ctx context.Context, name string, wanted func(fs.FileMode) error) (*os.File, state, error) {
	// To open a device may do something. So it is inspected before; the check after is for what
	// has changed between.
	f, s, err := o.inspect(name)
	if err == nil {
		err = errors.Join(wanted(s.mode), f.Close())
	}
	if err == nil {
		f, err = o.openFile(name)
	}
	if err != nil {
		return nil, s, err
	}
	info, err := f.Stat()
	if err == nil {
		s = stateOf(info)
		err = cmp.Or(wanted(s.mode), o.check(f, s, name), o.lands(ctx, f, name))
	}
	if err != nil {
		return nil, s, errors.Join(err, f.Close())
	}
	return f, s, nil
}

func (d *directory) Read(ctx context.Context, name string) (read vfs.File, err error) {
	err = d.try(ctx, name, func(o *opened) error {
		f, s, err := o.openTo(ctx, name, regular)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		// The version is the one before reading: if the file changes meanwhile, a comparison of
		// versions shows it.
		data, err := readFile(ctx, f, s.size)
		read = vfs.File{Data: data, Version: s.version(), Modified: s.modified}
		return err
	})
	return read, err
}

// openFile opens a file for reading, and doesn't wait for the writer of a pipe.
func (o *opened) openFile(name string) (*os.File, error) {
	if f, ok := openBeneath(o.dir, name); ok {
		return f, nil
	}
	return o.root.OpenFile(local(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readFile reads to the end, or fails if that is too far. Some files of the system are
// regular by name only, and a read of them waits; ctx ends that.
func readFile(ctx context.Context, f *os.File, announced int64) ([]byte, error) {
	if announced > vfs.MaxFile {
		return nil, vfs.ErrTooLarge
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// For nearly all files one read is enough, and it does not wait. What is added to a file
	// since it was inspected is part of another version.
	data := make([]byte, announced)
	n, err := io.ReadFull(f, data)
	switch {
	case err == nil && n > 0:
		return data, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return data[:n], nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(f, vfs.MaxFile+1))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && b.Len() > vfs.MaxFile:
		err = vfs.ErrTooLarge
	}
	return b.Bytes(), err
}

// local returns a name as the file system wants it.
func local(name string) string {
	if name == "" {
		return "."
	}
	return filepath.FromSlash(name)
}

func regular(mode fs.FileMode) error {
	switch {
	case mode.IsDir():
		return vfs.ErrDirectory
	case !mode.IsRegular():
		return vfs.ErrIrregular
	}
	return nil
}

// isDir is regular for directories.
func isDir(mode fs.FileMode) error {
	if !mode.IsDir() {
		return vfs.ErrNotDirectory
	}
	return nil
}

func (d *directory) Stat(ctx context.Context, name string) (info vfs.Info, err error) {
	err = d.try(ctx, name, func(o *opened) error {
		s, err := o.lookAt(ctx, name)
		if err == nil {
			info, err = s.info()
		}
		return err
	})
	return info, err
}

// List implements [vfs.Lister]. What is neither a file nor a directory is not shown, and neither
// is a link that leads out, nor what is private.
func (d *directory) List(ctx context.Context, name, from string) iter.Seq2[vfs.Info, error] {
	return func(yield func(vfs.Info, error) bool) {
		var found []vfs.Info
		unnamed := 0
		err := d.try(ctx, name, func(o *opened) (err error) {
			found, unnamed, err = o.list(ctx, name, from)
			return err
		})
		if err != nil {
			yield(vfs.Info{}, err)
			return
		}
		for range unnamed {
			if !yield(vfs.Info{}, vfs.ErrUnnamed) {
				return
			}
		}
		for _, info := range found {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// list returns what is in a directory, in order, and how many of its entries no URI can name; only
// the first page counts these.
func (o *opened) list(ctx context.Context, name, from string) (found []vfs.Info, unnamed int, err error) {
	f, _, err := o.openTo(ctx, name, isDir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, 0, err
	}
	found = make([]vfs.Info, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		entryName := e.Name()
		switch {
		case strings.HasPrefix(entryName, newPrefix): // a file that is being written
			continue
		case !vfs.Nameable(entryName):
			if from == "" {
				unnamed++
			}
			continue
		}
		info, err := o.entry(ctx, f, name, e)
		if err != nil {
			continue // the file went away, leads out, or is private
		}
		if info.Name = entryName; strings.Compare(info.Key(), from) >= 0 {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b vfs.Info) int { return strings.Compare(a.Key(), b.Key()) })
	return found, unnamed, nil
}

// entry returns what an entry of a directory that is open is: that which a link leads to. A file is
// not private, since its directory is not.
func (o *opened) entry(ctx context.Context, dir *os.File, name string, e fs.DirEntry) (i vfs.Info, err error) {
	s, err := stateIn(dir, e.Name())
	if err == nil && !s.mode.IsRegular() {
		s, err = o.lookAt(ctx, vfs.Join(name, e.Name()))
	}
	if err == nil {
		i, err = s.info()
	}
	i.Link = e.Type()&fs.ModeSymlink != 0
	return i, err
}

// Roots implements [vfs.Locator].
func (d *directory) Roots() []string { return []string{d.path} }

// Writes implements [vfs.Locator].
func (d *directory) Writes(path string) bool {
	top, err := filepath.EvalSymlinks(d.path)
	return d.can.Write && (err != nil || blobs.Within(top, path))
}

// Local implements [vfs.Locator].
func (d *directory) Local(name string) (p vfs.Place, ok bool) {
	err := d.try(context.Background(), name, func(o *opened) error { // for the owner, who reaches all of it
		f, s, err := o.inspect(name) // inspect follows no link that leads out
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := cmp.Or(regular(s.mode), o.check(f, s, name)); err != nil {
			return err
		}
		top, err := filepath.EvalSymlinks(d.path)
		if err != nil {
			return err
		}
		file, err := fence.Find(f, filepath.Join(d.path, local(name)))
		if err != nil {
			return err
		}
		if inner, err := filepath.Rel(top, file); err != nil || !filepath.IsLocal(inner) {
			return fence.ErrMoved
		}
		p = vfs.Place{Path: file, Root: d.path, Can: d.can}
		return nil
	})
	return p, err == nil
}
