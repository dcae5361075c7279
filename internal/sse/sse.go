// Package sse reads server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"cmp"
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
	lines *bufio.Scanner
	max   int

	name, id, data []byte // parts of the event, which are valid after its lines
}

// NewReader returns a reader of events of at most max bytes.
func NewReader(from io.Reader, max int) *Reader {
	r := &Reader{lines: bufio.NewScanner(from), max: max, id: []byte{}, data: []byte{}}
	r.lines.Buffer(make([]byte, 16<<10), max+len("data: \r\n"))
	r.lines.Split(new(splitter).split)
	return r
}

// A splitter splits a stream into lines.
type splitter struct {
	begun bool // a byte order mark can no longer come
	seen  int  // where the end of the line wasn't found yet: a long line comes in many parts
}

// split is a [bufio.SplitFunc]. A line ends with a line feed, a carriage return, or both.
func (s *splitter) split(text []byte, atEnd bool) (next int, line []byte, _ error) {
	i := bytes.IndexAny(text[s.seen:], "\r\n")
	if i < 0 {
		s.seen = len(text)
		return 0, nil, nil
	}
	i += s.seen
	next = i + 1
	if text[i] == '\r' {
		if next == len(text) && !atEnd { // a line feed may follow
			s.seen = i
			return 0, nil, nil
		}
		if next < len(text) && text[next] == '\n' {
			next++
		}
	}
	s.seen = 0
	line = text[:i]
	if !s.begun {
		s.begun, line = true, bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	return next, line, nil
}

// Next returns the next event that has something. The error is io.EOF at the end of the stream; an
// event that the end cuts off isn't returned.
func (r *Reader) Next() (Event, error) {
	e := Event{Retry: -1}
	some := false // some field of the event was read
	for r.lines.Scan() {
		line := r.lines.Bytes()
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
			if e.Data == nil {
				r.data = append(r.data[:0], value...)
			} else {
				r.data = append(append(r.data, '\n'), value...)
			}
			if e.Data = r.data; len(e.Data) > r.max {
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
	err := r.lines.Err()
	if err == bufio.ErrTooLong {
		return Event{}, r.tooLong()
	}
	return Event{}, cmp.Or(err, io.EOF)
}

func (r *Reader) tooLong() error { return fmt.Errorf("%w: more than %d bytes", ErrTooLong, r.max) }
