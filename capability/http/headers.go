package http

import (
	"encoding/json"
	"maps"
	nethttp "net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
)

// headerObject returns the headers of an answer as one object: one text for each name, in
// lower case and sorted. Several values are joined by a comma, as HTTP defines; those of
// Set-Cookie, which may have commas in them, by a line break, which none of them can have.
// Headers no longer describe a body that was decoded.
func headerObject(h nethttp.Header, decoded bool, secrets *secret.Values) json.RawMessage {
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(h)) { // canonical names sort as those in lower case do
		if decoded && (name == "Content-Encoding" || name == "Content-Length") {
			continue
		}
		separator := ", "
		if name == "Set-Cookie" {
			separator = "\n"
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonscan.AppendQuoted(out, strings.ToLower(secrets.Hide(name))), ':')
		out = jsonscan.AppendQuoted(out, secrets.Hide(unicodeText(strings.Join(h[name], separator))))
	}
	return append(out, '}')
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
