package piping

import (
	"bufio"
	"io"

	"kernos/kernel"
	"kernos/message/osevent"
)

// stamping gives the messages in a stream an id and a time, where they have none. Lines
// that aren't messages pass unchanged: the kernel reports what is wrong with
// them.
type stamping struct {
	in     *bufio.Reader
	either *osevent.Either
	kernel *kernel.Kernel // for its ids
	out    []byte         // stamped
	rest   []byte         // of it
	long   bool           // the middle of a line that is too long to be a message
	err    error
}

func newStamping(in io.Reader) (*stamping, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	return &stamping{
		in:     bufio.NewReaderSize(in, osevent.Dialect.MaxLine+1),
		either: osevent.NewEither(true, nil),
		kernel: kernel.New(r, nil),
	}, nil
}

// Read implements [io.Reader].
func (s *stamping) Read(b []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.out = s.out[:0]
		for { // what is there now goes together
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
	text := line
	end := len(text)
	for end > 0 && (text[end-1] == '\n' || text[end-1] == '\r') {
		end--
	}
	m, dialect, err := s.either.Decode(text[:end])
	if err != nil || m.Metadata.ID != "" && m.Metadata.Timestamp != 0 {
		return append(dst, line...)
	}
	s.kernel.Stamp(&m)
	start := len(dst)
	dst = dialect.Append(dst, &m)
	if len(dst)-start > dialect.MaxLine {
		return append(dst[:start], line...)
	}
	return append(dst, line[end:]...)
}
