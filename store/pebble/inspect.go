package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"syscall"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// inspect looks whether a directory of ours is whole, and changes nothing. The library
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
	fromLogs, sure, err := readLogs(fs, dir)
	if err != nil {
		return err
	}
	if !sure {
		// Something is wrong with a log. Whether it is still needed is known to the
		// library only.
		db, err := openReadOnly(fs, dir, opts, false)
		if err != nil {
			return damage(dir, "", err)
		}
		if err := db.Close(); err != nil {
			return damage(dir, "", err)
		}
	}
	if v, k, ok := parseSchema(fromLogs); ok && v > version {
		version, kernos = v, k
	}
	if version == 0 {
		return damage(dir, "", errors.New("there is no schema version in it"))
	}
	return s.check(dir, version, kernos)
}

// checkFiles looks for the files without which the library would begin anew.
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
		return damage(dir, options, errors.New("it does not say what it should"))
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
	db, err := openReadOnly(fs, dir, opts, true)
	if err != nil {
		return 0, "", damage(dir, "", err)
	}
	value, err := readOwn(db, schemaKey)
	if err == nil {
		_, err = readLease(dir, db)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, "", damage(dir, "", err)
	}
	if value == nil {
		return 0, "", nil
	}
	version, kernos, ok := parseSchema(value)
	if !ok {
		return 0, "", damage(dir, "", errors.New("its schema version is unreadable"))
	}
	return version, kernos, nil
}

// openReadOnly opens a store without a change to the directory.
func openReadOnly(fs vfs.FS, dir string, opts *crdb.Options, withoutLogs bool) (db *crdb.DB, err error) {
	defer func() {
		// The library is meant for directories that only it has written.
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("%v", r)
		}
	}()
	o := *opts
	o.FS = &readOnly{FS: fs, withoutLogs: withoutLogs}
	o.ReadOnly = true
	o.ErrorIfNotExists = true
	return crdb.Open(dir, &o)
}

// readLogs reads all logs. It returns the last schema in them, if there is one, and
// whether they are surely whole.
func readLogs(fs vfs.FS, dir string) (schema []byte, sure bool, err error) {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return nil, false, unreadable(dir, err)
	}
	var buf bytes.Buffer
	for i, log := range logs {
		found, err := readLog(log, &buf)
		if found != nil {
			schema = found
		}
		switch {
		case errors.Is(err, io.EOF):
		case errors.Is(err, record.ErrUnexpectedEOF) && i == len(logs)-1:
			// The end of the last log may be torn. Nothing that was synced may be.
			_, path := log.SegmentLocation(log.NumSegments() - 1)
			text, err := readFile(fs, path, 1<<31)
			if err != nil {
				return nil, false, unreadable(dir, err)
			}
			if err := checkLog(text, uint32(log.Num)); err != nil {
				return nil, false, damage(dir, fs.PathBase(path), err)
			}
		default:
			return schema, false, nil
		}
	}
	return schema, true, nil
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

// The form of a file of records: blocks, in each of which are chunks with a header of
// checksum, length and type.
const (
	recordBlock  = 32 << 10
	recordHeader = 7
)

// checkRecords finds a broken chunk in a manifest. The last record may be broken by a
// power cut, in ways that a change to the file would not look like: it ends early or in
// zeros, or only its end is there.
func checkRecords(text []byte) error {
	broken := -1
	for at := 0; at+recordHeader <= len(text); {
		rest := recordBlock - at%recordBlock
		if rest < recordHeader {
			at += rest
			continue
		}
		chunk := text[at:min(at+rest, len(text))]
		n, ok := validChunk(chunk)
		switch {
		case ok && broken >= 0 && beginsRecord(chunk):
			return fmt.Errorf("the record at byte %d is broken, and the one at byte %d is not", broken, at)
		case ok:
			at += n
		case broken < 0 && changed(chunk):
			return fmt.Errorf("the record at byte %d is broken", at)
		case broken < 0:
			broken = at
			at++ // the next chunk of this block may be anywhere
		case at/recordBlock == broken/recordBlock:
			at++
		default:
			at += rest
		}
	}
	if broken == 0 || len(text) < recordHeader {
		return errors.New("its first record is broken")
	}
	return nil
}

// beginsRecord reports whether a valid chunk is the first one of a record.
func beginsRecord(chunk []byte) bool { return chunk[6] == 1 || chunk[6] == 2 }

// validChunk returns the length of the chunk that text begins with, if it is one.
func validChunk(text []byte) (int, bool) {
	if len(text) < recordHeader || text[6] < 1 || text[6] > 4 {
		return 0, false
	}
	end := recordHeader + int(binary.LittleEndian.Uint16(text[4:6]))
	if end > len(text) {
		return 0, false
	}
	return end, binary.LittleEndian.Uint32(text) == checksum(text[6:end])
}

// changed reports whether the broken chunk that text begins with was whole once: it is
// all there, too short to be written in pieces, and does not end in what was never
// written.
func changed(text []byte) bool {
	length := int(binary.LittleEndian.Uint16(text[4:6]))
	end := recordHeader + length
	return length > 0 && length < 4096 && end <= len(text) && text[end-1] != 0
}

// checksum is that of the library's files.
func checksum(b []byte) uint32 {
	c := crc32.Update(0, castagnoli, b)
	return (c>>15 | c<<17) + 0xa282ead8
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A chunk of a log has in its header, too, the number of the log and up to where the log
// had been synced when it was written.
const (
	logHeader     = 19
	firstLogChunk = 9 // the types of its chunks
	lastLogChunk  = 12
)

// checkLog finds a broken chunk that is followed by one which says that it was synced. The
// library looks for it in later blocks, this function in the same one.
func checkLog(text []byte, number uint32) error {
	for at := 0; at+logHeader <= len(text); {
		rest := recordBlock - at%recordBlock
		if rest < logHeader {
			at += rest
			continue
		}
		block := text[at:min(at+rest, len(text))]
		n, _, ok := logChunk(block, number)
		if ok {
			at += n
			continue
		}
		for next := 1; next+logHeader <= len(block); next++ {
			if _, synced, ok := logChunk(block[next:], number); ok && synced > uint64(at) {
				return fmt.Errorf("the record at byte %d is broken, and %d bytes had been written when the next one was", at, synced)
			}
		}
		return nil
	}
	return nil
}

// logChunk returns the length of the chunk that text begins with, if it is one of the log,
// and what had been synced before it.
func logChunk(text []byte, number uint32) (n int, synced uint64, ok bool) {
	if len(text) < logHeader || text[6] < firstLogChunk || text[6] > lastLogChunk ||
		binary.LittleEndian.Uint32(text[7:]) != number {
		return 0, 0, false
	}
	n = logHeader + int(binary.LittleEndian.Uint16(text[4:]))
	if n > len(text) || binary.LittleEndian.Uint32(text) != checksum(text[6:n]) {
		return 0, 0, false
	}
	return n, binary.LittleEndian.Uint64(text[11:]), true
}

// A readOnly file system refuses to change anything.
type readOnly struct {
	vfs.FS
	withoutLogs bool // hides the logs
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
