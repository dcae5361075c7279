package pipe

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"kernos/internal/exit"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/message/osevent"
)

// Convert translates a stream. It continues after a line that it can't translate.
func Convert(in io.Reader, out, report io.Writer, to *message.Dialect) error {
	w := bufio.NewWriterSize(out, 64<<10)
	t := translator{to: to, either: osevent.NewEither(false, nil)}
	r := ndjson.NewReader(in, &ndjson.ReaderOptions{Extend: t.either.Extend})
	failed := false
	complain := func(format string, args ...any) {
		failed = true
		fmt.Fprintf(report, "kernos convert: line %d: %s\n", r.Line(), fmt.Sprintf(format, args...))
	}
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if _, ok := errors.AsType[*ndjson.TooLong](err); err != nil && !ok {
			return &exit.Error{Status: exit.Failure, Cause: err}
		}
		var text []byte
		var lost []string
		if err == nil {
			text, lost, err = t.translate(line)
		}
		if err != nil {
			complain("%v", err)
			continue
		}
		for _, loss := range lost {
			complain("%s", loss)
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return &exit.Error{Status: exit.Failure, Cause: err}
		}
	}
	if err := w.Flush(); err != nil {
		return &exit.Error{Status: exit.Failure, Cause: err}
	}
	if failed {
		return &exit.Error{Status: exit.Failure}
	}
	return nil
}

type translator struct {
	to     *message.Dialect
	either *osevent.Either
	buf    []byte
}

// translate returns a line in the chosen dialect, and what was lost. A line that is in it already
// is returned unchanged.
func (t *translator) translate(line []byte) (_ []byte, lost []string, err error) {
	var m message.Message
	from, err := t.either.Decode(line, &m)
	if err != nil {
		return nil, nil, err
	}
	version := m.Metadata.Version()
	if from == t.to && (version == "" || version == t.to.Version) {
		return line, nil, nil
	}
	if from != message.Current {
		m, lost = osevent.Translate(m)
	}
	if version != "" || t.to == osevent.Numbered { // nothing else shows that version
		m.Metadata.SchemaVersion = t.to.Version
	}
	m = osevent.Inner(t.to, m)
	t.buf = osevent.AppendIn(t.to, t.buf[:0], &m)
	if len(t.buf) > t.to.MaxLine {
		return nil, nil, fmt.Errorf("it has %d bytes in version %s, where a line has at most %d", len(t.buf), t.to.Version, t.to.MaxLine)
	}
	return t.buf, lost, nil
}
