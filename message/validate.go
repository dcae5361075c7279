package message

import (
	"kernos/internal/jsonscan"
)

// Validate checks a message that was not read by a [Decoder] against the same
// rules. The error is an *Error with code 422.
func (m *Message) Validate() error {
	var scan jsonscan.Scanner
	if len(m.Data) > 0 {
		if err := scan.Text(m.Data); err != nil {
			return &Error{Code: 422, Message: "Schema validation failed: data is not JSON: " + err.Error(), Field: "data", Expected: "JSON"}
		}
	}
	line := Append(nil, m)
	got, err := Decode(line)
	if err != nil {
		e, _ := ErrorOf(err)
		return &Error{Code: 422, Message: e.Message, Field: e.Field, Expected: e.Expected, Reason: ErrEnvelope}
	}
	if got.Kind != m.Kind || got.Type != m.Type || got.Metadata != m.Metadata {
		return &Error{Code: 422, Message: "Schema validation failed: the envelope has text that is not UTF-8, or escapes where none belong", Reason: ErrEnvelope}
	}
	return nil
}
