package content

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// shown returns what a tool has printed as text.
func shown(out []byte) string {
	text := strings.ToValidUTF8(string(out), "\uFFFD")
	return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
}

// firstParagraph returns the lines before the first blank one.
func firstParagraph(text string) string {
	end := 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			break
		}
		end += len(line)
	}
	return strings.TrimSpace(text[:end])
}

// hint marks a text that continues elsewhere.
const hint = "… (more with --help)"

// cutWithHint is cut, with a hint at the end that is part of the limit.
func cutWithHint(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return strings.TrimRight(cut(text, limit-utf8.RuneCountInString(hint)), " \n") + hint
}

// maxSign is how many characters one sign may have to be left whole.
const maxSign = 32

// cut returns the first characters of a text. A sign that is written with several of them,
// such as a letter and its accent, is taken whole or left out.
func cut(text string, limit int) string {
	kept := 0
	for g := displaywidth.StringGraphemes(text); g.Next(); {
		sign := g.Value()
		n := utf8.RuneCountInString(sign)
		if n > limit && n > maxSign {
			return text[:kept] + string([]rune(sign)[:limit])
		}
		if n > limit {
			break
		}
		limit -= n
		kept += len(sign)
	}
	return text[:kept]
}
