// Package words finds the words of messages and of queries, for the index of the journal.
package words

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"kernos/internal/jsonscan"
	"kernos/kernel"
)

// maxWord is how many bytes of a word are kept.
const maxWord = 64

// A Tokenizer finds the words of a text: runs of letters and digits, in lower case and
// without accents. Characters of scripts that put nothing between words are words
// by themselves. It keeps memory from one text to the next.
type Tokenizer struct {
	word []byte // the word that is being read
	norm []byte
	Emit func(word []byte) // called for each word, which is valid until it returns
}

// Message finds the words of a message: of its type, and of the names, strings and numbers
// of its data. What stands for something that is not recorded has none.
func (t *Tokenizer) Message(typ, data []byte) {
	t.text(typ, true)
	t.json(data)
}

// json finds the words of data, which may be anything.
func (t *Tokenizer) json(b []byte) {
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			i = t.jsonString(b, i)
		case c == '-' || '0' <= c && c <= '9':
			start := i
			for i < len(b) && (b[i] == '-' || b[i] == '+' || b[i] == '.' || isWordByte(b[i])) {
				i++
			}
			t.text(b[start:i], false)
		default:
			i++
		}
	}
}

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// jsonString finds the words of the string at b[i] and returns the offset after it.
func (t *Tokenizer) jsonString(b []byte, i int) int {
	end, escaped, err := jsonscan.String(b, i)
	if err != nil {
		return len(b) // not JSON: the end of the string isn't known
	}
	token := b[i:end]
	content := token[1 : len(token)-1]
	if escaped {
		content = []byte(jsonscan.Unquote(token))
	}
	after := jsonscan.Space(b, end)
	isName := after < len(b) && b[after] == ':'
	if !isName {
		switch string(token) {
		case kernel.RedactedData, kernel.RefusedData, kernel.OmittedData:
			return end
		}
	}
	t.text(content, isName)
	return end
}

// text finds the words of a text. If it is a name, parts of a word that begin with a
// capital letter are words too.
func (t *Tokenizer) text(b []byte, isName bool) {
	for i := 0; i < len(b); {
		start := i
		ascii := true
		for i < len(b) {
			if c := b[i]; c < utf8.RuneSelf {
				if !isWordByte(c) {
					break
				}
				i++
				continue
			}
			r, n := utf8.DecodeRune(b[i:])
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) {
				break
			}
			ascii = false
			i += n
		}
		if i > start {
			if ascii {
				t.plain(b[start:i], isName)
			} else {
				t.folded(b[start:i])
			}
		}
		if i < len(b) {
			_, n := utf8.DecodeRune(b[i:])
			i += n
		}
	}
}

// plain emits a word of ASCII.
func (t *Tokenizer) plain(w []byte, isName bool) {
	if isName {
		t.parts(w)
	}
	if len(w) > maxWord {
		w = w[:maxWord]
	}
	t.word = t.word[:0]
	for _, c := range w {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		t.word = append(t.word, c)
	}
	t.Emit(t.word)
}

// parts emits the parts of a word that is made of several: MemorySet has memory and set,
// VFSRead has vfs and read.
func (t *Tokenizer) parts(w []byte) {
	start := 0
	for i := 1; i < len(w); i++ {
		if !isUpper(w[i]) || isUpper(w[i-1]) && (i+1 >= len(w) || isUpper(w[i+1])) {
			continue
		}
		t.plain(w[start:i], false)
		start = i
	}
	if start > 0 {
		t.plain(w[start:], false)
	}
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// folded emits the words of a run that is not all ASCII.
func (t *Tokenizer) folded(w []byte) {
	// A run may be as long as a message; no more of it than a few words is of any use.
	const most = 64 * maxWord
	if len(w) > most {
		w = w[:most]
	}
	t.norm = norm.NFKD.Append(t.norm[:0], w...)
	t.word = t.word[:0]
	for i := 0; i < len(t.norm); {
		r, n := utf8.DecodeRune(t.norm[i:])
		i += n
		switch {
		case r == utf8.RuneError, unicode.IsMark(r):
		case alone(r):
			t.flush()
			t.word = utf8.AppendRune(t.word, r)
			t.flush()
		case r == 'ß' || r == 'ẞ':
			t.word = append(t.word, "ss"...)
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			t.word = utf8.AppendRune(t.word, unicode.ToLower(r))
		default: // a compatible form of something that isn't a letter
			t.flush()
		}
	}
	t.flush()
}

// flush emits the word that has been read, if there is one.
func (t *Tokenizer) flush() {
	w := t.word
	if len(w) > maxWord {
		cut := maxWord
		for cut > 0 && !utf8.RuneStart(w[cut]) {
			cut--
		}
		w = w[:cut]
	}
	if len(w) > 0 {
		t.Emit(w)
	}
	t.word = t.word[:0]
}

// alone reports whether a character is a word by itself.
func alone(r rune) bool {
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// maxQueryWords is how many words of a query are searched for.
const maxQueryWords = 32

// OfQuery returns the words of a query, each once, in order, and at most 32 of them.
func OfQuery(text string) [][]byte {
	var words [][]byte
	t := Tokenizer{Emit: func(w []byte) {
		if len(words) < maxQueryWords && !slices.ContainsFunc(words, func(o []byte) bool { return bytes.Equal(o, w) }) {
			words = append(words, bytes.Clone(w))
		}
	}}
	t.text([]byte(text), false)
	return words
}
