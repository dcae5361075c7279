// Package ndjson frames messages as lines.
//
// A [Reader] hands out one line at a time and never holds more than its limit of
// one, whatever is sent: a line that is too long is an error of its own, and the
// next line is read as if nothing had happened.
package ndjson

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"sync"

	"kernos/message"
)

// A Reader reads lines. It is not safe for concurrent use.
type Reader struct {
	src  io.Reader
	lazy LazyReader // src, if it is one
	opts ReaderOptions

	buf        []byte
	start, end int // the bytes in buf that were read and not handed out
	searched   int // no newline before this offset
	lines      int // handed out or discarded
	err        error

	// What a LazyReader is given.
	lend     func() []byte
	giveBack func()
	kept     []byte // the beginning of a line, while there is no buffer
}

// A LazyReader is an input that waits without a buffer, so that a connection on which
// nothing happens costs none.
type LazyReader interface {
	io.Reader

	// ReadLazily reads like Read, into what lend returns. It calls lend before each
	// attempt, and giveBack after one that has found nothing to read, before it waits.
	ReadLazily(lend func() []byte, giveBack func()) (int, error)
}

// ReaderOptions are the settings of a Reader. The zero value is usable.
type ReaderOptions struct {
	// Limit is how many bytes a line may have, without its line end. 0 means
	// message.MaxLine.
	Limit int

	// Extend is asked about a line that has outgrown the limit. It sees the head of
	// the line and returns a higher limit for this line, or 0. May be nil.
	Extend func(head []byte) int

	// BeforeRead is called each time before the Reader may have to wait for more
	// input. May be nil.
	BeforeRead func()
}

// A TooLong is the error of a line that is longer than its limit. The line is
// gone; what could be read of it in passing is in Salvage.
type TooLong struct {
	Limit   int
	Salvage *message.Salvage
}

func (e *TooLong) Error() string {
	return fmt.Sprintf("a line is longer than %d bytes", e.Limit)
}

const (
	firstBuffer = 4 << 10
	fullBuffer  = 128 << 10
	lentBuffer  = 32 << 10 // the buffer for a LazyReader; the longest line fits twice
)

// lent holds buffers that no Reader needs at the moment.
var lent = sync.Pool{New: func() any { return new([lentBuffer]byte) }}

// NewReader returns a Reader of src. Nil options mean defaults.
func NewReader(src io.Reader, opts *ReaderOptions) *Reader {
	r := &Reader{src: src}
	if lazy, ok := src.(LazyReader); ok {
		r.lazy, r.lend, r.giveBack = lazy, r.borrow, r.release
	} else {
		r.buf = make([]byte, firstBuffer)
	}
	if opts != nil {
		r.opts = *opts
	}
	r.opts.Limit = cmp.Or(r.opts.Limit, message.MaxLine)
	return r
}

// Next returns the next line that is not blank, without its line end (LF or CRLF).
// The last line needs none. The line is valid until the next call of Next, or for
// good after a call of Detach.
//
// The error is a *TooLong, after which Next continues with the line that follows;
// io.EOF at the end of the input; or the error of the input, for good.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if !blank(line) {
			return line, nil
		}
	}
}

// Buffered reports whether something was read that Next has not returned.
func (r *Reader) Buffered() bool { return r.start < r.end }

// Line returns the number of the line that Next returned last, counted from 1.
func (r *Reader) Line() int { return r.lines }

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func (r *Reader) line() ([]byte, error) {
	limit, extended := r.opts.Limit, false
	for {
		if n := bytes.IndexByte(r.buf[r.searched:r.end], '\n'); n >= 0 {
			line := r.buf[r.start : r.searched+n]
			r.start = r.searched + n + 1
			r.searched = r.start
			return r.completeLine(line, limit)
		}
		r.searched = r.end
		// What is more than the limit may be the CR of a line end, and a byte-order mark.
		if r.end-r.start > limit+len("\r")+len(mark) {
			if !extended && r.opts.Extend != nil {
				extended = true
				if higher := r.opts.Extend(r.buf[r.start : r.start+limit]); higher > limit {
					limit = higher
					continue
				}
			}
			return nil, r.discard(limit)
		}
		if r.err == nil {
			r.fill()
			continue
		}
		if r.err == io.EOF && r.start < r.end {
			line := r.buf[r.start:r.end]
			r.start, r.searched = r.end, r.end
			return r.completeLine(line, limit)
		}
		return nil, r.err
	}
}

// mark is the byte-order mark. Some shells begin their output with one.
const mark = "\xEF\xBB\xBF"

// completeLine checks the length of a line that was read to its end.
func (r *Reader) completeLine(line []byte, limit int) ([]byte, error) {
	r.lines++
	line = bytes.TrimSuffix(line, []byte("\r"))
	if r.lines == 1 {
		line = bytes.TrimPrefix(line, []byte(mark))
	}
	if len(line) > limit && r.opts.Extend != nil && limit == r.opts.Limit {
		limit = max(limit, r.opts.Extend(line[:limit]))
	}
	if len(line) > limit {
		return nil, &TooLong{Limit: limit, Salvage: message.SalvageLine(line)}
	}
	return line[:len(line):len(line)], nil // cap is limited: the bytes after it are the next line
}

// discard reads to the end of a line that is too long and keeps none of it.
func (r *Reader) discard(limit int) error {
	r.lines++
	e := &TooLong{Limit: limit, Salvage: new(message.Salvage)}
	for {
		if n := bytes.IndexByte(r.buf[r.start:r.end], '\n'); n >= 0 {
			_, _ = e.Salvage.Write(r.buf[r.start : r.start+n])
			r.start += n + 1
			r.searched = r.start
			return e
		}
		_, _ = e.Salvage.Write(r.buf[r.start:r.end])
		r.start, r.searched, r.end = 0, 0, 0
		if r.err != nil {
			return e // the end of the input comes with the next call
		}
		r.fill()
	}
}

func (r *Reader) fill() {
	if len(r.buf) > 0 {
		r.growBuffer()
	}
	if r.opts.BeforeRead != nil {
		r.opts.BeforeRead()
	}
	// A reader may return nothing and no error; io.Reader discourages it.
	for range 100 {
		var n int
		if r.lazy != nil {
			if n, r.err = r.lazy.ReadLazily(r.lend, r.giveBack); len(r.kept) > 0 {
				r.borrow() // the input has ended during the wait
			}
		} else {
			n, r.err = r.src.Read(r.buf[r.end:])
		}
		r.end += n
		if n > 0 || r.err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// growBuffer moves what is left to the front, into a larger buffer if the last read filled
// this one. So a busy stream costs few system calls and an idle one little memory.
func (r *Reader) growBuffer() {
	usual := fullBuffer
	if r.lazy != nil {
		usual = lentBuffer
	}
	size := len(r.buf)
	switch {
	case r.start == r.end && size > usual:
		size = usual // an extended line is over
	case r.end == size && (size < usual || r.start < size/2):
		size *= 2
	}
	if size != len(r.buf) || r.end == size || r.start == r.end {
		buf := r.buf
		if size != len(buf) {
			buf = make([]byte, size)
		}
		r.end = copy(buf, r.buf[r.start:r.end])
		r.searched -= r.start
		r.start = 0
		r.buf = buf
	}
}

// borrow returns the room in the buffer, and makes sure that there is one.
func (r *Reader) borrow() []byte {
	if len(r.buf) == 0 {
		r.buf = lent.Get().(*[lentBuffer]byte)[:]
		r.end = copy(r.buf, r.kept)
		r.kept = nil
	}
	return r.buf[r.end:]
}

// release lets others have the buffer, unless an extended line has made it larger. What is
// in it of a line is kept in as little room as it takes.
func (r *Reader) release() {
	if len(r.buf) != lentBuffer {
		return
	}
	if r.start < r.end {
		r.kept = bytes.Clone(r.buf[r.start:r.end])
	}
	lent.Put((*[lentBuffer]byte)(r.buf))
	r.buf = nil
	r.searched -= r.start
	r.start, r.end = 0, 0
}

// Detach leaves the buffer to the handler that still uses the last line. The Reader continues
// with a copy of what it has not handed out.
func (r *Reader) Detach() {
	buf := make([]byte, len(r.buf))
	r.end = copy(buf, r.buf[r.start:r.end])
	r.searched -= r.start
	r.start = 0
	r.buf = buf
}
