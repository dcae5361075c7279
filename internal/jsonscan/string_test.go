package jsonscan_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"kernos/internal/jsonscan"
)

func TestStringSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, test := range []struct{ token, want string }{
		{`"`, "the text ends inside a string at position 1"},
		{`"abc`, "the text ends inside a string at position 4"},
		{`"abcdefghijkl`, "the text ends inside a string at position 13"},
		{`"a\`, "the text ends inside a string at position 3"},
		{`"a\"`, "the text ends inside a string at position 4"},
		{`"\`, "the text ends inside a string at position 2"},

		{`"\x41"`, `a backslash followed by 'x' isn't an escape at position 1`},
		{`"ab\'"`, `a backslash followed by ''' isn't an escape at position 3`},
		{`"\U0041"`, `a backslash followed by 'U' isn't an escape at position 1`},
		{"\"\\\n\"", `a backslash followed by the control character 0x0A isn't an escape at position 1`},
		{"\"\\\x00\"", `a backslash followed by a NUL byte isn't an escape at position 1`},
		{"\"\\é\"", `a backslash followed by 'é' isn't an escape at position 1`},
		{"\"\\\xFF\"", `a backslash followed by the byte 0xFF isn't an escape at position 1`},

		{`"\u"`, `\u wants four hexadecimal digits at position 1`},
		{`"\u12`, `\u wants four hexadecimal digits at position 1`},
		{`"\u123"`, `\u wants four hexadecimal digits at position 1`},
		{`"\u12G4"`, `\u wants four hexadecimal digits at position 1`},
		{`"\u-123"`, `\u wants four hexadecimal digits at position 1`},

		{`"\ud800"`, `lone surrogate \ud800 at position 1`},
		{`"\uDBFFx"`, `lone surrogate \uDBFF at position 1`},
		{`"\ud800\n"`, `lone surrogate \ud800 at position 1`},
		{`"\ud800\u0041"`, `lone surrogate \ud800 at position 1`},
		{`"\ud800\ud800"`, `lone surrogate \ud800 at position 1`},
		{`"\ud800\udc0"`, `lone surrogate \ud800 at position 1`},
		{`"\ud800\`, `lone surrogate \ud800 at position 1`},
		{`"\ud800\u`, `lone surrogate \ud800 at position 1`},
		{`"\udc00"`, `lone surrogate \udc00 at position 1`},
		{`"\udfff"`, `lone surrogate \udfff at position 1`},
		{`"\udc00\ud800"`, `lone surrogate \udc00 at position 1`},
		{`"\ud83d\ude00\ud83d"`, `lone surrogate \ud83d at position 13`},

		{"\"\x00\"", "a NUL byte inside a string must be written as an escape at position 1"},
		{"\"a\nb\"", "the control character 0x0A inside a string must be written as an escape at position 2"},
		{"\"12345678\t\"", "the control character 0x09 inside a string must be written as an escape at position 9"},
		{"\"\x1F\"", "the control character 0x1F inside a string must be written as an escape at position 1"},

		{"\"\x80\"", "invalid UTF-8, the byte 0x80 at position 1"},
		{"\"\xC0\xAF\"", "invalid UTF-8, the byte 0xC0 at position 1"},             // overlong
		{"\"é\xC3\"", "invalid UTF-8, the byte 0xC3 at position 3"},                // cut off
		{"\"\xE2\x82\"", "invalid UTF-8, the byte 0xE2 at position 1"},             // cut off
		{"\"\xED\xA0\x80\"", "invalid UTF-8, the byte 0xED at position 1"},         // a surrogate in UTF-8
		{"\"\xF4\x90\x80\x80\"", "invalid UTF-8, the byte 0xF4 at position 1"},     // above U+10FFFF
		{"\"\xF8\x88\x80\x80\x80\"", "invalid UTF-8, the byte 0xF8 at position 1"}, // five bytes
	} {
		_, _, err := jsonscan.String([]byte(test.token), 0)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.token, err, test.want)
		}
	}
}

func TestStringAndUnquoteReadWhatIsWritten(t *testing.T) {
	for _, test := range []struct {
		token   string
		want    string
		escaped bool
	}{
		{`""`, "", false},
		{`"a"`, "a", false},
		{`"Memory.Get"`, "Memory.Get", false},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t", true},
		{`"\u0000\u001f\u007F"`, "\x00\x1F\x7F", true},
		{`"\u00e9\u00E9é"`, "ééé", true},
		{`"\ud83d\ude00"`, "😀", true},
		{`"\uD800\uDC00 \uDBFF\uDFFF"`, "\U00010000 \U0010FFFF", true},
		{`"\ufffd\uFFFF\ufeff"`, "\uFFFD\uFFFF\uFEFF", true},
		{`"\\u0041"`, `\u0041`, true},
		{`"\\\\\""`, `\\"`, true},
		{"\"\x7F\u0080\u2028\u2029\uFFFD\U0010FFFF\"", "\x7F\u0080\u2028\u2029\uFFFD\U0010FFFF", false},
	} {
		end, escaped, err := jsonscan.String([]byte(test.token+`,"`), 0)
		if err != nil || end != len(test.token) || escaped != test.escaped {
			t.Errorf("String(%s) = %d, %v, %v; want %d, %v", test.token, end, escaped, err, len(test.token), test.escaped)
			continue
		}
		if got := jsonscan.Unquote([]byte(test.token)); got != test.want {
			t.Errorf("Unquote(%s) = %q, want %q", test.token, got, test.want)
		}
	}
}

func TestWhatIsNotAStringIsUnquotedAsNothing(t *testing.T) {
	for _, token := range []string{``, `"`, `5`, `null`, `{}`, `["a"]`} {
		if got, content := jsonscan.Unquote([]byte(token)), jsonscan.Content([]byte(token)); got != "" || content != nil {
			t.Errorf("%s: got %q and %q", token, got, content)
		}
	}
}

// Strings are looked at eight bytes at a time with arithmetic that borrows between
// bytes. Every byte, at every place among its neighbours, has to come out right.
func TestEveryByteIsRecognisedAtEveryPlace(t *testing.T) {
	for _, fill := range []string{" ", "!", "#", "[", "]", "a", "\x7F"} {
		for place := range 19 {
			for c := range 256 {
				body := []byte(strings.Repeat(fill, 19))
				body[place] = byte(c)
				token := append(append([]byte{'"'}, body...), '"')

				wantEnd, wantOK := len(token), c >= ' ' && c < utf8.RuneSelf
				switch c {
				case '"':
					wantEnd = place + 2
				case '\\':
					wantOK = false // none of the fillers makes an escape
				}
				end, _, err := jsonscan.String(token, 0)
				if (err == nil) != wantOK || wantOK && end != wantEnd {
					t.Fatalf("0x%02X at %d among %q: String = %d, %v; want end %d, accepted %v", c, place, fill, end, err, wantEnd, wantOK)
				}
				if !wantOK && c != '\\' {
					if syntax := err.(*jsonscan.SyntaxError); syntax.Offset != place+1 {
						t.Fatalf("0x%02X at %d among %q: error at %d", c, place, fill, syntax.Offset)
					}
				}

				quoted := jsonscan.AppendQuoted(nil, string(body))
				if end, _, err := jsonscan.String(quoted, 0); err != nil || end != len(quoted) {
					t.Fatalf("0x%02X at %d among %q: AppendQuoted wrote %q: %v", c, place, fill, quoted, err)
				}
				want := strings.ToValidUTF8(string(body), "\uFFFD")
				if got := jsonscan.Unquote(quoted); got != want {
					t.Fatalf("0x%02X at %d among %q: came back as %q", c, place, fill, got)
				}
			}
		}
	}
}

func TestAppendQuotedEscapesOnlyWhatItMust(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `""`},
		{"Memory.Get", `"Memory.Get"`},
		{"a\"b\\c", `"a\"b\\c"`},
		{"\n\r\t", `"\n\r\t"`},
		{"\b\f\x00\x1F", `"\u0008\u000c\u0000\u001f"`},
		{"</script>&'", `"</script>&'"`}, // no HTML is protected here
		{"\x7F\u2028é😀", "\"\x7F\u2028é😀\""},
		{"\uFFFD", "\"\uFFFD\""},
		{"a\xFFb", "\"a\uFFFDb\""},
		{"\xC3\x28", "\"\uFFFD(\""},
		{"\xED\xA0\x80", "\"\uFFFD\uFFFD\uFFFD\""},
		{"\xE2\x82", "\"\uFFFD\uFFFD\""},
	} {
		if got := string(jsonscan.AppendQuoted(nil, test.text)); got != test.want {
			t.Errorf("AppendQuoted(%q) = %s, want %s", test.text, got, test.want)
		}
	}
	if got := string(jsonscan.AppendQuoted([]byte("before "), "é\n")); got != `before "é\n"` {
		t.Errorf("what was there before is gone: %s", got)
	}
}

func TestEveryCharacterSurvivesQuotingAndUnquoting(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		quoted := jsonscan.AppendQuoted(nil, s)
		if got := jsonscan.Unquote(quoted); got != s {
			t.Fatalf("%U came back as %q", r, got)
		}
		if r <= 0xFFFF {
			if got := jsonscan.Unquote(fmt.Appendf(nil, `"\u%04x"`, r)); got != s {
				t.Fatalf("\\u%04x was read as %q", r, got)
			}
		}
	}
}
