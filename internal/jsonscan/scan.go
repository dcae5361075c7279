// Package jsonscan checks and walks JSON text in place, without building values.
//
// It is the part of the hot path that looks at every byte of every message, so it
// is written by hand: it accepts exactly the JSON of RFC 8259 that is also valid
// I-JSON text (UTF-8, no lone surrogates, no repeated member names), nested at
// most [MaxDepth] deep, and makes no allocation for ordinary input. A differential
// fuzz test holds it against go-json-experiment.
//
// [Scanner.Value] checks text that comes from outside. The functions that follow
// it, [Skip], [Unquote] and [Members], trust text that Value has accepted.
package jsonscan

import (
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how many arrays and objects may be open at once.
const MaxDepth = 1000

// A SyntaxError describes what is wrong with a text and where.
type SyntaxError struct {
	Problem string
	Offset  int // offset of the offending byte, from 0
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at position %d", e.Problem, e.Offset)
}

func fail(offset int, format string, args ...any) error {
	return &SyntaxError{Problem: fmt.Sprintf(format, args...), Offset: offset}
}

// A Scanner checks JSON text. Its zero value is ready; it keeps scratch space
// from one text to the next, so a reader that owns one pays for it once. It is
// not safe for concurrent use.
type Scanner struct {
	names names
}

// Value checks the value that starts at b[i], after white space, and returns the
// offset after it. The error is a *SyntaxError.
func (s *Scanner) Value(b []byte, i int) (int, error) {
	return s.ValueWithin(b, i, 0)
}

// ValueWithin is Value for a value that is itself nested in depth open arrays or
// objects, which count towards MaxDepth.
func (s *Scanner) ValueWithin(b []byte, i, depth int) (int, error) {
	s.names.reset()
	return s.value(b, i, depth)
}

// Text checks that b is one value with nothing but white space around it.
func (s *Scanner) Text(b []byte) error {
	i, err := s.Value(b, 0)
	if err != nil {
		return err
	}
	if i = Space(b, i); i < len(b) {
		return Expected(b, i, "nothing after the value")
	}
	return nil
}

// Space returns the offset of the first byte at or after i that is not white space.
func Space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func (s *Scanner) value(b []byte, i, depth int) (int, error) {
	i = Space(b, i)
	if i >= len(b) {
		return i, Expected(b, i, "a value")
	}
	switch c := b[i]; {
	case c == '"':
		end, _, err := String(b, i)
		return end, err
	case c == '{':
		return s.object(b, i, depth+1)
	case c == '[':
		return s.array(b, i, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return number(b, i)
	case c == 't':
		return literal(b, i, "true")
	case c == 'f':
		return literal(b, i, "false")
	case c == 'n':
		return literal(b, i, "null")
	}
	return i, Expected(b, i, "a value")
}

func (s *Scanner) object(b []byte, i, depth int) (int, error) {
	if depth > MaxDepth {
		return i, fail(i, "nested deeper than %d levels", MaxDepth)
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	open := s.names.open()
	for {
		name, end, err := Name(b, i)
		if err != nil {
			return end, err
		}
		if !s.names.add(&open, b[i+1:name-1]) {
			return i, fail(i, "repeated member name %s", quote(b[i:name]))
		}
		if i, err = s.value(b, end, depth); err != nil {
			return i, err
		}
		i = Space(b, i)
		if i < len(b) && b[i] == ',' {
			i = Space(b, i+1)
			continue
		}
		if i < len(b) && b[i] == '}' {
			s.names.close(open)
			return i + 1, nil
		}
		return i, Expected(b, i, "',' or '}' after a member")
	}
}

// Name checks the member name at b[i] and the colon after it. It returns the
// offsets after the name and after the colon. The error is a *SyntaxError.
func Name(b []byte, i int) (name, value int, err error) {
	if i >= len(b) || b[i] != '"' {
		return i, i, Expected(b, i, "a member name in double quotes")
	}
	name, _, err = String(b, i)
	if err != nil {
		return name, name, err
	}
	value = Space(b, name)
	if value >= len(b) || b[value] != ':' {
		return name, value, Expected(b, value, "':' after a member name")
	}
	return name, value + 1, nil
}

func (s *Scanner) array(b []byte, i, depth int) (int, error) {
	if depth > MaxDepth {
		return i, fail(i, "nested deeper than %d levels", MaxDepth)
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = s.value(b, i, depth); err != nil {
			return i, err
		}
		i = Space(b, i)
		if i < len(b) && b[i] == ',' {
			i++
			continue
		}
		if i < len(b) && b[i] == ']' {
			return i + 1, nil
		}
		return i, Expected(b, i, "',' or ']' after an element")
	}
}

func literal(b []byte, i int, word string) (int, error) {
	if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
		return i + len(word), nil
	}
	end := i
	for end < len(b) && end-i < 20 && ('a' <= b[end] && b[end] <= 'z' || 'A' <= b[end] && b[end] <= 'Z') {
		end++
	}
	return i, fail(i, "expected a value, got the word %s", b[i:end])
}

func number(b []byte, i int) (int, error) {
	start := i
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
		if i < len(b) && isDigit(b[i]) {
			return start, fail(start, "a number that starts with a superfluous zero")
		}
	case i < len(b) && isDigit(b[i]):
		i = digits(b, i)
	default:
		return i, Expected(b, i, "a digit")
	}
	if i < len(b) && b[i] == '.' {
		i++
		if i >= len(b) || !isDigit(b[i]) {
			return i, Expected(b, i, "a digit after the decimal point")
		}
		i = digits(b, i)
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !isDigit(b[i]) {
			return i, Expected(b, i, "a digit in the exponent")
		}
		i = digits(b, i)
	}
	return i, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func digits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

// Expected returns the error for a text that has something else at b[i], or nothing.
func Expected(b []byte, i int, what string) error {
	if i >= len(b) {
		return fail(i, "the text ends, expected %s", what)
	}
	return fail(i, "expected %s, got %s", what, describe(b, i))
}

// describe names the byte or character at b[i] so that a reader can find it.
func describe(b []byte, i int) string {
	c := b[i]
	switch {
	case c == 0:
		return "a NUL byte"
	case c == 0xEF && i+2 < len(b) && b[i+1] == 0xBB && b[i+2] == 0xBF:
		return "a byte-order mark"
	case c < ' ' || c == 0x7F:
		return fmt.Sprintf("the control character 0x%02X", c)
	case c < utf8.RuneSelf:
		return fmt.Sprintf("'%c'", c)
	}
	if r, _ := utf8.DecodeRune(b[i:]); r != utf8.RuneError {
		return fmt.Sprintf("%q", r)
	}
	return fmt.Sprintf("the byte 0x%02X", c)
}

// quote shortens a quoted name for an error text.
func quote(token []byte) string {
	const most = 64
	if len(token) <= most {
		return string(token)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(token[cut]) {
		cut--
	}
	return string(token[:cut]) + `…"`
}
