package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/message/osevent"
)

func convertCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "convert --to 0.1|0.3",
		Short: "Translate a stream of messages between the two dialects",
		Long: `Read messages in either dialect from standard input and write them in the chosen one.
0.3 is what kernos speaks (kind, type, data); 0.1 is the older one (type, name, payload).
Messages that are in it already pass as they are.

A line that isn't a message, or that does not fit into a line of the other dialect, is
reported on standard error and left out. An error that says what only the older dialect
can say (a code of one's own, details, a stack) is translated without it, and each loss is
reported with the number of its line. If anything was reported, the status is 1.`,
		Example: `  kernos convert --to 0.3 < old.ndjson > new.ndjson`,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			dialect := message.Current
			switch to {
			case message.Current.Version:
			case osevent.Dialect.Version:
				dialect = osevent.Dialect
			case "":
				return errors.New("say which dialect to translate to: --to 0.1 or --to 0.3")
			default:
				return fmt.Errorf("there is no dialect %q: --to takes 0.1 or 0.3", to)
			}
			return convert(c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr(), dialect)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the `DIALECT` to write: 0.1 or 0.3")
	return c
}

// convert translates a stream. It continues after a line that it can't translate.
func convert(in io.Reader, out, report io.Writer, to *message.Dialect) error {
	w := bufio.NewWriterSize(out, 64<<10)
	t := translator{to: to, either: osevent.NewEither(false, nil)}
	r := ndjson.NewReader(in, &ndjson.ReaderOptions{Extend: osevent.Extend})
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
	m, from, err := t.either.Decode(line)
	if err != nil {
		return nil, nil, err
	}
	version := m.Metadata.SchemaVersion
	if from == t.to && (version == "" || version == t.to.Version) {
		return line, nil, nil
	}
	if from == osevent.Dialect {
		m, lost = osevent.Translate(m)
	}
	if version != "" {
		m.Metadata.SchemaVersion = t.to.Version
	}
	if t.to == osevent.Dialect {
		t.buf = osevent.Append(t.buf[:0], &m)
	} else {
		t.buf = message.Append(t.buf[:0], &m)
	}
	if len(t.buf) > t.to.MaxLine {
		return nil, nil, fmt.Errorf("it has %d bytes in version %s, where a line has at most %d", len(t.buf), t.to.Version, t.to.MaxLine)
	}
	return t.buf, lost, nil
}
