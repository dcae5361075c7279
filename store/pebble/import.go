package pebble

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"kernos/store"
)

// importLeap is how many revisions an import leaves out: those of keys that were deleted
// before are not in it, and must not be given again.
const importLeap = 1 << 32

// importBatch is how many bytes are given to Pebble at a time.
const importBatch = 1 << 20

// Import makes a store in a directory that is absent or empty. next returns the entries,
// in any order, and false after the last one; they keep their revisions, and those of
// later batches are higher. The directory is there when the store is complete and
// durable, and not at all if anything fails.
func Import(dir string, next func() (store.Entry, bool, error)) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	switch k, err := recognise(vfs.Default, dir); {
	case err != nil:
		return err
	case k == ours || k == unfinished:
		return store.Errorf(409, nil, "There is a store in %s already; move it away, or use another KERNOS_HOME", dir)
	}
	parent := filepath.Dir(dir)
	if err := makeDir(vfs.Default, parent); err != nil {
		return unwritable(dir, err)
	}
	removeStale(dir, "import")
	temporary, err := makeTemporary(parent, dir, "import")
	if err != nil {
		return unwritable(dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	if err := build(temporary, next); err != nil {
		if _, ok := errors.AsType[*store.Error](err); ok || !diskError(err) {
			return err
		}
		return unwritable(dir, err)
	}
	if _, err := os.Stat(dir); err == nil {
		l, err := acquire(dir) // no other process makes a store of it now
		if err != nil {
			return err
		}
		l.made = true // the directory must be empty, and the file goes with it
		l.undo()
	}
	// An empty directory is replaced, any other is not.
	if err := unix.Rename(temporary, dir); err != nil {
		return store.Errorf(503, err, "The new store can't be moved to %s; check that nothing else was put there", dir)
	}
	if err := syncDir(vfs.Default, parent); err != nil {
		return unwritable(dir, err)
	}
	return nil
}

// diskError reports whether an error came from the disk, and not from next.
func diskError(err error) bool {
	_, ok := errors.AsType[*os.PathError](err)
	return ok || full(err)
}

// build makes a store of entries in an empty directory.
func build(dir string, next func() (store.Entry, bool, error)) (err error) {
	all := (*Options)(nil).defaults()
	if err := begin(vfs.Default, dir); err != nil {
		return err
	}
	h := newHealth(dir)
	d := newDisk(vfs.Default, h) // the disk is in its opening state, in which the first failure ends everything
	o := all.forPebble(&logger{log: all.Log, fatal: d.freeze})
	o.FS = d
	o.DisableWAL = true // an incomplete import is thrown away, so it needs no log
	db, err := crdb.Open(dir, o)
	if err != nil {
		if cause := d.opened(); cause != nil {
			return unwritable(dir, cause)
		}
		return unwritable(dir, err)
	}
	err = fill(db, *all.schema, next)
	if err == nil {
		err = db.Flush()
	}
	err = errors.Join(err, db.Close())
	if cause := d.opened(); cause != nil {
		return unwritable(dir, cause)
	}
	if err == nil {
		err = finish(vfs.Default, dir)
	}
	return err
}

// fill sets the entries and the engine's own keys.
func fill(db *crdb.DB, s schema, next func() (store.Entry, bool, error)) error {
	b := db.NewBatch()
	defer func() { _ = b.Close() }()
	var highest store.Revision
	var value []byte
	for {
		entry, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if foreign(entry.Key) || entry.Revision == 0 || entry.Revision > store.MaxRevision {
			return store.Errorf(422, nil, "The backup has an entry that no store can have: the key %s with revision %d", showText(string(entry.Key)), entry.Revision)
		}
		highest = max(highest, entry.Revision)
		value = append(binary.AppendUvarint(value[:0], uint64(entry.Revision)), entry.Value...)
		if err := b.Set(entry.Key, value, nil); err != nil {
			return err
		}
		if b.Len() >= importBatch {
			if err := b.Commit(crdb.NoSync); err != nil {
				return err
			}
			b.Reset()
		}
	}
	if err := b.Set([]byte(schemaKey), s.encode(), nil); err != nil {
		return err
	}
	if err := b.Set([]byte(revisionKey), binary.AppendUvarint(nil, uint64(highest)+importLeap), nil); err != nil {
		return err
	}
	return b.Commit(crdb.NoSync)
}
