package embed

import (
	"unicode"
	"unicode/utf8"
)

// longestWord is how many bytes of a word are looked at.
const longestWord = 40

// Words finds the words of a text, in small letters. Names of programs are taken apart:
// Crypto.Seal, connection_refused, maxRetries, HTTPServer and utf8 have two words each. Ids such as
// 01J9ZC3M8QK5 and 9f86d081 have none: letters and digits that take turns mean nothing.
//
// What a table means depends on it: a table is made with the words that this finds.
type Words struct {
	Text string

	run  string // the unread part of a run of letters and digits
	word [longestWord]byte
}

// Next returns the next word, or nil after the last. The bytes are valid until the next call.
func (w *Words) Next() []byte {
	for w.run == "" {
		if w.Text == "" {
			return nil
		}
		size, isWord := runOf(w.Text)
		if isWord {
			w.run = w.Text[:size]
		}
		w.Text = w.Text[size:]
	}
	n := 0
	var before rune
	for w.run != "" {
		r, size := utf8.DecodeRuneInString(w.run)
		if before != 0 && starts(before, r, w.run[size:]) {
			break
		}
		before = r
		w.run = w.run[size:]
		if r = unicode.ToLower(r); n+utf8.UTFMax <= len(w.word) {
			n += utf8.EncodeRune(w.word[n:], r)
		}
	}
	return w.word[:n]
}

// runOf returns how long the run of letters and digits is that the text begins with, and whether it
// is words. A character of another kind is a run of its own.
func runOf(text string) (size int, isWord bool) {
	turns, digits := 0, false
	for size < len(text) {
		r, n := rune(text[size]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[size:])
		}
		digit := isDigit(r)
		if !digit && !unicode.IsLetter(r) && !unicode.IsMark(r) {
			if size == 0 {
				return n, false
			}
			break
		}
		if size > 0 && digit != digits {
			turns++
		}
		digits = digit
		size += n
	}
	return size, turns <= 1
}

// starts reports whether a new word starts with r, which stands between two others.
func starts(before, r rune, after string) bool {
	if isDigit(before) != isDigit(r) {
		return true
	}
	if !unicode.IsUpper(r) || !unicode.IsUpper(before) {
		return unicode.IsUpper(r)
	}
	// The last of several capital letters begins the next word: HTTPServer, but not URLs.
	next, _ := utf8.DecodeRuneInString(after)
	return unicode.IsLower(next) && after != "s"
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

const (
	shortestStart = 3 // letters of a word that a longer one begins with
	shortestWhole = 4 // letters of a word that continues another
)

// Entries appends the entry of a word, or those of its parts: for a word that isn't there, the
// longest word that it begins with, then the longest words or pieces that continue it. A piece is marked with #.
func Entries(entries map[string]int32, word []byte, to []int32) []int32 {
	if i, ok := entries[string(word)]; ok {
		return append(to, i)
	}
	if isDigit(rune(word[0])) {
		return to // a number means nothing, unless it is an entry: 404
	}
	var piece [1 + longestWord]byte
	piece[0] = '#'
	for at := 0; at < len(word); {
		end := len(word)
		for ; end > at; end-- {
			size := end - at
			if at == 0 && size < shortestStart {
				end = at
				break
			}
			if at == 0 || size >= shortestWhole {
				if i, ok := entries[string(word[at:end])]; ok {
					to = append(to, i)
					break
				}
			}
			if at > 0 {
				if i, ok := entries[string(piece[:1+copy(piece[1:], word[at:end])])]; ok {
					to = append(to, i)
					break
				}
			}
		}
		at = max(end, at+1)
	}
	return to
}
