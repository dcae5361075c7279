// Package archive is the form of a backup: one file with the entries of a store and the
// blobs that belong to them, whatever engine they come from or go to.
//
// A file is one Zstandard stream of
//
//	magic    "KERNOS BACKUP\n"
//	header   uvarint length, JSON
//	items    'e' entry: revision, key length, value length as uvarints, key, value
//	         'b' blob: 32 bytes SHA-256, length as uvarint, content
//	trailer  'z', how many entries and blobs there are as uvarints, and the SHA-256 of
//	         everything before it
//
// What a file reports about itself is not believed: a reader allocates for what has come, and an
// entry, a revision, a window of the compression and, with [Reader.Limit], all of it together
// have bounds.
//
// A file that has no trailer, or one that does not fit, is damaged: [Reader.Next] reports it
// at its end, and a restore then discards what came before.
package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"kernos/internal/visible"
	"kernos/store"
)

const (
	magic = "KERNOS BACKUP\n"

	// Since version 2, entries may have forms that versions of kernos before 0.20.0 take for damage.
	version = 2

	zstdMagic = "\x28\xB5\x2F\xFD" // the first bytes of a Zstandard stream

	maxHeader = 64 << 10
	maxKey    = 64 << 10
	maxValue  = 64 << 20 // more than anything keeps under one key; what is large is in blobs
	maxBlob   = 1 << 50
	maxWindow = 8 << 20 // window of the decompressor; a writer has half of it
)

// A Header names what a backup is of.
type Header struct {
	Version int          `json:"version"`
	Origin  store.Origin `json:"origin"`
	Created time.Time    `json:"created"`
	Kernos  string       `json:"kernos"` // the version that made it
	Key     *Key         `json:"key,omitempty"`
}

// A Key is the key with which secrets are sealed, itself sealed with a passphrase. What its fields
// mean is for its maker to know.
type Key struct {
	Version int    `json:"version" jsonschema_description:"The form of the key: 1."`
	Salt    []byte `json:"salt" jsonschema_description:"What the passphrase was salted with, in base64."`
	Text    []byte `json:"text" jsonschema_description:"The sealed key, in base64."`
}

// A Summary counts what a backup holds.
type Summary struct {
	Entries, Blobs uint64
}

// A Writer writes a backup.
type Writer struct {
	zip *zstd.Encoder
	out *bufio.Writer // into zip and sum
	sum hash.Hash
	buf []byte
	Summary
}

// NewWriter begins a backup.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	zip, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	a := &Writer{zip: zip, sum: sha256.New()}
	a.out = bufio.NewWriterSize(io.MultiWriter(zip, a.sum), 256<<10)
	h.Version = version
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	_, _ = a.out.WriteString(magic) // an error stays, and Close returns it
	a.number(uint64(len(text)))
	_, err = a.out.Write(text)
	return a, err
}

func (a *Writer) number(n uint64) {
	a.buf = binary.AppendUvarint(a.buf[:0], n)
	_, _ = a.out.Write(a.buf)
}

// Entry adds an entry.
func (a *Writer) Entry(e store.Entry) error {
	if len(e.Key) > maxKey || len(e.Value) > maxValue {
		return fmt.Errorf("an entry of %d and %d bytes is too large for a backup", len(e.Key), len(e.Value))
	}
	a.Entries++
	_ = a.out.WriteByte('e')
	a.number(uint64(e.Revision))
	a.number(uint64(len(e.Key)))
	a.number(uint64(len(e.Value)))
	_, _ = a.out.Write(e.Key)
	_, err := a.out.Write(e.Value)
	return err
}

// Blob adds a blob of a known size.
func (a *Writer) Blob(sum [32]byte, size int64, content io.Reader) error {
	a.Blobs++
	_ = a.out.WriteByte('b')
	_, _ = a.out.Write(sum[:])
	a.number(uint64(size))
	n, err := io.Copy(a.out, io.LimitReader(content, size))
	if err == nil && n != size {
		err = fmt.Errorf("the blob %x has %d bytes, and should have %d", sum, n, size)
	}
	return err
}

// Close ends the backup. It does not close the writer that it goes to.
func (a *Writer) Close() error {
	_ = a.out.WriteByte('z')
	a.number(a.Entries)
	a.number(a.Blobs)
	if err := a.out.Flush(); err != nil {
		_ = a.zip.Close()
		return err
	}
	if _, err := a.zip.Write(a.sum.Sum(nil)); err != nil {
		_ = a.zip.Close()
		return err
	}
	return a.zip.Close()
}

// errDamaged is the error of a file that is not, or no longer, a whole backup.
var errDamaged = errors.New("the file is damaged, or not a whole backup of kernos")

// errForeign is the error of a file that is something else.
var errForeign = fmt.Errorf("%w: it does not begin as one", errDamaged)

// broken returns the error of a file that can't be read on.
func broken(err error) error {
	if _, ok := errors.AsType[*TooLarge](err); ok {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too soon, its end is missing", errDamaged)
	}
	return fmt.Errorf("%w: it can't be unpacked, a part of it was changed: %w", errDamaged, err)
}

// An Item is an entry or, if its Content is not nil, a blob.
type Item struct {
	Entry   store.Entry
	Sum     [32]byte
	Size    int64
	Content io.Reader // to be read before the next item
}

// A Reader reads a backup.
type Reader struct {
	Header Header
	Summary

	zip  *zstd.Decoder
	room limited       // reads the output of zip, up to a limit
	in   *bufio.Reader // reads room
	sum  hash.Hash
	blob *content // the blob that is being read, or nil
	err  error    // the first one; nothing is read after it
}

// NewReader reads the beginning of a backup. The reader must be closed.
func NewReader(r io.Reader) (*Reader, error) {
	packed := bufio.NewReader(r)
	if head, err := packed.Peek(len(zstdMagic)); len(head) == 0 && err == io.EOF {
		return nil, fmt.Errorf("%w: it is empty", errDamaged)
	} else if string(head) != zstdMagic[:len(head)] {
		return nil, errForeign
	}
	zip, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, broken(err)
	}
	a := &Reader{zip: zip, room: limited{zip, math.MaxInt64}, sum: sha256.New()}
	a.in = bufio.NewReaderSize(&a.room, 256<<10)
	if err := a.header(); err != nil {
		zip.Close()
		return nil, err
	}
	return a, nil
}

// A TooLarge is the error of a backup that unpacks to more than the reader's limit.
type TooLarge struct{}

func (*TooLarge) Error() string { return "the backup unpacks to more than there is room for" }

// limited is a reader that fails when it has given as much as it may.
type limited struct {
	from io.Reader
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, new(TooLarge)
	}
	n, err := l.from.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Limit bounds how many bytes are unpacked from now on, about. More are a [TooLarge].
func (a *Reader) Limit(bytes int64) { a.room.left = bytes }

func (a *Reader) header() error {
	if head := a.bytes(uint64(len(magic))); a.err == nil && string(head) != magic {
		return errForeign
	}
	text := a.bytes(a.number(maxHeader))
	if a.err != nil {
		return a.err
	}
	if err := json.Unmarshal(text, &a.Header); err != nil {
		return fmt.Errorf("%w: its header can't be read: %w", errDamaged, err)
	}
	if a.Header.Version < 1 || a.Header.Version > version {
		return fmt.Errorf("the backup has version %d, and this kernos reads versions up to %d; use the kernos %s that made it, or a newer one", a.Header.Version, version, visible.Text(a.Header.Kernos))
	}
	if origin, err := store.ParseOrigin(string(a.Header.Origin)); err != nil || origin != a.Header.Origin || visible.Text(string(origin)) != string(origin) {
		return fmt.Errorf("%w: its origin %s is invalid", errDamaged, visible.Text(string(a.Header.Origin)))
	}
	return nil
}

// bytes reads n bytes and adds them to the checksum. It allocates as they come: the number
// may be wrong.
func (a *Reader) bytes(n uint64) (b []byte) {
	const step = 64 << 10
	for uint64(len(b)) < n && a.err == nil {
		at := len(b)
		b = slices.Grow(b, int(min(n-uint64(at), uint64(max(step, at))))) // at most twice as much as has come
		b = b[:min(uint64(cap(b)), n)]
		if _, err := io.ReadFull(a.in, b[at:]); err != nil {
			a.err = broken(err)
		}
		a.sum.Write(b[at:])
	}
	return b
}

func (a *Reader) number(most uint64) uint64 {
	if a.err != nil {
		return 0
	}
	head, err := a.in.Peek(binary.MaxVarintLen64)
	n, length := binary.Uvarint(head)
	switch {
	case length == 0:
		a.err = broken(err)
	case length < 0 || n > most:
		a.err = fmt.Errorf("%w: a number in it is too large", errDamaged)
	default:
		a.bytes(uint64(length))
	}
	return n
}

// Next returns the next item. io.EOF means that this was all, and that it is whole.
func (a *Reader) Next() (Item, error) {
	if a.blob != nil {
		a.err = a.blob.finish()
		a.blob = nil
	}
	tag := a.bytes(1)
	if a.err != nil {
		return Item{}, a.err
	}
	var item Item
	switch tag[0] {
	case 'e':
		item.Entry.Revision = store.Revision(a.number(uint64(store.MaxRevision)))
		keyLength, valueLength := a.number(maxKey), a.number(maxValue)
		item.Entry.Key, item.Entry.Value = a.bytes(keyLength), a.bytes(valueLength)
		a.Entries++
	case 'b':
		copy(item.Sum[:], a.bytes(uint64(len(item.Sum))))
		item.Size = int64(a.number(maxBlob))
		a.blob = &content{from: a, left: item.Size, sum: sha256.New(), want: item.Sum}
		item.Content = a.blob
		a.Blobs++
	case 'z':
		a.trailer()
	default:
		a.err = fmt.Errorf("%w: an item of an unknown kind", errDamaged)
	}
	return item, a.err
}

// content is a blob as it is read. Its errors describe what is wrong with the file.
type content struct {
	from *Reader
	left int64
	sum  hash.Hash
	want [sha256.Size]byte
}

func (c *content) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.from.in.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	c.from.sum.Write(b[:n])
	c.sum.Write(b[:n])
	if err != nil {
		err = broken(err)
	}
	return n, err
}

// finish reads what was left of a blob, and checks it.
func (c *content) finish() error {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	if [sha256.Size]byte(c.sum.Sum(nil)) != c.want {
		return fmt.Errorf("%w: the blob %x has another content", errDamaged, c.want)
	}
	return nil
}

// trailer checks the end of a backup.
func (a *Reader) trailer() {
	entries, blobs := a.number(math.MaxInt64), a.number(math.MaxInt64)
	want := a.sum.Sum(nil)
	got := a.bytes(uint64(len(want)))
	if a.err != nil {
		return
	}
	a.err = io.EOF
	if entries != a.Entries || blobs != a.Blobs || string(got) != string(want) {
		a.err = fmt.Errorf("%w: its checksum does not fit", errDamaged)
	} else if _, err := a.in.ReadByte(); err != io.EOF {
		a.err = fmt.Errorf("%w: something stands behind its end", errDamaged)
	}
}

// Close lets go of the reader's memory.
func (a *Reader) Close() { a.zip.Close() }
