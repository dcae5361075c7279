package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
)

// sameJSON reports whether two texts are the same value: the order of members, white
// space, escapes and the spelling of numbers don't matter.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return bytes.Equal(appendCanonical(nil, a), appendCanonical(nil, b))
}

// appendCanonical writes a valid JSON text, which is nested 1,000 levels deep at most, in
// the one spelling that all equal texts have.
func appendCanonical(dst []byte, text []byte) []byte {
	text = text[jsonscan.Space(text, 0):]
	switch text[0] {
	case '{':
		type member struct{ name, value []byte }
		var members []member
		jsonscan.Members(text, 0, func(name, value []byte) bool {
			members = append(members, member{jsonscan.AppendQuoted(nil, jsonscan.Unquote(name)), value})
			return true
		})
		slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		dst = append(dst, '{')
		for i, m := range members {
			dst = append(append(comma(dst, i), m.name...), ':')
			dst = appendCanonical(dst, m.value)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		i := jsonscan.Space(text, 1)
		for n := 0; text[i] != ']'; n++ {
			end := jsonscan.Skip(text, i)
			dst = appendCanonical(comma(dst, n), text[i:end])
			if i = jsonscan.Space(text, end); text[i] == ',' {
				i = jsonscan.Space(text, i+1)
			}
		}
		return append(dst, ']')
	case '"':
		return jsonscan.AppendQuoted(dst, jsonscan.Unquote(text[:jsonscan.Skip(text, 0)]))
	case 't', 'f', 'n':
		return append(dst, text[:jsonscan.Skip(text, 0)]...)
	}
	return append(dst, canonicalNumber(string(text[:jsonscan.Skip(text, 0)]))...)
}

// canonicalNumber writes a number as digits without zeros at either end, and an exponent.
// It never reckons the number out, which may have a billion digits.
func canonicalNumber(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	exponent := int64(0)
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		n, err := strconv.ParseInt(digits[i+1:], 10, 64)
		if err != nil || n > 1<<60 || n < -1<<60 {
			return text // beyond all reckoning: compare it as it is written
		}
		digits, exponent = digits[:i], n
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits = whole + fraction
		exponent -= int64(len(fraction))
	}
	digits = strings.TrimLeft(digits, "0")
	short := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(short))
	if short == "" {
		return "0"
	}
	if negative {
		short = "-" + short
	}
	return short + "e" + strconv.FormatInt(exponent, 10)
}
