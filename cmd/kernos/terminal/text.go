package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// runeColumns is how many columns of a terminal a character takes.
func runeColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Columns returns how many columns of a terminal a text takes.
func Columns(text string) (n int) {
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// Clip cuts a text that is wider than most columns at its end, and shows that it did.
func Clip(text string, most int) string {
	n, cut := 0, 0 // cut is where the ellipsis would still fit
	for i, r := range text {
		if n <= most-1 {
			cut = i
		}
		if n += runeColumns(r); n > most {
			return text[:cut] + "…"
		}
	}
	return text
}

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
	runes := []rune(text)
	head, n := 0, 0
	for head < len(runes) && n+runeColumns(runes[head]) <= (most-1)/2 {
		n += runeColumns(runes[head])
		head++
	}
	tail := len(runes)
	for tail > head && n+1+runeColumns(runes[tail-1]) <= most {
		tail--
		n += runeColumns(runes[tail])
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
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
