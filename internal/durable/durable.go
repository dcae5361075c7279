// Package durable changes the file system in ways that survive a power cut, with names
// that only their owner can read.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir makes a directory and its parents, with mode 0700.
func MakeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MakeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// SyncDir makes new names in a directory durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// NewPrefix begins the names of files that are not complete yet.
const NewPrefix = ".new-"

// Temporary makes a file in a directory with the content that fill writes, and returns its
// path. After an error no file is left.
func Temporary(dir string, fill func(io.Writer) error) (path string, err error) {
	f, err := os.CreateTemp(dir, NewPrefix+"*") // CreateTemp uses mode 0600
	if err != nil {
		return "", err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, Remove(f.Name()))
	}
	return f.Name(), nil
}

// Rename gives a file a name, in place of the file that had it.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// Remove removes a file, if it exists.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WriteFile makes a file appear under its name complete, or not at all. It replaces a file
// that has the name.
func WriteFile(path string, data []byte) error {
	name, err := Temporary(filepath.Dir(path), func(f io.Writer) error {
		_, err := f.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	if err := Rename(name, path); err != nil {
		return errors.Join(err, Remove(name))
	}
	return nil
}
