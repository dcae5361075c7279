package mcp

import (
	"encoding/base64"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
)

// newCursor returns a cursor that continues in one part of a list, after something.
func newCursor(part int, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(part) + "/" + after))
}

// cursor reads the cursor of a request. Without one, a list begins.
func (x *exchange) cursor() (part int, after string, ok bool) {
	text := jsonscan.Unquote(jsonscan.Member(x.Params, "cursor"))
	if text == "" {
		return 0, "", jsonscan.Member(x.Params, "cursor") == nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	number, after, found := strings.Cut(string(decoded), "/")
	part, err2 := strconv.Atoi(number)
	return part, after, found && err == nil && err2 == nil && part >= 0
}
