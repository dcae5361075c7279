package jsonvalue_test

import (
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
)

func TestAnObjectKeepsTheOrderOfItsMembers(t *testing.T) {
	o := jsonvalue.Members(json.RawMessage(`{"b":1.50,"a":{"x":[ ]},"c":"d"}`)).Set("a", json.RawMessage(`2`)).Set("e", json.RawMessage(`null`)).Without("c")
	if got := string(o.Text()); got != `{"b":1.50,"a":2,"e":null}` {
		t.Errorf("got %s", got)
	}
	var n float64
	if !o.Read("b", &n) || n != 1.5 || o.Read("c", &n) || o.Has("c") || !o.Has("e") {
		t.Errorf("got %v of %s", n, o.Text())
	}
	for _, text := range []string{``, `[]`, `1`, `{`, `{"a"}`, `{"a":}`} {
		if jsonvalue.Members(json.RawMessage(text)) != nil {
			t.Errorf("%s is taken for an object", text)
		}
	}
	if o := jsonvalue.Members(json.RawMessage(`{}`)); o == nil || string(o.Text()) != `{}` {
		t.Errorf("the empty object is %v", o)
	}
}

func TestKindsOfValues(t *testing.T) {
	for text, want := range map[string]string{
		``: "", ` `: "", `x`: "", ` {"a":1}`: "object", `[]`: "array", `"x"`: "string", `true`: "boolean", `null`: "null", `-1e3`: "number",
	} {
		if got := jsonvalue.Kind(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for value, want := range map[string]string{`"a\"b"`: `a"b`, `1.50`: `1.50`, `{"a":1}`: `{"a":1}`} {
		if got := jsonvalue.Plain(json.RawMessage(value)); got != want {
			t.Errorf("%s is written %s, want %s", value, got, want)
		}
	}
	if !jsonvalue.Same(json.RawMessage(`{"a":1,"b":2}`), json.RawMessage(`{"b":2, "a":1}`)) || jsonvalue.Same(json.RawMessage(`1`), json.RawMessage(`1.0`)) || jsonvalue.Same(json.RawMessage(`x`), json.RawMessage(`x`)) {
		t.Error("values are compared wrongly")
	}
}

func TestMarshalTakesAnyTextAndCheckedJSON(t *testing.T) {
	got := string(jsonvalue.Marshal(struct {
		Text  string         `json:"text"`
		Value jsontext.Value `json:"value"`
	}{"a\xffb", jsontext.Value(`{"a": "\u0062\ud800", "a": 1}`)}))
	if want := "{\"text\":\"a\uFFFDb\",\"value\":{\"a\":\"\\u0062\\ud800\",\"a\":1}}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
