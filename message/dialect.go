package message

import (
	"bytes"
	"strconv"

	"kernos/internal/jsonscan"
)

// A Dialect names the members of a message on the wire. The drafts of the
// specification differ in these names and in little else.
type Dialect struct {
	Version string // the version of the specification
	Kind    string // the member that holds the kind
	Type    string // the member that holds the type
	Data    string // the member that holds the data
	Reply   string // the word for [KindReply]
	MaxLine int    // bytes of a line, without its newline
	TooLong string // the text for a line that is longer
}

// member reports which member of the envelope a name is, 0 for none. The guess is tried
// first: most messages have their members in the same order.
func (d *Dialect) member(name []byte, guess int) int {
	if guess <= hasMetadata && string(name) == d.memberName(guess) {
		return guess
	}
	for bit := hasKind; bit <= hasMetadata; bit <<= 1 {
		if string(name) == d.memberName(bit) {
			return bit
		}
	}
	return 0
}

func (d *Dialect) memberName(bit int) string {
	switch bit {
	case hasKind:
		return d.Kind
	case hasType:
		return d.Type
	case hasData:
		return d.Data
	}
	return "metadata"
}

// MaxLine is how many bytes a line may have without its newline.
const MaxLine = 16384

// Current is the dialect that Kernos speaks.
var Current = &Dialect{
	Version: "0.3",
	Kind:    "kind",
	Type:    "type",
	Data:    "data",
	Reply:   "reply",
	MaxLine: MaxLine,
	TooLong: "Message exceeds maximum line length of 16KB",
}

func (d *Dialect) word(k Kind) string {
	if k == KindReply {
		return d.Reply
	}
	return string(k)
}

func (d *Dialect) kind(word []byte) (Kind, bool) {
	switch string(word) {
	case "command":
		return KindCommand, true
	case "query":
		return KindQuery, true
	case "event":
		return KindEvent, true
	case "error":
		return KindError, true
	case d.Reply:
		return KindReply, true
	}
	return "", false
}

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
	if m.Metadata.Repeated {
		dst = append(dst, `,"repeated":true`...)
	}
	if m.Metadata.Extra != "" {
		dst = append(append(dst, ','), m.Metadata.Extra...)
	}
	return append(dst, "}}"...)
}

// MarshalJSON implements [encoding/json.Marshaler].
func (m Message) MarshalJSON() ([]byte, error) { return Append(nil, &m), nil }
