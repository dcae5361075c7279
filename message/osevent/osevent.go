// Package osevent speaks the older dialect of the message protocol, versions 0.1 and 0.2
// of the specification, in which a message was called an OsEvent.
//
// Version 0.1 has other member names (type, name and payload for kind, type and
// data), the word response for reply, lines of up to 1 MB, and errors with a code
// in words and with details. Version 0.2 has these names only. Messages are translated here, at the edge; what the
// details need to know travels in [message.Error] and is on no other wire.
package osevent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/schema"
)

// Dialect holds the names of version 0.1.
var Dialect = &message.Dialect{
	Version: "0.1",
	Kind:    "type",
	Type:    "name",
	Data:    "payload",
	Reply:   "response",
	MaxLine: 1 << 20,
	TooLong: "Event exceeds maximum line length of 1MB",
}

// Numbered holds version 0.2: the names of version 0.1, and the errors and the limit of a line of the
// current version. A message is of this version if its metadata says so.
var Numbered = &message.Dialect{
	Version: "0.2",
	Kind:    Dialect.Kind,
	Type:    Dialect.Type,
	Data:    Dialect.Data,
	Reply:   Dialect.Reply,
	MaxLine: message.MaxLine,
	TooLong: message.Current.TooLong,
}

// AppendIn appends m as a line of a dialect, whichever it is, without its newline. The data of an error gets the form of
// version 0.1 there; all other data stays as it is, see [Inner].
func AppendIn(d *message.Dialect, dst []byte, m *message.Message) []byte {
	if d == Dialect && m.Kind == message.KindError {
		old := *m
		old.Data = payload(m)
		m = &old
	}
	return d.Append(dst, m)
}

// Append appends m as a line of version 0.1 without its newline, with all that is inside its data.
func Append(dst []byte, m *message.Message) []byte {
	inner := Inner(Dialect, *m)
	return AppendIn(Dialect, dst, &inner)
}

// inner is what some answers and events of the kernel have in the form of their dialect inside their data.
var inner = map[message.Type]func(d *message.Dialect, data []byte) []byte{
	"Job.Status":       jobs,
	"Job.List":         jobs,
	"Job.Wait":         jobs,
	"Message.Get":      renamed,
	"Message.List":     messages,
	"Message.Search":   messages,
	"Message.Graph":    messages,
	"Event.Graph":      messages,
	"Message.Recorded": messages,
	"Message.Replayed": messages,
}

// Inner returns an answer with what is inside its data in the form of a dialect: messages, nodes that stand for some, and the
// errors of jobs.
func Inner(d *message.Dialect, m message.Message) message.Message {
	if f := inner[m.Type]; f != nil && d != message.Current && (m.Kind == message.KindReply || m.Kind == message.KindEvent) {
		m.Data = f(d, m.Data)
	}
	return m
}

// jobs returns the data of a reply about a job, or about several, in the form of version 0.1: there the
// error of a job is a text.
func jobs(d *message.Dialect, data []byte) []byte {
	if d != Dialect {
		return data
	}
	return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
		switch name {
		case "error":
			if e, err := message.ParseError(value); err == nil {
				return string(jsonscan.AppendQuoted(nil, e.Error()))
			}
		case "jobs":
			return each(d, value, jobs)
		}
		return ""
	})
}

// messages returns data that has messages, or nodes that stand for some, with the names of a dialect.
func messages(d *message.Dialect, data []byte) []byte {
	return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
		switch name {
		case "messages", "nodes":
			return each(d, value, renamed)
		case "failures":
			return each(d, value, messages)
		case "message", "request", "error":
			return string(renamed(d, value))
		}
		return ""
	})
}

// each returns an array with what f makes of its elements, or "" for what isn't an array.
func each(d *message.Dialect, list []byte, f func(*message.Dialect, []byte) []byte) string {
	if len(list) == 0 || list[0] != '[' {
		return ""
	}
	out := []byte{'['}
	jsonscan.Elements(list, 0, func(value []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, f(d, value)...)
		return true
	})
	return string(append(out, ']'))
}

// renamed returns a message, or a node that stands for one, with the names of a dialect. What has no kind is neither, and stays.
func renamed(d *message.Dialect, text []byte) []byte {
	kind := message.Kind(jsonscan.Content(jsonscan.Member(text, "kind")))
	if kind == "" {
		return text
	}
	var o jsonscan.Object
	jsonscan.Members(text, 0, func(name, value []byte) bool {
		switch member := string(name); {
		case member == `"kind"` && kind == message.KindReply:
			o.Text(d.Kind, d.Reply)
		case member == `"kind"`:
			o.JSON(d.Kind, value)
		case member == `"type"`:
			o.JSON(d.Type, value)
		case member == `"data"` && kind == message.KindError && d == Dialect:
			o.JSON(d.Data, payload(&message.Message{Data: value}))
		case member == `"data"`:
			o.JSON(d.Data, value)
		default:
			o.JSON(jsonscan.Unquote(name), value)
		}
		return true
	})
	return o.End()
}

// Translate turns a message that was read in the older dialect into one of the
// current one. Only the data of errors and the version that metadata names differ. It returns what
// the current dialect can't express and had to be left behind, one sentence for each.
func Translate(m message.Message) (_ message.Message, lost []string) {
	m.Metadata.Migrate()
	if m.Kind != message.KindError {
		return m, nil
	}
	e, lost := parse(m.Data)
	m.Data = e.AppendWhole(nil)
	return m, lost
}

// statuses are what the codes of the older dialect stand for.
var statuses = map[string]int{
	"INVALID_INPUT": 400, "INVALID_JSON": 400, "UNAUTHORIZED": 403, "NOT_FOUND": 404,
	"LINE_TOO_LONG": 413, "SCHEMA_VIOLATION": 422, "INTERNAL_ERROR": 500,
}

func word(e *message.Error) string {
	switch {
	case e.Code == 400 && errors.Is(e, message.ErrNotJSON):
		return "INVALID_JSON"
	case e.Code == 401 || e.Code == 403:
		return "UNAUTHORIZED"
	case e.Code == 404:
		return "NOT_FOUND"
	case e.Code == 413:
		return "LINE_TOO_LONG"
	case e.Code == 422:
		return "SCHEMA_VIOLATION"
	case e.Code < 500:
		return "INVALID_INPUT"
	}
	return "INTERNAL_ERROR"
}

// The data of an error in the older form. What the form has no place for, the exact status
// and the causes, is in its details, where Translate finds it.
type (
	oldError struct {
		Message string  `json:"message"`
		Code    string  `json:"code"`
		Details details `json:"details"`
	}
	details struct {
		Field    string          `json:"field,omitempty"`
		Expected string          `json:"expected,omitempty"`
		Status   int             `json:"status,omitempty"`
		Cause    json.RawMessage `json:"cause,omitempty"`
		Problems schema.Problems `json:"problems,omitempty"`
	}
)

func payload(m *message.Message) json.RawMessage {
	e, err := message.ParseError(m.Data) // not m.Err: the texts in Data are cut to fit
	if err != nil {
		e = &message.Error{Code: 500, Message: "Internal error"}
	}
	if m.Err != nil {
		e.Field, e.Expected, e.Reason = m.Err.Field, m.Err.Expected, m.Err.Reason
	}
	old := oldError{Message: e.Message, Code: word(e)}
	if e.Code == 422 && m.Err != nil && !errors.Is(m.Err, message.ErrEnvelope) {
		old.Code = "INVALID_INPUT"
	}
	old.Details.Field = message.Clip(e.Field, message.MaxIDLength)
	old.Details.Expected = message.Clip(e.Expected, message.MaxCauseText)
	if invalid, ok := errors.AsType[*schema.Invalid](e.Reason); ok {
		old.Details.Problems = invalid.Listed()
	}
	if statuses[old.Code] != e.Code || e.Field == "" && e.Expected == "" {
		old.Details.Status = e.Code
	}
	if e.Cause != nil {
		old.Details.Cause = e.Cause.AppendWhole(nil)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(old) // never fails
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// maxLosses is how many losses of one message are reported: it may have thousands of members.
const maxLosses = 16

// parse reads the payload of an older error, which may be anything.
func parse(data json.RawMessage) (e *message.Error, lost []string) {
	if e, err := message.ParseError(data); err == nil { // of version 0.2
		return e, nil
	}
	e = &message.Error{Code: 500, Message: "The error came without a message"}
	lose := func(format string, args ...any) {
		if len(lost) < maxLosses {
			lost = append(lost, fmt.Sprintf(format, args...))
		}
	}
	var old, more map[string]json.RawMessage
	if json.Unmarshal(data, &old) != nil || old == nil {
		text(data, &e.Message)
		lose("payload isn't an object: it becomes an error with code 500")
		return e, lost
	}
	if raw, ok := old["message"]; ok && !text(raw, &e.Message) {
		lose("payload.message is left out: it isn't a string")
	}
	code := ""
	if raw, ok := old["code"]; ok {
		if text(raw, &code); code == "" {
			status(raw, &e.Code)
			lose("payload.code isn't a word: it becomes %d", e.Code)
		} else if known, ok := statuses[code]; ok {
			e.Code = known
		}
	}
	if raw, ok := old["details"]; ok && (json.Unmarshal(raw, &more) != nil || more == nil) {
		lose("payload.details is left out: it isn't an object")
	}
	if raw, ok := more["status"]; ok && !status(raw, &e.Code) {
		lose("payload.details.status is left out: it isn't a number from 400 to 599")
	}
	if raw, ok := more["cause"]; ok {
		cause, err := message.ParseError(raw)
		if e.Cause = cause; err != nil {
			lose("payload.details.cause is left out: it isn't an error {code, message, cause}")
		}
	}
	// The message names the field and what was expected, too.
	unknown := func(path string, from map[string]json.RawMessage, known ...string) {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if !slices.Contains(known, name) {
				lose("%s%s is left out: an error of version %s has no place for it", path, message.Clip(name, message.MaxIDLength), message.Current.Version)
			}
		}
	}
	unknown("payload.", old, "message", "code", "details")
	unknown("payload.details.", more, "status", "cause", "field", "expected", "problems")
	if code != "" && word(e) != code {
		lose("payload.code %s is left out: codes are numbers, and this one becomes %d", message.Clip(code, message.MaxIDLength), e.Code)
	}
	return e, lost
}

// text reads a string, and reports whether it is one.
func text(raw json.RawMessage, into *string) bool {
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, into) == nil
}

// status reads the status of an error, and reports whether it is one.
func status(raw json.RawMessage, into *int) bool {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 400 || n > 599 {
		return false
	}
	*into = n
	return true
}

// Either reads lines of both dialects, each as what it is. It is not safe for
// concurrent use.
type Either struct {
	current, older message.Decoder

	// spoken is the dialect of what has neither: the older one after lines of the older one
	// only. Nil before the first line that has one.
	spoken *message.Dialect
}

// NewEither returns an Either. Both of its decoders have these settings.
func NewEither(lenient bool, near func(name string) []message.Type) *Either {
	return &Either{
		current: message.Decoder{Lenient: lenient, Near: near},
		older:   message.Decoder{Dialect: Dialect, Lenient: lenient, Near: near},
	}
}

// Decode reads the message that is all of line into m, and returns in which dialect it, or an
// answer to it, is written. A message of the older dialect is not translated. The
// error is a *message.Rejection.
func (e *Either) Decode(line []byte, m *message.Message) (*message.Dialect, error) {
	err := e.current.DecodeTo(line, m)
	if err == nil {
		e.spoken = message.Current
		return message.Current, nil
	}
	d := e.Hear(message.SalvageLine(line))
	if d != message.Current {
		err = e.older.DecodeTo(line, m)
	}
	return d, err
}

// Hear returns the dialect of a line that isn't a message, and remembers it for lines that could be of either.
func (e *Either) Hear(s *message.Salvage) *message.Dialect {
	d, shown := e.dialect(s)
	if shown && e.spoken != message.Current {
		e.spoken = d
	}
	return d
}

// Extend is for [kernos/message/ndjson.ReaderOptions]: it lets a line grow past the
// current limit if its head may be one of the older dialect.
func (e *Either) Extend(head []byte) int {
	d, _ := e.dialect(message.SalvageLine(head))
	return d.MaxLine
}

// dialect returns the dialect of a line, and whether its members show it: a message of an older
// one has a name or a payload, and neither kind nor data.
func (e *Either) dialect(s *message.Salvage) (_ *message.Dialect, shown bool) {
	has := func(name string) bool { _, ok := s.Member(name); return ok }
	switch {
	case has("kind") || has("data"):
		return message.Current, true
	case (has("name") || has("payload")) && s.Version() == Numbered.Version:
		return Numbered, true
	case has("name") || has("payload"):
		return Dialect, true
	}
	return cmp.Or(e.spoken, message.Current), false
}
