package message_test

import (
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// idFields are the members of metadata that name something, and how to read each.
var idFields = map[string]func(*message.Metadata) string{
	"id":             func(m *message.Metadata) string { return string(m.ID) },
	"correlation":    func(m *message.Metadata) string { return m.Correlation },
	"causation":      func(m *message.Metadata) string { return string(m.Causation) },
	"idempotencyKey": func(m *message.Metadata) string { return m.IdempotencyKey },
}

func withField(field, value string) string {
	if field == "id" {
		return line(`"query"`, `"Ping"`, `1`, fmt.Sprintf(`{"id":%s,"timestamp":5}`, value))
	}
	return line(`"query"`, `"Ping"`, `1`, fmt.Sprintf(`{"id":"q1","timestamp":5,"%s":%s}`, field, value))
}

func TestEveryNameInMetadataMayBeAnyShortText(t *testing.T) {
	for field, read := range idFields {
		for _, value := range []string{
			"a", " ", "msg-1", "~", `"`, `\`, "é", "日本", "😀", "\u00A0", "\uFFFD", "\u2028",
			strings.Repeat("x", 256), strings.Repeat("é", 128), strings.Repeat("😀", 64), strings.Repeat(`"`, 256),
		} {
			token := fmt.Sprintf("%q", value)
			if strings.Contains(token, `\U`) || strings.Contains(token, `\u`) {
				token = `"` + value + `"`
			}
			m, err := message.Decode([]byte(withField(field, token)))
			if err != nil {
				t.Errorf("%s = %.20q: %v", field, value, err)
			} else if got := read(&m.Metadata); got != value {
				t.Errorf("%s = %.20q was read as %.20q", field, value, got)
			}
		}
		// The length counts when it has been unescaped.
		m, err := message.Decode([]byte(withField(field, `"`+strings.Repeat(`\u0061`, 256)+`"`)))
		if err != nil || read(&m.Metadata) != strings.Repeat("a", 256) {
			t.Errorf("%s of 256 escapes: %v", field, err)
		}
	}
}

func TestEveryNameInMetadataIsCheckedAlike(t *testing.T) {
	for field := range idFields {
		full := "metadata." + field
		for _, test := range []struct{ token, want string }{
			{`""`, full + " must not be empty"},
			{`7`, full + " must be a string, got the number 7"},
			{`true`, full + " must be a string, got true"},
			{`{}`, full + " must be a string, got an object"},
			{`["a"]`, full + " must be a string, got an array"},
			{`"` + strings.Repeat("x", 257) + `"`, full + " must have at most 256 bytes, got 257"},
			{`"` + strings.Repeat("é", 129) + `"`, full + " must have at most 256 bytes, got 258"},
			{`"` + strings.Repeat(`\u0061`, 257) + `"`, full + " must have at most 256 bytes, got 257"},
			{`"a\nb"`, full + " must not contain control characters (it has U+000A)"},
			{`"\u0000"`, full + " must not contain control characters (it has U+0000)"},
			{`"\u001b[31m"`, full + " must not contain control characters (it has U+001B)"},
			{"\"a\x7F\"", full + " must not contain control characters (it has U+007F)"},
			{"\"\u0080\"", full + " must not contain control characters (it has U+0080)"},
			{`"\u009f"`, full + " must not contain control characters (it has U+009F)"},
		} {
			r := rejection(t, new(message.Decoder), withField(field, test.token))
			if r.Err.Code != 422 || r.Err.Message != "Schema validation failed: "+test.want || r.Err.Field != full {
				t.Errorf("%s = %.20s\n got %+v\nwant %s", field, test.token, r.Err, test.want)
			}
		}
	}
}

func TestTimestampIsAWholeNumberThatIsNotNegative(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1735000000000": 1735000000000, "9007199254740991": 9007199254740991, "9223372036854775799": 9223372036854775799,
	} {
		m, err := message.Decode([]byte(line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":`+text+`}`)))
		if err != nil || m.Metadata.Timestamp != want {
			t.Errorf("%s: got %d, %v", text, m.Metadata.Timestamp, err)
		}
	}
	for text, got := range map[string]string{
		"-1": "the number -1", "-0": "the number -0", "1.5": "the number 1.5", "1.0": "the number 1.0", "1e3": "the number 1e3",
		"9223372036854775808": "the number 9223372036854775808", "99999999999999999999": "the number 99999999999999999999",
		`"5"`: `the string "5"`, "null": "null", "true": "true", "[5]": "an array", "{}": "an object", `""`: "an empty string",
	} {
		r := rejection(t, new(message.Decoder), line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":`+text+`}`))
		want := "Schema validation failed: metadata.timestamp must be a non-negative 64-bit integer in plain digits, milliseconds since 1970; got " + got
		if r.Err.Code != 422 || r.Err.Message != want || r.Err.Field != "metadata.timestamp" {
			t.Errorf("%s\n got %+v\nwant %s", text, r.Err, want)
		}
	}
}

func TestUnknownMetadataIsRefusedWithAHint(t *testing.T) {
	const all = "it may have id, timestamp, correlation, causation, idempotencyKey, schemaVersion, traceparent, tracestate, and names that begin with x-"
	for name, hint := range map[string]string{
		"x": all, "ID": all, "": all, // an id is there
		"correlationId": "did you mean correlation?", "correlation_id": "did you mean correlation?",
		"causationId": "did you mean causation?", "causation_id": "did you mean causation?",
		"idempotency_key": "did you mean idempotencyKey?", "idempotencykey": "did you mean idempotencyKey?",
	} {
		r := rejection(t, new(message.Decoder), line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":1,"`+name+`":"v"}`))
		want := fmt.Sprintf("Schema validation failed: unknown field %q in metadata (%s)", name, hint)
		if r.Err.Code != 422 || r.Err.Message != want || r.Err.Field != "metadata."+name {
			t.Errorf("%q\n got %+v\nwant %s", name, r.Err, want)
		}
	}
}
