package embed

import (
	"iter"
	"strings"
	"unicode"
)

// words yields the words of a text in small letters. Names of programs are taken apart:
// Crypto.Seal, connection_refused, maxRetries and HTTPServer have two words each.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := -1
		var before rune
		for i, r := range text {
			inside := unicode.IsLetter(r) || unicode.IsDigit(r)
			if start >= 0 && (!inside || unicode.IsDigit(before) != unicode.IsDigit(r) || unicode.IsLower(before) && unicode.IsUpper(r)) {
				if !yield(strings.ToLower(text[start:i])) {
					return
				}
				start = -1
			}
			if inside && start < 0 {
				start = i
			}
			before = r
		}
		if start >= 0 {
			yield(strings.ToLower(text[start:]))
		}
	}
}
