package message_test

import (
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"a=1,b=2"`

func extended(members string) string {
	return line(`"command"`, `"Echo"`, `{}`, `{"id":"q1",`+members+`,"timestamp":5,"correlation":"w"}`)
}

// Members that begin with x- and the trace of a message are in its answers, and the trace is in what it causes.
func TestExtensionsOfMetadataAreKept(t *testing.T) {
	for members, want := range map[string]string{
		`"x-tenant":"acme"`: `"x-tenant":"acme"`,
		`"\u0078-a" : { "b" : [1, null] }, "x-c":null,` + trace: `"x-a":{"b":[1,null]},"x-c":null,` + trace,
		`"traceparent":null,"x-a":1`:                            `"x-a":1`,
	} {
		m, err := message.Decode([]byte(extended(members)))
		if err != nil || m.Metadata.Extra != want {
			t.Errorf("%s: %q, %v", members, m.Metadata.Extra, err)
			continue
		}
		if again, err := message.Decode(message.Append(nil, &m)); err != nil || again.Metadata != m.Metadata {
			t.Errorf("written: %+v, %v", again.Metadata, err)
		}
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
		for _, answer := range []message.Message{m.Reply([]byte("1")), m.Fail(&message.Error{Code: 404})} {
			if answer.Metadata.Extra != want {
				t.Errorf("the answer has %q", answer.Metadata.Extra)
			}
		}
		passed := ""
		if strings.Contains(members, trace) {
			passed = trace
		}
		if got := m.Caused().Extra; got != passed {
			t.Errorf("what it causes has %q", got)
		}
	}
	m, _ := message.Decode([]byte(extended(trace)))
	if m.Metadata.Extension(message.Tracestate) != "a=1,b=2" || m.Metadata.Extension("x-a") != "" {
		t.Errorf("got %+v", m.Metadata)
	}
}

func TestExtensionsOfMetadataHaveLimits(t *testing.T) {
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`"x-%d":1`, i))
	}
	for members, want := range map[string]string{
		`"x-a":"` + strings.Repeat("a", 1024) + `"`: "of 1024 bytes together; got 1032 bytes",
		strings.Join(many, ","):                     "at most 16 members",
		`"X-a":1`:                                   `unknown field "X-a" in metadata`,
		`"x-":1`:                                    `unknown field "x-" in metadata`,
		`"traceparent":7`:                           "metadata.traceparent must be a string, got the number 7",
		`"tracestate":"a\u0000"`:                    "must not contain control characters",
		`"traceparent":"` + strings.Repeat("a", 513) + `"`: "must have at most 512 bytes, got 513",
	} {
		if r := rejection(t, new(message.Decoder), extended(members)); r.Err.Code != 422 || !strings.Contains(r.Err.Message, want) {
			t.Errorf("%.40s: %s", members, r.Err.Message)
		}
	}
	for _, twice := range []string{`"x-a":1,"x-a":2`, `"x-a":1,"\u0078-a":2`, strings.Join(many, ",") + `,"x-16":1`} {
		if r := rejection(t, new(message.Decoder), extended(twice)); r.Err.Code != 400 {
			t.Errorf("%s: %s", twice, r.Err.Message)
		}
	}
}

// An optional member may be null, which means that it is absent; what is required may not.
func TestOptionalMembersOfMetadataMayBeNull(t *testing.T) {
	all := line(`"command"`, `"Echo"`, `{}`, `{"id":"q1","timestamp":5,"correlation":null,"causation":null,"idempotencyKey":null,"schemaVersion":null,"repeated":null,"tracestate":null}`)
	if m, err := message.Decode([]byte(all)); err != nil || m.Metadata != (message.Metadata{ID: "q1", Timestamp: 5}) {
		t.Errorf("got %+v, %v", m.Metadata, err)
	}
	for _, field := range []string{"id", "timestamp"} {
		metadata := strings.Replace(`{"id":"q1","timestamp":5}`, map[string]string{"id": `"q1"`, "timestamp": "5"}[field], "null", 1)
		text := line(`"command"`, `"Echo"`, `{}`, metadata)
		if r := rejection(t, new(message.Decoder), text); r.Err.Field != "metadata."+field {
			t.Errorf("%s: %s", metadata, r.Err.Message)
		}
		if _, err := (&message.Decoder{Lenient: true}).Decode([]byte(text)); err != nil {
			t.Errorf("lenient: %s: %v", metadata, err)
		}
	}
	if _, err := (&message.Decoder{Lenient: true}).Decode([]byte(line(`"command"`, `"Echo"`, `{}`, `null`))); err != nil {
		t.Errorf("lenient: %v", err)
	}
}
