package pipe

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/message/osevent"
)

// stamping gives the messages in a stream an id and a time, where they have none, whatever else is
// wrong with them: the kernel reports that. Lines that aren't JSON objects pass unchanged.
type stamping struct {
	in       *bufio.Reader
	ids      kernel.IDs
	dialects osevent.Either
	out      []byte // stamped lines
	rest     []byte // the unread part of out
	long     bool   // the middle of a line that is too long to be a message
	err      error
}

func newStamping(in io.Reader) *stamping {
	return &stamping{in: bufio.NewReaderSize(in, osevent.Dialect.MaxLine+1)}
}

// Read implements [io.Reader].
func (s *stamping) Read(b []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.out = s.out[:0]
		for { // all available input goes together
			line, err := s.in.ReadSlice('\n')
			whole := err == nil || err == io.EOF
			if !whole || s.long {
				s.out = append(s.out, line...)
			} else {
				s.out = s.stamp(s.out, line)
			}
			s.long = err == bufio.ErrBufferFull
			if err != nil && !s.long {
				s.err = err
			}
			if s.err != nil || s.in.Buffered() == 0 || len(s.out) >= len(b) {
				break
			}
		}
		s.rest = s.out
	}
	n := copy(b, s.rest)
	if s.rest = s.rest[n:]; len(s.rest) == 0 {
		return n, s.err
	}
	return n, nil
}

// stamp appends a line.
func (s *stamping) stamp(dst, line []byte) []byte {
	text := bytes.TrimRight(line, "\r\n")
	if !jsonscan.Valid(text) {
		return append(dst, line...)
	}
	object := jsonvalue.Members(text)
	metadata := jsonvalue.Object{}
	if given := object.Get("metadata"); given != nil {
		metadata = jsonvalue.Members(given)
	}
	if object == nil || metadata == nil || metadata.Has("id") && metadata.Has("timestamp") {
		return append(dst, line...)
	}
	now := time.Now()
	if !metadata.Has("id") {
		metadata = metadata.Set("id", jsonscan.AppendQuoted(nil, s.ids.Next(now)))
	}
	if !metadata.Has("timestamp") {
		metadata = metadata.Set("timestamp", strconv.AppendInt(nil, now.UnixMilli(), 10))
	}
	stamped := object.Set("metadata", metadata.Text()).Text()
	if len(stamped) > message.MaxLine && len(stamped) > s.dialects.Hear(message.SalvageLine(text)).MaxLine {
		return append(dst, line...)
	}
	return append(append(dst, stamped...), line[len(text):]...)
}
