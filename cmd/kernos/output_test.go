package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
)

// printed returns how a value is shown with these flags.
func printed(t *testing.T, s *terminal.Screen, flags string, data string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	s.Out, s.Err = &out, new(bytes.Buffer)
	f := new(callFlags)
	for tokens := strings.Fields(flags); len(tokens) > 0; {
		var err error
		if tokens, err = f.take(tokens); err != nil {
			t.Fatal(err)
		}
	}
	p, err := newPrinter(s, f)
	if err != nil {
		return "", err
	}
	err = p.print(t.Context(), &client.Item{Type: client.Data, ContentType: "test.output", Data: json.RawMessage(data)})
	return out.String(), err
}

// A filter that goes on for ever ends with the command.
func TestAnEndlessFilterIsInterrupted(t *testing.T) {
	p, err := newPrinter(&terminal.Screen{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}, &callFlags{jq: "last(repeat(1))", given: map[string]bool{"jq": true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.print(ctx, &client.Item{Type: client.Data, Data: json.RawMessage("1")}); err == nil {
		t.Error("it ended by itself")
	}
}

// What is written as it is in the usage line can be run.
func TestHelpOfAParameterThatIsNamedLikeAFlag(t *testing.T) {
	for name, want := range map[string]string{"data": "data=STRING", "key": "--key STRING"} {
		if got := flagOf(&client.Field{Name: name, Types: []string{"string"}}, name); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestOutputForms(t *testing.T) {
	privately(t)
	const people = `{"people":[{"name":"Ada","born":1815},{"name":"Zoë","tall":true}],"more":false}`
	for _, test := range []struct{ flags, data, want string }{
		{"", `{ "a": 1.50 }`, "{\"a\":1.50}\n"},
		{"", `"text"`, "\"text\"\n"},
		{"--output json", `{"a":[]}`, "{\n  \"a\": []\n}\n"},
		{"--output raw", `"text"`, "text"},
		{"--output raw", `{"a":1}`, "{\"a\":1}\n"},
		{"--output pretty", `"a\nb"`, "a\nb\n"},
		{"--output pretty", `{"a":[1,{"b":null}],"c":{},"d":[]}`, "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}\n"},
		{"--output pretty", `12345678901234567890`, "12345678901234567890\n"},
		{"--output table", people, "name  born  tall\nAda   1815\nZoë         true\n"},
		{"--output table", `{"a":1,"bcd":"x"}`, "a    1\nbcd  x\n"},
		{"--output table", `["x",2]`, "x\n2\n"},
		{"--output table", `[]`, ""},
		{"--output table", `7`, "7\n"},
		{"--output table", `[{"a":1},2]`, "a\n1\n2\n"},
		{"--output table", `{"keys":["x","y"]}`, "x\ny\n"},
		{"--output table", `{"pid":7,"listening":["x"],"store":{"open":true}}`, "pid        7\nlistening  [\"x\"]\nstore      {\"open\":true}\n"},
		{"--jq .people[].name", people, "Ada\nZoë\n"},
		{"--jq .people[0].born", people, "1815\n"},
		{"--jq .people[].name --output ndjson", people, "\"Ada\"\n\"Zoë\"\n"},
		{"--jq .n", `{"n":12345678901234567890}`, "12345678901234567890\n"},
		{"--jq empty", people, ""},
		{"--jq halt", people, ""},
		{"--template {{.more}}", people, "false\n"},
		{"--template {{json.people}}", people, "!"},
		{"--jq .people[", people, "!"},
		{"--jq .people.name", people, "!"},
		{"--template {{.more", people, "!"},
	} {
		got, err := printed(t, new(terminal.Screen), test.flags, test.data)
		if test.want == "!" {
			if err == nil {
				t.Errorf("%s %s: got %q", test.flags, test.data, got)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s %s: got %q, %v; want %q", test.flags, test.data, got, err, test.want)
		}
	}
}

func TestOutputOnATerminal(t *testing.T) {
	privately(t)
	coloured := func() *terminal.Screen { return &terminal.Screen{Width: 80, Colour: true} }
	got, err := printed(t, coloured(), "", `{"a":"x"}`)
	if want := "{\n  \x1b[34m\"a\"\x1b[0m: \x1b[32m\"x\"\x1b[0m\n}\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	// Nothing that a server says reaches the terminal as a command to it.
	for _, flags := range []string{"", "--output table", "--jq .a", "--template {{.a}}"} {
		got, err := printed(t, &terminal.Screen{Width: 80}, flags, `{"a":"\u001b[2J\u009b"}`)
		if err != nil || strings.ContainsAny(got, "\x1b\u009b") {
			t.Errorf("%s: got %q, %v", flags, got, err)
		}
	}
}

// A table is as wide as it must be, if the terminal has the room, and otherwise as wide as
// that is.
func TestTableOnATerminal(t *testing.T) {
	privately(t)
	long := strings.Repeat("x", 70)
	for width, want := range map[int]string{
		120: "a  " + long + "\n",
		80:  "a  " + long + "\n",
		40:  "a  " + strings.Repeat("x", 36) + "…\n",
	} {
		got, err := printed(t, &terminal.Screen{Width: width}, "--output table", `{"a":"`+long+`"}`)
		if err != nil || got != want {
			t.Errorf("%d: got %q, %v", width, got, err)
		}
	}
	got, err := printed(t, &terminal.Screen{Width: 80}, "--output table", `{"`+long+`":"`+long+`"}`)
	if want := strings.Repeat("x", 59) + "…  " + strings.Repeat("x", 19) + "…\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	// What is said about a list is said beside it.
	s := new(terminal.Screen)
	got, err = printed(t, s, "--output table", `{"keys":["x"],"cursor":"d8"}`)
	if notes := fmt.Sprint(s.Err); err != nil || got != "x\n" || notes != "kernos: cursor: d8\n" {
		t.Errorf("got %q, %q, %v", got, notes, err)
	}
}
