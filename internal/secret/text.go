package secret

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"kernos/internal/jsonscan"
)

// redactText returns a text without the credentials that follow their names in it, wherever they
// stand (curl -H "Cookie: a=b", headers['Cookie'] = …, ("Cookie", "a=b"), ?access_token=…), and
// whether there were any. The value of a URL parameter ends where the next one begins. Any
// other goes to the end of its line, since the end of the secret in it can't be known.
func redactText(text []byte) (out []byte, found bool) {
	copied := 0
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != ':' && c != '=' && c != ',' {
			continue
		}
		name, ok := nameBefore(text, i)
		if !ok {
			continue
		}
		start, end := valueAfter(text, i+1)
		if text[i] == '=' && isParameter(text, name, i) {
			start, end = i+1, parameterEnd(text, i+1)
		}
		if !isRedacted(text[start:end]) {
			out = append(append(out, text[copied:start]...), Redacted...)
			copied, found = end, true
		}
		i = end - 1
	}
	if !found {
		return text, false
	}
	return append(out, text[copied:]...), true
}

// isRedacted reports whether there is nothing to take out of the value of a header.
func isRedacted(value []byte) bool {
	value = bytes.TrimSpace(value)
	return len(value) == 0 || string(value) == Redacted
}

// nameBefore returns where the name of a credential begins that stands before text[i]: a
// colon, an equals sign, or a comma after quotes. A name that may as well be a word of prose,
// such as password, counts before a colon only if it is quoted or begins its line.
func nameBefore(text []byte, i int) (start int, ok bool) {
	end := i
	quote := byte(0)
joint:
	for ; end > 0; end-- {
		switch c := text[end-1]; c {
		case '"', '\'', '`':
			quote = c
		case ' ', '\t', '\\', ']', ')':
		default:
			break joint
		}
	}
	var room [maxName]byte
	for start = end; ; start-- {
		oneWord := start == end
		for start > 0 && isWord(text[start-1]) && end-start <= maxName {
			start--
		}
		quoted := quote != 0 && start > 0 && text[start-1] == quote
		switch place := placeOf(text[start:end], fold(&room, text[start:end])); {
		case place < Data:
		case text[i] == '=':
			return start, true
		case text[i] == ':' && (place == Text || quoted || oneWord && beginsLine(text, start)):
			return start, true
		case text[i] == ',' && place == Text && quoted:
			return start, true
		}
		if end-start > maxName || start < 2 || text[start-1] != ' ' && text[start-1] != '.' || !isWord(text[start-2]) {
			return 0, false
		}
		// The words may belong together: api key, connect.sid.
	}
}

func isWord(c byte) bool { return isLetter(c) || isDigit(c) || c == '-' || c == '_' }

// beginsLine reports whether nothing but blanks, dashes, quotes and opening brackets stands
// before text[i] in its line.
func beginsLine(text []byte, i int) bool {
	for ; i > 0 && text[i-1] != '\n' && text[i-1] != '\r'; i-- {
		if strings.IndexByte(" \t-\"'`{[(", text[i-1]) < 0 {
			return false
		}
	}
	return true
}

// isParameter reports whether a name and the equals sign at text[i] are those of a parameter
// of a URL or a form.
func isParameter(text []byte, name, i int) bool {
	if name > 0 {
		return name+1 < i && (text[name-1] == '?' || text[name-1] == '&')
	}
	end := parameterEnd(text, i)
	return end == len(text) || text[end] == '&'
}

func parameterEnd(text []byte, i int) int { return until(text, i, "& \t\r\n\"'`<>#") }

func lineEnd(text []byte, i int) int { return until(text, i, "\r\n") }

// until returns where one of some characters is, at or after text[i], or the end.
func until(text []byte, i int, chars string) int {
	if n := bytes.IndexAny(text[i:], chars); n >= 0 {
		return i + n
	}
	return len(text)
}

// valueAfter returns where the value of a header begins, at or after text[i], and ends:
// with its line and those that are indented after it, or with the text if it continues in a
// way that can't be followed.
func valueAfter(text []byte, i int) (start, end int) {
	for start = i; start < len(text) && bytes.IndexByte([]byte(" \t\r\n"), text[start]) >= 0; start++ {
	}
	end = lineEnd(text, start)
	if start < end && opens(text[start:end]) {
		return start, len(text)
	}
	for {
		next := end
		if next < len(text) && text[next] == '\r' {
			next++
		}
		if next < len(text) && text[next] == '\n' {
			next++
		}
		if next == end || next == len(text) || text[next] != ' ' && text[next] != '\t' {
			return start, end
		}
		end = lineEnd(text, next)
	}
}

// opens reports whether a line begins with a bracket or a quote that it does not close.
func opens(line []byte) bool {
	closing := line[0]
	switch line[0] {
	case '[', '{':
		closing = line[0] + 2
	case '(':
		closing = ')'
	case '"', '\'', '`':
	default:
		return false
	}
	return bytes.IndexByte(line[1:], closing) < 0
}

// hasHeaderLine reports whether a line of text is a header that carries a credential, as in
// "Authorization: Bearer x".
func hasHeaderLine(text []byte) bool {
	if bytes.IndexByte(text, ':') < 0 {
		return false
	}
	for line := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		name = bytes.TrimSpace(name)
		if ok && !bytes.ContainsFunc(name, func(r rune) bool { return r >= 0x80 || !isWord(byte(r)) }) && Named(name, Text) && !isRedacted(value) {
			return true
		}
	}
	return false
}

// URL returns a URL, which need not be a valid one, without the credentials in it: what
// stands before the host, and the parameters with names of credentials.
func URL(text string) string {
	text = withoutUser(text)
	host := strings.Index(text, "//") + 1 // index of the slash before the host
	path := strings.IndexAny(text[host+1:], "/?#")
	if path < 0 {
		return text
	}
	path += host + 1
	return text[:path] + redactPairs(text[path:], parameter(), Request)
}

// withoutUser takes what stands before the host out of a URL.
func withoutUser(text string) string {
	_, rest, ok := strings.Cut(text, ":")
	if !ok {
		return text
	}
	authority := strings.TrimLeft(rest, `/\`)
	end := strings.IndexAny(authority, `/?#\`)
	if end < 0 {
		end = len(authority)
	}
	at := strings.LastIndexByte(authority[:end], '@')
	if at < 0 {
		// A slash in a password ends the authority too early, and the URL is then invalid.
		if _, err := url.Parse(text); err == nil {
			return text
		}
		if at = strings.LastIndexByte(authority, '@'); at < 0 {
			return text
		}
	}
	start := len(text) - len(authority)
	return text[:start] + Redacted + text[start+at:]
}

// Form returns the body of a web request, a form or JSON, without the fields that have names
// of credentials. Other text is returned as it is.
func Form(text string) string {
	if opensJSON([]byte(text)) && jsonscan.Valid([]byte(text)) {
		out, _ := Strictness{Place: Body}.Redact([]byte(text))
		return string(out)
	}
	return redactPairs(text, formField(), Body)
}

// Pairs name=value, in a URL after its host and in a form.
var (
	parameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[^?&#;=]*=[^&#]+") })
	formField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[^&=]*=[^&]+") })
)

// redactPairs takes the values out of the pairs whose names denote credentials in a place.
func redactPairs(text string, pair *regexp.Regexp, place Location) string {
	return pair.ReplaceAllStringFunc(text, func(pair string) string {
		if name, _, _ := strings.Cut(pair, "="); Named(fieldName(name), place) {
			return name + "=" + Redacted
		}
		return pair
	})
}

// fieldName returns the field that a parameter's name means: the last part of user[password],
// without its escapes.
func fieldName(name string) []byte {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	name = strings.TrimSuffix(strings.TrimSpace(name), "[]")
	if inner, ok := strings.CutSuffix(name, "]"); ok {
		name = inner[strings.LastIndexByte(inner, '[')+1:]
	}
	return []byte(name)
}

// Mentioned reports whether a text that a person has written may have a credential in it: the text names one, or has a word
// that looks like a key. A text that is only about credentials counts, too.
func Mentioned(text string) bool {
	before := ""
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r >= utf8.RuneSelf || !isWord(byte(r)) }) {
		if Named([]byte(word), Data) || before != "" && Named([]byte(before+"_"+word), Data) || hasKey(word) {
			return true
		}
		before = word
	}
	return false
}

// keyLength is how many letters and digits a key has at least.
const keyLength = 16

// hasKey reports whether a word has a long part in which letters and digits are mixed, as in sk-0123456789abcdef.
func hasKey(word string) bool {
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r == '-' || r == '_' }) {
		if len(part) >= keyLength && strings.ContainsAny(part, "0123456789") && strings.ContainsFunc(part, func(r rune) bool { return isLetter(byte(r)) }) {
			return true
		}
	}
	return false
}
