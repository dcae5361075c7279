package memory

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"kernos/capability/memory/namespace"
	"kernos/internal/uri"
	"kernos/message"
)

// maxKey is how many bytes a key may have in its normal form.
const maxKey = 512

// A memoryKey is a key in its normal form: segments of NFC text with single slashes between
// them, and none around them. [parseKey] makes it.
type memoryKey string

const (
	vault  = namespace.Vault
	proc   = namespace.Proc
	sys    = namespace.Sys
	models = namespace.Models
)

// isModel reports whether the value of a key is the settings of a language model.
func (k memoryKey) isModel() bool { return strings.HasPrefix(string(k), models+"/") }

var reserved = [...]string{vault, proc, sys}

// mount is the name under which the tree of files shows all keys.
const mount = "memory"

// space returns the reserved namespace that the key is in, or "".
func (k memoryKey) space() string {
	first, _, _ := strings.Cut(string(k), "/")
	if slices.Contains(reserved[:], first) {
		return first
	}
	return ""
}

// parseKey brings a key into its normal form. A leading slash is optional, and slashes
// that stand together are one. What could be read as another key than it is, is refused
// with a 422 that names the rule. Above all, no key that is not in a reserved namespace
// looks like one that is, however it is transformed before it gets here.
func parseKey(s string) (memoryKey, error) {
	if key, ok := ordinary(s); ok {
		return key, nil
	}
	return parseUncommon(s)
}

func parseUncommon(s string) (memoryKey, error) {
	plain := isASCII(s)
	text := s
	if !plain {
		if !utf8.ValidString(s) {
			return "", badKey(s, "it is not UTF-8")
		}
		text = norm.NFC.String(s)
		for _, r := range text {
			if invisible(r) {
				return "", badKey(s, "it has the invisible character U+%04X", r)
			}
		}
	}
	if err := checkText(s, text); err != nil {
		return "", err
	}
	key := singleSlashes(text)
	if len(key) > maxKey {
		return "", badKey(s, "it has %d bytes, and %d are allowed", len(key), maxKey)
	}
	seen := key
	if !plain {
		// This is the key as a program that is more lenient would read it.
		seen = skeleton(text)
		if err := checkText(s, seen); err != nil {
			return "", err
		}
		seen = singleSlashes(seen)
	}
	if scheme := uri.Scheme(seen); scheme != "" && strings.HasPrefix(seen[len(scheme):], ":/") {
		return "", badKey(s, "it is a URI; write the path alone, such as notes/1")
	}
	if err := checkSpaces(s, key, seen); err != nil {
		return "", err
	}
	return memoryKey(key), nil
}

// ordinary takes most keys, which are in their normal form but for a leading slash and
// raise no question. It returns false for all others, without a reason.
func ordinary(s string) (memoryKey, bool) {
	s = strings.TrimPrefix(s, "/")
	first := len(s) // end of the first segment
	for i := range len(s) {
		switch c := s[i]; {
		case letters[c]:
		case c != '/' && c != '.' || i == 0 || !letters[s[i-1]]:
			return "", false
		case c == '/':
			first = min(first, i)
		}
	}
	if s == "" || len(s) > maxKey || !letters[s[len(s)-1]] {
		return "", false
	}
	for _, name := range [...]string{vault, proc, sys, mount} {
		if resembles(s[:first], name) {
			return "", false
		}
	}
	return memoryKey(s), true
}

// letters are the characters that mean nothing but themselves in a key.
var letters = func() (letters [256]bool) {
	for _, c := range []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_@+=") {
		letters[c] = true
	}
	return letters
}()

func badKey(s, format string, args ...any) *message.Error {
	return message.Errorf(422, "Invalid key %q: "+format, append([]any{message.Clip(s, 64)}, args...)...)
}

// checkText checks the rules of keys that concern single characters and segments.
func checkText(s, text string) error {
	if text == "" {
		return badKey(s, "it is empty; a key is a path such as notes/1")
	}
	start := 0 // start of the segment
	for i := 0; i <= len(text); i++ {
		if i == len(text) || text[i] == '/' {
			if segment := text[start:i]; segment == "." || segment == ".." {
				return badKey(s, "it has the segment %q; write the path that you mean", segment)
			}
			start = i + 1
			continue
		}
		switch c := text[i]; {
		case c < ' ' || c == 0x7F:
			return badKey(s, "it has the control character U+%04X", c)
		case c == '\\':
			return badKey(s, "it has a backslash; segments are separated by slashes")
		case c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			return badKey(s, "it has the escape %s; keys are not percent-encoded, write the character itself", text[i:i+3])
		}
	}
	if text[len(text)-1] == '/' {
		return badKey(s, "it ends with a slash; a key is a path such as notes/1")
	}
	return nil
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// singleSlashes drops leading slashes and makes one of several.
func singleSlashes(s string) string {
	s = strings.TrimLeft(s, "/")
	for strings.Contains(s, "//") {
		s = strings.ReplaceAll(s, "//", "/")
	}
	return s
}

// invisible reports whether a character does not show, or changes how others show. The two
// joiners are letters' business in several scripts and stay.
func invisible(r rune) bool {
	if r < 0x80 {
		return false // checkText knows them
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200C' && r != '\u200D'
}

// checkSpaces refuses a key that only looks as if it were in a reserved namespace: by its
// first segment, or by the second if the first is that of the tree of files.
func checkSpaces(s, key, look string) error {
	first, _, _ := strings.Cut(key, "/")
	segment, rest, _ := strings.Cut(look, "/")
	segment = bare(segment)
	mounted := resembles(segment, mount)
	if mounted {
		segment, _, _ = strings.Cut(rest, "/")
		segment = bare(segment)
	}
	for _, name := range reserved {
		if resembles(segment, name) && (mounted || first != name) {
			return badKey(s, "it looks like the namespace %s; write %s/… for that, or choose another name", name, name)
		}
	}
	return nil
}

// bare returns a segment without what a lenient program takes off a name: blanks around it, dots
// after it, what follows a colon or a semicolon, and accents.
func bare(segment string) string {
	if !isASCII(segment) {
		segment = plainLetters(norm.NFKD.String(segment))
	}
	if i := strings.IndexAny(segment, ":;"); i >= 0 {
		segment = segment[:i]
	}
	return strings.TrimLeft(strings.TrimRight(segment, " ."), " ")
}

// resembles reports whether a text looks like a name in small letters.
func resembles(text, name string) bool {
	if len(text) != len(name) {
		return false
	}
	for i := range len(name) {
		c := text[i]
		switch {
		case c == 'I' || c == '1' || c == '|':
			c = 'l'
		case c == '0':
			c = 'o'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// skeleton returns what is left of a text when everything is taken from it that an eye or a
// lenient program does not see: compatibility forms, invisible characters, letters of
// other scripts that look like ours.
func skeleton(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return looksLike(r)
	}, norm.NFKC.String(s))
}

// plainLetters drops the accents of a text in which they stand after their letters, and
// looks once more at what is left.
func plainLetters(decomposed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return looksLike(r)
	}, decomposed)
}

// looksLike returns the letter of a reserved name, or the slash, that a character can be
// taken for.
func looksLike(r rune) rune {
	if like, ok := lookalikes[r]; ok {
		return like
	}
	return r
}

var lookalikes = func() map[rune]rune {
	all := make(map[rune]rune)
	for like, runes := range map[rune]string{
		'a': "аАαΑᴀɑ",
		'c': "сСϲϹᴄ",
		'l': "ıιΙɩӏӀІіʟǀ",
		'o': "оОοΟօᴏ",
		'p': "рРρΡᴘ",
		'r': "гʀᴦ",
		's': "ѕЅꜱ",
		't': "тТτΤᴛ",
		'u': "υսʋᴜ",
		'v': "ѵѴνᴠ",
		'y': "уУүҮΥʏ",
		'/': "⁄∕⧸╱⟋∖⧵⧹",
	} {
		for _, r := range runes {
			all[r] = like
		}
	}
	return all
}()
