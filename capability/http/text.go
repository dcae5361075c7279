package http

import (
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// textOf returns a body as text, if it is text in the character set that its type
// declares. What the type calls itself does not matter: a string says the same as the
// bytes, or it is not given.
func textOf(body []byte, contentType string) (string, bool) {
	if !strings.Contains(contentType, "=") { // no parameter, so no character set
		return string(body), readable(body)
	}
	_, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	if err != nil || charset == "" || charset == "utf-8" || charset == "utf8" {
		return string(body), readable(body)
	}
	encoding, err := htmlindex.Get(charset)
	if err != nil {
		return "", false
	}
	// A byte order mark says more than the declaration.
	text, _, err := transform.Bytes(unicode.BOMOverride(encoding.NewDecoder()), body)
	if err != nil || strings.ContainsRune(string(text), utf8.RuneError) {
		return "", false
	}
	return string(text), readable(text)
}

// readable reports whether bytes are UTF-8 without control characters but white space.
func readable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' || c == 0x7F {
			return false
		}
	}
	return utf8.Valid(text)
}
