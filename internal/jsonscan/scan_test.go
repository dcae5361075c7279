package jsonscan_test

import (
	"errors"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
)

func TestTextAcceptsEveryValueOfJSON(t *testing.T) {
	for _, text := range []string{
		`null`, `true`, `false`, `""`, `{}`, `[]`, `[{}]`, `{"":{}}`,
		"\t\r\n null \t\r\n", "{ \"a\" : [ 1 , 2 ] , \"b\" : { } }", "[ ]", "{ \n}",
		`0`, `-0`, `-0.0`, `7`, `10`, `1.5`, `0.05`, `1e9`, `1E9`, `1e+9`, `1e-9`, `0e0`, `-1.25E-12`, `1e007`,
		`123456789012345678901234567890`, `0.1000000000000000055511151231257827`,
		`[[[]]]`, `{"a":{"a":{"a":1}}}`, `[{"a":1},{"a":2}]`,
	} {
		var s jsonscan.Scanner
		if err := s.Text([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTextSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		// Nothing, or something else, where a value should be.
		{``, "the text ends, expected a value at position 0"},
		{" \t", "the text ends, expected a value at position 2"},
		{`[`, "the text ends, expected a value at position 1"},
		{`[1,`, "the text ends, expected a value at position 3"},
		{`[1,]`, "expected a value, got ']' at position 3"},
		{`[,1]`, "expected a value, got ',' at position 1"},
		{`{"a":}`, "expected a value, got '}' at position 5"},
		{`'a'`, "expected a value, got ''' at position 0"},
		{`+1`, "expected a value, got '+' at position 0"},
		{`.5`, "expected a value, got '.' at position 0"},
		{`NaN`, "expected a value, got 'N' at position 0"},
		{`// c`, "expected a value, got '/' at position 0"},
		{"\x00", "expected a value, got a NUL byte at position 0"},
		{"\x01", "expected a value, got the control character 0x01 at position 0"},
		{"\x7F", "expected a value, got the control character 0x7F at position 0"},
		{"\v1", "expected a value, got the control character 0x0B at position 0"},
		{"\xEF\xBB\xBF{}", "expected a value, got a byte-order mark at position 0"},
		{"\xEF\xBB", "expected a value, got the byte 0xEF at position 0"},
		{"\xFF", "expected a value, got the byte 0xFF at position 0"},
		{"“a”", "expected a value, got '“' at position 0"},
		{"\u00A01", "expected a value, got '\\u00a0' at position 0"},

		// After the value.
		{`1 2`, "expected nothing after the value, got '2' at position 2"},
		{`{}}`, "expected nothing after the value, got '}' at position 2"},
		{`nullx`, "expected nothing after the value, got 'x' at position 4"},
		{"{}\x00", "expected nothing after the value, got a NUL byte at position 2"},
		{"1\xEF\xBB\xBF", "expected nothing after the value, got a byte-order mark at position 1"},

		// Literals.
		{`tru`, "expected a value, got the word tru at position 0"},
		{`[falsy]`, "expected a value, got the word falsy at position 1"},
		{`nul`, "expected a value, got the word nul at position 0"},
		{`nULL`, "expected a value, got the word nULL at position 0"},

		// Numbers.
		{`-`, "the text ends, expected a digit at position 1"},
		{`-a`, "expected a digit, got 'a' at position 1"},
		{`--1`, "expected a digit, got '-' at position 1"},
		{`[01]`, "a number that starts with a superfluous zero at position 1"},
		{`-00`, "a number that starts with a superfluous zero at position 0"},
		{`1.`, "the text ends, expected a digit after the decimal point at position 2"},
		{`[1.]`, "expected a digit after the decimal point, got ']' at position 3"},
		{`1.e5`, "expected a digit after the decimal point, got 'e' at position 2"},
		{`1e`, "the text ends, expected a digit in the exponent at position 2"},
		{`1e+`, "the text ends, expected a digit in the exponent at position 3"},
		{`1E-x`, "expected a digit in the exponent, got 'x' at position 3"},
		{`0x10`, "expected nothing after the value, got 'x' at position 1"},
		{`1_000`, "expected nothing after the value, got '_' at position 1"},
		{`-Infinity`, "expected a digit, got 'I' at position 1"},

		// Objects and arrays.
		{`{`, "the text ends, expected a member name in double quotes at position 1"},
		{`{a:1}`, "expected a member name in double quotes, got 'a' at position 1"},
		{`{1:1}`, "expected a member name in double quotes, got '1' at position 1"},
		{`{"a":1,}`, "expected a member name in double quotes, got '}' at position 7"},
		{`{,}`, "expected a member name in double quotes, got ',' at position 1"},
		{`{"a"`, "the text ends, expected ':' after a member name at position 4"},
		{`{"a" 1}`, "expected ':' after a member name, got '1' at position 5"},
		{`{"a":1`, "the text ends, expected ',' or '}' after a member at position 6"},
		{`{"a":1]`, "expected ',' or '}' after a member, got ']' at position 6"},
		{`{"a":1 "b":2}`, "expected ',' or '}' after a member, got '\"' at position 7"},
		{`[1`, "the text ends, expected ',' or ']' after an element at position 2"},
		{`[1}`, "expected ',' or ']' after an element, got '}' at position 2"},
		{`[1 2]`, "expected ',' or ']' after an element, got '2' at position 3"},
		{`[1:2]`, "expected ',' or ']' after an element, got ':' at position 2"},

		// Member names are strings and are checked as such.
		{`{"`, "the text ends inside a string at position 2"},
		{"{\"a\xFF\":1}", "invalid UTF-8, the byte 0xFF at position 3"},
		{`{"\q":1}`, `a backslash followed by 'q' isn't an escape at position 2`},
	} {
		var s jsonscan.Scanner
		err := s.Text([]byte(test.text))
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.text, err, test.want)
			continue
		}
		var syntax *jsonscan.SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(test.text) {
			t.Errorf("%q: the error is %#v, want a *SyntaxError with an offset in the text", test.text, err)
		}
	}
}

func TestNestingIsLimitedTo1000Levels(t *testing.T) {
	deep := func(open, close string, n int) []byte {
		return []byte(strings.Repeat(open, n) + strings.Repeat(close, n))
	}
	objects := func(n int) []byte {
		return []byte(strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1))
	}
	mixed := func(n int) []byte {
		return []byte(strings.Repeat(`[{"a":`, n/2) + `0` + strings.Repeat(`}]`, n/2))
	}
	for _, test := range []struct {
		name   string
		text   []byte
		within int
		offset int // of the error, -1 for none
	}{
		{"1000 arrays", deep("[", "]", 1000), 0, -1},
		{"1001 arrays", deep("[", "]", 1001), 0, 1000},
		{"1000 objects", objects(1000), 0, -1},
		{"1001 objects", objects(1001), 0, 5 * 1000},
		{"1000 of both", mixed(1000), 0, -1},
		{"1002 of both", mixed(1002), 0, 6 * 500},
		{"998 arrays within two", deep("[", "]", 998), 2, -1},
		{"999 arrays within two", deep("[", "]", 999), 2, 998},
		{"a scalar within 1000", []byte(`1`), 1000, -1},
		{"an array within 1000", []byte(`[]`), 1000, 0},
		{"an object within 1000", []byte(`{}`), 1000, 0},
		{"a million arrays", deep("[", "", 1_000_000), 0, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s jsonscan.Scanner
			end, err := s.ValueWithin(test.text, 0, test.within)
			if test.offset < 0 {
				if err != nil || end != len(test.text) {
					t.Fatalf("got %d, %v; want %d and no error", end, err, len(test.text))
				}
				return
			}
			var syntax *jsonscan.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v, want a *SyntaxError", err)
			}
			if syntax.Problem != "nested deeper than 1000 levels" || syntax.Offset != test.offset {
				t.Errorf("got %v, want the nesting refused at position %d", err, test.offset)
			}
		})
	}
}

// Levels that are closed again must not count.
func TestManySiblingsAreNotDeep(t *testing.T) {
	text := []byte("[" + strings.Repeat(`[[]],{"a":{}},`, 2000) + "0]")
	var s jsonscan.Scanner
	if err := s.Text(text); err != nil {
		t.Error(err)
	}
}

func TestValueEndsBehindItsLastByte(t *testing.T) {
	for _, test := range []struct {
		text  string
		start int
		end   int
	}{
		{`  true,`, 0, 6},
		{`[1,2] [3]`, 0, 5},
		{`[1,2] [3]`, 5, 9},
		{`{"a":"}"}}`, 0, 9},
		{`"a\"b"c`, 0, 6},
		{`-1.5e3}`, 0, 6},
		{`0]`, 0, 1},
		{`x1`, 1, 2},
	} {
		var s jsonscan.Scanner
		end, err := s.Value([]byte(test.text), test.start)
		if err != nil || end != test.end {
			t.Errorf("%q from %d: got %d, %v; want %d", test.text, test.start, end, err, test.end)
		}
	}
}

func TestSpaceStopsAtEverythingElse(t *testing.T) {
	for c := range 256 {
		got := jsonscan.Space([]byte{' ', byte(c), 'x'}, 0)
		want := 1
		if strings.IndexByte(" \t\r\n", byte(c)) >= 0 {
			want = 2
		}
		if got != want {
			t.Errorf("byte 0x%02X: got %d, want %d", c, got, want)
		}
	}
	if got := jsonscan.Space([]byte("  "), 0); got != 2 {
		t.Errorf("space to the end: got %d, want 2", got)
	}
}

// The scanner looks at every message, so what it costs is part of its contract.
func TestScannerAllocatesNothingForOrdinaryText(t *testing.T) {
	text := []byte(`{"a":[1,2,{"b":"c","d":null}],"e":"f","g":{"h":1.5e3,"i":"Grüße"}}`)
	var s jsonscan.Scanner
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Text(text); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
