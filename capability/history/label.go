package history

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"kernos/message"
)

// appendVisible appends a text so that all of it can be seen: what would move the
// cursor, turn the direction of writing, or not be shown at all is written out.
func appendVisible(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = appendVisibleRune(dst, r, size)
		i += size
	}
	return dst
}

func appendVisibleRune(dst []byte, r rune, size int) []byte {
	switch {
	case r == utf8.RuneError && size <= 1:
		return append(dst, "�"...)
	case r < ' ':
		return utf8.AppendRune(dst, '␀'+r)
	case r == 0x7F:
		return append(dst, "␡"...)
	case r < utf8.RuneSelf || unicode.IsPrint(r):
		return utf8.AppendRune(dst, r)
	}
	dst = append(dst, "⟨U+"...)
	hex := strconv.FormatInt(int64(r), 16)
	for range 4 - len(hex) {
		dst = append(dst, '0')
	}
	return append(append(dst, hex...), "⟩"...)
}

// shorten cuts a text in its middle if it has more characters than most: ids often begin
// alike, and their ends tell them apart.
func shorten(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	head := (most - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(most-1-head):])
}

// How much of a text is shown in a node.
const (
	maxDrawnID   = 16
	maxTreeID    = 26 // a ULID is shown whole
	maxDrawnText = 40
	maxTreeText  = 80
)

// cutText cuts a text at its end.
func cutText(s string, most int) string {
	n := 0
	for i := range s {
		if n == most-1 {
			if utf8.RuneCountInString(s[i:]) > 1 {
				return s[:i] + "…"
			}
			return s
		}
		n++
	}
	return s
}

// title is what a node is called.
func (n *node) title() string {
	if n.missing() {
		return "not in this workflow"
	}
	return cutText(string(n.typ), message.MaxTypeLength)
}

// Visible returns a text so that all of it can be seen, on one line: what a terminal
// would obey, what turns the direction of writing and what is not shown at all is
// written out.
func Visible(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7F {
			return string(appendVisible(make([]byte, 0, len(s)+16), s))
		}
	}
	return s
}
