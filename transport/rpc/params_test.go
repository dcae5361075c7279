package rpc

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

func routeOf(t *testing.T, input string) *kernel.Route {
	t.Helper()
	parsed, err := schema.Parse(json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return &kernel.Route{Type: "Http.Fetch", Namespace: "http", Method: "fetch", Syscall: &kernel.Syscall{Definition: kernel.Definition{Input: parsed}}}
}

func TestParamsBecomeData(t *testing.T) {
	const two = `{"type":"object","properties":{"url":{"type":"string"},"count":{"type":"integer"}}}`
	const own = `{"type":"object","properties":{"url":{"type":"string"},"method":{"type":"string"}}}`
	const must = `{"type":"object","properties":{"method":{"enum":["fetch","push"]}},"required":["method"]}`
	for _, one := range []struct{ schema, params, want string }{
		{two, ``, `{}`},
		{two, `[]`, `{}`},
		{two, `[ ]`, `{}`},
		{two, `{"url":"a"}`, `{"url":"a"}`},
		{two, `[{"url":"a"}]`, `{"url":"a"}`},
		{two, `["a"]`, `{"url":"a"}`},
		{two, `["a" , 7]`, `{"url":"a","count":7}`},
		{two, `[{"url":"a"},7]`, `{"url":{"url":"a"},"count":7}`},
		{two, `["a",7,8]`, `2 fields`},
		{two, `{"method":"fetch","url":"a"}`, `{"url":"a"}`},
		{two, `{"url":"a","method":"other"}`, `{"url":"a","method":"other"}`},
		{own, `{"url":"a","method":"GET"}`, `{"url":"a","method":"GET"}`},
		{own, `{"url":"a","method_":"GET"}`, `{"url":"a","method":"GET"}`},
		{own, `{"method":"fetch","method_":"GET"}`, `{"method":"GET"}`},
		{own, `{"method":"other","method_":"GET"}`, `{"method":"other","method_":"GET"}`},
		{own, `[{"method":"fetch","url":"a"}]`, `{"url":"a"}`},
		{own, `{"method":"fetch","url":"a","method_":"fetch"}`, `{"url":"a","method":"fetch"}`},
		{must, `{"method":"fetch"}`, `{"method":"fetch"}`},
		{must, `{"method":"fetch","method_":"fetch"}`, `{"method":"fetch"}`},
		{`{}`, `[7]`, `7`},
		{`{}`, `[7,8]`, `0 fields`},
	} {
		got, err := dataOf(routeOf(t, one.schema), []byte(one.params))
		switch {
		case err != nil && !strings.Contains(err.Error(), one.want), err == nil && string(got) != one.want:
			t.Errorf("%s with %s: got %s, %v; want %s", one.params, one.schema, got, err, one.want)
		}
	}
}

// Guidance about input that does not fit has the description of the field.
func TestGuidanceOfAModule(t *testing.T) {
	c := dial(t, newService(t, nil))
	items := c.items(c.call("note_set", `[{"key":""}]`))
	if items[0].Action != "custom" || items[0].Message != "Where the note lies." {
		t.Errorf("got %+v", items[0])
	}
	if items[0].Suggested != "note.set" || string(items[0].Example) != `{"key":"key"}` { // the caller is shown what fits
		t.Errorf("got %+v", items[0])
	}
	items = c.items(c.call("note_set", `[{"kee":"a"}]`))
	if items[0].Action != "try_method" || items[0].Suggested != "note.set" || string(items[0].Example) != `{"key":"key"}` {
		t.Errorf("got %+v", items[0])
	}
	items = c.items(c.call("note_get_al", `[]`))
	if items[0].Suggested != "get_all" || strings.Join(items[0].Available, " ") != "get_all set" || items[0].Schema == nil {
		t.Errorf("got %+v", items[0])
	}
}

// Guidance is about what is wrong besides members under other names.
func TestGuidanceKnowsOtherNames(t *testing.T) {
	type input struct {
		Name string `json:"name" aliases:"type" jsonschema_description:"A name."`
	}
	start := kernel.Command(kernel.Definition{Type: "Test.Start", Summary: "Start."}, func(context.Context, input) (struct{}, error) { return struct{}{}, nil })
	guidance := string(Guide(&start.Definition, "test.start", []byte(`{"type":"a","tpyo":1}`), message.Errorf(422, "Schema validation failed")))
	if !strings.Contains(guidance, `"problems":[{"field":"tpyo"`) || strings.Contains(guidance, "missing") || strings.Contains(guidance, `"field":"type"`) {
		t.Error(guidance)
	}
}
