// Package visible writes texts so that all of them can be seen.
package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text on one line, with everything in it visible: what a terminal would
// obey, what changes the direction of writing, and what isn't shown at all is written out.
func Text(s string) string {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !shown(r, size) {
			return string(Append(make([]byte, 0, len(s)+16), s))
		}
		i += size
	}
	return s
}

// Short is Text for a text that others have written, whose white space is made single spaces. Of one that is longer, it
// has that many bytes at most, and an ellipsis.
func Short(s string, most int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "�")), " ")
	if len(s) > most {
		s = s[:most]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return Text(s)
}

// Lines is Text for each line of a text.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Append appends a text as Text returns it.
func Append(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = appendRune(dst, r, size)
		i += size
	}
	return dst
}

// shown reports whether a character stands for itself.
func shown(r rune, size int) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7F
	}
	return (r != utf8.RuneError || size > 1) && unicode.IsPrint(r)
}

func appendRune(dst []byte, r rune, size int) []byte {
	switch {
	case shown(r, size):
		return utf8.AppendRune(dst, r)
	case r == utf8.RuneError && size <= 1:
		return append(dst, "�"...)
	case r < ' ':
		return utf8.AppendRune(dst, '␀'+r)
	case r == 0x7F:
		return append(dst, "␡"...)
	}
	return fmt.Appendf(dst, "⟨U+%04x⟩", r)
}
