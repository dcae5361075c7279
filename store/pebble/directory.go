package pebble

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// A directory of this engine has a file that marks it. While the directory is being made, the file
// has another name: this distinguishes a directory that was never finished from one that has
// lost the file.
const (
	markerName     = "KERNOS"
	unfinishedName = "KERNOS.new"
	markerText     = "This directory is a store of kernos, layout 1. Don't change anything in it.\n"
	markerPrefix   = "This directory is a store of kernos, layout "
)

// A kind of directory.
type kind int

const (
	absent     kind = iota
	empty           // holds nothing that was stored
	unfinished      // an engine died while it made the store, before anything was stored
	ours
)

// recognise looks at what is in a directory. It changes nothing. The error is for a
// directory that can't be used.
func recognise(fs vfs.FS, dir string) (kind, error) {
	info, err := fs.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return absent, nil
	case err != nil:
		return absent, unreadable(dir, err)
	case !info.IsDir():
		return absent, store.Errorf(500, nil, "%s is a file, and the store wants a directory there; move it away, or use another KERNOS_HOME", dir)
	}
	names, err := fs.List(dir)
	if err != nil {
		return absent, unreadable(dir, err)
	}
	if slices.Contains(names, markerName) {
		return ours, checkMarker(fs, dir)
	}
	if slices.Contains(names, unfinishedName) {
		return unfinished, nil
	}
	slices.Sort(names)
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "marker.manifest.") }) {
		return absent, damage(dir, markerName, os.ErrNotExist)
	}
	for _, name := range names {
		if name != lockName && name != "lost+found" {
			return absent, store.Errorf(500, nil,
				"%s isn't a store of kernos, and isn't empty (there is %s); use another KERNOS_HOME, or restore a backup into an empty one with `kernos restore FILE`", dir, showText(name))
		}
	}
	return empty, nil
}

func checkMarker(fs vfs.FS, dir string) error {
	text, err := readFile(fs, fs.PathJoin(dir, markerName), 1024)
	if err != nil {
		return unreadable(dir, err)
	}
	return parseMarker(dir, text)
}

func parseMarker(dir string, text []byte) error {
	if string(text) == markerText {
		return nil
	}
	var layout uint
	if rest, ok := bytes.CutPrefix(text, []byte(markerPrefix)); ok {
		if n, err := fmt.Sscanf(string(rest), "%d.", &layout); n == 1 && err == nil && layout > 1 {
			return store.Errorf(503, nil, "The store in %s was made by a newer kernos (layout %d); use that one", dir, layout)
		}
	}
	return damage(dir, markerName, errors.New("its content is not what it should be"))
}

// begin marks a directory as one that is being made.
func begin(fs vfs.FS, dir string) error {
	if err := writeFile(fs, fs.PathJoin(dir, unfinishedName), markerText); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// finish marks it as made.
func finish(fs vfs.FS, dir string) error {
	if err := fs.Rename(fs.PathJoin(dir, unfinishedName), fs.PathJoin(dir, markerName)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// clean removes what an engine has made of a directory that was never finished. The mark
// goes last, and only if it is asked for.
func clean(fs vfs.FS, dir string, mark bool) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, markerName) {
		return nil // the store was finished; only the last sync failed
	}
	for _, name := range names {
		if madeByPebble(name) {
			if err := fs.Remove(fs.PathJoin(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if mark {
		return fs.Remove(fs.PathJoin(dir, unfinishedName))
	}
	return nil
}

// pebbleNames are the names that Pebble gives to files.
var pebbleNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(LOCK|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|blob|log)|\d+-\d+\.log|marker\..*|.*\.dbtmp)$`)
})

func madeByPebble(name string) bool { return pebbleNames().MatchString(name) }

// makeDir makes a directory, and those above it, so that they last.
func makeDir(fs vfs.FS, dir string) error {
	if info, err := fs.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(fs, parent)
}

func syncDir(fs vfs.FS, dir string) error {
	dir = cmp.Or(dir, ".")
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeFile(fs vfs.FS, path, text string) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readFile reads a file that should not be longer than limit.
func readFile(fs vfs.FS, path string, limit int64) ([]byte, error) {
	var text bytes.Buffer
	err := readInto(&text, fs, path, limit)
	return text.Bytes(), err
}

// readInto is readFile into a buffer, in place of what was there: logs are many MB long, and
// several buffers that grew in steps would be half of what the process has.
func readInto(text *bytes.Buffer, fs vfs.FS, path string, limit int64) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	text.Reset()
	if info, err := f.Stat(); err == nil {
		text.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	}
	_, err = text.ReadFrom(io.LimitReader(f, limit))
	return errors.Join(err, f.Close())
}
