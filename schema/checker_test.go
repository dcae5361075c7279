package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"kernos/internal/jsonscan"
)

// doubling is a schema of a number of levels, each of which refers twice to the one below it.
func doubling(levels int, keyword string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$ref":"#/$defs/l%d","$defs":{"l0":{"type":"string"}`, levels)
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, `,"l%d":{%q:[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]}`, i, keyword, i-1, i-1)
	}
	return b.String() + "}}"
}

// nested is a value inside as many others as there are levels.
func nested(levels int, open, inner, end string) json.RawMessage {
	return json.RawMessage(strings.Repeat(open, levels) + inner + strings.Repeat(end, levels))
}

func tooMuch(err error) bool {
	_, ok := errors.AsType[*Invalid](err)
	return ok && strings.Contains(err.Error(), "the value can't be checked: that takes more than")
}

func TestParseRefusesASchemaThatTakesForEver(t *testing.T) {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		_, err := Parse(json.RawMessage(doubling(40, keyword)))
		if err == nil || !strings.HasPrefix(err.Error(), "too complex: even for an empty value, the value can't be checked") {
			t.Errorf("%s: got %v", keyword, err)
		}
	}
	s, err := Parse(json.RawMessage(doubling(8, "allOf")))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(json.RawMessage(`"a"`)); err != nil {
		t.Error(err)
	}
	if err := s.Validate(json.RawMessage(`1`)); err == nil || !strings.Contains(err.Error(), "expected a string, got the number 1") {
		t.Errorf("got %v", err)
	}
}

// What multiplies only with the depth of the value is a schema like any other, until there
// is such a value.
func TestValidateGivesUpOnAValueThatTakesForEver(t *testing.T) {
	for name, c := range map[string]struct {
		schema      string
		fits, wrong json.RawMessage
		deep        json.RawMessage
	}{
		"members that are checked twice": {
			`{"type":"object","properties":{"x":{"$ref":"#"}},"patternProperties":{"^x":{"$ref":"#"}}}`,
			nested(5, `{"x":`, `{}`, `}`), nested(5, `{"x":`, `1`, `}`), nested(60, `{"x":`, `{}`, `}`),
		},
		"forms that all look inside": {
			`{"anyOf":[{"properties":{"k":{"const":"a"},"x":{"$ref":"#"}},"required":["k"]},{"properties":{"k":{"const":"b"},"x":{"$ref":"#"}},"required":["k"]}]}`,
			nested(4, `{"k":"b","x":`, `{"k":"a"}`, `}`), nested(4, `{"k":"b","x":`, `{"k":"c"}`, `}`), nested(60, `{"k":"c","x":`, `{"k":"c"}`, `}`),
		},
		"elements that fail twice, where only that counts": {
			`{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"},"contains":{"$ref":"#/$defs/a"},"minContains":0}}}`,
			nested(5, `[`, `1`, `]`), nested(1, `[`, `[[]]`, `]`), nested(60, `[`, `1`, `]`),
		},
		"what only a dynamic reference finds": {
			`{"$id":"https://example.com/a","$ref":"b","$defs":{
				"here":{"$dynamicAnchor":"n","type":"object","allOf":[{"properties":{"x":{"$dynamicRef":"b#n"}}},{"properties":{"x":{"$dynamicRef":"b#n"}}}]},
				"b":{"$id":"b","$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n","type":"object"}}}}}`,
			nested(5, `{"x":`, `{}`, `}`), nested(5, `{"x":`, `1`, `}`), nested(60, `{"x":`, `{}`, `}`),
		},
		"an older draft": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"properties":{"x":{"$ref":"#"}}},{"properties":{"x":{"$ref":"#"}}}]}`,
			nested(5, `{"x":`, `{}`, `}`), nested(5, `{"x":`, `1`, `}`), nested(60, `{"x":`, `{}`, `}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Parse(json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // and the next one is checked as if nothing had happened
				if err := s.Validate(c.fits); err != nil {
					t.Errorf("%s: %v", c.fits, err)
				}
				if err := s.Validate(c.wrong); err == nil || tooMuch(err) {
					t.Errorf("%s: %v", c.wrong, err)
				}
				if err := s.Validate(c.deep); !tooMuch(err) {
					t.Errorf("the deep value: %v", err)
				}
			}
		})
	}
}

// The limit is far from what is written in earnest: large values, and several forms for each
// part of them.
func TestValidateTakesLargeValues(t *testing.T) {
	s := parsed(`{"type":"array","items":{"anyOf":[{"type":"null"},{"type":"string"},{"$ref":"#/$defs/point"},{"type":"integer"}]},
		"$defs":{"point":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x","y"]}}}`)
	for _, element := range []string{`1`, `{"x":1,"y":2}`} {
		value := "[" + strings.Repeat(element+",", 16<<10/(len(element)+1)) + element + "]"
		if err := s.Validate(json.RawMessage(value)); err != nil {
			t.Errorf("many of %s: %v", element, err)
		}
	}
}

// A checker is for one value at a time: several at once have several.
func TestValuesAreCheckedAtOnce(t *testing.T) {
	s := parsed(doubling(5, "anyOf"))
	deep := parsed(`{"properties":{"x":{"$ref":"#"}},"patternProperties":{"^x":{"$ref":"#"}}}`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if err := s.Validate(json.RawMessage(`"a"`)); err != nil {
					t.Error(err)
				}
				if err := s.Validate(json.RawMessage(`1`)); err == nil || tooMuch(err) {
					t.Errorf("got %v", err)
				}
			}
			if err := deep.Validate(nested(60, `{"x":`, `{}`, `}`)); !tooMuch(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
}

// With a thousand things wrong the first ones are told, and the others aren't looked at.
func TestExplainStopsSomewhere(t *testing.T) {
	s := parsed(`{"items":{"anyOf":[{"additionalProperties":false},{"required":["b"]}]}}`)
	value := "[" + strings.Repeat(`{"a":1},`, 3000) + `{"a":1}]`
	err := s.Validate(json.RawMessage(value))
	invalid, ok := errors.AsType[*Invalid](err)
	if !ok || !strings.HasPrefix(err.Error(), `[0] fits none of the forms that it may have (unknown field: [0].a (there are none); or missing required field: [0].b); `) {
		t.Fatalf("got %.300v", err)
	}
	if n := len(invalid.Problems); n != 3001 {
		t.Errorf("%d problems", n)
	}
}

// FuzzParsed: a schema that came from outside says of a value what the library says, or that
// it can't tell.
func FuzzParsed(f *testing.F) {
	for _, s := range []string{
		doubling(3, "allOf"), doubling(3, "oneOf"), `{"format":"date","not":{"const":"2025-01-02"}}`, `{"format":"regex"}`, `{"if":{"type":"object"},"then":{"minProperties":1},"else":{"$ref":"#/$defs/a"},"$defs":{"a":{"enum":[1,"a",null]}}}`,
		`{"properties":{"x":{"$ref":"#"}},"patternProperties":{"^x":{"$ref":"#"}},"unevaluatedProperties":false}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"a","dependencies":{"x":{"required":["y"]}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":[{"$recursiveRef":"#"}],"contains":{"type":"string"}}`,
	} {
		for _, v := range []string{`{"x":{}}`, `"a"`, `"2025-01-02"`, `[[],"a"]`, `"("`, `null`, `1e3`} {
			f.Add([]byte(s), []byte(v))
		}
	}
	f.Fuzz(func(t *testing.T, text, value []byte) {
		if len(text) > 1<<10 || len(value) > 1<<10 {
			return
		}
		var scan jsonscan.Scanner
		s, err := Parse(text)
		if err != nil || scan.Text(value) != nil {
			return
		}
		got := s.validateFully(value)
		if tooMuch(got) {
			return
		}
		instance, err := parseInstance(value)
		if err != nil {
			t.Fatal(err)
		}
		if want := s.full.root.Validate(instance); (got == nil) != (want == nil) {
			t.Errorf("%s of %s: got %v, the library says %v", text, value, got, want)
		}
	})
}
