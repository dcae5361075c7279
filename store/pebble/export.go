package pebble

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"golang.org/x/sys/unix"

	"kernos/store"
)

// Export gives the entries of the store in a directory, in the order of their keys. It
// is the state of one moment after the call: everything that was durable then is in it,
// and nothing that came after something that is not. An entry is valid until each returns;
// an error of each ends the export.
//
// A process may have the store open and keep writing. Then the export is made from a
// copy, which is made of links where that is possible, in a directory beside the store. If
// that can't be made, because the disk is full, it is made in the directory spare, which may
// be on another disk.
func Export(dir, spare string, each func(store.Entry) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	switch k, err := recognise(vfs.Default, dir); {
	case err != nil:
		return err
	case k != ours:
		return store.Errorf(404, nil, "There is no store in %s; check KERNOS_HOME", dir)
	}
	l, err := acquire(dir)
	switch {
	case errors.Is(err, store.ErrInUse):
		return exportCopy(dir, []string{filepath.Dir(dir), spare}, each)
	case err != nil && unwritableNow(err):
		return exportReading(dir, spare, each)
	case err != nil:
		return err
	}
	return exportLocked(dir, l, spare, each)
}

// exportReading exports a store on a disk that takes nothing. A process that reads it may
// have it open.
func exportReading(dir, spare string, each func(store.Entry) error) error {
	e, err := openReading(dir, nil)
	if errors.Is(err, store.ErrInUse) {
		return exportCopy(dir, []string{spare}, each)
	}
	if err != nil {
		return err
	}
	return exportAll(e, each)
}

// exportLocked exports a store that no other process has open.
func exportLocked(dir string, l *lock, spare string, each func(store.Entry) error) error {
	all := (*Options)(nil).defaults()
	err := inspect(vfs.Default, dir, *all.schema, all.forPebble(&logger{log: all.Log}))
	if err != nil {
		l.undo()
		return err
	}
	if err := l.sign(self("")); err != nil {
		l.undo()
		if unwritableNow(err) {
			return exportReading(dir, spare, each)
		}
		return unwritable(dir, err)
	}
	return errors.Join(exportFrom(dir, all, each), l.release())
}

// exportFrom exports a store that does not change.
func exportFrom(dir string, opts Options, each func(store.Entry) error) error {
	e, err := openUnchanging(dir, opts)
	if err != nil {
		return err
	}
	return exportAll(e, each)
}

func exportAll(e *Engine, each func(store.Entry) error) error {
	for entry, err := range e.Scan(store.Range{}) {
		if err == nil {
			err = each(entry)
		}
		if err != nil {
			return errors.Join(err, e.Close())
		}
	}
	return e.Close()
}

// checkSchema refuses to export what would have to be migrated first.
func (e *Engine) checkSchema() error {
	version, kernos, err := readSchema(e.dir, e.db)
	if err != nil {
		return e.readError(err)
	}
	if version == 0 {
		return damage(e.dir, "", errors.New("there is no schema version in it"))
	}
	if err := e.opts.schema.check(e.dir, version, kernos); err != nil {
		return err
	}
	if version != e.opts.schema.version {
		return store.Errorf(503, nil, "The store in %s has an older form; start kernos once, which brings it up to date, and export it then", e.dir)
	}
	return nil
}

// maxTries is how often a copy is begun. A try is lost if a flush or a compaction ends
// while it is made, which takes a fraction of the time between two of them.
const maxTries = 200

var errMoved = errors.New("the store has changed while it was copied")

// exportCopy exports a store that a process has open, from a copy in the first of some
// places that takes one.
func exportCopy(dir string, places []string, each func(store.Entry) error) error {
	removeStale(dir, "export")
	var failed []error
	for _, place := range places {
		to, err := copyInto(dir, place)
		if err == nil {
			return errors.Join(exportFrom(to, (*Options)(nil).defaults(), each), os.RemoveAll(to))
		}
		failed = append(failed, err)
		if errors.Is(err, errMoved) {
			break
		}
	}
	return errors.Join(failed...)
}

// copyInto copies a store that a process has open into a new directory in a place, and
// leaves nothing there if it fails.
func copyInto(dir, place string) (to string, err error) {
	if to, err = makeTemporary(place, dir, "export"); err != nil {
		return "", uncopied(dir, place, err)
	}
	for try := 1; ; try++ {
		err := copyStore(dir, to)
		if err == nil {
			return to, nil
		}
		if errors.Is(err, errMoved) && try < maxTries {
			<-time.After(time.Duration(min(try, 20)) * time.Millisecond) // the other process finishes its change of files
			continue
		}
		if errors.Is(err, errMoved) {
			err = store.Errorf(503, err, "The store in %s changes too quickly to be copied; try again when less is written, or stop the process that has it", dir)
		} else {
			err = uncopied(dir, place, err)
		}
		return "", errors.Join(err, os.RemoveAll(to))
	}
}

func uncopied(dir, place string, err error) error {
	return store.Errorf(unwritable(place, err).Code, err, "The store in %s can't be copied to %s, from where it would be exported; make room there, or stop the process that has the store", dir, place)
}

// copyStore makes a copy as a crash would have left it. The manifest names which tables and
// logs there are. As long as it does not change, none of them is removed or
// used again, and the others are of no importance; so if it is the same before and after,
// what was copied in between belongs together.
//
// The logs are copied from the newest one to the oldest: only the newest grows, and
// what is cut off at its end must not be followed by anything.
func copyStore(from, to string) error {
	before, err := readManifest(from)
	if err != nil {
		return err
	}
	names, err := list(from)
	if err != nil {
		return err
	}
	there, err := list(to)
	if err != nil {
		return err
	}
	for _, name := range there {
		if !isTable(name) {
			if err := os.Remove(filepath.Join(to, name)); err != nil {
				return err
			}
		}
	}
	var logs []string
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, ".log"):
			logs = append(logs, name)
		case isTable(name):
			err = linkOrCopy(filepath.Join(from, name), filepath.Join(to, name))
		case strings.HasPrefix(name, "OPTIONS-"), strings.HasPrefix(name, "marker."):
			err = copyFile(filepath.Join(from, name), filepath.Join(to, name))
		}
		if err != nil {
			return moved(err)
		}
	}
	slices.SortFunc(logs, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a)) })
	for _, name := range logs {
		if err := copyLog(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return moved(err)
		}
	}
	after, err := readManifest(from)
	if err != nil {
		return err
	}
	if before.marker != after.marker || !bytes.Equal(before.text, after.text) {
		return errMoved
	}
	return os.WriteFile(filepath.Join(to, before.name), before.text, 0o600)
}

// A manifestCopy is for finding out whether a store has changed.
type manifestCopy struct {
	marker string // the names of the markers
	name   string
	text   []byte
}

func readManifest(dir string) (m manifestCopy, err error) {
	names, err := list(dir)
	if err != nil {
		return m, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "marker.") {
			m.marker += name + "\n"
		}
	}
	if m.name, err = atomicfs.ReadMarker(vfs.Default, dir, "manifest"); err != nil {
		return m, err
	}
	if m.name == "" {
		return m, errMoved
	}
	m.text, err = os.ReadFile(filepath.Join(dir, m.name))
	return m, moved(err)
}

// moved takes a file that is gone for a sign that the store has changed.
func moved(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errMoved
	}
	return err
}

// list returns the names in a directory in order.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, err
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// linkOrCopy gives a table another name. A copy of one that was still being written is
// made again.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	source, err := os.Stat(from)
	if err != nil {
		return err
	}
	if copied, err := os.Stat(to); err == nil && copied.Size() == source.Size() {
		return nil
	}
	return copyFile(from, to)
}

func copyFile(from, to string) error {
	return copyWith(from, to, func(out, in *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
}

// copyLog copies a log that a process may be writing.
func copyLog(from, to string) error {
	return copyWith(from, to, func(out, in *os.File) error {
		info, err := in.Stat()
		if err != nil {
			return err
		}
		return copyBackwards(out, in, info.Size())
	})
}

// copyBackwards copies from the end to the beginning, so that no part of the copy is older than what follows it.
// Pebble writes a log over an older one. A copy in the other direction that is overtaken by the writer has old bytes
// before new ones, which is damage; old bytes at the end are none.
func copyBackwards(out io.WriterAt, in io.ReaderAt, size int64) error {
	var page [4096]byte
	for at := (size - 1) / int64(len(page)) * int64(len(page)); at >= 0; at -= int64(len(page)) {
		n, err := in.ReadAt(page[:min(int64(len(page)), size-at)], at)
		if err != nil && err != io.EOF {
			return err
		}
		if _, err := out.WriteAt(page[:n], at); err != nil {
			return err
		}
	}
	return nil
}

func copyWith(from, to string, content func(out, in *os.File) error) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(content(out, in), out.Close())
}

// besidePrefix returns what the temporary directories beside a store begin with.
func besidePrefix(dir, what string) string { return "." + filepath.Base(dir) + "." + what + "-" }

func makeTemporary(place, dir, what string) (string, error) {
	return os.MkdirTemp(place, fmt.Sprintf("%s%d-*", besidePrefix(dir, what), os.Getpid()))
}

// removeStale removes temporary directories of processes that have died.
func removeStale(dir, what string) {
	names, err := list(filepath.Dir(dir))
	if err != nil {
		return
	}
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, besidePrefix(dir, what))
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(number); err == nil && pid > 0 && unix.Kill(pid, 0) == unix.ESRCH {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(dir), name)) // the process that made it is dead
		}
	}
}
