package model

import (
	"bytes"
	"errors"
	"io"
)

// maxEvent is how many bytes one event of a provider may have.
const maxEvent = 16 << 20

var errLongEvent = errors.New("an event of the stream is longer than 16 MB")

// An eventReader reads server-sent events.
type eventReader struct {
	from  io.Reader
	buf   []byte // buf[start:end] is read and not yet taken
	start int
	end   int
	begun bool   // a byte order mark can't come any more
	err   error  // the error of from
	lines []byte // the data of an event, where it isn't one line of buf
}

// next returns the data of the next event that has some, which is valid until the call after.
// Names of events, ids and comments are left out: both dialects say all in the data. The error is
// io.EOF at the end of the stream; an event that the end cuts off isn't returned.
func (r *eventReader) next() ([]byte, error) {
	for some := false; ; {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if some {
				return r.lines, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data"))
		if !ok || len(value) > 0 && value[0] != ':' {
			continue
		}
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" "))
		switch {
		case some:
			r.lines = append(append(r.lines, '\n'), value...)
		case r.endsHere(): // as nearly all events do; the value stays where it is
			_, _ = r.line()
			return value, nil
		default:
			r.lines = append(r.lines[:0], value...)
		}
		if some = true; len(r.lines) > maxEvent {
			return nil, errLongEvent
		}
	}
}

// endsHere reports whether the line that ends the event is in the buffer.
func (r *eventReader) endsHere() bool {
	rest := r.buf[r.start:r.end]
	return len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r'
}

// line returns the next line without its end, which is a line feed, a carriage return, or both.
func (r *eventReader) line() ([]byte, error) {
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
func (r *eventReader) fill() error {
	switch {
	case r.start == r.end:
		r.start, r.end = 0, 0
	case r.start > 0 && r.end == len(r.buf):
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) > maxEvent {
			return errLongEvent
		}
		r.buf = append(r.buf, make([]byte, max(len(r.buf), 16<<10))...)
	}
	n, err := r.from.Read(r.buf[r.end:])
	r.end += n
	if err != nil {
		r.err = err // what has come is looked at first
	}
	return nil
}
