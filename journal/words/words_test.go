package words

import (
	"strings"
	"testing"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/kernel"
)

func TestWordsOfAMessage(t *testing.T) {
	for _, test := range []struct{ typ, data, want string }{
		{"Ping", `null`, "ping"},
		{"Memory.Set", `{"key":"/notes/1","value":"Hello, World"}`, "memory set key notes 1 value hello world"},
		{"Job.TreeCreate", `1`, "job tree create treecreate 1"},
		{"VFS.ReadURI", `true`, "vfs read uri readuri"},
		{"Ping", `{"idempotencyKey":"camelCase"}`, "ping idempotency key idempotencykey camelcase"},
		{"Ping", `[-1.5e3, 12, "x1y2"]`, "ping 1 5e3 12 x1y2"},
		{"Ping", `"Gr\u00fc\u00dfe Grüße ＡＢＣ ﬁn e\u0301t\u00e9 ΑΒΓ"`, "ping grusse grusse abc fin ete αβγ"},
		{"Ping", `"東京 tower かな"`, "ping 東 京 tower か な"},
		{"Ping", `"a\nb\tc\/d\\e\"f"`, "ping a b c d e f"},
		{"Ping", `{"a":"[redacted]","b":"[omitted]","[redacted]":"[refused]"}`, "ping a b redacted"},
		{"Ping", `"` + strings.Repeat("x", 100) + `"`, "ping " + strings.Repeat("x", 64)},
		{"Ping", `"` + strings.Repeat("é", 100) + `"`, "ping " + strings.Repeat("e", 64)},
		{"Ping", `"` + strings.Repeat("я", 100) + `"`, "ping " + strings.Repeat("я", 32)},
		{"Ping", `{"a":"b`, "ping a"},
	} {
		var all []string
		k := Tokenizer{Emit: func(w []byte) { all = append(all, string(w)) }}
		k.Message([]byte(test.typ), []byte(test.data))
		if got := strings.Join(all, " "); got != test.want {
			t.Errorf("%s %s\n got %s\nwant %s", test.typ, test.data, got, test.want)
		}
	}
}

// FuzzWords finds the words of anything: short, of one case, and the same however the text
// is written.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "Hello, World", "MemorySet", "Grüße ﬁn ＡＢＣ é", "東京tower", "\xff\xc0a", "a\x00b", strings.Repeat("İ", 50), "ﷺ", "ǅ", "가각"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words := func(text string, isName bool) []string {
			var all []string
			k := Tokenizer{Emit: func(w []byte) { all = append(all, string(w)) }}
			k.text([]byte(text), isName)
			return all
		}
		for _, isName := range []bool{false, true} {
			for _, w := range words(s, isName) {
				if w == "" || len(w) > maxWord || strings.IndexByte(w, 0) >= 0 || utf8.ValidString(s) && !utf8.ValidString(w) {
					t.Fatalf("%q has the word %q", s, w)
				}
			}
		}
		if utf8.ValidString(s) {
			quoted := jsonscan.AppendQuoted(nil, s)
			var all []string
			k := Tokenizer{Emit: func(w []byte) { all = append(all, string(w)) }}
			k.json(quoted)
			switch string(quoted) {
			case kernel.RedactedData, kernel.RefusedData, kernel.OmittedData:
			default:
				if want := words(s, false); strings.Join(all, " ") != strings.Join(want, " ") {
					t.Fatalf("%q: %q, quoted %q", s, want, all)
				}
			}
		}
		// What is found by a word of a message is found by the query for it.
		for _, w := range words(s, false) {
			if len(w) >= maxWord-utf8.UTFMax {
				continue
			}
			if q := OfQuery(w); len(q) != 1 || string(q[0]) != w {
				t.Fatalf("the word %q of %q is queried as %q", w, s, q)
			}
		}
	})
}
