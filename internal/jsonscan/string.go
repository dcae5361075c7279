package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns the offset of the first byte at or after i that is not plain
// string content: a quote, a backslash, a control character or a byte of a
// multi-byte character. It looks at eight bytes at a time: a subtraction borrows
// into the top bit of a byte just where that byte is the one looked for, and the
// lowest such byte is always right.
func plain(b []byte, i int) int {
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		m := (w - lows*0x20) | ((w ^ lows*'"') - lows) | ((w ^ lows*'\\') - lows) | w
		if m &= highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// String checks the string that starts with the quote at b[i]. It returns the
// offset after the closing quote and whether the string has escapes. The error
// is a *SyntaxError.
func String(b []byte, i int) (end int, escaped bool, err error) {
	i++
	for {
		i = plain(b, i)
		if i >= len(b) {
			return i, escaped, fail(i, "the text ends inside a string")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			if i, err = escape(b, i); err != nil {
				return i, escaped, err
			}
		case c < ' ':
			return i, escaped, fail(i, "%s inside a string must be written as an escape", describe(b, i))
		default:
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				return i, escaped, fail(i, "invalid UTF-8, the byte 0x%02X", c)
			}
			i += n
		}
	}
}

// escape checks the escape that starts with the backslash at b[i].
func escape(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return i + 1, fail(i+1, "the text ends inside a string")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
	default:
		return i, fail(i, "a backslash followed by %s isn't an escape", describe(b, i+1))
	}
	high, ok := hex4(b, i+2)
	if !ok {
		return i, fail(i, `\u wants four hexadecimal digits`)
	}
	if !utf16.IsSurrogate(high) {
		return i + 6, nil
	}
	if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
		if low, ok := hex4(b, i+8); ok && utf16.DecodeRune(high, low) != utf8.RuneError {
			return i + 12, nil
		}
	}
	return i, fail(i, "lone surrogate %s", b[i:i+6])
}

func hex4(b []byte, i int) (rune, bool) {
	if i+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Unquote returns the content of a token, quotes included, that String has accepted. A value that
// isn't a string, or is absent, is "": callers read members that no schema has checked.
func Unquote(token []byte) string {
	if len(token) < 2 || token[0] != '"' {
		return ""
	}
	body := token[1 : len(token)-1]
	for _, c := range body {
		if c == '\\' {
			return string(appendUnescaped(nil, body))
		}
	}
	return string(body)
}

func appendUnescaped(dst, body []byte) []byte {
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		switch c = body[i+1]; c {
		case 'u':
			r, _ := hex4(body, i+2)
			i += 6
			if utf16.IsSurrogate(r) {
				low, _ := hex4(body, i+2)
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
			continue
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		}
		dst = append(dst, c)
		i += 2
	}
	return dst
}

// AppendQuoted appends s as a JSON string. Only what must be escaped is; bytes
// that are not UTF-8 become U+FFFD.
func AppendQuoted(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; ; {
		if i = plain(unsafe.Slice(unsafe.StringData(s), len(s)), i); i >= len(s) {
			break
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[start:i]...), "\uFFFD"...)
			i++
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
