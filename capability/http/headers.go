package http

import (
	nethttp "net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
)

// appendHeaders appends the headers of an answer as one object: one text for each name, in
// lower case and sorted. Several values are joined by a comma, as HTTP says; those of
// Set-Cookie, which may have commas in them, by a line break, which none of them can have.
// A body that was decoded is not described by its headers any more.
func appendHeaders(dst []byte, h nethttp.Header, decoded bool, secrets *secret.Values) []byte {
	var room [32]string
	names := room[:0]
	for name := range h {
		if !decoded || name != "Content-Encoding" && name != "Content-Length" {
			names = append(names, name)
		}
	}
	slices.Sort(names) // which are canonical, and sort as those in lower case do
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		separator := ", "
		if name == "Set-Cookie" {
			separator = "\n"
		}
		dst = append(dst, '"')
		for _, c := range []byte(secrets.Hide(name)) { // a token, in which nothing needs an escape
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
		}
		dst = append(dst, `":`...)
		dst = jsonscan.AppendQuoted(dst, secrets.Hide(unicodeText(strings.Join(h[name], separator))))
	}
	return append(dst, '}')
}

// unicodeText returns the text of a header, which is in UTF-8 or, as HTTP has it of old,
// in ISO 8859-1.
func unicodeText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
