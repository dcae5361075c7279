package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
)

// Columns returns how many columns of a terminal a text takes.
func Columns(text string) int { return displaywidth.String(text) }

// Clip cuts a text that is wider than most columns at its end, and shows that it did.
func Clip(text string, most int) string { return displaywidth.TruncateString(text, most, "…") }

// Pad makes a text exactly this wide.
func Pad(text string, columns int) string {
	text = Clip(text, columns)
	return text + strings.Repeat(" ", max(columns-Columns(text), 0))
}

// ClipMiddle cuts a text that is wider than most columns in its middle: ids often begin
// alike.
func ClipMiddle(text string, most int) string {
	if Columns(text) <= most {
		return text
	}
	head := displaywidth.TruncateString(text, (most-1)/2, "")
	tail := text[len(head):]
	width, room := Columns(tail), most-1-Columns(head)
	for g := displaywidth.StringGraphemes(tail); width > room && g.Next(); {
		tail = tail[len(g.Value()):]
		width -= g.Width()
	}
	return head + "…" + tail
}

// Hang breaks a text into lines that fit a terminal of this width. The first one follows indent columns
// of other text, and the others are indented by as many. 0 means that there is no terminal.
func Hang(text string, indent, width int) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	room, used := max(width-indent, narrowestText), 0
	for word := range strings.FieldsSeq(text) {
		n := Columns(word)
		switch {
		case used == 0:
		case used+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// Count writes a number with the noun that it needs.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes writes a size for people.
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	size, unit := float64(n), -1
	for size >= 1024 && unit < len("KMGT")-1 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.1f %cB", size, "KMGT"[unit])
}

// Age returns how long ago something was, in its largest unit.
func Age(at, now time.Time) string {
	switch d := now.Sub(at); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// ShellQuote writes a word so that every shell takes it as it is.
func ShellQuote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:=@,+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
