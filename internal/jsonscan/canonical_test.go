package jsonscan_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"kernos/internal/jsonscan"
)

func canonical(text string) string { return string(jsonscan.AppendCanonical(nil, []byte(text))) }

func TestEqualTextsHaveOneSpelling(t *testing.T) {
	for _, same := range [][]string{
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1.0 }`},
		{`{"b":{"d":1,"c":2},"a":[{"y":1,"x":[]}]}`, `{"a":[{"x":[],"y":1}],"b":{"c":2,"d":1}}`},
		{`{"a":"","\u0062":"A/","B":{}}`, `{"B":{},"b":"\u0041\/","a":""}`},
		{`[[],[[]],{}, [1,2]]`, `[ [ ] , [ [ ] ] , { } , [1 , 2] ]`},
		{`100`, `1e2`, `1.0E+2`, `1000e-1`}, {`0`, `-0`, `0.00`, `0e9`}, {`-1.5`, `-15e-1`},
		{`1e999999999`, `10e999999998`}, {`1e99999999999999999999`, ` 1e99999999999999999999 `},
		{`"\u00e9\n"`, `"é\u000a"`},
	} {
		for _, text := range same {
			if got := canonical(text); got != canonical(same[0]) {
				t.Errorf("%s becomes %s, and %s becomes %s", text, got, same[0], canonical(same[0]))
			}
		}
	}
	for _, other := range [][2]string{
		{`12345678901234567890`, `12345678901234567891`}, {`[1,2]`, `[2,1]`}, {`{}`, `[]`}, {`1`, `"1"`}, {`1`, `-1`},
		{`{"a":1}`, `{"a":1,"b":null}`}, {`[[1],2]`, `[[1,2]]`}, {`{"a":{"b":1}}`, `{"a":1,"b":1}`}, {`"a"`, `"A"`}, {`[]`, `[[]]`},
	} {
		if canonical(other[0]) == canonical(other[1]) {
			t.Errorf("%s and %s both become %s", other[0], other[1], canonical(other[0]))
		}
	}
}

// Many names, deep down, and long: what is put in order must stay what it is.
func TestManyMembersAreSorted(t *testing.T) {
	there, back := numbered("n", 30), numbered("n", 30)
	for i := range len(back) / 2 {
		back[i], back[len(back)-1-i] = back[len(back)-1-i], back[i]
	}
	deep := func(names []string) string {
		text := object(names...)
		for range 50 {
			text = `{"z":1,"a":` + text + `,"m":"` + strings.Repeat("x", 100) + `"}`
		}
		return text
	}
	if a, b := canonical(deep(there)), canonical(deep(back)); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

// FuzzCanonical holds the form against decoded values: what it makes is JSON, means the
// same, and is its own form. Numbers are compared as what they are to floating point.
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{`{"b":[1,2.0,"x"],"a":{}}`, `1e400`, `[[],{"\u0062":"\/","a":-0}]`, `"\ud83d\ude00"`, ` [ 1 , { "z" : 0 , "y" : { } } ] `} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var scan jsonscan.Scanner
		if scan.Text([]byte(text)) != nil {
			return
		}
		got := canonical(text)
		if err := scan.Text([]byte(got)); err != nil {
			t.Fatalf("%s became %s: %v", text, got, err)
		}
		if again := canonical(got); again != got {
			t.Fatalf("%s became %s, and that %s", text, got, again)
		}
		var was, is any
		if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal([]byte(got), &is) != nil {
			return // a number beyond floating point
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%s became %s", text, got)
		}
	})
}
