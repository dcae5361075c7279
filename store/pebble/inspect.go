package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// inspect checks that the directory of a store is whole, and changes nothing. Pebble
// finds some damage only after it has begun to write, and some not at all: it takes
// a manifest with a broken record for one that ends there, and removes the tables that
// the rest of it names.
func inspect(fs vfs.FS, dir string, s schema, opts *crdb.Options) error {
	if err := checkFiles(fs, dir); err != nil {
		return err
	}
	version, kernos, err := readTables(fs, dir, opts)
	if err != nil {
		return err
	}
	fromLogs, suspects, err := readLogs(fs, dir)
	if err == nil && len(suspects) > 0 {
		err = replay(fs, dir, opts, suspects)
	}
	if err != nil {
		return err
	}
	if v, k, ok := parseSchema(fromLogs); ok && v > version {
		version, kernos = v, k
	}
	if version == 0 {
		return damage(dir, "", errors.New("there is no schema version in it"))
	}
	return s.check(dir, version, kernos)
}

// checkFiles looks for the files without which Pebble would begin anew.
func checkFiles(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	var options string
	for _, name := range names {
		if strings.HasPrefix(name, "OPTIONS-") && len(name) >= len(options) && name > options {
			options = name
		}
	}
	if options == "" {
		return damage(dir, "OPTIONS", os.ErrNotExist)
	}
	text, err := readFile(fs, fs.PathJoin(dir, options), 1<<20)
	if err != nil {
		return unreadable(dir, err)
	}
	if !bytes.HasPrefix(text, []byte("[Version]")) || !bytes.Contains(text, []byte("\n[Options]")) {
		return damage(dir, options, errors.New("its content is not what it should be"))
	}
	for _, marker := range []string{"format-version", "manifest"} {
		value, err := atomicfs.ReadMarker(fs, dir, marker)
		if err == nil && value == "" {
			err = os.ErrNotExist
		}
		if err != nil {
			return damage(dir, "marker."+marker, err)
		}
		if marker == "manifest" {
			text, err := readFile(fs, fs.PathJoin(dir, value), 1<<30)
			if err != nil {
				if errors.Is(err, os.ErrPermission) {
					return unreadable(dir, err)
				}
				return damage(dir, value, err)
			}
			if err := checkRecords(text); err != nil {
				return damage(dir, value, err)
			}
		}
	}
	return nil
}

// readTables opens the tables without the logs, and returns the schema in them: 0 if it
// is still in a log.
func readTables(fs vfs.FS, dir string, opts *crdb.Options) (version uint64, kernos string, err error) {
	db, err := openReadOnly(&readOnly{FS: fs, withoutLogs: true}, dir, opts)
	if err != nil {
		return 0, "", damage(dir, "", err)
	}
	version, kernos, err = readSchema(dir, db)
	if err == nil {
		_, err = readLease(dir, db)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, "", damage(dir, "", err)
	}
	return version, kernos, nil
}

// openReadOnly opens a store on a file system that refuses changes.
func openReadOnly(fs *readOnly, dir string, opts *crdb.Options) (db *crdb.DB, err error) {
	defer func() {
		// Pebble is meant for directories that only it has written.
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("%v", r)
		}
	}()
	o := *opts
	o.FS = fs
	o.ReadOnly = true
	o.ErrorIfNotExists = true
	return crdb.Open(dir, &o)
}

// readLogs reads all logs. It returns the last schema in them, if there is one, and what is
// wrong with those that may no longer be needed, by their names.
func readLogs(fs vfs.FS, dir string) (schema []byte, suspects map[string]error, err error) {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return nil, nil, unreadable(dir, err)
	}
	suspects = make(map[string]error)
	var text, buf bytes.Buffer
	for i, log := range logs {
		_, path := log.SegmentLocation(log.NumSegments() - 1)
		name, last := fs.PathBase(path), i == len(logs)-1
		if err := readInto(&text, fs, path, math.MaxInt64); err != nil {
			return nil, nil, unreadable(dir, err)
		}
		// Pebble takes some damage for the end of a log.
		wrong := checkLog(text.Bytes(), uint32(log.Num))
		if wrong != nil && last {
			return nil, nil, damage(dir, name, wrong)
		}
		if wrong == nil {
			var found []byte
			if found, wrong = readLog(log, &buf); found != nil {
				schema = found
			}
			if errors.Is(wrong, io.EOF) || errors.Is(wrong, record.ErrUnexpectedEOF) && last {
				wrong = nil // the end of the last one may be torn
			}
		}
		if wrong != nil {
			suspects[name] = wrong
		}
	}
	return schema, suspects, nil
}

// replay has Pebble read the logs that it needs. Those that are wrong must not be among
// them.
func replay(fs vfs.FS, dir string, opts *crdb.Options, suspects map[string]error) error {
	watched := &readOnly{FS: fs, opened: make(map[string]bool)}
	db, err := openReadOnly(watched, dir, opts)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return damage(dir, "", err)
	}
	for _, name := range slices.Sorted(maps.Keys(suspects)) {
		if watched.opened[name] {
			return damage(dir, name, suspects[name])
		}
	}
	return nil
}

func readLog(log wal.LogicalLog, buf *bytes.Buffer) (schema []byte, err error) {
	r := log.OpenForRead()
	defer func() { _ = r.Close() }()
	for {
		chunk, _, err := r.NextRecord()
		if err != nil {
			return schema, err
		}
		buf.Reset()
		if _, err := buf.ReadFrom(chunk); err != nil {
			return schema, err
		}
		if found := schemaIn(buf.Bytes()); found != nil {
			schema = found
		}
	}
}

// schemaIn returns a copy of the schema that a batch sets, or nil.
func schemaIn(batch []byte) (schema []byte) {
	if !bytes.Contains(batch, []byte(schemaKey)) || len(batch) < batchrepr.HeaderLen {
		return nil
	}
	for r := batchrepr.Read(batch); ; {
		_, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return schema
		}
		if string(key) == schemaKey && len(value) > 0 {
			schema = bytes.Clone(value)
		}
	}
}

// A readOnly file system refuses to change anything.
type readOnly struct {
	vfs.FS
	withoutLogs bool            // hides the logs
	opened      map[string]bool // the logs that were opened, if it is not nil
}

func (f *readOnly) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if base := f.FS.PathBase(name); f.opened != nil && strings.HasSuffix(base, ".log") {
		f.opened[base] = true
	}
	return f.FS.Open(name, opts...)
}

func (f *readOnly) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	if !f.withoutLogs {
		return names, err
	}
	kept := names[:0]
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			kept = append(kept, name)
		}
	}
	return kept, err
}

func (f *readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, syscall.EROFS }
func (f *readOnly) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, syscall.EROFS
}
func (f *readOnly) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, syscall.EROFS
}
func (f *readOnly) Link(string, string) error          { return syscall.EROFS }
func (f *readOnly) Remove(string) error                { return syscall.EROFS }
func (f *readOnly) RemoveAll(string) error             { return syscall.EROFS }
func (f *readOnly) Rename(string, string) error        { return syscall.EROFS }
func (f *readOnly) MkdirAll(string, os.FileMode) error { return syscall.EROFS }
func (f *readOnly) Lock(string) (io.Closer, error)     { return io.NopCloser(nil), nil }
func (f *readOnly) Unwrap() vfs.FS                     { return f.FS }
