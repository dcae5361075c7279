// Package message is the vocabulary of Kernos: what a message is, and what its
// parts may be.
//
// A [Message] is a plain value. It has a kind, the reason why it was sent (a
// [KindCommand], a [KindQuery], an [KindEvent], a [KindReply] or an [KindError]), a type that names
// what it is about (Memory.Set), data as the JSON text that came, and metadata
// that ties it to the message that caused it. Answers are built from the message
// they answer, so that their lineage is always set:
//
//	reply := request.Reply(data)
//	failure := request.Fail(&message.Error{Code: 404, Message: "Key not found: /notes/1"})
//
// [Decoder] reads a message from a line, [Append] writes one. A line that is not a
// message is answered, not dropped: [Rejection] reports why, and [Salvage] reads
// whom to answer.
package message

import (
	"cmp"
	"encoding/json"
)

// A Kind is the reason why a message was sent.
type Kind string

const (
	KindCommand Kind = "command" // do this
	KindQuery   Kind = "query"   // get this, and change nothing
	KindEvent   Kind = "event"   // this happened
	KindReply   Kind = "reply"   // the good outcome of a command or query
	KindError   Kind = "error"   // the bad outcome of a command or query
)

// Asks reports whether a message of this kind is owed an outcome.
func (k Kind) Asks() bool { return k == KindCommand || k == KindQuery }

// Answers reports whether a message of this kind is an outcome.
func (k Kind) Answers() bool { return k == KindReply || k == KindError }

// Valid reports whether k is one of the five kinds.
func (k Kind) Valid() bool { return k.Asks() || k.Answers() || k == KindEvent }

// An ID names a message.
type ID string

// MaxIDLength is the most bytes that an id, a correlation, a causation or an
// idempotency key may have. Every answer repeats some of them, and an answer must
// fit into a line.
const MaxIDLength = 256

// Metadata places a message in time and among the messages that it belongs to.
type Metadata struct {
	ID             ID     // required
	Timestamp      int64  // milliseconds since 1970, required
	Correlation    string // the workflow that the message belongs to, or ""
	Causation      ID     // the message that caused this one, or ""
	IdempotencyKey string // a command with the same key runs once, or ""
	Repeated       bool   // this is the answer of an earlier command with the same idempotency key, or a query that its client repeats by itself
	SchemaVersion  string // 0.1, 0.2 or 0.3, perhaps with a patch, or ""
	Extra          string // members that begin with x-, traceparent and tracestate, as JSON without the braces, or ""

	// Inherited is the workflow of the message that Causation names, if Correlation is "" and
	// the kernel knows that message. It is never on the wire.
	Inherited string
}

// A Message is one line of a conversation.
type Message struct {
	Kind     Kind
	Type     Type
	Data     json.RawMessage // one JSON value, never empty in a valid message
	Metadata Metadata

	// Err is the error in Data of a message that Fail made, for readers that would have to
	// parse it otherwise. It is nil in every other message and never on the wire.
	Err *Error

	// Via names the nested calls that an event came through; in the answer to a Syscall.Call, the
	// syscall that was called. It is nil if the request that was sent caused the event itself, and
	// never on the wire.
	Via *Via
}

// A Via is a nested call that a message came through, and those within it.
type Via struct {
	Type   Type
	Within *Via
}

// Reply returns the good outcome of m. Its sender gives it an id and a time.
func (m *Message) Reply(data json.RawMessage) Message {
	return Message{Kind: KindReply, Type: m.Type, Data: data, Metadata: m.answer()}
}

// Fail returns the bad outcome of m. Its sender gives it an id and a time.
func (m *Message) Fail(e *Error) Message {
	return Message{Kind: KindError, Type: m.Type, Data: e.Append(nil), Metadata: m.answer(), Err: e}
}

// Failure returns the error in the data of an error message, as [ReadError] does.
func (m *Message) Failure() *Error {
	if m.Err != nil {
		return m.Err
	}
	return ReadError(m.Data)
}

// answer returns the lineage of an outcome: the workflow only if the request named one.
func (m *Message) answer() Metadata {
	return Metadata{Causation: m.Metadata.ID, Correlation: m.Metadata.Correlation, Inherited: m.Metadata.Inherited, Extra: m.Metadata.Extra}
}

// Event returns a notification that m caused. Its sender gives it an id and a time.
func (m *Message) Event(t Type, data json.RawMessage) Message {
	return Message{Kind: KindEvent, Type: t, Data: data, Metadata: m.Caused()}
}

// Caused returns the lineage of whatever m sets off: its workflow is m's, or begins with m, and so is its trace.
func (m *Message) Caused() Metadata {
	return Metadata{Causation: m.Metadata.ID, Correlation: cmp.Or(m.Metadata.Workflow(), string(m.Metadata.ID)), Extra: m.Metadata.Trace()}
}

// Workflow returns the workflow that the message names or has inherited, or "".
func (m *Metadata) Workflow() string { return cmp.Or(m.Correlation, m.Inherited) }

// Clone returns a copy of m whose data is its own. Data of a message from a
// [Decoder] aliases the line that it was read from.
func (m Message) Clone() Message {
	m.Data = append(json.RawMessage(nil), m.Data...)
	return m
}
