package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/internal/testkit"
)

// object writes an object with the given names, each as it stands between quotes.
func object(names ...string) string {
	return `{"` + strings.Join(names, `":0,"`) + `":0}`
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

func TestRepeatedNamesAreRefusedHoweverTheyAreWritten(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"plain", `{"a":1,"a":2}`, `repeated member name "a" at position 7`},
		{"empty", `{"":1,"":2}`, `repeated member name "" at position 6`},
		{"second escaped", `{"a":1,"\u0061":2}`, `repeated member name "\u0061" at position 7`},
		{"first escaped", `{"\u0061":1,"a":2}`, `repeated member name "a" at position 12`},
		{"both escaped, unlike", `{"\/":1,"\u002F":2}`, `repeated member name "\u002F" at position 8`},
		{"escaped quote", `{"\"":1,"\u0022":2}`, `repeated member name "\u0022" at position 8`},
		{"escaped newline", `{"\n":1,"\u000a":2}`, `repeated member name "\u000a" at position 8`},
		{"surrogate pair", `{"😀":1,"\ud83d\uDE00":2}`, `repeated member name "\ud83d\uDE00" at position 10`},
		{"nested", `[{"x":{"a":1,"b":2,"a":3}}]`, `repeated member name "a" at position 19`},
		{"after a nested object with that name", `{"a":{"a":1},"a":2}`, `repeated member name "a" at position 13`},
		{"after a nested object with other names", `{"a":{"b":1,"c":2},"a":2}`, `repeated member name "a" at position 19`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s jsonscan.Scanner
			if err := s.Text([]byte(test.text)); err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestNamesThatOnlyLookAlikeAreAccepted(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"A":2}`,
		`{"a":1,"a ":2,"":3}`,
		`{"\u00e9":1,"e\u0301":2}`, // one letter and two code points: not the same name
		`{"\\u0061":1,"a":2}`,      // an escaped backslash, not an escape
		`{"a":{"a":1},"b":{"a":1}}`,
		`[{"a":1},{"a":1}]`,
		`{"a":[{"a":1},{"a":1}]}`,
		`{"\n":1,"n":2}`,
	} {
		var s jsonscan.Scanner
		if err := s.Text([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An object changes its way of looking for repetitions at its ninth name, so every
// pair of places around that and far behind it has to be looked at.
func TestRepetitionIsFoundAtEveryPlaceInObjectsOfEverySize(t *testing.T) {
	var s jsonscan.Scanner
	for size := 2; size <= 24; size++ {
		if err := s.Text([]byte(object(numbered("n", size)...))); err != nil {
			t.Fatalf("%d different names: %v", size, err)
		}
		for first := range size {
			for second := first + 1; second < size; second++ {
				names := numbered("n", size)
				names[second] = names[first]
				if err := s.Text([]byte(object(names...))); err == nil {
					t.Fatalf("of %d names, number %d repeats number %d and is accepted", size, second, first)
				}
				// The same with the repetition spelled otherwise: \u006e is n.
				names[second] = `\u006e` + names[first][1:]
				if err := s.Text([]byte(object(names...))); err == nil {
					t.Fatalf("of %d names, number %d repeats number %d with an escape and is accepted", size, second, first)
				}
			}
		}
	}
}

func TestLargeObjectsWithTheSameNamesDoNotDisturbEachOther(t *testing.T) {
	names := numbered("n", 20)
	large := object(names...)
	nested := func(inner string) string {
		return `{"` + strings.Join(names[:12], `":0,"`) + `":` + inner + `,"` + strings.Join(names[12:], `":0,"`) + `":0}`
	}
	var s jsonscan.Scanner
	for name, text := range map[string]string{
		"side by side":        "[" + large + "," + large + "," + large + "]",
		"one in the other":    nested(large),
		"three levels":        nested(nested(large)),
		"small in large":      nested(object(names[:3]...)),
		"large in small":      `{"n0":` + large + `,"n1":` + large + `}`,
		"large before it is":  `{"n0":` + large + `,"` + strings.Join(names[1:], `":0,"`) + `":0}`,
		"escapes in both":     nested(strings.ReplaceAll(large, "n", `\u006e`)),
		"the same once again": large,
	} {
		if err := s.Text([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// After an inner large object the outer one still knows its own names.
	for first := range 12 {
		text := nested(large)
		text = strings.TrimSuffix(text, "}") + fmt.Sprintf(`,"%s":1}`, names[first])
		if err := s.Text([]byte(text)); err == nil {
			t.Errorf("%s is repeated behind an inner object and accepted", names[first])
		}
	}
	// And the inner one knows its own, though the outer one has other names.
	text := nested(object(append(numbered("m", 15), "m3")...))
	if err := s.Text([]byte(text)); err == nil {
		t.Error("a repetition in the inner object is accepted")
	}
}

// Comparing each name with each would take a minute here, and a sender chooses.
func TestManyNamesAreCheckedQuickly(t *testing.T) {
	text := []byte(object(numbered("n", 200_000)...))
	// Against a plain walk over the same text.
	walk := testkit.Cost(t, func() {
		if !json.Valid(text) {
			t.Fatal("not JSON")
		}
	})
	var s jsonscan.Scanner
	took := testkit.Cost(t, func() {
		if err := s.Text(text); err != nil {
			t.Fatal(err)
		}
	})
	if took > 100*walk {
		t.Errorf("%d bytes took %v, and a walk over them %v", len(text), took, walk)
	}
}

// The scratch space of one text must not reach into the next, also after an error.
func TestScannerForgetsTheNamesOfTheTextBefore(t *testing.T) {
	var s jsonscan.Scanner
	large := []byte(object(numbered("n", 20)...))
	for range 3 {
		if err := s.Text(large); err != nil {
			t.Fatal(err)
		}
		if err := s.Text([]byte(`{"\u0061":{"b":{"c":`)); err == nil {
			t.Fatal("a text that ends too early is accepted")
		}
		if err := s.Text([]byte(`{"a":1,"b":2,"c":3}`)); err != nil {
			t.Fatal(err)
		}
		if err := s.Text(large[:len(large)-1]); err == nil {
			t.Fatal("a text that ends too early is accepted")
		}
	}
}

func TestLongRepeatedNameIsCutInTheErrorText(t *testing.T) {
	name := strings.Repeat("é", 40) // 80 bytes
	var s jsonscan.Scanner
	err := s.Text([]byte(object(name, name)))
	want := `repeated member name "` + strings.Repeat("é", 31) + `…" at position 86`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}

	// A name of just the length that is shown is shown whole.
	name = strings.Repeat("x", 62)
	err = s.Text([]byte(object(name, name)))
	want = `repeated member name "` + name + `" at position 68`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
