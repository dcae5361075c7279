// Package kernelfs shows what the kernel itself has as files: its state as computed when it
// is read (/proc), its settings (/sys), and the greeting that is part of the program.
package kernelfs

import (
	"context"
	"embed"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"

	"kernos/capability/vfs"
	"kernos/kernel"
	"kernos/message"
)

// A File is a file whose content is made by a function.
type File struct {
	// Read returns the content.
	Read func(context.Context) ([]byte, error)

	// Write takes a new value, a single line. Nil means that it can't be changed.
	Write func(ctx context.Context, value string) error

	// Cheap means that Read costs nothing, so that a listing may call it for the size and
	// the version of the file.
	Cheap bool
}

// driver is a tree that is given by the names of its files.
type driver struct {
	what    string
	can     vfs.Can
	files   func() map[string]File
	missing func(name string) error // nil means fs.ErrNotExist
	writing sync.Mutex              // comparing a version and writing are one step
}

// Proc returns the driver of files that are computed when they are read: what files returns
// at that moment, by names that may have slashes in them.
func Proc(files func() map[string]File) vfs.Driver {
	return &driver{what: "computed", can: vfs.Can{Read: true}, files: files}
}

// A Variable is a setting that can be seen, and perhaps changed, while the kernel runs. Its
// functions are safe for concurrent use.
type Variable struct {
	Name string // segments with slashes between them: log/level
	Get  func() string

	// Set changes the setting, and what depends on it, at once. Its errors are
	// *message.Error: 422 names the possible values. Nil means that it can't be changed.
	Set func(ctx context.Context, value string) error
}

// Sys returns the driver of some settings: each is a file with one line.
func Sys(variables []Variable) vfs.Driver {
	files := make(map[string]File, len(variables))
	for _, v := range variables {
		read := func(context.Context) ([]byte, error) { return []byte(v.Get()), nil }
		files[v.Name] = File{Read: read, Write: v.Set, Cheap: true}
	}
	return &driver{what: "settings", can: vfs.Can{Read: true, Write: true}, files: func() map[string]File { return files }}
}

//go:embed greeting
var greeting embed.FS

// Greeting returns the driver of the tree that the kernel has of its own: an agent that
// greets, os://greeting.md, and its skill. It is for the root where none is defined, so what it
// doesn't have is in no mount.
func Greeting() vfs.Driver {
	files := make(map[string]File)
	err := fs.WalkDir(greeting, "greeting", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			read := func(context.Context) ([]byte, error) { return greeting.ReadFile(path) }
			files[strings.TrimPrefix(path, "greeting/")] = File{Read: read, Cheap: true}
		}
		return err
	})
	if err != nil {
		panic(err) // the program was built without it
	}
	return &driver{what: "embedded greeting", can: vfs.Can{Read: true}, files: func() map[string]File { return files }, missing: vfs.NoMount}
}

func (d *driver) Can() vfs.Can { return d.can }

func (d *driver) String() string { return d.what }

// find returns a file. The error for the name of a directory is [vfs.ErrDirectory].
func (d *driver) find(name string) (File, error) {
	files := d.files()
	if f, ok := files[name]; ok {
		return f, nil
	}
	if name == "" || len(children(files, name, "")) > 0 {
		return File{}, vfs.ErrDirectory
	}
	if d.missing != nil {
		return File{}, d.missing(name)
	}
	return File{}, fs.ErrNotExist
}

func (d *driver) Read(ctx context.Context, name string) (vfs.File, error) {
	f, err := d.find(name)
	if err != nil {
		return vfs.File{}, err
	}
	data, err := f.Read(ctx)
	return vfs.File{Data: data, Version: vfs.Digest(data)}, err
}

func (d *driver) Stat(ctx context.Context, name string) (vfs.Info, error) {
	f, err := d.find(name)
	switch {
	case err == vfs.ErrDirectory:
		return vfs.Info{Dir: true}, nil
	case err != nil:
		return vfs.Info{}, err
	}
	return f.stat(ctx)
}

// stat computes nothing that is not cheap: how large such a file will be is not known.
func (f *File) stat(ctx context.Context) (vfs.Info, error) {
	if !f.Cheap {
		return vfs.Info{Size: -1}, nil
	}
	data, err := f.Read(ctx)
	return vfs.Info{Size: int64(len(data)), Version: vfs.Digest(data)}, err
}

// List implements [vfs.Lister].
func (d *driver) List(ctx context.Context, name, from string) iter.Seq2[vfs.Info, error] {
	return func(yield func(vfs.Info, error) bool) {
		if _, err := d.find(name); err != vfs.ErrDirectory {
			if err == nil {
				err = vfs.ErrNotDirectory
			}
			yield(vfs.Info{}, err)
			return
		}
		files := d.files()
		for _, key := range children(files, name, from) {
			child, isDir := strings.CutSuffix(key, "/")
			info, err := vfs.Info{Dir: true}, error(nil)
			if !isDir {
				f := files[vfs.Join(name, child)]
				info, err = f.stat(ctx)
			}
			info.Name = child
			if !yield(info, err) {
				return
			}
		}
	}
}

// children lists what is directly in a directory, from a name on, in order. The names of
// directories end with a slash.
func children(files map[string]File, dir, from string) []string {
	var keys []string
	for name := range files {
		rest, ok := strings.CutPrefix(name, vfs.Join(dir, ""))
		if !ok {
			continue
		}
		if first, _, below := strings.Cut(rest, "/"); below {
			rest = first + "/"
		}
		if rest >= from {
			keys = append(keys, rest)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Write implements [vfs.Writer]. A newline at the end is dropped, since editors add one.
func (d *driver) Write(ctx context.Context, name string, data []byte, expect vfs.Expect) (string, error) {
	if e := kernel.PrincipalOf(ctx).Setting(name); e != nil {
		return "", e
	}
	if err := kernel.Reaching(ctx, kernel.ToSettings, name); err != nil {
		return "", err
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	f, err := d.find(name)
	if err != nil {
		return "", err
	}
	old, err := f.Read(ctx)
	if err != nil {
		return "", err
	}
	if err := expect.Check(vfs.Digest(old)); err != nil {
		return "", err
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if strings.ContainsAny(value, "\n\v\f\r\u0085\u2028\u2029\x00") {
		return "", message.Errorf(422, "Invalid value format: a setting is a single line (got a line break for %s)", name)
	}
	if f.Write == nil {
		return "", message.Errorf(403, "Operation not allowed: the setting %s can't be changed while the kernel runs", name)
	}
	if err := f.Write(ctx, value); err != nil {
		return "", err
	}
	now, err := f.Read(ctx)
	return vfs.Digest(now), err
}

// Delete implements [vfs.Writer]: a setting stays.
func (d *driver) Delete(_ context.Context, name string, _ bool) error {
	if _, err := d.find(name); err != nil && err != vfs.ErrDirectory {
		return err
	}
	return message.Errorf(403, "Operation not allowed: the setting %s can be changed, not deleted", name)
}
