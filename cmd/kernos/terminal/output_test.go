package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"kernos/client"
	"kernos/cmd/kernos/settings"
)

// printed returns how a value is shown with these options.
func printed(t *testing.T, s *Screen, o Output, data string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	s.Out, s.Err = &out, new(bytes.Buffer)
	p, err := NewPrinter(s, o)
	if err != nil {
		return "", err
	}
	err = p.Print(t.Context(), &client.Item{Type: client.Data, ContentType: "test.output", Data: json.RawMessage(data)})
	return out.String(), err
}

// A filter that goes on for ever ends with the command.
func TestAnEndlessFilterIsInterrupted(t *testing.T) {
	p, err := NewPrinter(&Screen{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}, Output{Filter: "last(repeat(1))"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Print(ctx, &client.Item{Type: client.Data, Data: json.RawMessage("1")}); err == nil {
		t.Error("it ended by itself")
	}
}

func TestOutputForms(t *testing.T) {
	const people = `{"people":[{"name":"Ada","born":1815},{"name":"Zoë","tall":true}],"more":false}`
	for _, test := range []struct {
		options    Output
		data, want string
	}{
		{Output{}, `{ "a": 1.50 }`, "{\"a\":1.50}\n"},
		{Output{}, `"text"`, "\"text\"\n"},
		{Output{Mode: "json"}, `{"a":[]}`, "{\n  \"a\": []\n}\n"},
		{Output{Mode: "raw"}, `"text"`, "text"},
		{Output{Mode: "raw"}, `{"a":1}`, "{\"a\":1}\n"},
		{Output{Mode: "raw", Filter: ".people[].name"}, people, "Ada\nZoë\n"},
		{Output{Mode: "pretty"}, `"a\nb"`, "a\nb\n"},
		{Output{Mode: "pretty"}, `{"a":[1,{"b":null}],"c":{},"d":[]}`, "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}\n"},
		{Output{Mode: "pretty"}, `12345678901234567890`, "12345678901234567890\n"},
		{Output{Mode: "table"}, people, "name  born  tall\nAda   1815\nZoë         true\n"},
		{Output{Mode: "table"}, `{"a":1,"bcd":"x"}`, "a    1\nbcd  x\n"},
		{Output{Mode: "table"}, `["x",2]`, "x\n2\n"},
		{Output{Mode: "table"}, `[]`, ""},
		{Output{Mode: "table"}, `7`, "7\n"},
		{Output{Mode: "table"}, `[{"a":1},2]`, "a\n1\n2\n"},
		{Output{Mode: "table"}, `{"keys":["x","y"]}`, "x\ny\n"},
		{Output{Mode: "table"}, `{"pid":7,"listening":["x"],"store":{"open":true}}`, "pid        7\nlistening  x\nstore      {\"open\":true}\n"},
		{Output{Mode: "table"}, `[{"at":1735000000000,"updated":1735000000000,"size":1735000000000,"createdAt":5}]`, "at             updated              size           createdAt\n1735000000000  " + time.UnixMilli(1735000000000).Local().Format(time.DateTime) + "  1735000000000  5\n"},
		{Output{Mode: "table"}, `[{"a":["x",2],"b":[[1]],"c":{"text":"` + strings.Repeat("y", 60) + `"}}]`, "a     b      c\nx, 2  [[1]]  {\"text\":\"" + strings.Repeat("y", 30) + "…\n"},
		{Output{Filter: ".people[].name"}, people, "Ada\nZoë\n"},
		{Output{Filter: ".people[0].born"}, people, "1815\n"},
		{Output{Filter: ".people[].name", Mode: "ndjson"}, people, "\"Ada\"\n\"Zoë\"\n"},
		{Output{Filter: ".n"}, `{"n":12345678901234567890}`, "12345678901234567890\n"},
		{Output{Filter: "empty"}, people, ""},
		{Output{Filter: "halt"}, people, ""},
		{Output{Template: "{{.more}}"}, people, "false\n"},
		{Output{Template: "{{json.people}}"}, people, "!"},
		{Output{Filter: ".people["}, people, "!"},
		{Output{Filter: ".people.name"}, people, "!"},
		{Output{Template: "{{.more"}, people, "!"},
	} {
		got, err := printed(t, new(Screen), test.options, test.data)
		if test.want == "!" {
			if err == nil {
				t.Errorf("%v %s: got %q", test.options, test.data, got)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%v %s: got %q, %v; want %q", test.options, test.data, got, err, test.want)
		}
	}
}

func TestOutputOnATerminal(t *testing.T) {
	coloured := func() *Screen { return &Screen{Width: 80, Colour: true} }
	got, err := printed(t, coloured(), Output{}, `{"a":"x"}`)
	if want := "{\n  \x1b[34m\"a\"\x1b[0m: \x1b[32m\"x\"\x1b[0m\n}\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	// Nothing that a server says reaches the terminal as a command to it.
	for _, options := range []Output{{}, {Mode: "table"}, {Filter: ".a"}, {Template: "{{.a}}"}} {
		got, err := printed(t, &Screen{Width: 80}, options, `{"a":"\u001b[2J\u009b"}`)
		if err != nil || strings.ContainsAny(got, "\x1b\u009b") {
			t.Errorf("%v: got %q, %v", options, got, err)
		}
	}
}

// A table is as wide as it must be, if the terminal has the room, and otherwise as wide as
// that is.
func TestTableOnATerminal(t *testing.T) {
	long := strings.Repeat("x", 70)
	for width, want := range map[int]string{
		120: "a  " + long + "\n",
		80:  "a  " + long + "\n",
		40:  "a  " + strings.Repeat("x", 36) + "…\n",
	} {
		got, err := printed(t, &Screen{Width: width}, Output{Mode: "table"}, `{"a":"`+long+`"}`)
		if err != nil || got != want {
			t.Errorf("%d: got %q, %v", width, got, err)
		}
	}
	got, err := printed(t, &Screen{Width: 80}, Output{Mode: "table"}, `{"`+long+`":"`+long+`"}`)
	if want := strings.Repeat("x", 38) + "…  " + strings.Repeat("x", 38) + "…\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	wide := "{"
	for i := range 30 {
		wide += fmt.Sprintf(`"column%d":"%s",`, i, long)
	}
	got, err = printed(t, &Screen{Width: 80}, Output{Mode: "table"}, "["+strings.TrimSuffix(wide, ",")+"}]")
	for line := range strings.Lines(got) {
		if Columns(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("too wide, %v: %q", err, line)
		}
	}
	// What is said about a list is said beside it.
	s := new(Screen)
	got, err = printed(t, s, Output{Mode: "table"}, `{"keys":["x"],"cursor":"d8"}`)
	if notes := fmt.Sprint(s.Err); err != nil || got != "x\n" || notes != "kernos: cursor: d8\n" {
		t.Errorf("got %q, %q, %v", got, notes, err)
	}
}

func TestInvalidFlagsAreNamedOnce(t *testing.T) {
	for args, want := range map[string]string{
		"-o xml":         `--output can be table, json; got "xml"`,
		"--json=maybe":   `--json takes no value, got "maybe"`,
		"-otable --json": "the output can't be both table and json: give one of them",
	} {
		var o Output
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(set, "table", "json")
		invalid, ok := errors.AsType[*pflag.InvalidValueError](set.Parse(strings.Fields(args)))
		if !ok {
			t.Errorf("%s: no error", args)
			continue
		}
		if err := settings.InvalidFlag("--"+invalid.GetFlag().Name, invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()); err.Error() != want {
			t.Errorf("%s: %v", args, err)
		}
	}
}
