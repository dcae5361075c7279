// Package sse reads server-sent events.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ErrTooLong is the error of a stream with an event that is too long. The stream can't be read on.
var ErrTooLong = errors.New("an event of the stream is too long")

// maxID is how many bytes of an id are taken; a longer one is ignored.
const maxID = 1024

// An Event is one of a stream. Its parts are valid until the next one is read.
type Event struct {
	Name  []byte
	ID    []byte        // nil if the event has none
	Retry time.Duration // how long a client waits before it connects again; -1 if the event doesn't set it
	Data  []byte
}

// A Reader reads the events of a stream.
type Reader struct {
	from  io.Reader
	max   int
	buf   []byte // buf[start:end] is read and not yet taken
	start int
	end   int
	begun bool  // a byte order mark can no longer come
	err   error // the error of from

	name, id []byte // name and id of the event; copies, since buf may change before it ends
	lines    []byte // the data of an event, where it isn't one line of buf
}

// NewReader returns a reader of events of at most max bytes.
func NewReader(from io.Reader, max int) *Reader { return &Reader{from: from, max: max, id: []byte{}} }

// Next returns the next event that has something. The error is io.EOF at the end of the stream; an
// event that the end cuts off isn't returned.
func (r *Reader) Next() (Event, error) {
	e := Event{Retry: -1}
	some, data := false, false // some field, or some data, of the event was read
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if some {
				return e, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			switch {
			case data:
				r.lines = append(append(r.lines, '\n'), value...)
				e.Data = r.lines
			case r.endsHere(): // the usual case: the value stays in buf
				e.Data = value
				_, _ = r.line()
				return e, nil
			default:
				r.lines = append(r.lines[:0], value...)
				e.Data = r.lines
			}
			if data = true; len(e.Data) > r.max {
				return Event{}, r.tooLong()
			}
		case "event":
			r.name = append(r.name[:0], value...)
			e.Name = r.name
		case "id":
			if len(value) > maxID || bytes.IndexByte(value, 0) >= 0 {
				continue
			}
			r.id = append(r.id[:0], value...)
			e.ID = r.id
		case "retry":
			ms, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil {
				continue
			}
			e.Retry = time.Duration(ms) * time.Millisecond
		default: // a comment, or a field that means nothing
			continue
		}
		some = true
	}
}

func (r *Reader) tooLong() error { return fmt.Errorf("%w: more than %d bytes", ErrTooLong, r.max) }

// endsHere reports whether the line that ends the event is in the buffer.
func (r *Reader) endsHere() bool {
	rest := r.buf[r.start:r.end]
	return len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r'
}

// line returns the next line without its end, which is a line feed, a carriage return, or both.
func (r *Reader) line() ([]byte, error) {
	seen := 0
	for {
		rest := r.buf[r.start:r.end]
		if i := bytes.IndexAny(rest[seen:], "\r\n"); i >= 0 {
			i += seen
			if rest[i] == '\n' || i+1 < len(rest) || r.err != nil {
				line := rest[:i]
				r.start += i + 1
				if rest[i] == '\r' && i+1 < len(rest) && rest[i+1] == '\n' {
					r.start++
				}
				if !r.begun {
					r.begun = true
					line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
				}
				return line, nil
			}
			seen = i // a line feed may follow the carriage return
		} else {
			seen = len(rest)
		}
		if r.err != nil {
			return nil, r.err
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more into the buffer.
func (r *Reader) fill() error {
	switch {
	case r.start == r.end:
		r.start, r.end = 0, 0
	case r.start > 0 && r.end == len(r.buf):
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) > r.max {
			return r.tooLong()
		}
		r.buf = append(r.buf, make([]byte, max(len(r.buf), 16<<10))...)
	}
	n, err := r.from.Read(r.buf[r.end:])
	r.end += n
	if err != nil {
		r.err = err // reported after the bytes that have come
	}
	return nil
}
