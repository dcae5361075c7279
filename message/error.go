package message

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
)

// An Error is the data of an error message, and the only error on the wire. Its
// text is for the caller to read: it describes what to do, and holds nothing secret.
type Error struct {
	Code    int    // an HTTP status from 400 to 599; others go out as 500
	Message string // what happened, with the particulars
	Cause   *Error // what made it happen, or nil

	// Field and Expected are the member of the input that is at fault, and what it
	// should have been. They are for dialects that have a place for them.
	Field, Expected string

	// Via names the nested calls that the error came through. It is never
	// written to the wire as such.
	Via *Via

	// Reason distinguishes kinds of errors inside a process, through errors.Is. It is
	// never written to the wire: a client distinguishes errors by their code, or by the
	// type of the message.
	Reason error
}

// Reasons of errors that a [Decoder] returns, and of others that are about the envelope of
// a message and not about what the message asks for.
var (
	ErrNotJSON  = errors.New("the message is not JSON")
	ErrEnvelope = errors.New("the envelope breaks a rule")
)

// An error's text may quote its caller, but an error message must always fit into
// a line. So a text is cut at MaxErrorText bytes, the texts of its causes at
// MaxCauseText, and a chain after maxCauses of them.
const (
	MaxErrorText = 2000
	MaxCauseText = 1000
	maxCauses    = 3
)

// Errorf builds an Error. An *Error that the format wraps with %w at its end
// becomes the cause.
func Errorf(code int, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: err.Error()}
	if cause, ok := errors.AsType[*Error](err); ok && cause != nil {
		e.Cause = cause
		e.Message = strings.TrimSuffix(strings.TrimSuffix(e.Message, cause.Error()), ": ")
		if e.Message == "" { // nothing but the cause
			e.Message, e.Cause = cause.Message, cause.Cause
		}
	}
	return e
}

// Invalid returns the error for a field of the input that fits the schema and makes no sense.
func Invalid(field, format string, args ...any) *Error {
	e := Errorf(422, "Schema validation failed: "+format, args...)
	e.Field = field
	return e
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Map returns a copy of e, and of its causes, with what f makes of each text.
func (e *Error) Map(f func(text string) string) *Error {
	if e == nil {
		return nil
	}
	out := *e
	out.Message, out.Expected, out.Cause = f(e.Message), f(e.Expected), e.Cause.Map(f)
	return &out
}

// Nested returns the nested calls that e, or what caused it, came through.
func (e *Error) Nested() *Via {
	for ; e != nil; e = e.Cause {
		if e.Via != nil {
			return e.Via
		}
	}
	return nil
}

// ErrServerStopping is why a connection has ended whose server shuts down. The server hasn't begun a request that it has
// neither acknowledged nor answered.
var ErrServerStopping = errors.New("the server is shutting down")

// Is reports whether the reason of e is target.
func (e *Error) Is(target error) bool { return e.Reason != nil && errors.Is(e.Reason, target) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e.Cause == nil {
		return nil
	}
	return e.Cause
}

// publicError is an error of another package that knows its code, and which part of it a
// caller may see.
type publicError interface {
	error
	Public() (code int, text string)
}

// ErrorOf turns any error into the one that its caller may see. It is total:
//
//	*Error                    itself; 500 if its code is invalid
//	context.DeadlineExceeded  504
//	context.Canceled          499
//	one that has a Public     what that returns, and known is false: its own text may have more
//	anything else             500 without its text, and known is false
//
// The text of an error that is not known belongs in the operator's log only.
func ErrorOf(err error) (e *Error, known bool) {
	e, ours := errors.AsType[*Error](err)
	switch {
	case ours && e == nil: // a nil pointer in an error that is not nil
	case ours && (e.Code < 400 || e.Code > 599):
		return &Error{Code: 500, Message: e.Message, Cause: e.Cause, Reason: e.Reason}, true
	case ours:
		return e, true
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: 504, Message: "Not done in time"}, true
	case errors.Is(err, context.Canceled):
		return &Error{Code: 499, Message: "Cancelled before it was done"}, true
	}
	if !ours {
		if p, ok := errors.AsType[publicError](err); ok {
			code, text := p.Public()
			return &Error{Code: code, Message: text}, false
		}
	}
	return &Error{Code: 500, Message: "Internal error; the kernel's log has the details"}, false
}

// Append appends e as JSON: code, message, and cause where there is one, with the
// texts cut so that it fits into a line.
func (e *Error) Append(dst []byte) []byte {
	return e.append(dst, MaxErrorText, maxCauses)
}

// AppendWhole is Append without the cuts.
func (e *Error) AppendWhole(dst []byte) []byte { return e.append(dst, 0, -1) }

// append appends the text and the causes; most limits the bytes of a text, causes the number of causes.
// 0 and -1 mean no limit.
func (e *Error) append(dst []byte, most, causes int) []byte {
	text, code := e.Message, e.Code
	if most > 0 {
		text = Clip(printable(text), most)
	}
	if code < 400 || code > 599 {
		code = 500 // the code was forgotten
	}
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(code), 10)
	dst = jsonscan.AppendQuoted(append(dst, `,"message":`...), text)
	if e.Cause != nil && causes != 0 {
		dst = e.Cause.append(append(dst, `,"cause":`...), min(most, MaxCauseText), causes-1)
	}
	return append(dst, '}')
}

// MarshalJSON implements [json.Marshaler].
func (e *Error) MarshalJSON() ([]byte, error) { return e.Append(nil), nil }

// printable takes out of a text what a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7F && r < 0xA0:
			return ' '
		}
		return r
	}, s)
}

// Clip cuts a text that is longer than most bytes, at a character boundary, and
// shows that it did.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// ParseError reads the data of an error message. The error names which rule of the
// error schema the data breaks.
func ParseError(data json.RawMessage) (*Error, error) {
	return parseError(data, "data", 0)
}

// ReadError is [ParseError] for data that a kernel has sent or stored, and that is therefore an error. Anything else
// is a 500.
func ReadError(data json.RawMessage) *Error {
	e, err := ParseError(data)
	if err != nil {
		return &Error{Code: 500, Message: "An error that can't be read"}
	}
	return e
}

// maxParsedCauses is how long a chain of causes may be that comes in.
const maxParsedCauses = 32

func parseError(data json.RawMessage, path string, depth int) (*Error, error) {
	if depth > maxParsedCauses {
		return nil, fmt.Errorf("an error has more than %d causes", maxParsedCauses)
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, fmt.Errorf("%s of an error must be an object with code and message", path)
	}
	var e Error
	var err error
	var code, text bool
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		switch jsonscan.Unquote(name) {
		case "code":
			code = true
			e.Code, err = strconv.Atoi(string(value))
			if err != nil || e.Code < 400 || e.Code > 599 {
				err = fmt.Errorf("%s.code must be an HTTP status from 400 to 599, got %s", path, Clip(string(value), 40))
			}
		case "message":
			text = true
			if value[0] != '"' {
				err = fmt.Errorf("%s.message must be a string, got %s", path, Clip(string(value), 40))
				break
			}
			e.Message = jsonscan.Unquote(value)
		case "cause":
			e.Cause, err = parseError(value, path+".cause", depth+1)
		default:
			err = fmt.Errorf("%s has an unknown field: %s (an error has code, message and cause)", path, Clip(string(name), 80))
		}
		return err == nil
	})
	switch {
	case err != nil:
		return nil, err
	case !code:
		return nil, fmt.Errorf("%s.code is missing", path)
	case !text:
		return nil, fmt.Errorf("%s.message is missing", path)
	}
	return &e, nil
}
