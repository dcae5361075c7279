package history

import (
	"unicode/utf8"

	"kernos/message"
)

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
