package content

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown returns what a tool has printed as text.
func shown(out []byte) string {
	text := strings.ToValidUTF8(string(out), "\uFFFD")
	return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
}

// firstParagraph returns the lines before the first blank one.
func firstParagraph(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			lines = lines[:i]
			break
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// hint says that a text goes on.
const hint = "… (more with --help)"

// cutWithHint is cut, with a hint at the end that is part of the limit.
func cutWithHint(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimRight(cut(text, limit-utf8.RuneCountInString(hint)), " \n") + hint
}

// cut returns the first characters of a text. Where it would take a sign apart that is
// written with several of them, such as a letter and its accent, it leaves the sign out.
func cut(text string, limit int) string {
	for i := range text {
		if limit == 0 {
			return text[:whole(text, i)]
		}
		limit--
	}
	return text
}

// maxSign is how many characters of one sign are taken into account.
const maxSign = 32

// whole returns the last place at or before a cut that is between two signs.
func whole(text string, at int) int {
	place := at
	for range maxSign {
		next, _ := utf8.DecodeRuneInString(text[place:])
		last, size := utf8.DecodeLastRuneInString(text[:place])
		if size == 0 || !joins(last, next) {
			return place
		}
		place -= size
	}
	return at
}

const zeroWidthJoiner = '\u200D'

// joins reports whether two characters are parts of one sign.
func joins(last, next rune) bool {
	return unicode.Is(unicode.M, next) || next == zeroWidthJoiner || last == zeroWidthJoiner ||
		next >= 0x1F3FB && next <= 0x1F3FF || // colours of skin
		last == '\r' && next == '\n'
}
