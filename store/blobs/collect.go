package blobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kernos/internal/durable"
	"kernos/store"
)

// Collected is what a collection has removed.
type Collected struct {
	Files   int
	Bytes   int64
	Removed []Hash // the blobs among the files
}

// Collect removes the blobs without a reference and that were put longer ago than the
// grace, and what a crash has left unfinished. What it can't remove it passes over; the
// first such failure is returned at the end.
//
// The grace is what makes it safe. A caller that puts a blob and then applies a batch that refers
// to it has that long for it, since a Put makes the file new, also if it was there. So
// the grace must be longer than any call may take, and now must not be later than the
// state that r reads: now from before the snapshot, if r is one.
func (d *Dir) Collect(ctx context.Context, r store.Reader, grace time.Duration, now time.Time) (Collected, error) {
	c := collection{dir: d, r: r, before: now.Add(-grace)}
	err := filepath.WalkDir(d.path, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.note(ignoreMissing(err))
		case !entry.IsDir():
			return c.file(filepath.Dir(path), entry)
		case path != d.path && (filepath.Dir(path) != d.path || len(entry.Name()) != 2):
			return fs.SkipDir // not a directory of blobs
		}
		return nil
	})
	if err == nil && c.failed != nil {
		err = fmt.Errorf("blobs: %w", c.failed)
	}
	return c.done, err
}

type collection struct {
	dir    *Dir
	r      store.Reader
	before time.Time
	done   Collected
	failed error // the first
}

func (c *collection) note(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// asidePrefix begins the names of blobs that are about to be removed.
const asidePrefix = ".old-"

// file looks at one file. The error, if any, is the store's.
func (c *collection) file(dir string, entry fs.DirEntry) error {
	name, path := entry.Name(), filepath.Join(dir, entry.Name())
	if !entry.Type().IsRegular() {
		return nil // not a blob
	}
	if strings.HasPrefix(name, durable.NewPrefix) {
		c.remove(path)
		return nil
	}
	if hash, ok := strings.CutPrefix(name, asidePrefix); ok {
		if h, err := ParseHash(hash); err == nil && filepath.Dir(c.dir.Path(h)) == dir {
			c.note(ignoreMissing(restore(path, c.dir.Path(h)))) // the next collection decides
		}
		return nil
	}
	h, err := ParseHash(name)
	if err != nil || c.dir.Path(h) != path {
		return nil
	}
	if info, err := os.Lstat(path); err != nil || !info.ModTime().Before(c.before) {
		return nil
	}
	if referred, err := ReferredBelow(c.r, h, nil); err != nil || referred {
		return err
	}
	// A Put may have renewed the file since. After the rename it no longer can: a later Put
	// finds no file and writes it again. An earlier Put has changed the time of the file, which
	// is checked once more.
	aside := c.dir.aside(h)
	if err := os.Rename(path, aside); err != nil {
		c.note(ignoreMissing(err))
		return nil
	}
	if c.remove(aside) {
		c.done.Removed = append(c.done.Removed, h)
	} else {
		c.note(ignoreMissing(restore(aside, path)))
	}
	return nil
}

// restore gives a file its name back. The file may have been written again meanwhile,
// and perhaps a moment ago; the one that replaces it has the same content and is new.
func restore(aside, path string) error {
	now := time.Now()
	if err := os.Chtimes(aside, now, now); err != nil {
		return err
	}
	return os.Rename(aside, path)
}

// remove removes a file if it is old, and reports whether it did.
func (c *collection) remove(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.ModTime().Before(c.before) {
		c.note(ignoreMissing(err))
		return false
	}
	if err := os.Remove(path); err != nil {
		c.note(ignoreMissing(err))
		return false
	}
	c.done.Files++
	c.done.Bytes += info.Size()
	return true
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
