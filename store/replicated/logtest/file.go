package logtest

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store/replicated"
)

// A file has the entries of a log: each after its length, with a checksum behind it.
type file struct {
	f vfs.File
	b []byte
}

// Open returns the log in a file, which a crash does to what the servers of a cluster are: what was accepted stays.
func Open(fs vfs.FS, path string) (*Log, error) {
	l := New()
	stored, err := read(fs, path)
	if err != nil {
		return nil, err
	}
	fresh := path + ".new"
	f, err := fs.Create(fresh, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	l.file = &file{f: f}
	for {
		var e replicated.Entry
		var ok bool
		if e, stored, ok = parse(stored); !ok {
			break
		}
		if _, err := f.Write(encode(nil, e)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		l.entries = append(l.entries, e)
	}
	if err = f.Sync(); err == nil {
		err = fs.Rename(fresh, path)
	}
	if err == nil {
		err = syncDir(fs, fs.PathDir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// Close closes the file of a log.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.f.Close()
}

func read(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stored, err := io.ReadAll(f)
	return stored, errors.Join(err, f.Close())
}

func syncDir(fs vfs.FS, dir string) error {
	if dir == "" {
		dir = "."
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *file) append(e replicated.Entry) error {
	f.b = encode(f.b[:0], e)
	if _, err := f.f.Write(f.b); err != nil {
		return err
	}
	return f.f.Sync()
}

func encode(to []byte, e replicated.Entry) []byte {
	var text []byte
	for _, n := range []uint64{e.Sequence, e.Epoch, e.First, uint64(len(e.Groups))} {
		text = binary.AppendUvarint(text, n)
	}
	for _, body := range e.Groups {
		text = append(binary.AppendUvarint(text, uint64(len(body))), body...)
	}
	to = binary.BigEndian.AppendUint32(to, uint32(len(text)))
	to = append(to, text...)
	return binary.BigEndian.AppendUint32(to, crc32.ChecksumIEEE(text))
}

// parse returns the first entry of what is stored, unless it is torn.
func parse(stored []byte) (e replicated.Entry, rest []byte, ok bool) {
	if len(stored) < 8 {
		return e, nil, false
	}
	size := int(binary.BigEndian.Uint32(stored))
	if size == 0 || size > len(stored)-8 { // a power cut may leave zeros, whose checksum is right
		return e, nil, false
	}
	text, rest := stored[4:4+size], stored[8+size:]
	if binary.BigEndian.Uint32(stored[4+size:]) != crc32.ChecksumIEEE(text) {
		return e, nil, false
	}
	number := func() uint64 {
		v, n := binary.Uvarint(text)
		text = text[n:]
		return v
	}
	e.Sequence, e.Epoch, e.First = number(), number(), number()
	for range number() {
		n := number()
		e.Groups = append(e.Groups, append([]byte{}, text[:n]...))
		text = text[n:]
	}
	return e, rest, true
}
