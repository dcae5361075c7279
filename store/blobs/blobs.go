// Package blobs keeps large data as files in a directory, each under the hash of its
// content: the same data is kept once, and an existing file is complete.
//
// The need of a blob is a key in the store, which is set in the batch that makes
// the need durable. So no crash can make files and references drift apart:
//
//	blob, err := dir.Put(data)           // on disk from here on
//	blobs.Refer(&batch, blob.Hash, owner) // needed once the batch is applied
//
// [Dir.Collect] removes blobs that had no reference for a while.
//
// In a cluster, each node has a directory, and all have a [Depot].
//
// # Goroutines
//
//   - What the end of a context causes: a read that blocks, as of a pipe, is interrupted.
package blobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kernos/internal/durable"
	"kernos/message"
	"kernos/store"
)

// A Hash is the SHA-256 of a blob's content, and its name.
type Hash [sha256.Size]byte

// Sum returns the hash of data.
func Sum(data []byte) Hash { return sha256.Sum256(data) }

// String returns the hash as the name of its file: 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String has written.
func ParseHash(s string) (h Hash, err error) {
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("a blob's name has %d hexadecimal digits, got %d bytes", 2*len(h), len(s))
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return h, fmt.Errorf("a blob's name has hexadecimal digits in lower case only, got %q", c)
		}
	}
	_, err = hex.Decode(h[:], []byte(s))
	return h, err
}

// A Blob is data that is kept.
type Blob struct {
	Hash Hash
	Size int64
	Path string // absolute
}

// Pointer returns the pointer to the blob for a message.
func (b Blob) Pointer() message.BlobPointer { return message.FileBlob(b.Path) }

// A Dir is a directory of blobs. It is made when the first blob is, readable by its
// owner only. It is safe for concurrent use, also by several processes.
type Dir struct {
	path string
	mark []byte // the path before a blob's name, from the directory's own name on
	sign []byte // the longest part of it that JSON text has as it is, unless with a \u

	shared
}

// New returns the directory at path, which need not exist.
func New(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	name, separator := filepath.Base(abs), string(filepath.Separator)
	d := &Dir{path: abs, mark: []byte(separator + name + separator)}
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == '/' }) {
		if len(part) > len(d.sign) {
			d.sign = []byte(part)
		}
	}
	return d, nil
}

// Path returns the absolute path of a blob, whether it is there or not.
func (d *Dir) Path(h Hash) string {
	name := h.String()
	return filepath.Join(d.path, name[:2], name)
}

// Pointer returns the pointer to a blob for a message.
func (d *Dir) Pointer(h Hash) message.BlobPointer { return message.FileBlob(d.Path(h)) }

// Open opens a blob for reading. That of a blob which is not there is an
// [fs.ErrNotExist].
func (d *Dir) Open(h Hash) (*os.File, error) {
	f, err := os.Open(d.Path(h))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	// A collection that is about to see that it came too late may have it aside.
	if f, err := os.Open(d.aside(h)); err == nil {
		return f, nil
	}
	if err := d.bring(h); err != nil {
		return nil, err
	}
	return os.Open(d.Path(h))
}

// aside returns where a blob is while it is decided whether it goes.
func (d *Dir) aside(h Hash) string {
	dir, name := filepath.Split(d.Path(h))
	return filepath.Join(dir, asidePrefix+name)
}

// ErrDamaged means that a file does not hold the data that it was made for.
var ErrDamaged = errors.New("the content of the file is not what it was")

// Read returns the content of a blob, which is held against its hash.
func (d *Dir) Read(h Hash) ([]byte, error) {
	f, err := d.Open(h)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	defer func() { _ = f.Close() }()
	var size int64
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	data, err := readAll(f, size, math.MaxInt64-1)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	if Sum(data) != h {
		return nil, fmt.Errorf("blobs: %s: %w", d.Path(h), ErrDamaged)
	}
	return data, nil
}

// Put keeps data. When it returns, the data is on disk, and [Dir.Collect] leaves it
// alone for as long as it leaves a new blob.
func (d *Dir) Put(data []byte) (Blob, error) {
	h := Sum(data)
	blob := Blob{Hash: h, Size: int64(len(data)), Path: d.Path(h)}
	kept := renew(blob.Path, blob.Size)
	if kept && blob.Size <= maxCompared {
		old, err := os.ReadFile(blob.Path)
		kept = err == nil && bytes.Equal(old, data) // a damaged blob is written again
	}
	err := makeDurable(blob.Path, kept, func() error { return durable.WriteFile(blob.Path, data) })
	if err == nil {
		err = d.Share(h)
	}
	if err != nil {
		return Blob{}, unkept(err)
	}
	return blob, nil
}

// makeDurable makes sure that a blob is durable. If it is there already, the process that put
// it there may not have synced the directory yet; otherwise write writes it.
func makeDurable(path string, there bool, write func() error) error {
	if there {
		return durable.SyncDir(filepath.Dir(path))
	}
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return write()
}

// maxCompared is how large a blob may be that is compared with an existing file.
const maxCompared = 1 << 20

// unkept returns the error for a blob that could not be kept.
func unkept(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return store.Errorf(507, err, "The disk is full: make room, and try again")
	}
	return fmt.Errorf("blobs: %w", err)
}

// renew makes a file as new, and reports whether it is a regular file of a size, or of any
// size if that is negative. A file that can't be made new counts as absent: it is replaced.
func renew(path string, size int64) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || size >= 0 && info.Size() != size {
		return false
	}
	// A collection may be about to remove it. If it is still there after it was made new,
	// the collection sees that it is new.
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return false
	}
	_, err = os.Lstat(path)
	return err == nil
}

// Keep makes blobs as new as [Dir.Put] does, and returns those that exist: a collection
// leaves them alone for a while. It is for callers that refer to blobs that others have
// put.
func (d *Dir) Keep(hashes []Hash) (there []Hash) {
	for _, h := range hashes {
		if d.bring(h) == nil && renew(d.Path(h), -1) {
			there = append(there, h)
		}
	}
	return there
}

// PutReader keeps what a reader gives, which may be more than memory has room for. More
// than limit bytes are an error with code 413, and nothing is kept.
func (d *Dir) PutReader(r io.Reader, limit int64) (Blob, error) {
	if err := durable.MakeDir(d.path); err != nil {
		return Blob{}, unkept(err)
	}
	sum := sha256.New()
	var blob Blob
	// The name is not known before the end is, so the file grows beside the others.
	temporary, err := durable.Temporary(d.path, func(f io.Writer) error {
		var err error
		blob.Size, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, limit+1))
		if err == nil && blob.Size > limit {
			err = tooLarge(limit)
		}
		return err
	})
	if err == nil {
		sum.Sum(blob.Hash[:0])
		blob.Path = d.Path(blob.Hash)
		err = d.adopt(temporary, blob)
	}
	if err == nil {
		err = d.Share(blob.Hash)
	}
	if err != nil {
		return Blob{}, unkept(err)
	}
	return blob, nil
}

// adopt gives a temporary file its name, or removes it if the blob is there.
func (d *Dir) adopt(temporary string, b Blob) error {
	kept := renew(b.Path, b.Size)
	err := makeDurable(b.Path, kept, func() error { return durable.Rename(temporary, b.Path) })
	if err != nil || kept {
		err = errors.Join(err, durable.Remove(temporary))
	}
	return err
}

// Root returns the absolute path of the directory.
func (d *Dir) Root() string { return d.path }
