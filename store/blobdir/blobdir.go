// Package blobdir keeps blobs as files in a directory, each under the hash of its
// content: the same data is kept once, and a file that is there is complete.
package blobdir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Dir is a directory of blobs. It is made when the first blob is, readable by its
// owner only. It is safe for concurrent use, also by several processes.
type Dir struct {
	path string
}

// New returns the directory at path, which need not exist.
func New(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	return &Dir{path: abs}, nil
}

// Put keeps data and returns the absolute path of its file. When it returns, the
// data is on disk.
func (d *Dir) Put(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	path := filepath.Join(d.path, name[:2], name)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)):
		// Whoever put it there may not be done with making it last.
		err = syncDir(filepath.Dir(path))
	default:
		if err = makeDir(filepath.Dir(path)); err == nil {
			err = write(path, data)
		}
	}
	if err != nil {
		return "", fmt.Errorf("blobs: %w", err)
	}
	return path, nil
}

// makeDir makes a directory, and those above it, so that they last.
func makeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// write makes a file appear under its name at once and whole, or not at all.
func write(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir makes a new name in a directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
