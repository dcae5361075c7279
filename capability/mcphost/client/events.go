package client

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"strconv"
	"time"
)

// An event is one of a stream of server-sent events.
type event struct {
	name    string
	id      string
	hasID   bool
	retry   time.Duration // -1 if it says nothing about that
	data    []byte
	tooLong bool // the stream can't be read on
}

// events reads a stream of server-sent events. The last pair has the error that ends the stream, or
// an event that is too long. The data is valid until the next event.
func events(from io.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		lines := bufio.NewReaderSize(from, 32<<10)
		e := event{retry: -1}
		var line []byte
		for {
			part, err := lines.ReadSlice('\n')
			line = append(line, part...)
			if len(line)+len(e.data) > maxFrame {
				yield(event{tooLong: true}, nil)
				return
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil {
				yield(event{}, err)
				return
			}
			text := bytes.TrimRight(line, "\r\n")
			if len(text) > 0 {
				e.take(text)
			} else {
				e.data = bytes.TrimSuffix(e.data, []byte("\n"))
				if !yield(e, nil) {
					return
				}
				e = event{retry: -1, data: e.data[:0]}
			}
			line = line[:0]
		}
	}
}

// take takes a line of an event.
func (e *event) take(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.name = string(value)
	case "id":
		if len(value) <= 1024 && bytes.IndexByte(value, 0) < 0 {
			e.id, e.hasID = string(value), true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	case "data":
		e.data = append(append(e.data, value...), '\n')
	}
}
