package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

type purchase struct {
	Items []item            `json:"items,omitempty" jsonschema:"minItems=1,maxItems=3"`
	Mode  string            `json:"mode,omitempty" jsonschema:"enum=fast,enum=slow"`
	Key   string            `json:"key,omitempty" jsonschema:"minLength=1,maxLength=4"`
	Land  string            `json:"land,omitempty" jsonschema:"minLength=2,maxLength=2"`
	Ratio float64           `json:"ratio,omitempty" jsonschema:"minimum=0,maximum=1"`
	Tags  map[string]string `json:"tags,omitempty"`
	Rush  bool              `json:"rush,omitempty"`
	At    time.Time         `json:"at,omitempty"`
	Ship  struct {
		Box struct {
			Size int8 `json:"size"`
		} `json:"box"`
	} `json:"ship,omitempty"`
}

type item struct {
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"`
}

func TestExplainSaysWhereWhatAndWhatInstead(t *testing.T) {
	s := Input[purchase]()
	for _, c := range []struct{ value, want string }{
		{`[]`, `the value: expected an object, got an array`},
		{`null`, `the value: expected an object, got null`},
		{`"x"`, `the value: expected an object, got "x"`},
		{`12`, `the value: expected an object, got the number 12`},
		{`true`, `the value: expected an object, got true`},
		{`{"mode":"fast","modes":1}`, `unknown field: modes (it may have at, items, key, land, mode, ratio, rush, ship, tags)`}, // a mode is there
		{`{"itms":[]}`, `unknown field: itms (did you mean items?)`},
		{`{"MODE":"fast"}`, `unknown field: MODE (did you mean mode?)`},
		{`{"something":1}`, `unknown field: something (it may have at, items, key, land, mode, ratio, rush, ship, tags)`},
		{`{"items":[]}`, `items: expected at least 1 element, got 0`},
		{`{"items":{}}`, `items: expected an array, got an object`},
		{`{"items":[{"name":"a"},{"name":"b"},{"name":3}]}`, `items[2].name: expected a string, got the number 3`},
		{`{"items":[{"name":"a"},{"count":1}]}`, `missing required field: items[1].name`},
		{`{"items":[{"name":"a","cuont":1}]}`, `unknown field: items[0].cuont (did you mean count?)`},
		{`{"items":[{"name":"a"},{"name":"a"},{"name":"a"},{"name":"a"}]}`, `items: expected at most 3 elements, got 4`},
		{`{"mode":"quick"}`, `mode: expected one of "fast", "slow", got "quick"`},
		{`{"mode":""}`, `mode: expected one of "fast", "slow", got an empty string`},
		{`{"mode":3}`, `mode: expected a string, got the number 3`},
		{`{"key":""}`, `key: expected a string that is not empty, got an empty string`},
		{`{"key":"abcde"}`, `key: expected a string of at most 4 characters, got 5`},
		{`{"land":"x"}`, `land: expected a string of at least 2 characters, got "x"`},
		{`{"ratio":2}`, `ratio: expected a number of at most 1, got the number 2`},
		{`{"ratio":-0.5}`, `ratio: expected a number of at least 0, got the number -0.5`},
		{`{"ratio":"x"}`, `ratio: expected a number, got "x"`},
		{`{"tags":{"a":1}}`, `tags.a: expected a string, got the number 1`},
		{`{"rush":"yes"}`, `rush: expected a boolean, got "yes"`},
		{`{"rush":null}`, `rush: expected a boolean, got null`},
		{`{"at":"tomorrow"}`, `at: expected a string in the format date-time, got "tomorrow"`},
		{`{"ship":{"box":{"size":300}}}`, `ship.box.size: expected a number of at most 127, got the number 300`},
		{`{"ship":{"box":{"size":1.5}}}`, `ship.box.size: expected a whole number, got the number 1.5`},
		{`{"ship":{"box":{}}}`, `missing required field: ship.box.size`},
		{`{"ship":{"box":{"sizes":1}}}`, `missing required field: ship.box.size; unknown field: ship.box.sizes (did you mean size?)`},
		{`{"mode":"quick","key":""}`, `key: expected a string that is not empty, got an empty string; mode: expected one of "fast", "slow", got "quick"`},
		{
			`{"mode":"` + strings.Repeat("ä", 61) + `"}`,
			`mode: expected one of "fast", "slow", got "` + strings.Repeat("ä", 60) + `…"`,
		},
	} {
		if got := explained(t, s, c.value); got != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.value, got, c.want)
		}
	}
}

func TestExplainKnowsTheKeywordsOfForeignSchemas(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `true`,
			`the value fits none of the forms that it may have (the value: expected a string, got true; or the value: expected a whole number, got true)`},
		{`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]}}}`, `{"a":{}}`,
			`a fits none of the forms that it may have (a: expected a string, got an object; or missing required field: a.x)`},
		{`{"oneOf":[{"type":"string"},{"minLength":1}]}`, `"ab"`, `the value fits more than one of the forms that it may have`},
		{`{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`,
			`the value fits none of the forms that it may have (the value: expected a string, got the number 1; or the value: expected null, got the number 1)`},
		{`{"allOf":[{"type":"string"},{"maxLength":1}]}`, `"abc"`, `the value: expected a string of at most 1 character, got 3`},
		{`{"const":5}`, `6`, `the value: expected the number 5, got the number 6`},
		{`{"type":["string","null"]}`, `6`, `the value: expected null or a string, got the number 6`},
		{`{"uniqueItems":true}`, `[1,2,1]`, `the value: elements 0 and 2 are equal, and no two may be`},
		{`{"exclusiveMinimum":0}`, `0`, `the value: expected a number above 0, got the number 0`},
		{`{"exclusiveMaximum":5}`, `5`, `the value: expected a number below 5, got the number 5`},
		{`{"multipleOf":5}`, `3`, `the value: expected a multiple of 5, got the number 3`},
		{`{"pattern":"^a+$"}`, `"b"`, `the value: expected a string that matches ^a+$, got "b"`},
		{`{"properties":{"a":false}}`, `{"a":1}`, `a: nothing may be here`},
		{`false`, `1`, `the value: nothing may be here`},
		{`{"prefixItems":[{"type":"string"}],"items":false}`, `[1,2]`, `[0]: expected a string, got the number 1; [1]: nothing may be here`},
		{`{"items":{"type":"object","properties":{"name":{}},"additionalProperties":false}}`, `[{"nmae":1}]`, `unknown field: [0].nmae (did you mean name?)`},
		{`{"additionalProperties":{"properties":{"name":{}},"additionalProperties":false}}`, `{"k":{"nmae":1}}`, `unknown field: k.nmae (did you mean name?)`},
		{`{"additionalProperties":false}`, `{"a":1}`, `unknown field: a (there are none)`},
	} {
		s, err := Parse(json.RawMessage(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := explained(t, s, c.value); got != c.want {
			t.Errorf("%s of %s\n got  %s\n want %s", c.value, c.schema, got, c.want)
		}
	}
}

func TestExplainNamesTheFirstProblemForOtherDialects(t *testing.T) {
	err := Input[purchase]().Validate(json.RawMessage(`{"mode":"quick","items":[{"name":1}]}`))
	invalid, ok := errors.AsType[*Invalid](err)
	if !ok || len(invalid.Problems) != 2 {
		t.Fatalf("got %#v", err)
	}
	if p := invalid.Problems[0]; p.Path != "items[0].name" || p.Expected != "a string" {
		t.Errorf("got %+v", p)
	}
}

func TestExplainTellsAllProblemsAtOnce(t *testing.T) {
	s := Input[struct{}]()
	var members, want []string
	for i := range maxProblems + 2 {
		members = append(members, fmt.Sprintf(`"m%02d":1`, i))
		if i < maxProblems {
			want = append(want, fmt.Sprintf("unknown field: m%02d (there are none)", i))
		}
	}
	if got := explained(t, s, "{"+strings.Join(members[:maxProblems], ",")+"}"); got != strings.Join(want, "; ") {
		t.Errorf("got %s", got)
	}
	if got := explained(t, s, "{"+strings.Join(members, ",")+"}"); got != strings.Join(want, "; ")+"; and 2 more" {
		t.Errorf("got %s", got)
	}
}

type booking struct {
	City  string `json:"city" jsonschema_description:"Where to go, such as Rome. A name of a country won't do."`
	Bed   bed    `json:"bed"`
	Night int    `json:"night,omitempty" jsonschema_description:"How many nights." jsonschema:"minimum=1"`
}

type bed struct {
	Width int `json:"width" jsonschema_description:"Its width in cm."`
}

func TestProblemsCarryWhatTheSchemaHasAboutTheField(t *testing.T) {
	err := Input[booking]().Validate(json.RawMessage(`{"night":0,"bed":{},"citty":"Rome"}`))
	invalid, ok := errors.AsType[*Invalid](err)
	const want = `missing required field: bed.width (a whole number: Its width in cm); missing required field: city (a string: Where to go, such as Rome); ` +
		`unknown field: citty (did you mean city?); night: expected a number of at least 1, got the number 0`
	if !ok || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	text, _ := json.Marshal(invalid.Listed())
	var listed []struct {
		Field  string
		Schema struct{ Type, Description string }
	}
	if err := json.Unmarshal(text, &listed); err != nil || len(listed) != 4 {
		t.Fatalf("%v: %s", err, text)
	}
	for i, field := range []string{"bed.width", "city", "citty", "night"} {
		if described := field != "citty"; listed[i].Field != field || (listed[i].Schema.Type != "" && listed[i].Schema.Description != "") != described {
			t.Errorf("%s: got %+v", field, listed[i])
		}
	}
}

// A schema that refers to itself doesn't keep an error from being written.
func TestProblemsOfASchemaThatRefersToItself(t *testing.T) {
	s, err := Parse(json.RawMessage(`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n","description":"The next one"}},"required":["next"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := explained(t, s, `{"next":{"next":{}}}`); got != `missing required field: next.next.next (an object: The next one)` {
		t.Errorf("got %s", got)
	}
}

// The package comment shows this example.
func TestExplainSaysWhatThePackageCommentSays(t *testing.T) {
	type input struct {
		Message string `json:"message"`
	}
	const want = `missing required field: message; unknown field: mesage (did you mean message?)`
	if got := explained(t, Input[input](), `{"mesage":"hi"}`); got != want {
		t.Errorf("got %s", got)
	}
}

func TestExplainReadsAsAPersonWouldWrite(t *testing.T) {
	for _, c := range []struct{ name, schema, value, want string }{
		{"fractions as decimals", `{"exclusiveMaximum":1.5}`, `2`, `the value: expected a number below 1.5, got the number 2`},
		{"the number that was written", `{"maximum":5}`, `1e999999999`, `the value: expected a number of at most 5, got the number 1e999999999`},
		{"a digit as a member's name", `{"additionalProperties":{"type":"string"}}`, `{"7":1}`, `7: expected a string, got the number 1`},
		{"the properties behind a reference", `{"$defs":{"n":{"properties":{"name":{}},"additionalProperties":false}},"$ref":"#/$defs/n"}`, `{"nmae":1}`,
			`unknown field: nmae (did you mean name?)`},
		{"the properties beneath a name with a slash", `{"properties":{"a/b":{"properties":{"name":{}},"additionalProperties":false}}}`, `{"a/b":{"nmae":1}}`,
			`unknown field: a/b.nmae (did you mean name?)`},
		{"no hint that has no letter in common", `{"properties":{"x":{}},"additionalProperties":false}`, `{"y":1}`, `unknown field: y (it may have x)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse(json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			if got := explained(t, s, c.value); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// explained returns the text for a value that must be invalid.
func explained(t *testing.T, s *Schema, value string) string {
	t.Helper()
	err := s.Validate(json.RawMessage(value))
	if err == nil {
		t.Errorf("%s is accepted", value)
		return ""
	}
	invalid, ok := errors.AsType[*Invalid](err)
	if !ok || len(invalid.Problems) == 0 {
		t.Errorf("%s: %#v is no *Invalid with problems", value, err)
	}
	return err.Error()
}

// A field that is marked writeOnly holds a secret, which must not come back in an
// error, whichever way the schema says so.
func TestExplainShowsNoSecrets(t *testing.T) {
	const secret = "hunter2"
	type login struct {
		Password string `json:"password" jsonschema:"writeOnly=true,maxLength=3"`
		Pin      int    `json:"pin,omitempty" jsonschema:"maximum=9" jsonschema_extras:"writeOnly=true"`
	}
	derivedLogin := Input[login]()
	for _, c := range []struct {
		name   string
		schema *Schema
		value  string
	}{
		{"a string that is too long", derivedLogin, `{"password":"hunter2"}`},
		{"a number that is too large", derivedLogin, `{"password":"x","pin":7772}`},
		{"a string where a number should be", derivedLogin, `{"password":"x","pin":"hunter2"}`},
		{"an element of a list", parsed(`{"items":{"properties":{"k":{"type":"integer","writeOnly":true}}}}`), `[{"k":"hunter2"}]`},
		{"a value beneath the secret", parsed(`{"properties":{"k":{"writeOnly":true,"properties":{"x":{"type":"integer"}}}}}`), `{"k":{"x":"hunter2"}}`},
		{"a value of a map", parsed(`{"additionalProperties":{"type":"integer","writeOnly":true}}`), `{"k":"hunter2"}`},
		{"behind a reference", parsed(`{"$defs":{"s":{"type":"integer","writeOnly":true}},"properties":{"k":{"$ref":"#/$defs/s"}}}`), `{"k":"hunter2"}`},
		{"in one of several forms", parsed(`{"anyOf":[{"properties":{"k":{"type":"integer","writeOnly":true}}},{"required":["x"]}]}`), `{"k":"hunter2"}`},
		{"in all of several schemas", parsed(`{"allOf":[{"properties":{"k":{"type":"integer","writeOnly":true}}}]}`), `{"k":"hunter2"}`},
		{"by a pattern", parsed(`{"patternProperties":{"^k":{"type":"integer","writeOnly":true}}}`), `{"k":"hunter2"}`},
		{"at a place in a list", parsed(`{"prefixItems":[{"type":"integer","writeOnly":true}]}`), `["hunter2"]`},
		{"in a list of draft-07", parsed(`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"integer","writeOnly":true}}`), `["hunter2"]`},
		{"marked beside the check", parsed(`{"properties":{"k":{"writeOnly":true}},"additionalProperties":{"type":"integer"},"allOf":[{"properties":{"k":{"type":"integer"}}}]}`), `{"k":"hunter2"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := explained(t, c.schema, c.value)
			if strings.Contains(got, secret) || strings.Contains(got, "7772") {
				t.Errorf("got %s", got)
			}
		})
	}
}
