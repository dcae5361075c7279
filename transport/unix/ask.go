package unix

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"kernos/message"
	"kernos/message/ndjson"
)

// Lost is the error of a request whose connection has ended.
type Lost struct {
	Err error // io.EOF if the daemon has closed the connection and given no reason
}

func (e *Lost) Error() string {
	if e.Err == io.EOF {
		return "the daemon has closed the connection; what was asked may have happened"
	}
	return "the connection to the daemon has ended: " + e.Err.Error()
}

// Unwrap returns the reason. It is a *message.Error if the daemon gave it.
func (e *Lost) Unwrap() error { return e.Err }

// Ask sends a command or a query, returns its outcome, a reply or an error message, and closes
// the connection. An id and a time are filled in where they are missing. Events that come
// before the outcome are dropped.
//
// If ctx ends first, the error is that of ctx. It is a *Lost if the connection ends.
func (c *Conn) Ask(ctx context.Context, request message.Message) (message.Message, error) {
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	stamp(&request)
	if err := request.Validate(); err != nil {
		return message.Message{}, err
	}
	line := append(message.Append(nil, &request), '\n')
	if n := len(line) - 1; n > message.MaxLine {
		return message.Message{}, fmt.Errorf("%s %s would take %d bytes, and a line may have %d; put large data into a blob", request.Kind, request.Type, n, message.MaxLine)
	}
	_, _ = c.Write(line) // a daemon that does not take it may have sent the reason
	outcome, err := c.receive(request.Metadata.ID)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return outcome, err
}

func (c *Conn) receive(id message.ID) (message.Message, error) {
	lines := ndjson.NewReader(c, nil)
	var reason error // the reason that the daemon gave
	for {
		line, err := lines.Next()
		if _, tooLong := err.(*ndjson.TooLong); tooLong {
			continue // no daemon of ours sends such a line
		}
		if err != nil {
			return message.Message{}, &Lost{cmp.Or(reason, err)}
		}
		m, err := message.Decode(line)
		if err != nil {
			continue // not our answer, which comes in the dialect that we speak
		}
		if m.Kind.Answers() && m.Metadata.Causation == id {
			return m.Clone(), nil
		}
		if err, ok := Disconnection(m); ok {
			reason = err
		}
	}
}
