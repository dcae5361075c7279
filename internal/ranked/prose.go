package ranked

import (
	"bytes"
	"net/http"
	"strconv"
	"unicode"
	"unicode/utf8"

	"kernos/internal/jsonscan"
)

// maxScanned is how much of a value is looked at for its prose.
const maxScanned = 16 << 10

// AppendProse appends what a person would read of JSON data: the words of its names and its strings,
// without numbers, ids, hashes, encoded bytes, and what stands in place of something that isn't
// shown ("[redacted]"). What a status or a code of 400 or more means is appended: no model
// would find "too many requests" near a 429 that isn't there. It stops at about most bytes.
func AppendProse(dst, data []byte, most int) []byte {
	end := len(dst) + most
	data = data[:min(len(data), maxScanned)]
	for i := 0; i < len(data) && len(dst) < end; {
		if data[i] != '"' {
			i++
			continue
		}
		next, escaped, err := jsonscan.String(data, i)
		if err != nil {
			break // the text was cut
		}
		token := data[i:next]
		text := token[1 : len(token)-1]
		if escaped {
			text = []byte(jsonscan.Unquote(token))
		}
		dst = appendWords(dst, text, end)
		i = next
		if name := string(text); name == "status" || name == "code" {
			dst = appendStatus(dst, data[next:])
		}
	}
	return dst
}

// appendStatus appends what the number after a name means.
func appendStatus(dst, after []byte) []byte {
	after = bytes.TrimLeft(after, ": \t\r\n")
	if len(after) < 3 || len(after) > 3 && '0' <= after[3] && after[3] <= '9' {
		return dst
	}
	if code, err := strconv.Atoi(string(after[:3])); err == nil && code >= http.StatusBadRequest {
		if text := http.StatusText(code); text != "" {
			dst = append(append(dst, text...), ' ')
		}
	}
	return dst
}

// appendWords appends the words of a string that have a meaning of their own.
func appendWords(dst, text []byte, end int) []byte {
	if n := len(text); n > 2 && text[0] == '[' && text[n-1] == ']' { // a redacted or omitted text
		return dst
	}
	for i := 0; i < len(text) && len(dst) < end; {
		start, letters, digits, capitals := i, 0, 0, 0
		for i < len(text) {
			r, n := rune(text[i]), 1
			if r >= utf8.RuneSelf {
				r, n = utf8.DecodeRune(text[i:])
			}
			switch {
			case '0' <= r && r <= '9':
				digits++
			case 'A' <= r && r <= 'Z':
				capitals++
				letters++
			case unicode.IsLetter(r) || unicode.IsMark(r):
				letters++
			default:
				n = 0
			}
			if n == 0 {
				break
			}
			i += n
		}
		if i > start && letters > 0 && !opaque(letters, digits, capitals) {
			dst = append(append(dst, text[start:i]...), ' ')
		}
		if i < len(text) {
			if c := text[i]; (c == '.' || c == '?' || c == ',') && len(dst) > 0 && dst[len(dst)-1] == ' ' && i+1 < len(text) && text[i+1] == ' ' {
				dst[len(dst)-1] = c
				dst = append(dst, ' ')
			}
			_, n := utf8.DecodeRune(text[i:])
			i += n
		}
	}
	return dst
}

// opaque reports whether letters and digits in a row are an id, a hash or encoded bytes rather than
// a word: nothing that was read aloud has digits among eight letters, or thirty letters.
func opaque(letters, digits, capitals int) bool {
	n := letters + digits
	return n > 30 || n >= 8 && digits > 0 || n >= 4 && digits > 0 && capitals > 0
}
