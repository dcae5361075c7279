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
// A file that has no trailer, or one that does not fit, is damaged: [Reader.Next] says so
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
	"time"

	"github.com/klauspost/compress/zstd"

	"kernos/store"
)

const (
	magic   = "KERNOS BACKUP\n"
	version = 1

	zstdMagic = "\x28\xB5\x2F\xFD" // with which a Zstandard stream begins

	maxHeader = 64 << 10
	maxKey    = 64 << 10
	maxValue  = 1 << 30
	maxMemory = 256 << 20 // of the decompressor
)

// A Header says what a backup is of.
type Header struct {
	Version int          `json:"version"`
	Origin  store.Origin `json:"origin"`
	Created time.Time    `json:"created"`
	Kernos  string       `json:"kernos"` // the version that made it
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

// ErrDamaged is the error of a file that is not, or no longer, a whole backup.
var ErrDamaged = errors.New("the file is damaged, or not a whole backup of kernos")

// errForeign is the error of a file that is something else.
var errForeign = fmt.Errorf("%w: it does not begin as one", ErrDamaged)

// broken is the error of a file that can't be read on.
func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too soon, its end is missing", ErrDamaged)
	}
	return fmt.Errorf("%w: it can't be unpacked, a part of it was changed: %w", ErrDamaged, err)
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

	zip     *zstd.Decoder
	in      *bufio.Reader
	sum     hash.Hash
	content *io.LimitedReader
	blobSum hash.Hash
	want    [32]byte
	Summary
}

// NewReader reads the beginning of a backup. The reader must be closed.
func NewReader(r io.Reader) (*Reader, error) {
	packed := bufio.NewReader(r)
	if head, err := packed.Peek(len(zstdMagic)); len(head) == 0 && err == io.EOF {
		return nil, fmt.Errorf("%w: it is empty", ErrDamaged)
	} else if string(head) != zstdMagic[:len(head)] {
		return nil, errForeign
	}
	zip, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemory))
	if err != nil {
		return nil, broken(err)
	}
	a := &Reader{zip: zip, sum: sha256.New()}
	a.in = bufio.NewReaderSize(zip, 256<<10)
	if err := a.header(); err != nil {
		zip.Close()
		return nil, err
	}
	return a, nil
}

func (a *Reader) header() error {
	head := make([]byte, len(magic))
	if err := a.read(head); err != nil {
		return err
	}
	if string(head) != magic {
		return errForeign
	}
	n, err := a.number(maxHeader)
	if err != nil {
		return err
	}
	text := make([]byte, n)
	if err := a.read(text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a.Header); err != nil {
		return fmt.Errorf("%w: its header can't be read: %w", ErrDamaged, err)
	}
	if a.Header.Version != version {
		return fmt.Errorf("the backup has version %d, and this kernos reads version %d; use the kernos %s that made it, or a newer one", a.Header.Version, version, a.Header.Kernos)
	}
	return nil
}

// read fills b and adds it to the checksum.
func (a *Reader) read(b []byte) error {
	if _, err := io.ReadFull(a.in, b); err != nil {
		return broken(err)
	}
	a.sum.Write(b)
	return nil
}

func (a *Reader) number(most uint64) (uint64, error) {
	var b [1]byte
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		if err := a.read(b[:]); err != nil {
			return 0, err
		}
		n |= uint64(b[0]&0x7F) << shift
		if b[0] < 0x80 {
			if n > most {
				break
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: a number in it is too large", ErrDamaged)
}

// Next returns the next item. io.EOF says that this was all, and that it is whole.
func (a *Reader) Next() (Item, error) {
	if err := a.finishBlob(); err != nil {
		return Item{}, err
	}
	var tag [1]byte
	if err := a.read(tag[:]); err != nil {
		return Item{}, err
	}
	switch tag[0] {
	case 'e':
		return a.entry()
	case 'b':
		return a.blob()
	case 'z':
		return Item{}, a.trailer()
	}
	return Item{}, fmt.Errorf("%w: an item of an unknown kind", ErrDamaged)
}

func (a *Reader) entry() (Item, error) {
	revision, err := a.number(1<<63 - 1)
	if err != nil {
		return Item{}, err
	}
	keyLength, err := a.number(maxKey)
	if err != nil {
		return Item{}, err
	}
	valueLength, err := a.number(maxValue)
	if err != nil {
		return Item{}, err
	}
	key := make([]byte, keyLength)
	if err := a.read(key); err != nil {
		return Item{}, err
	}
	value, err := a.grow(int(valueLength))
	if err != nil {
		return Item{}, err
	}
	a.Entries++
	return Item{Entry: store.Entry{Key: key, Value: value, Revision: store.Revision(revision)}}, nil
}

// grow reads n bytes, and allocates as they come: the number may be a lie.
func (a *Reader) grow(n int) ([]byte, error) {
	const step = 1 << 20
	value := make([]byte, 0, min(n, step))
	for len(value) < n {
		more := min(n-len(value), step)
		value = append(value, make([]byte, more)...)
		if err := a.read(value[len(value)-more:]); err != nil {
			return nil, err
		}
	}
	return value, nil
}

func (a *Reader) blob() (Item, error) {
	if err := a.read(a.want[:]); err != nil {
		return Item{}, err
	}
	size, err := a.number(1<<63 - 1)
	if err != nil {
		return Item{}, err
	}
	a.blobSum = sha256.New()
	a.content = &io.LimitedReader{R: a.in, N: int64(size)}
	a.Blobs++
	return Item{Sum: a.want, Size: int64(size), Content: &content{a.content, io.MultiWriter(a.sum, a.blobSum)}}, nil
}

// content is a blob as it is read. Its errors say what is wrong with the file.
type content struct {
	in   *io.LimitedReader
	sums io.Writer
}

func (c *content) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	_, _ = c.sums.Write(b[:n]) // a checksum takes everything
	if err != nil && (err != io.EOF || c.in.N > 0) {
		err = broken(err)
	}
	return n, err
}

// finishBlob reads what was left of a blob, and checks it.
func (a *Reader) finishBlob() error {
	if a.content == nil {
		return nil
	}
	_, err := io.Copy(io.MultiWriter(a.sum, a.blobSum), a.content)
	if err == nil && a.content.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	a.content = nil
	if err != nil {
		return broken(err)
	}
	if [32]byte(a.blobSum.Sum(nil)) != a.want {
		return fmt.Errorf("%w: the blob %x has another content", ErrDamaged, a.want)
	}
	return nil
}

func (a *Reader) trailer() error {
	entries, err := a.number(1<<63 - 1)
	if err != nil {
		return err
	}
	blobs, err := a.number(1<<63 - 1)
	if err != nil {
		return err
	}
	want := a.sum.Sum(nil)
	got := make([]byte, len(want))
	if err := a.read(got); err != nil {
		return err
	}
	if entries != a.Entries || blobs != a.Blobs || string(got) != string(want) {
		return fmt.Errorf("%w: its checksum does not fit", ErrDamaged)
	}
	if _, err := a.in.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: something stands behind its end", ErrDamaged)
	}
	return io.EOF
}

// Close lets go of the reader's memory.
func (a *Reader) Close() { a.zip.Close() }
