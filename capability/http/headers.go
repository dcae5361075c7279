package http

import (
	nethttp "net/http"
	"strings"
	"unicode/utf8"

	"kernos/internal/secret"
)

// headersOf returns the headers of an answer: one text for each name, in lower case.
// Several values are joined by a comma, as HTTP defines; those of
// Set-Cookie, which may have commas in them, by a line break, which none of them can have.
// Headers no longer describe a body that was decoded.
func headersOf(h nethttp.Header, decoded bool, secrets *secret.Values) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		if decoded && (name == "Content-Encoding" || name == "Content-Length") {
			continue
		}
		separator := ", "
		if name == "Set-Cookie" {
			separator = "\n"
		}
		out[strings.ToLower(secrets.Hide(name))] = secrets.Hide(unicodeText(strings.Join(values, separator)))
	}
	return out
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
