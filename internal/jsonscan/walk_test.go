package jsonscan_test

import (
	"slices"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
)

func TestSkipEndsWhereTheValueEnds(t *testing.T) {
	values := []string{
		`null`, `true`, `false`, `0`, `-1.5e+3`, `""`, `"a"`, `"\""`, `"\\"`, `"\\\""`, `"\\\\"`, `"a\\\\\"b"`,
		`"}"`, `"]"`, `"{["`, `{}`, `[]`, `{"a":"}"}`, `["]"]`, `[[],[{}]]`, `{"\"":"\\"}`, `{"a":{"b":[1,"]",{}]}}`,
		"{ \"a\" :\t1 ,\r\n\"b\" : [ ] }",
	}
	// What may follow a value inside of a text, and its end.
	for _, behind := range []string{"", ",", "}", "]", " ", "\n", "\t,"} {
		for _, value := range values {
			for _, before := range []string{"", " \t\r\n"} {
				text := []byte(before + value + behind)
				if got, want := jsonscan.Skip(text, 0), len(before)+len(value); got != want {
					t.Errorf("Skip(%q) = %d, want %d", text, got, want)
				}
			}
		}
	}
}

func TestMembersVisitsEachMemberInOrder(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string // name tokens and values by turns
	}{
		{`{}`, nil},
		{"  {\n}", nil},
		{`{"a":1}`, []string{`"a"`, `1`}},
		{`{"a":1,"b":[2,"}"],"":{"a":3}}`, []string{`"a"`, `1`, `"b"`, `[2,"}"]`, `""`, `{"a":3}`}},
		{"{ \"a\" : 1 ,\t\"\\\"\"\n:\r\"x\" }", []string{`"a"`, `1`, `"\""`, `"x"`}},
		{`{"a":"\\","b":"\\\""}`, []string{`"a"`, `"\\"`, `"b"`, `"\\\""`}},
		{`{"a":null,"b":true,"c":-1e5}`, []string{`"a"`, `null`, `"b"`, `true`, `"c"`, `-1e5`}},
	} {
		var got []string
		end := jsonscan.Members([]byte(test.text+" ,x"), 0, func(name, value []byte) bool {
			got = append(got, string(name), string(value))
			return true
		})
		if !slices.Equal(got, test.want) {
			t.Errorf("%q:\n got %q\nwant %q", test.text, got, test.want)
		}
		if end != len(test.text) {
			t.Errorf("%q: ended at %d, want %d", test.text, end, len(test.text))
		}
	}
}

func TestMembersStopsWhenToldTo(t *testing.T) {
	text := []byte(`{"a":1,"b":22,"c":3}`)
	visits := 0
	end := jsonscan.Members(text, 0, func(name, _ []byte) bool {
		visits++
		return string(name) != `"b"`
	})
	if visits != 2 || end != strings.Index(string(text), `,"c"`) {
		t.Errorf("%d visits, ended at %d; want 2, ended behind the second value", visits, end)
	}
}

func TestMembersStartsAtTheGivenObject(t *testing.T) {
	text := []byte(`[{"a":1}, {"b":2}]`)
	var got []string
	end := jsonscan.Members(text, 9, func(name, value []byte) bool {
		got = append(got, string(name)+string(value))
		return true
	})
	if !slices.Equal(got, []string{`"b"2`}) || end != len(text)-1 {
		t.Errorf("got %q and %d", got, end)
	}
}

func TestOtherValuesHaveNoMembersAndNoElements(t *testing.T) {
	for _, text := range []string{"", " ", "null", `"text"`, "7", "[1]", "{}"} {
		jsonscan.Members([]byte(text), 0, func(name, _ []byte) bool {
			t.Errorf("%q has the member %s", text, name)
			return true
		})
	}
	for _, text := range []string{"", " ", "null", `"text"`, "7", `{"a":1}`, "[]"} {
		jsonscan.Elements([]byte(text), 0, func(value []byte) bool {
			t.Errorf("%q has the element %s", text, value)
			return true
		})
	}
}

func TestAppendCompactTakesOutTheSpaceBetweenTokensOnly(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{" null\n", `null`},
		{"[ 1 ,\t2\r\n]", `[1,2]`},
		{"{ \"a b\" : \" c\\n \" }", `{"a b":" c\n "}`},
		{`["\"  ", "\\" , " "]`, `["\"  ","\\"," "]`},
		{`{}`, `{}`},
	} {
		if got := string(jsonscan.AppendCompact([]byte("x"), []byte(test.text))); got != "x"+test.want {
			t.Errorf("AppendCompact(%q) = %s, want x%s", test.text, got, test.want)
		}
	}
}
