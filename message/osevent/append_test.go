package osevent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kernos/message"
	"kernos/message/osevent"
	"kernos/schema"
)

func TestAppendWritesTheOlderNames(t *testing.T) {
	metadata := message.Metadata{ID: "a", Timestamp: 1, Correlation: "w", Causation: "b"}
	for _, test := range []struct {
		kind message.Kind
		word string
	}{
		{message.KindCommand, "command"}, {message.KindQuery, "query"}, {message.KindEvent, "event"}, {message.KindReply, "response"},
	} {
		m := message.Message{Kind: test.kind, Type: "Memory.Get", Data: json.RawMessage(`{"code":404,"message":"just data"}`), Metadata: metadata}
		want := `x{"type":"` + test.word + `","name":"Memory.Get","payload":{"code":404,"message":"just data"},"metadata":{"id":"a","timestamp":1,"correlation":"w","causation":"b"}}`
		if got := string(osevent.Append([]byte("x"), &m)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestAppendWritesErrorsInTheOlderForm(t *testing.T) {
	cause := &message.Error{Code: 404, Message: "no \"key\"", Cause: &message.Error{Code: 599, Message: "é"}}
	for _, test := range []struct {
		name string
		e    message.Error
		want string
	}{
		{"400", message.Error{Code: 400, Message: "m"}, `{"message":"m","code":"INVALID_INPUT","details":{"status":400}}`},
		{"400 for what is not JSON", message.Error{Code: 400, Message: "Invalid JSON: m", Expected: "JSON", Reason: message.ErrNotJSON}, `{"message":"Invalid JSON: m","code":"INVALID_JSON","details":{"expected":"JSON"}}`},
		{"401", message.Error{Code: 401, Message: "m"}, `{"message":"m","code":"UNAUTHORIZED","details":{"status":401}}`},
		{"403", message.Error{Code: 403, Message: "m"}, `{"message":"m","code":"UNAUTHORIZED","details":{"status":403}}`},
		{"404", message.Error{Code: 404, Message: "m"}, `{"message":"m","code":"NOT_FOUND","details":{"status":404}}`},
		{"409", message.Error{Code: 409, Message: "m"}, `{"message":"m","code":"INVALID_INPUT","details":{"status":409}}`},
		{"413", message.Error{Code: 413, Message: "m"}, `{"message":"m","code":"LINE_TOO_LONG","details":{"status":413}}`},
		{"422 for the input of a handler", message.Error{Code: 422, Message: "m"}, `{"message":"m","code":"INVALID_INPUT","details":{"status":422}}`},
		{"422 for the envelope", message.Error{Code: 422, Message: "Missing required field: type", Field: "type", Expected: "string", Reason: message.ErrEnvelope},
			`{"message":"Missing required field: type","code":"SCHEMA_VIOLATION","details":{"field":"type","expected":"string"}}`},
		{"422 with a field", message.Error{Code: 422, Message: "m", Field: "key"}, `{"message":"m","code":"INVALID_INPUT","details":{"field":"key","status":422}}`},
		{"422 with what the schema has about each field", message.Error{Code: 422, Message: "m", Field: "key", Expected: "a value", Reason: &schema.Invalid{Problems: []schema.Problem{
			{Path: "key", Expected: "a value", Text: "missing required field: key", Schema: json.RawMessage(`{"type":"string"}`)}, {Path: "kee", Text: "unknown field: kee"},
		}}}, `{"message":"m","code":"INVALID_INPUT","details":{"field":"key","expected":"a value","status":422,"problems":[` +
			`{"field":"key","expected":"a value","problem":"missing required field: key","schema":{"type":"string"}},{"field":"kee","problem":"unknown field: kee"}]}}`},
		{"499", message.Error{Code: 499, Message: "m"}, `{"message":"m","code":"INVALID_INPUT","details":{"status":499}}`},
		{"500", message.Error{Code: 500, Message: "m"}, `{"message":"m","code":"INTERNAL_ERROR","details":{"status":500}}`},
		{"504", message.Error{Code: 504, Message: "m"}, `{"message":"m","code":"INTERNAL_ERROR","details":{"status":504}}`},
		{"599", message.Error{Code: 599, Message: "m"}, `{"message":"m","code":"INTERNAL_ERROR","details":{"status":599}}`},
		{"causes", message.Error{Code: 500, Message: "m", Cause: cause},
			`{"message":"m","code":"INTERNAL_ERROR","details":{"status":500,"cause":{"code":404,"message":"no \"key\"","cause":{"code":599,"message":"é"}}}}`},
		{"a cause beside a field", message.Error{Code: 404, Message: "m", Field: "key", Cause: &message.Error{Code: 500, Message: "c"}},
			`{"message":"m","code":"NOT_FOUND","details":{"field":"key","cause":{"code":500,"message":"c"}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := message.Message{Type: "Memory.Get", Metadata: message.Metadata{ID: "b"}}
			m := request.Fail(&test.e)
			m.Metadata.ID = "a"
			data := string(m.Data)
			want := `{"type":"error","name":"Memory.Get","payload":` + test.want + `,"metadata":{"id":"a","timestamp":0,"causation":"b"}}`
			if got := string(osevent.Append(nil, &m)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if string(m.Data) != data {
				t.Error("the message itself was changed")
			}
		})
	}
}

// An error that came over a wire has its data only.
func TestAppendReadsTheDataOfErrorsThatWereNotMadeHere(t *testing.T) {
	for data, want := range map[string]string{
		`{"code":422,"message":"m"}`:                                   `{"message":"m","code":"SCHEMA_VIOLATION","details":{"status":422}}`,
		`{"code":404,"message":"m","cause":{"code":500,"message":""}}`: `{"message":"m","code":"NOT_FOUND","details":{"status":404,"cause":{"code":500,"message":""}}}`,
		`{"code":7,"message":"secret"}`:                                `{"message":"Internal error","code":"INTERNAL_ERROR","details":{"status":500}}`,
		`"oops"`:                                                       `{"message":"Internal error","code":"INTERNAL_ERROR","details":{"status":500}}`,
	} {
		m := message.Message{Kind: message.KindError, Type: "Ping", Data: json.RawMessage(data), Metadata: message.Metadata{ID: "a"}}
		full := `{"type":"error","name":"Ping","payload":` + want + `,"metadata":{"id":"a","timestamp":0}}`
		if got := string(osevent.Append(nil, &m)); got != full {
			t.Errorf("%s\n got %s\nwant %s", data, got, full)
		}
	}
}

func TestDialectHasTheRulesOfTheOlderEnvelope(t *testing.T) {
	d := message.Decoder{Dialect: osevent.Dialect}
	m, err := d.Decode([]byte(`{"type":"response","name":"Echo","payload":{"echo":"hello"},"metadata":{"id":"def456","timestamp":1735000001000,"causation":"abc123"}}`))
	if err != nil || m.Kind != message.KindReply || m.Type != message.Echo || string(m.Data) != `{"echo":"hello"}` || m.Metadata.Causation != "abc123" {
		t.Errorf("got %+v, %v", m, err)
	}
	const rest = `"metadata":{"id":"a","timestamp":1}}`
	for line, want := range map[string]string{
		`{"name":"Ping","payload":1,` + rest:                         "Missing required field: type",
		`{"type":"query","payload":1,` + rest:                        "Missing required field: name",
		`{"type":"query","name":"Ping",` + rest:                      "Missing required field: payload",
		`{"type":"reply","name":"Ping","payload":1,` + rest:          `Schema validation failed: type must be one of command, query, event, response, error; got the string "reply" (did you mean response?)`,
		`{"type":"response","name":"Ping","payload":1,` + rest:       "Schema validation failed: a response must have metadata.causation, the id of what it answers",
		`{"type":"query","name":"Ping","payload":1,"kind":1,` + rest: `Schema validation failed: unknown field "kind" (a message has type, name, payload and metadata)`,
	} {
		if _, err := d.Decode([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", line, err, want)
		}
	}
	// The payload of an error is free.
	for _, payload := range []string{`"oops"`, `null`, `{"message":"m","code":"X","stack":"…"}`, `{"code":404}`} {
		if _, err := d.Decode([]byte(`{"type":"error","name":"Ping","payload":` + payload + `,` + rest)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestTheMembersOfALineShowItsDialect(t *testing.T) {
	for line, want := range map[string]bool{
		`{"type":"command","name":"Echo","payload":{},"metadata":{"id":"a","timestamp":1}}`: true,
		`{"name":"Echo"`: true,
		`{"payload":1}`:  true,
		`{"type":"command","name":"Echo","payload":nope`: true,
		`{"kind":"query","type":"Ping","data":1}`:        false,
		`{"kind":"query","name":"Ping"}`:                 false,
		`{"name":"Ping","data":1}`:                       false,
		`{"type":"Ping"}`:                                false,
		`{"metadata":{"name":"x","payload":1}}`:          false,
		`{"x":"name","y":["payload"]}`:                   false,
		`{}`:                                             false,
		``:                                               false,
		`"name"`:                                         false,
	} {
		if got := osevent.NewEither(false, nil).Hear(message.SalvageLine([]byte(line))); (got == osevent.Dialect) != want {
			t.Errorf("%s is of version %s", line, got.Version)
		}
	}
}

// An error is the answer of last resort in this dialect as well.
func TestErrorsFitIntoALineOfTheDialect(t *testing.T) {
	request := message.Message{Type: "Ping", Metadata: message.Metadata{ID: "b"}}
	long := strings.Repeat(`"`, osevent.Dialect.MaxLine)
	for name, e := range map[string]*message.Error{
		"a long text":  {Code: 422, Message: long},
		"a long cause": {Code: 422, Message: "m", Cause: &message.Error{Code: 500, Message: long}},
		"a long field": {Code: 422, Message: "m", Field: long},
	} {
		m := request.Fail(e)
		if n := len(osevent.Append(nil, &m)); n > osevent.Dialect.MaxLine {
			t.Errorf("%s makes a line of %d bytes", name, n)
		}
	}
}
