package message

import (
	"bytes"
	"strconv"

	"kernos/internal/jsonscan"
)

// Append appends m as one JSON object on one line, without its newline, in the current
// dialect. Data is appended as it is, unless it has newlines; no data is null.
func Append(dst []byte, m *Message) []byte { return Current.Append(dst, m) }

// Append appends m as one JSON object on one line, without its newline, in dialect d.
func (d *Dialect) Append(dst []byte, m *Message) []byte {
	dst = append(append(dst, `{"`...), d.Kind...)
	dst = append(append(dst, `":"`...), d.word(m.Kind)...)
	dst = append(append(append(dst, `","`...), d.Type...), `":`...)
	dst = jsonscan.AppendQuoted(dst, string(m.Type))
	dst = append(append(append(dst, `,"`...), d.Data...), `":`...)
	switch {
	case len(m.Data) == 0:
		dst = append(dst, "null"...)
	case bytes.IndexByte(m.Data, '\n') >= 0:
		dst = jsonscan.AppendCompact(dst, m.Data)
	default:
		dst = append(dst, m.Data...)
	}
	dst = append(dst, `,"metadata":{"id":`...)
	dst = jsonscan.AppendQuoted(dst, string(m.Metadata.ID))
	dst = strconv.AppendInt(append(dst, `,"timestamp":`...), m.Metadata.Timestamp, 10)
	if m.Metadata.Correlation != "" {
		dst = jsonscan.AppendQuoted(append(dst, `,"correlation":`...), m.Metadata.Correlation)
	}
	if m.Metadata.Causation != "" {
		dst = jsonscan.AppendQuoted(append(dst, `,"causation":`...), string(m.Metadata.Causation))
	}
	if m.Metadata.IdempotencyKey != "" {
		dst = jsonscan.AppendQuoted(append(dst, `,"idempotencyKey":`...), m.Metadata.IdempotencyKey)
	}
	if m.Metadata.SchemaVersion != "" {
		dst = jsonscan.AppendQuoted(append(dst, `,"schemaVersion":`...), m.Metadata.SchemaVersion)
	}
	return append(dst, "}}"...)
}

// MarshalJSON implements [encoding/json.Marshaler].
func (m Message) MarshalJSON() ([]byte, error) { return Append(nil, &m), nil }
