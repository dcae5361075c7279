package message

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"kernos/internal/jsonscan"
)

// A Decoder reads messages. It is strict: the text must be JSON without repeated
// names, lone surrogates or invalid UTF-8, and the envelope must be as section 4.1
// of the specification has it, with no other members.
//
// The zero value reads the current dialect. A Decoder keeps scratch space between
// messages and is not safe for concurrent use.
type Decoder struct {
	Dialect *Dialect // nil means Current

	// Lenient accepts a message without metadata, id or timestamp, and leaves the
	// ones that are missing zero.
	Lenient bool

	// Near returns the types that exist and whose names are near to a name, the nearest first:
	// errors suggest them. Nil means that it isn't known which types exist.
	Near func(name string) []Type

	scan  jsonscan.Scanner
	types map[string]Type // types seen before: no check and no allocation for them
	last  Type            // the type decoded last
}

// maxTypes bounds what a hostile sender can make a Decoder remember.
const maxTypes = 256

// A Rejection is the error of a line that is not a message.
type Rejection struct {
	Err  Error
	Line []byte // the decoded line itself, not a copy; [Salvage] reads it
}

func (r *Rejection) Error() string { return r.Err.Message }

// Unwrap returns the error for the wire.
func (r *Rejection) Unwrap() error { return &r.Err }

// Decode reads the message that is all of line. Its data aliases line. The error
// is a *Rejection with code 400 for what is not JSON and 422 for JSON that is not
// a message.
func Decode(line []byte) (Message, error) {
	var d Decoder
	return d.Decode(line)
}

// The members of an envelope, as bits.
const (
	hasKind = 1 << iota
	hasType
	hasData
	hasMetadata
	hasID
	hasTimestamp
)

type envelope struct {
	Message
	has      int
	problems []problem // what is wrong with it, but for what is missing and unknown members of the top level
	unknown  []string  // members of the top level that it should not have

	kindAsType bool // the member for the type holds a kind
}

// A problem is one thing that is wrong with an envelope.
type problem struct{ field, expected, text string }

// wrong notes a problem. Syntax errors further on outrank it.
func (e *envelope) wrong(field, expected, format string, args ...any) {
	if len(e.problems) < maxNamed {
		e.problems = append(e.problems, problem{field, expected, fmt.Sprintf(format, args...)})
	}
}

// problem returns the error about all that is wrong with an envelope which has every member that it needs, or nil.
func (e *envelope) problem() *Error {
	if e.problems == nil {
		return nil
	}
	texts := make([]string, len(e.problems))
	for i, p := range e.problems {
		texts[i] = p.text
	}
	first := e.problems[0]
	return &Error{Code: 422, Message: "Schema validation failed: " + strings.Join(texts, "; "), Field: first.field, Expected: first.expected}
}

// Decode is the function [Decode] with the settings of d.
func (d *Decoder) Decode(line []byte) (m Message, err error) {
	err = d.DecodeTo(line, &m)
	return m, err
}

// DecodeTo is Decode into m, which an error leaves alone.
func (d *Decoder) DecodeTo(line []byte, m *Message) error {
	names := d.Dialect
	if names == nil {
		names = Current
	}
	var e envelope
	if err := d.envelope(&e, names, line); err != nil {
		problem := Error{Code: 400, Message: "Invalid JSON: " + err.Error(), Expected: "JSON", Reason: ErrNotJSON}
		return &Rejection{Err: problem, Line: line}
	}
	if err := e.check(names, d.Lenient); err != nil {
		err.Reason = ErrEnvelope
		return &Rejection{Err: *err, Line: line}
	}
	*m = e.Message
	return nil
}

// envelope reads line into e. The error is a *jsonscan.SyntaxError; what is wrong
// with an envelope that is JSON is noted in e.
func (d *Decoder) envelope(e *envelope, names *Dialect, line []byte) error {
	i := jsonscan.Space(line, 0)
	if i >= len(line) || line[i] != '{' {
		if err := d.scan.Text(line); err != nil {
			return err
		}
		e.wrong("", "object", "a message is a JSON object, got %s", kindName(line[i:]))
		return nil
	}
	i = jsonscan.Space(line, i+1)
	guess := hasKind
	for more := i >= len(line) || line[i] != '}'; more; guess <<= 1 {
		end, at, err := jsonscan.Name(line, i)
		if err != nil {
			return err
		}
		at = jsonscan.Space(line, at)
		name := line[i+1 : end-1]
		bit := names.member(name, guess)
		if bit == 0 {
			s := jsonscan.Unquote(line[i:end])
			if bit = names.member([]byte(s), guess); bit == 0 { // unknown, and not spelled with escapes
				if e.unknown, err = d.unknown(e.unknown, s, line, 0, i); err != nil {
					return err
				}
			}
		}
		if e.has&bit != 0 {
			return repeated(jsonscan.Unquote(line[i:end]), i)
		}
		e.has |= bit
		if bit == hasMetadata {
			i, err = d.metadata(e, line, at)
		} else {
			i, err = d.scan.ValueWithin(line, at, 1)
		}
		if err != nil {
			return err
		}
		switch bit {
		case hasData:
			e.Data = line[at:i:i]
		case hasKind:
			e.readKind(names, line[at:i])
		case hasType:
			d.readType(e, names, line[at:i])
		}
		if i, more, err = next(line, i); err != nil {
			return err
		}
	}
	if i = jsonscan.Space(line, i+1); i < len(line) {
		return jsonscan.Expected(line, i, "nothing after the message")
	}
	return nil
}

// next moves on after a member: to the next one, or to the end of the object.
func next(line []byte, i int) (int, bool, error) {
	i = jsonscan.Space(line, i)
	if i < len(line) && line[i] == ',' {
		return jsonscan.Space(line, i+1), true, nil
	}
	if i < len(line) && line[i] == '}' {
		return i, false, nil
	}
	return i, false, jsonscan.Expected(line, i, "',' or '}' after a member")
}

// maxUnknown is how many unknown members are remembered, each by its name.
const maxUnknown = 16

// unknown adds the name of a member that an object should not have, at offset i of
// line, to those that it has. The error is that it is there already. If there are
// many, the scanner looks at the whole object, which begins at start, and the rest
// are not noted.
func (d *Decoder) unknown(names []string, name string, line []byte, start, i int) ([]string, error) {
	switch {
	case len(names) < maxUnknown && slices.Contains(names, name):
		return nil, repeated(name, i)
	case len(names) > maxUnknown:
		return names, nil
	case len(names) == maxUnknown:
		if _, err := d.scan.Value(line, start); err != nil {
			return nil, err
		}
	}
	return append(names, name), nil
}

func repeated(name string, offset int) error {
	return &jsonscan.SyntaxError{Problem: fmt.Sprintf("repeated member name %q", Clip(name, 64)), Offset: offset}
}

func (e *envelope) readKind(names *Dialect, token []byte) {
	if token[0] == '"' {
		if k, ok := names.kind(token[1 : len(token)-1]); ok {
			e.Kind = k
			return
		}
		if k, ok := names.kind([]byte(jsonscan.Unquote(token))); ok {
			e.Kind = k
			return
		}
	}
	hint := ""
	if token[0] == '"' {
		hint = names.suggestKind(jsonscan.Unquote(token))
	}
	e.wrong(names.Kind, "one of the kinds", "%s must be one of command, query, event, %s, error; got %s%s",
		names.Kind, names.Reply, Describe(token), hint)
}

func (d *Decoder) readType(e *envelope, names *Dialect, token []byte) {
	if token[0] != '"' {
		e.wrong(names.Type, "string", "%s must be a string such as Memory.Get, got %s", names.Type, Describe(token))
		return
	}
	name := token[1 : len(token)-1]
	if d.last != "" && string(name) == string(d.last) {
		e.Type = d.last
		return
	}
	if t, ok := d.types[string(name)]; ok {
		e.Type, d.last = t, t
		return
	}
	written := jsonscan.Unquote(token)
	if t := Type(written); t.Valid() {
		e.Type = t
		if len(d.types) < maxTypes {
			if d.types == nil {
				d.types = make(map[string]Type)
			}
			d.types[string(t)] = t
		}
		return
	}
	_, e.kindAsType = names.kind([]byte(written))
	e.wrong(names.Type, "Domain.Action", "%s must be Domain.Action in PascalCase, such as Memory.Get, of at most %d letters and digits (or Echo or Ping); got %s%s",
		names.Type, MaxTypeLength, Describe(token), d.suggestType(written))
}

// check returns what is wrong with an envelope that is JSON, or nil.
func (e *envelope) check(names *Dialect, lenient bool) *Error {
	const all = hasKind | hasType | hasData | hasMetadata | hasID | hasTimestamp
	isObject := e.problems == nil || e.problems[0].field != ""
	if e.has&all != all && isObject {
		if err := e.missing(names, lenient); err != nil {
			return err
		}
	}
	for _, unknown := range e.unknown {
		e.wrong(unknown, "no such field", "%s", e.unknownMember(names, unknown))
	}
	if e.problems != nil {
		return e.problem()
	}
	switch e.Kind {
	case KindReply:
		if e.Metadata.Causation == "" {
			e.wrong("metadata.causation", "string", "a %s must have metadata.causation, the id of what it answers", names.Reply)
		}
	case KindError:
		if names == Current {
			if _, err := ParseError(e.Data); err != nil {
				e.wrong(names.Data, "error data", "%s", err)
			}
		}
	}
	return e.problem()
}

// Describe names a JSON text in a few words, for error texts: what kind of value
// it is, and the value itself where it is short.
func Describe(text []byte) string {
	if len(text) == 0 {
		return "nothing"
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		if len(text) == 2 {
			return "an empty string"
		}
		return "the string " + Clip(string(text), 60)
	case 't', 'f', 'n':
		return string(text)
	}
	return "the number " + Clip(string(text), 40)
}

// kindName reports what kind of value a JSON text is, and nothing of its content: it may be
// anything, a secret too.
func kindName(text []byte) string {
	switch {
	case len(text) > 0 && text[0] == '"':
		return "a string"
	case len(text) > 0 && (text[0] == '-' || text[0] >= '0' && text[0] <= '9'):
		return "a number"
	}
	return Describe(bytes.TrimRight(text, " \t\r\n"))
}

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
	got.Metadata.Inherited = m.Metadata.Inherited // no line has it
	if got.Kind != m.Kind || got.Type != m.Type || got.Metadata != m.Metadata {
		return &Error{Code: 422, Message: "Schema validation failed: the envelope has text that is not UTF-8, or escapes where none belong", Reason: ErrEnvelope}
	}
	return nil
}
