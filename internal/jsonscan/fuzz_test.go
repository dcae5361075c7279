package jsonscan_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
)

// FuzzValue holds the scanner against go-json-experiment, which has the same idea
// of what JSON is and knows nothing of how it is read here. Only the depth that is
// allowed differs.
func FuzzValue(f *testing.F) {
	large := object(numbered("n", 12)...)
	for _, text := range []string{
		``, ` `, `null`, `tru`, `-0`, `01`, `1.`, `1e+`, `-1.5E-3 `, `"`, `""`, `"\`, `"\u00`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`,
		`{`, `{}`, `{"a":1,"\u0061":2}`, `{"a":1,"A":2}`, `{"a":{"a":1},"b":{"a":1}}`, `[1,]`, `[1 2]`, `{"a":1,}`, `[[[[]]]]`, `{"a" : [ 1 , { } ] }`,
		"\"\xC0\xAF\"", "\"\xED\xA0\x80\"", "\"é\u2028\"", "\"a\nb\"", "\xEF\xBB\xBF{}", "{}\x00", "\"12345678\\\"9\"",
		`{"kind":"query","type":"Ping","data":{"payload":[0,-0,1e400,"",null]},"metadata":{"id":"a","timestamp":0}}`,
		large, "[" + large + "," + large + "]", `{"n0":` + large + `,"n1":` + large + `}`, large + "x", strings.Replace(large, "n3", "n1", 1),
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	} {
		f.Add([]byte(text))
	}
	var reused jsonscan.Scanner // what one text leaves behind must not matter to the next
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		err := reused.Text(text)
		var fresh jsonscan.Scanner
		if again := fresh.Text(text); (again == nil) != (err == nil) {
			t.Fatalf("a reused scanner says %v, a fresh one %v", err, again)
		}
		if !bytes.Equal(text, before) {
			t.Fatal("the text was changed")
		}
		if err != nil {
			var syntax *jsonscan.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) {
				t.Fatalf("the error is %#v", err)
			}
			if strings.HasPrefix(syntax.Problem, "nested deeper") {
				return
			}
		}
		if valid := jsontext.Value(text).IsValid(); valid != (err == nil) {
			t.Fatalf("go-json-experiment says valid is %v, we say %v", valid, err)
		}
		if err == nil {
			checkWalk(t, text)
		}
	})
}

// checkWalk walks a text that was accepted, with the functions that trust it.
func checkWalk(t *testing.T, text []byte) {
	t.Helper()
	var s jsonscan.Scanner
	end, err := s.Value(text, 0)
	if err != nil {
		t.Fatalf("Text accepts what Value refuses: %v", err)
	}
	if got := jsonscan.Skip(text, 0); got != end {
		t.Fatalf("Skip ends at %d, Value at %d", got, end)
	}
	value := text[jsonscan.Space(text, 0):end]
	compact := jsontext.Value(bytes.Clone(value))
	if err := compact.Compact(); err != nil {
		t.Fatal(err)
	}
	if got := jsonscan.AppendCompact([]byte("x"), text); string(got) != "x"+string(compact) {
		t.Fatalf("AppendCompact gives %s, want x%s", got, compact)
	}
	switch value[0] {
	case '"':
		want, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			t.Fatal(err)
		}
		got := jsonscan.Unquote(value)
		if got != string(want) {
			t.Fatalf("Unquote(%s) = %q, want %q", value, got, want)
		}
		again := jsonscan.AppendQuoted(nil, got)
		if !jsontext.Value(again).IsValid() {
			t.Fatalf("AppendQuoted(%q) = %s", got, again)
		}
		if back := jsonscan.Unquote(again); back != got {
			t.Fatalf("%q came back as %q", got, back)
		}
	case '{':
		object := []byte{'{'}
		behind := jsonscan.Members(text, 0, func(name, member []byte) bool {
			if len(object) > 1 {
				object = append(object, ',')
			}
			object = append(append(append(object, name...), ':'), member...)
			checkWalk(t, name)
			return true
		})
		if behind != end {
			t.Fatalf("Members ends at %d, Value at %d", behind, end)
		}
		got := jsonscan.AppendCompact(nil, append(object, '}'))
		if !bytes.Equal(got, compact) {
			t.Fatalf("the members make %s, the object is %s", got, compact)
		}
	}
}
