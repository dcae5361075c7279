package message_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"kernos/message"
)

// line writes a line from the texts of its members.
func line(kind, typ, data, metadata string) string {
	return fmt.Sprintf(`{"kind":%s,"type":%s,"data":%s,"metadata":%s}`, kind, typ, data, metadata)
}

// meta is metadata that breaks no rule.
const meta = `{"id":"q1","timestamp":5}`

// rejection decodes a line that must not be accepted.
func rejection(t *testing.T, d *message.Decoder, line string) *message.Rejection {
	t.Helper()
	m, err := d.Decode([]byte(line))
	var r *message.Rejection
	if !errors.As(err, &r) {
		t.Fatalf("%s\ngives %+v, %v; want a *Rejection", line, m, err)
	}
	if m.Kind != "" || m.Type != "" || m.Data != nil || m.Metadata != (message.Metadata{}) {
		t.Errorf("%s\nis rejected, but half of it came back: %+v", line, m)
	}
	if string(r.Line) != line {
		t.Errorf("the rejection has the line %q, want %q", r.Line, line)
	}
	if r.Error() != r.Err.Message {
		t.Errorf("the rejection says %q, its error %q", r.Error(), r.Err.Message)
	}
	return r
}

func TestDecodeReadsEveryMember(t *testing.T) {
	got, err := message.Decode([]byte(` { "metadata" : { "schemaVersion":"0.3", "idempotencyKey":"k", "causation":"p",
		"correlation":"w", "timestamp":1735000000000, "id":"q1" } , "data" : { "a" : [ 1 ] } , "type" : "Memory.Set" , "kind" : "command" } `))
	if err != nil {
		t.Fatal(err)
	}
	want := message.Metadata{ID: "q1", Timestamp: 1735000000000, Correlation: "w", Causation: "p", IdempotencyKey: "k", SchemaVersion: "0.3"}
	if got.Kind != message.KindCommand || got.Type != "Memory.Set" || string(got.Data) != `{ "a" : [ 1 ] }` || got.Metadata != want || got.Err != nil {
		t.Errorf("got %+v", got)
	}
}

func TestDecodeAcceptsEachKind(t *testing.T) {
	for kind, data := range map[message.Kind]string{
		message.KindCommand: `{}`, message.KindQuery: `null`, message.KindEvent: `0`, message.KindReply: `"x"`,
		message.KindError: `{"code":404,"message":"m"}`,
	} {
		got, err := message.Decode([]byte(line(`"`+string(kind)+`"`, `"Memory.Get"`, data, `{"id":"a","timestamp":0,"causation":"b"}`)))
		if err != nil || got.Kind != kind {
			t.Errorf("%s: got %+v, %v", kind, got, err)
		}
	}
}

func TestDecodeReadsNamesAndValuesThatAreWrittenWithEscapes(t *testing.T) {
	got, err := message.Decode([]byte(`{"k\u0069nd":"quer\u0079","t\u0079pe":"\u0050ing","d\u0061ta":"\u0061","met\u0061data":{"\u0069d":"\u00e9\/","timest\u0061mp":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != message.KindQuery || got.Type != message.Ping || got.Metadata.ID != "é/" || got.Metadata.Timestamp != 1 {
		t.Errorf("got %+v", got)
	}
	if string(got.Data) != `"\u0061"` {
		t.Errorf("data is %s, want it just as it was written", got.Data)
	}
}

// The integrity of a Ping rests on data being kept as it was written.
func TestDecodeKeepsDataAsWritten(t *testing.T) {
	for _, data := range []string{
		`null`, `""`, `0`, `-0`, `false`, `[]`, `{}`, `1.0`, `1e400`, `123456789012345678901234567890`, `0.10`,
		`"\u00e9\/é"`, `[ null , {"" : [ ] } ]`, strings.Repeat("[", 999) + strings.Repeat("]", 999),
	} {
		got, err := message.Decode([]byte(line(`"query"`, `"Ping"`, " "+data+" ", meta)))
		if err != nil {
			t.Errorf("%.40s: %v", data, err)
		} else if string(got.Data) != data {
			t.Errorf("got %s, want %s", got.Data, data)
		}
	}
}

func TestDecodeSaysWhatIsMissing(t *testing.T) {
	for _, test := range []struct{ line, want, field, expected string }{
		{`{}`, "Missing required fields: kind, type, data, metadata", "kind", "string"},
		{`{"type":"Ping","data":1,"metadata":` + meta + `}`, "Missing required field: kind", "kind", "string"},
		{`{"kind":"query","data":1,"metadata":` + meta + `}`, "Missing required field: type", "type", "string"},
		{`{"kind":"query","type":"Ping","metadata":` + meta + `}`, "Missing required field: data", "data", "any JSON value"},
		{`{"kind":"query","type":"Ping","data":1}`, "Missing required field: metadata", "metadata", "object"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":{}}`, "Missing required fields: metadata.id, metadata.timestamp", "metadata.id", "string"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":{"timestamp":1}}`, "Missing required field: metadata.id", "metadata.id", "string"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":{"id":"a"}}`, "Missing required field: metadata.timestamp", "metadata.timestamp", "non-negative integer"},
		{`{"kind":"query","type":"Ping","metadata":{}}`, "Missing required fields: data, metadata.id, metadata.timestamp", "data", "any JSON value"},
		// What is missing goes before what is there and wrong.
		{`{"kind":"ask","type":"ping","metadata":` + meta + `}`, `Missing required field: data; kind must be one of command, query, event, reply, error; got the string "ask"; type must be Domain.Action in PascalCase, such as Memory.Get, of at most 128 letters and digits (or Echo or Ping); got the string "ping" (did you mean Ping?)`, "data", "any JSON value"},
		{`{"Kind":"query","type":"Ping","data":1,"metadata":` + meta + `}`, `Missing required field: kind; unknown field "Kind" (did you mean kind?)`, "kind", "string"},
		// So does what is called otherwise, in version 0.1 for instance.
		{`{"kind":"query","name":"Ping","payload":1,"metadata":` + meta + `}`, `Missing required fields: type, data; unknown field "name" (did you mean type?); unknown field "payload" (did you mean data?)`, "type", "string"},
		{`{"type":"query","name":"Ping","data":1,"metadata":` + meta + `}`, `Missing required field: kind; type has a kind as its value (did you mean kind?); unknown field "name" (did you mean type?)`, "kind", "string"},
		{`{"kind":"query","type":"Ping","data":1,"id":"a","metadata":{"ID":"a","timestamp":1}}`, `Missing required field: metadata.id; unknown field "id" (did you mean metadata.id?); unknown field "ID" in metadata (did you mean id?)`, "metadata.id", "string"},
	} {
		r := rejection(t, new(message.Decoder), test.line)
		if r.Err.Code != 422 || r.Err.Message != test.want || r.Err.Field != test.field || r.Err.Expected != test.expected || !errors.Is(&r.Err, message.ErrEnvelope) {
			t.Errorf("%s\n got %+v\nwant %s (%s: %s)", test.line, r.Err, test.want, test.field, test.expected)
		}
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	const q, ping = `"query"`, `"Ping"`
	for _, test := range []struct{ line, want, field string }{
		{`[]`, "a message is a JSON object, got an array", ""},
		{`"query"`, `a message is a JSON object, got a string`, ""},
		{`null`, "a message is a JSON object, got null", ""},
		{` 12`, "a message is a JSON object, got a number", ""},

		{line(`"Query"`, ping, `1`, meta), `kind must be one of command, query, event, reply, error; got the string "Query" (did you mean query?)`, "kind"},
		{line(`"querry"`, ping, `1`, meta), `kind must be one of command, query, event, reply, error; got the string "querry" (did you mean query?)`, "kind"},
		{line(`""`, ping, `1`, meta), `kind must be one of command, query, event, reply, error; got an empty string`, "kind"},
		{line(`"response"`, ping, `1`, meta), `kind must be one of command, query, event, reply, error; got the string "response" (did you mean reply?)`, "kind"},
		{line(`null`, ping, `1`, meta), `kind must be one of command, query, event, reply, error; got null`, "kind"},
		{line(`["query"]`, ping, `1`, meta), `kind must be one of command, query, event, reply, error; got an array`, "kind"},

		{line(q, `{}`, `1`, meta), "type must be a string such as Memory.Get, got an object", "type"},
		{line(q, `null`, `1`, meta), "type must be a string such as Memory.Get, got null", "type"},
		{line(q, `"memory.get"`, `1`, meta), `type must be Domain.Action in PascalCase, such as Memory.Get, of at most 128 letters and digits (or Echo or Ping); got the string "memory.get" (did you mean Memory.Get?)`, "type"},
		{line(q, `"Pong"`, `1`, meta), `type must be Domain.Action in PascalCase, such as Memory.Get, of at most 128 letters and digits (or Echo or Ping); got the string "Pong"`, "type"},
		{line(q, `""`, `1`, meta), `type must be Domain.Action in PascalCase, such as Memory.Get, of at most 128 letters and digits (or Echo or Ping); got an empty string`, "type"},

		{line(q, ping, `1`, `null`), "metadata must be an object with id and timestamp, got null", "metadata"},
		{line(q, ping, `1`, `[]`), "metadata must be an object with id and timestamp, got an array", "metadata"},
		{line(q, ping, `1`, `"x"`), `metadata must be an object with id and timestamp, got a string`, "metadata"},

		{`{"kind":"query","type":"Ping","data":1,"metadata":` + meta + `,"extra":1}`, `unknown field "extra" (a message has kind, type, data and metadata)`, "extra"},
		{`{"":0,"kind":"query","type":"Ping","data":1,"metadata":` + meta + `}`, `unknown field "" (a message has kind, type, data and metadata)`, ""},
		{`{"kind":"query","type":"Ping","data":1,"metadata":` + meta + `,"` + strings.Repeat("é", 40) + `":1}`,
			`unknown field "` + strings.Repeat("é", 30) + `…" (a message has kind, type, data and metadata)`, strings.Repeat("é", 40)},

		{line(`"reply"`, ping, `1`, meta), "a reply must have metadata.causation, the id of what it answers", "metadata.causation"},
		{line(`"reply"`, ping, `1`, `{"id":"a","timestamp":1,"causation":null}`), "a reply must have metadata.causation, the id of what it answers", "metadata.causation"},
		{line(`"error"`, ping, `"oops"`, meta), "data of an error must be an object with code and message", "data"},
		{line(`"error"`, ping, `{"code":404}`, meta), "data.message is missing", "data"},
		{line(`"error"`, ping, `{"code":200,"message":"m"}`, meta), "data.code must be an HTTP status from 400 to 599, got 200", "data"},

		// All of them, in the order of the line; the field is that of the first.
		{line(`"ask"`, `"ping"`, `1`, `[]`), `kind must be one of command, query, event, reply, error; got the string "ask"; ` +
			`type must be Domain.Action in PascalCase, such as Memory.Get, of at most 128 letters and digits (or Echo or Ping); got the string "ping" (did you mean Ping?); ` +
			`metadata must be an object with id and timestamp, got an array`, "kind"},
		{line(q, ping, `1`, `{"id":"","timestamp":-1,"traceId":1}`), `metadata.id must not be empty; ` +
			`metadata.timestamp must be a non-negative 64-bit integer in plain digits, milliseconds since 1970; got the number -1; ` +
			`unknown field "traceId" in metadata (it may have id, timestamp, correlation, causation, idempotencyKey, schemaVersion, traceparent, tracestate, and names that begin with x-)`, "metadata.id"},
	} {
		r := rejection(t, new(message.Decoder), test.line)
		if r.Err.Code != 422 || r.Err.Message != "Schema validation failed: "+test.want || r.Err.Field != test.field || r.Err.Expected == "" || !errors.Is(&r.Err, message.ErrEnvelope) {
			t.Errorf("%s\n got %+v\nwant %s (%s)", test.line, r.Err, test.want, test.field)
		}
	}
}

func TestDecodeCallsWhatIsNotJSONInvalidJSON(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{``, "the text ends, expected a value at position 0"},
		{`{`, "the text ends, expected a member name in double quotes at position 1"},
		{`{"kind":"query"`, "the text ends, expected ',' or '}' after a member at position 15"},
		{`{"kind" "query"}`, "expected ':' after a member name, got '\"' at position 8"},
		{`{"kind":"query",}`, "expected a member name in double quotes, got '}' at position 16"},
		{`{"kind":}`, "expected a value, got '}' at position 8"},
		{`{"metadata":}`, "expected a value, got '}' at position 12"},
		{`{"metadata":{"id":1,}}`, "expected a member name in double quotes, got '}' at position 20"},
		{`{"metadata":{"id":`, "the text ends, expected a value at position 18"},
		{`{"metadata":{"id":1;}}`, "expected ',' or '}' after a member, got ';' at position 19"},
		{line(`"query"`, `"Ping"`, `1`, meta) + `x`, "expected nothing after the message, got 'x' at position 76"},
		{line(`"query"`, `"Ping"`, `1`, meta) + line(`"query"`, `"Ping"`, `1`, meta), "expected nothing after the message, got '{' at position 76"},
		{"\xEF\xBB\xBF{}", "expected a value, got a byte-order mark at position 0"},
		// Also where the line breaks other rules as well, before or behind.
		{`{"kind":7,"type":"x","data":nope}`, "expected a value, got the word nope at position 28"},
		{`{"kind":"query","kind":"query"}`, `repeated member name "kind" at position 16`},
		{`{"kind":"query","k\u0069nd":"query"}`, `repeated member name "kind" at position 16`},
		{`{"x":1,"\u0078":1}`, `repeated member name "x" at position 7`},
		{`{"data":{"a":1,"a":1}}`, `repeated member name "a" at position 15`},
		{`{"metadata":{"id":1,"\u0069d":1}}`, `repeated member name "id" at position 20`},
		{`{"metadata":{"x":1,"x":1}}`, `repeated member name "x" at position 19`},
		{`{"data":"\ud800"}`, `lone surrogate \ud800 at position 9`},
		{"{\"data\":\"\xFF\"}", `invalid UTF-8, the byte 0xFF at position 9`},
		{`{"data":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "nested deeper than 1000 levels at position 1007"},
		{`{"metadata":{"x":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}}`, "nested deeper than 1000 levels at position 1015"},
	} {
		r := rejection(t, new(message.Decoder), test.line)
		if want := "Invalid JSON: " + test.want; r.Err.Code != 400 || r.Err.Message != want || !errors.Is(&r.Err, message.ErrNotJSON) {
			t.Errorf("%.60s\n got %+v\nwant %s", test.line, r.Err, want)
		}
	}
}

// Unknown members are looked at in two ways, a few and many. In both a repetition is
// found, wherever it is and however it is written, and the line is not JSON then.
func TestRepeatedUnknownMembersAreFoundAtEveryPlace(t *testing.T) {
	var d message.Decoder
	for size := 2; size <= 24; size++ {
		for second := range size { // 0 for no repetition
			for first := range max(second, 1) {
				var members strings.Builder
				for i := range size {
					name := fmt.Sprintf("n%d", i)
					if i == second && second > 0 {
						name = fmt.Sprintf(`\u006e%d`, first)
					}
					fmt.Fprintf(&members, `,"%s":0`, name)
				}
				want := 422
				if second > 0 {
					want = 400
				}
				for _, text := range []string{
					`{"kind":"query","type":"Ping","data":1,"metadata":` + meta + members.String() + `}`,
					line(`"query"`, `"Ping"`, `1`, strings.TrimSuffix(meta, "}")+members.String()+"}"),
				} {
					if r := rejection(t, &d, text); r.Err.Code != want {
						t.Fatalf("of %d unknown members, number %d repeats number %d: got %d %s", size, second, first, r.Err.Code, r.Err.Message)
					}
				}
			}
		}
	}
}

func TestLenientDecoderDoesWithoutMetadata(t *testing.T) {
	for _, test := range []struct {
		metadata string // with its comma
		want     message.Metadata
	}{
		{``, message.Metadata{}},
		{`,"metadata":{}`, message.Metadata{}},
		{`,"metadata":{"id":"a"}`, message.Metadata{ID: "a"}},
		{`,"metadata":{"timestamp":7}`, message.Metadata{Timestamp: 7}},
		{`,"metadata":{"correlation":"w"}`, message.Metadata{Correlation: "w"}},
	} {
		text := `{"kind":"query","type":"Ping","data":1` + test.metadata + `}`
		d := message.Decoder{Lenient: true}
		got, err := d.Decode([]byte(text))
		if err != nil || got.Metadata != test.want || got.Type != message.Ping || string(got.Data) != "1" {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if _, err := message.Decode([]byte(text)); err == nil {
			t.Errorf("%s is accepted by a decoder that is not lenient", text)
		}
	}
}

// Lenient is for what callers leave out, not for what they get wrong.
func TestLenientDecoderIsStrictAboutTheRest(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{`{"kind":"query","type":"Ping"}`, "Missing required field: data"},
		{`{"type":"Ping","data":1}`, "Missing required field: kind"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":[]}`, "Schema validation failed: metadata must be an object with id and timestamp, got an array"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":{"id":""}}`, "Schema validation failed: metadata.id must not be empty"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":{"id":7}}`, "Schema validation failed: metadata.id must be a string, got the number 7"},
		{`{"kind":"query","type":"Ping","data":1,"metadata":{"timestamp":-1}}`, "Schema validation failed: metadata.timestamp must be a non-negative 64-bit integer in plain digits, milliseconds since 1970; got the number -1"},
		{`{"kind":"query","type":"Ping","data":1,"x":1}`, `Schema validation failed: unknown field "x" (a message has kind, type, data and metadata)`},
		{`{"kind":"reply","type":"Ping","data":1}`, "Schema validation failed: a reply must have metadata.causation, the id of what it answers"},
	} {
		r := rejection(t, &message.Decoder{Lenient: true}, test.line)
		if r.Err.Message != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.line, r.Err.Message, test.want)
		}
	}
}

// A decoder remembers types. What it remembers must neither leak from one line to
// the next nor make it accept what it would not otherwise.
func TestDecoderReadsTypesAlikeWhateverItReadBefore(t *testing.T) {
	var d message.Decoder
	for round := range 3 {
		for i := range 600 { // more than a decoder remembers
			want := message.Type(fmt.Sprintf("Domain.Action%d", i))
			got, err := d.Decode([]byte(line(`"query"`, `"`+string(want)+`"`, `1`, meta)))
			if err != nil || got.Type != want {
				t.Fatalf("round %d: got %q, %v; want %q", round, got.Type, err, want)
			}
		}
		rejection(t, &d, line(`"query"`, `"domain.Action0"`, `1`, meta))
		rejection(t, &d, line(`"query"`, `""`, `1`, meta))
	}
}

// A sender may make up types without end; what is remembered of them may not grow so.
func TestDecoderRemembersAFewTypesOnly(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	d := new(message.Decoder)
	before := heap()
	for i := range 20_000 {
		if _, err := d.Decode([]byte(line(`"query"`, fmt.Sprintf(`"A.B%0100d"`, i), `1`, meta))); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("20,000 types are remembered in %d bytes", grown)
	}
	runtime.KeepAlive(d)
}

func TestDecodedTypeDoesNotAliasTheLine(t *testing.T) {
	var d message.Decoder
	for range 2 { // the second time from memory
		text := []byte(line(`"query"`, `"Memory.Get"`, `1`, `{"id":"abc","timestamp":1,"correlation":"def"}`))
		m, err := d.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		clear(text)
		if m.Type != "Memory.Get" || m.Metadata.ID != "abc" || m.Metadata.Correlation != "def" || m.Kind != message.KindQuery {
			t.Fatalf("after the line was overwritten the message is %+v", m)
		}
	}
}

func TestDataHasNoRoomToGrowIntoTheLine(t *testing.T) {
	text := []byte(line(`"query"`, `"Ping"`, `{}`, meta))
	m, err := message.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(m.Data, "overwritten"...)
	if again, err := message.Decode(text); err != nil || again.Metadata.ID != "q1" {
		t.Errorf("appending to data changed the line: %s", text)
	}
}

func TestDescribeNamesAnyValueInAFewWords(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, "nothing"}, {`{"a":1}`, "an object"}, {`[1]`, "an array"}, {`""`, "an empty string"}, {`"a"`, `the string "a"`},
		{`true`, "true"}, {`false`, "false"}, {`null`, "null"}, {`-1.5`, "the number -1.5"},
		{`"` + strings.Repeat("x", 100) + `"`, `the string "` + strings.Repeat("x", 56) + "…"},
		{strings.Repeat("9", 100), "the number " + strings.Repeat("9", 37) + "…"},
	} {
		if got := message.Describe([]byte(test.text)); got != test.want {
			t.Errorf("Describe(%s) = %s, want %s", test.text, got, test.want)
		}
	}
}
