package jsonscan

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// AppendCanonical appends a text that Text has accepted in the one spelling that all equal
// texts have: the order of members, white space, escapes and the spelling of numbers make
// no difference.
func AppendCanonical(dst, text []byte) []byte {
	dst, _ = appendCanonical(dst, text, 0)
	return dst
}

// appendCanonical appends the value at or after text[i] and returns the offset after it.
func appendCanonical(dst, text []byte, i int) ([]byte, int) {
	i = Space(text, i)
	switch text[i] {
	case '{':
		return appendObject(dst, text, i)
	case '[':
		return appendArray(dst, text, i)
	}
	end := Skip(text, i)
	switch text[i] {
	case '"':
		return AppendQuoted(dst, Unquote(text[i:end])), end
	case 't', 'f', 'n':
		return append(dst, text[i:end]...), end
	}
	return append(dst, canonicalNumber(string(text[i:end]))...), end
}

func appendArray(dst, text []byte, i int) ([]byte, int) {
	dst = append(dst, '[')
	for i = Space(text, i+1); text[i] != ']'; i = next(text, i) {
		if dst[len(dst)-1] != '[' { // no element ends with one
			dst = append(dst, ',')
		}
		dst, i = appendCanonical(dst, text, i)
	}
	return append(dst, ']'), i + 1
}

// appendObject writes the members as they come, and puts them in order if they were not.
func appendObject(dst, text []byte, i int) ([]byte, int) {
	type member struct{ name, member []byte } // in dst or, when it has moved, where it was before
	var most [8]member
	members, sorted := most[:0], true
	dst = append(dst, '{')
	first := len(dst)
	for i = Space(text, i+1); text[i] != '}'; i = next(text, i) {
		if len(members) > 0 {
			dst = append(dst, ',')
		}
		start, end := len(dst), skipString(text, i)
		dst = AppendQuoted(dst, Unquote(text[i:end]))
		colon := len(dst)
		dst, i = appendCanonical(append(dst, ':'), text, Space(text, end)+1)
		m := member{dst[start:colon], dst[start:]}
		if n := len(members); n > 0 && bytes.Compare(members[n-1].name, m.name) > 0 {
			sorted = false
		}
		members = append(members, m)
	}
	if !sorted {
		slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		all := make([]byte, 0, len(dst)-first)
		for n, m := range members {
			if n > 0 {
				all = append(all, ',')
			}
			all = append(all, m.member...)
		}
		dst = append(dst[:first], all...)
	}
	return append(dst, '}'), i + 1
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
