// Package osevent speaks the older dialect of the message protocol, version 0.1 of
// the specification, in which a message was called an OsEvent.
//
// The dialect has other member names (type, name and payload for kind, type and
// data), the word response for reply, lines of up to 1 MB, and errors with a code
// in words and with details. Messages are translated here, at the edge; what the
// details need to know travels in [message.Error] and is on no other wire.
package osevent

import (
	"encoding/json"
	"errors"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/message"
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

// Spoken reports whether a line that isn't a message of the current dialect is meant
// to be one of this one: it has a name or a payload, and neither kind nor data.
func Spoken(s *message.Salvage) bool {
	has := func(name string) bool { _, ok := s.Member(name); return ok }
	return (has("name") || has("payload")) && !has("kind") && !has("data")
}

// Append appends m as a line of the older dialect without its newline. The data of
// an error gets the older form.
func Append(dst []byte, m *message.Message) []byte {
	if m.Kind == message.KindError {
		old := *m
		old.Data = payload(m)
		m = &old
	}
	return Dialect.Append(dst, m)
}

// Translate turns a message that was read in the older dialect into one of the
// current one. Only the data of errors differs. It reports whether something had to
// be left behind that the current dialect can't say.
func Translate(m message.Message) (_ message.Message, lossy bool) {
	if m.Kind != message.KindError {
		return m, false
	}
	e, lossy := parse(m.Data)
	m.Data = e.AppendWhole(nil)
	return m, lossy
}

// The codes of the older dialect. Each stands for the first status behind it, and
// is used for all of them.
var codes = []struct {
	word     string
	statuses []int
}{
	{"INVALID_INPUT", []int{400}},
	{"UNAUTHORIZED", []int{403, 401}},
	{"NOT_FOUND", []int{404}},
	{"LINE_TOO_LONG", []int{413}},
	{"SCHEMA_VIOLATION", []int{422}},
	{"INTERNAL_ERROR", []int{500}},
	{"INVALID_JSON", []int{400}},
}

func word(e *message.Error) string {
	if e.Code == 400 && errors.Is(e, message.ErrNotJSON) {
		return "INVALID_JSON"
	}
	for _, c := range codes {
		for _, s := range c.statuses {
			if s == e.Code {
				return c.word
			}
		}
	}
	if e.Code < 500 {
		return "INVALID_INPUT"
	}
	return "INTERNAL_ERROR"
}

func status(word string) (int, bool) {
	for _, c := range codes {
		if c.word == word {
			return c.statuses[0], true
		}
	}
	return 500, false
}

// payload writes the data of an error in the older form. What the form has no place
// for, the exact status and the causes, goes into details, where Translate finds it.
func payload(m *message.Message) json.RawMessage {
	e, err := message.ParseError(m.Data) // not m.Err: the texts in Data are cut to fit
	if err != nil {
		e = &message.Error{Code: 500, Message: "Internal error"}
	}
	if m.Err != nil {
		e.Field, e.Expected, e.Reason = m.Err.Field, m.Err.Expected, m.Err.Reason
	}
	code := word(e)
	if e.Code == 422 && m.Err != nil && !errors.Is(m.Err, message.ErrEnvelope) {
		code = "INVALID_INPUT"
	}
	dst := jsonscan.AppendQuoted([]byte(`{"message":`), e.Message)
	dst = jsonscan.AppendQuoted(append(dst, `,"code":`...), code)
	details := appendDetails(nil, e, code)
	if len(details) > 0 {
		dst = append(append(append(dst, `,"details":{`...), details...), '}')
	}
	return append(dst, '}')
}

func appendDetails(dst []byte, e *message.Error, code string) []byte {
	member := func(name string) {
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":`...)
	}
	if e.Field != "" {
		member("field")
		dst = jsonscan.AppendQuoted(dst, message.Clip(e.Field, message.MaxIDLength))
	}
	if e.Expected != "" {
		member("expected")
		dst = jsonscan.AppendQuoted(dst, message.Clip(e.Expected, message.MaxCauseText))
	}
	if usual, _ := status(code); usual != e.Code || len(dst) == 0 {
		member("status")
		dst = strconv.AppendInt(dst, int64(e.Code), 10)
	}
	if e.Cause != nil {
		member("cause")
		dst = e.Cause.AppendWhole(dst)
	}
	return dst
}

// parse reads the payload of an older error, which may be anything.
func parse(data json.RawMessage) (e *message.Error, lossy bool) {
	e = &message.Error{Code: 500, Message: "The error came without a message"}
	if len(data) == 0 || data[0] != '{' {
		if len(data) > 0 && data[0] == '"' {
			e.Message = jsonscan.Unquote(data)
		}
		return e, true
	}
	exact, code := 0, ""
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		text := ""
		if value[0] == '"' {
			text = jsonscan.Unquote(value)
		}
		switch jsonscan.Unquote(name) {
		case "message":
			if value[0] == '"' {
				e.Message = text
			} else {
				lossy = true
			}
		case "code":
			code = text
			e.Code, _ = status(text)
			if text == "" {
				lossy = true
				if n, err := strconv.Atoi(string(value)); err == nil && n >= 400 && n <= 599 {
					e.Code = n
				}
			}
		case "details":
			lossy = readDetails(value, e, &exact) || lossy
		default:
			lossy = true
		}
		return true
	})
	if exact != 0 {
		e.Code = exact
	}
	return e, lossy || code != "" && word(e) != code
}

// readDetails reads what appendDetails wrote. It reports whether something is lost.
func readDetails(data json.RawMessage, e *message.Error, exact *int) (lossy bool) {
	if data[0] != '{' {
		return true
	}
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		switch jsonscan.Unquote(name) {
		case "status":
			n, err := strconv.Atoi(string(value))
			if err != nil || n < 400 || n > 599 {
				lossy = true
				break
			}
			*exact = n
		case "cause":
			cause, err := message.ParseError(value)
			if err != nil {
				lossy = true
				break
			}
			e.Cause = cause
		case "field", "expected": // the text says it too
		default:
			lossy = true
		}
		return true
	})
	return lossy
}
