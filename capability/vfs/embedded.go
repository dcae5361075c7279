package vfs

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
)

// embedded is a driver of files that are part of the program.
type embedded struct {
	files fs.FS
	what  string
}

// Embedded returns the driver of a file system that never changes, such as an [embed.FS].
// What says what it is, for people.
func Embedded(files fs.FS, what string) Driver { return &embedded{files, what} }

func (e *embedded) Can() Can { return Can{Read: true} }

func (e *embedded) String() string { return "embedded " + e.what }

func (e *embedded) Read(_ context.Context, name string) (File, error) {
	info, err := fs.Stat(e.files, inFS(name))
	if err == nil {
		err = regular(info.Mode())
	}
	if err != nil {
		return File{}, err
	}
	data, err := fs.ReadFile(e.files, inFS(name))
	return File{Data: data, Version: digest(data), Modified: info.ModTime()}, err
}

// inFS is a name as [fs.FS] wants it.
func inFS(name string) string {
	if name == "" {
		return "."
	}
	return name
}

func (e *embedded) Stat(ctx context.Context, name string) (Info, error) {
	f, err := e.Read(ctx, name)
	if errors.Is(err, errDirectory) {
		return Info{Dir: true}, nil
	}
	return Info{Size: int64(len(f.Data)), Version: f.Version, Modified: f.Modified}, err
}

// List implements [Lister].
func (e *embedded) List(ctx context.Context, name, from string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		info, err := fs.Stat(e.files, inFS(name))
		if err == nil && !info.IsDir() {
			err = errNotDirectory
		}
		var entries []fs.DirEntry
		if err == nil {
			entries, err = fs.ReadDir(e.files, inFS(name))
		}
		if err != nil {
			yield(Info{}, err)
			return
		}
		var found []Info
		for _, entry := range entries {
			info, err := e.Stat(ctx, join(name, entry.Name()))
			if err != nil {
				yield(Info{}, err)
				return
			}
			if info.Name = entry.Name(); compare(info.key(), from) >= 0 {
				found = append(found, info)
			}
		}
		slices.SortFunc(found, func(a, b Info) int { return compare(a.key(), b.key()) })
		for _, info := range found {
			if !yield(info, nil) {
				return
			}
		}
	}
}

//go:embed greeting
var greeting embed.FS

// Greeting returns the driver of the tree that the kernel has of its own: an agent that
// greets, os://greeting.md, and its skill.
func Greeting() Driver {
	files, err := fs.Sub(greeting, "greeting")
	if err != nil {
		panic(err) // the program was built without it
	}
	return Embedded(files, "greeting")
}

// DefaultRoot returns the root of a tree that nobody has configured: the folder os of a
// directory, read-only, if there is one, and the greeting otherwise. Private is a directory of which
// nothing can be reached, or "".
func DefaultRoot(dir, private string) (Mount, error) {
	folder := filepath.Join(dir, "os")
	info, err := os.Stat(folder)
	switch {
	case err == nil && info.IsDir():
		d, err := Directory(folder, &DirectoryOptions{ReadOnly: true, Private: private})
		return Mount{Path: "/", Driver: d}, err
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return Mount{Path: "/", Driver: Greeting()}, nil
	}
	return Mount{}, fmt.Errorf("vfs: the folder os can't be looked at: %w", err)
}
