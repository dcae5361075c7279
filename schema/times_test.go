package schema_test

import (
	"strings"
	"testing"

	"kernos/internal/when"
	"kernos/schema"
)

func TestTimesInSchemas(t *testing.T) {
	type inner struct {
		Since when.Back `json:"since,omitzero"`
	}
	type input struct {
		At    when.Ahead `json:"at,omitzero" jsonschema_description:"A time."`
		Every *when.Span `json:"every,omitzero" jsonschema:"minimum=1000,maximum=60000"`
		Inner []inner    `json:"inner,omitzero"`
	}
	s := schema.Input[input]()
	const (
		ahead = `at: expected milliseconds since 1970, or a time such as "in 2 hours", "tomorrow 09:00" or 2026-11-20T09:00, got `
		back  = `inner[0].since: expected milliseconds since 1970, or a time such as 2h, yesterday or 2026-11-20T09:00, got `
	)
	for value, want := range map[string]string{
		`{"at":1795080615000}`: "", `{"at":0}`: "", `{"at":1.7e12}`: "", `{"at":"in 8 seconds"}`: "", `{"at":"\u0069n 8 seconds"}`: "", `{"at":"1795080615000"}`: "",
		`{"every":1000}`: "", `{"every":"1m"}`: "", `{"every":"60 seconds"}`: "", `{"inner":[{"since":"yesterday"}]}`: "",
		`{"at":"soon"}`: ahead + `"soon"`, `{"at":true}`: ahead + `true`, `{"at":{}}`: ahead + `an object`, `{"at":-1}`: "at: expected a number of at least 0, got the number -1",
		`{"every":"10ms"}`: `every: expected at least 1s, got "10ms"`, `{"every":"2h"}`: `every: expected at most 1m0s, got "2h"`, `{"every":1}`: `every: expected a number of at least 1000, got the number 1`,
		`{"every":"tomorrow"}`: `every: expected milliseconds, or a time such as 90s, 1h30m or "2 days", got "tomorrow"`, `{"inner":[{"since":""}]}`: back + "an empty string",
	} {
		got := ""
		if err := s.Validate([]byte(value)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
	if text := string(s.JSON()); strings.Count(text, `"examples":`) != 3 || strings.Count(text, `"format":"unix-ms"`) != 2 || !strings.Contains(text, `"oneOf":[{"type":"number"},{"type":"string"}]`) {
		t.Error(text)
	}
	// What is answered is a number.
	if text := string(schema.Output[input]().JSON()); strings.Contains(text, "oneOf") || strings.Contains(text, "examples") || !strings.Contains(text, `"format":"ms","type":"integer"`) && !strings.Contains(text, `"type":"integer","format":"ms"`) {
		t.Error(text)
	}
	// A schema that came from outside has the format, too; a text that is no number is of another kind.
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":["integer","string"],"format":"ms","maximum":5000}`, `"5 seconds"`, ""},
		{`{"type":["integer","string"],"format":"ms","maximum":5000}`, `"1 minute"`, `the value: expected at most 5s, got "1 minute"`},
		{`{"type":["integer","string"],"format":"unix-ms"}`, `"soon"`, `the value: expected milliseconds since 1970, or a time such as "in 2 hours", "tomorrow 09:00" or 2026-11-20T09:00, got "soon"`},
	} {
		s, err := schema.Parse([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := s.Validate([]byte(c.value)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.value, got, c.want)
		}
	}
}
