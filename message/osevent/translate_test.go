package osevent_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"kernos/message"
	"kernos/message/osevent"
)

// old decodes a line of the older dialect.
func old(t *testing.T, line string) message.Message {
	t.Helper()
	d := message.Decoder{Dialect: osevent.Dialect}
	m, err := d.Decode([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return m
}

func oldError(payload string) string {
	return `{"type":"error","name":"Memory.Get","payload":` + payload + `,"metadata":{"id":"a","timestamp":1,"causation":"b"}}`
}

func TestTranslateReadsEveryCodeAndCause(t *testing.T) {
	for _, test := range []struct {
		payload, want string
		lossy         bool
	}{
		{`{"message":"m","code":"INVALID_INPUT"}`, `{"code":400,"message":"m"}`, false},
		{`{"message":"m","code":"UNAUTHORIZED"}`, `{"code":403,"message":"m"}`, false},
		{`{"message":"m","code":"NOT_FOUND"}`, `{"code":404,"message":"m"}`, false},
		{`{"message":"m","code":"LINE_TOO_LONG"}`, `{"code":413,"message":"m"}`, false},
		{`{"message":"m","code":"SCHEMA_VIOLATION"}`, `{"code":422,"message":"m"}`, false},
		{`{"message":"m","code":"INTERNAL_ERROR"}`, `{"code":500,"message":"m"}`, false},
		{`{"c\u006fde":"NOT_\u0046OUND","message":"é\n"}`, `{"code":404,"message":"é\n"}`, false},
		{`{"message":"m","code":"UNAUTHORIZED","details":{"status":401}}`, `{"code":401,"message":"m"}`, false},
		{`{"details":{"status":502},"message":"m","code":"INTERNAL_ERROR"}`, `{"code":502,"message":"m"}`, false},
		{`{"message":"m","code":"INTERNAL_ERROR","details":{"cause":{"code":404,"message":"c","cause":{"code":400,"message":"d"}}}}`,
			`{"code":500,"message":"m","cause":{"code":404,"message":"c","cause":{"code":400,"message":"d"}}}`, false},
		{`{"message":"m","code":"NOT_FOUND","details":{}}`, `{"code":404,"message":"m"}`, false},
		{`{"message":"m"}`, `{"code":500,"message":"m"}`, false},
		{`{"code":"NOT_FOUND"}`, `{"code":404,"message":"The error came without a message"}`, false},

		{`{"message":"Key not found: /notes/123","code":"NOT_FOUND","details":{"key":"/notes/123"}}`, `{"code":404,"message":"Key not found: /notes/123"}`, true},
		{`{"message":"m","code":"SCHEMA_VIOLATION","details":{"field":"type","expected":"string"}}`, `{"code":422,"message":"m"}`, false},
		{`{"message":"m","code":"NOT_FOUND","stack":"at x"}`, `{"code":404,"message":"m"}`, true},
		{`{"message":"m","code":"E_CUSTOM"}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","code":404}`, `{"code":404,"message":"m"}`, false}, // of version 0.2
		{`{"code":500,"message":"m","cause":{"code":404,"message":"c"}}`, `{"code":500,"message":"m","cause":{"code":404,"message":"c"}}`, false},
		{`{"message":"m","code":200}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","code":null}`, `{"code":500,"message":"m"}`, true},
		{`{"message":["m"],"code":"NOT_FOUND"}`, `{"code":404,"message":"The error came without a message"}`, true},
		{`{"message":"m","details":"text"}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","details":{"status":200}}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","details":{"status":"404"}}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","details":{"cause":"c"}}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","details":{"cause":{"code":1,"message":"c"}}}`, `{"code":500,"message":"m"}`, true},
		{`{"message":"m","stack":"s","details":{}}`, `{"code":500,"message":"m"}`, true}, // a later part does not make up for it
		{`"oops"`, `{"code":500,"message":"oops"}`, true},
		{`null`, `{"code":500,"message":"The error came without a message"}`, true},
		{`[]`, `{"code":500,"message":"The error came without a message"}`, true},
	} {
		m, lost := osevent.Translate(old(t, oldError(test.payload)))
		if string(m.Data) != test.want || (lost != nil) != test.lossy {
			t.Errorf("%s\n got %s, %v\nwant %s, %v", test.payload, m.Data, lost, test.want, test.lossy)
		}
		if err := m.Validate(); err != nil {
			t.Errorf("%s: the translation is no message: %v", test.payload, err)
		}
		if m.Kind != message.KindError || m.Type != "Memory.Get" || m.Metadata.Causation != "b" {
			t.Errorf("%s: the envelope became %+v", test.payload, m)
		}
	}
}

func TestTranslateLeavesOtherMessagesAlone(t *testing.T) {
	for _, kind := range []string{"command", "query", "event", "response"} {
		m := old(t, `{"type":"`+kind+`","name":"Ping","payload":{"code":"NOT_FOUND","message":1},"metadata":{"id":"a","timestamp":1,"causation":"b","correlation":"c"}}`)
		got, lost := osevent.Translate(m)
		if lost != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s became %+v", kind, got)
		}
	}
}

// What the current dialect has no word for has to be reported, or to come back.
func TestWordsThatDoNotComeBackAreReported(t *testing.T) {
	for _, payload := range []string{
		`{"message":"m","code":"INVALID_JSON"}`,
		`{"message":"m","code":"NOT_FOUND","details":{"status":500}}`,
	} {
		m, lost := osevent.Translate(old(t, oldError(payload)))
		_, word := words(t, osevent.Append(nil, &m))
		_, want := words(t, []byte(oldError(payload)))
		if word != want && lost == nil {
			t.Errorf("%s came back as %s, and nothing was said", payload, word)
		}
	}
}

// words reads the message and the code of an older error.
func words(t *testing.T, line []byte) (text, code string) {
	t.Helper()
	var m struct {
		Payload struct{ Message, Code string }
	}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	return m.Payload.Message, m.Payload.Code
}

func randomText(r *rand.Rand) string {
	letters := []rune("aZ9 \"\\/é日😀\n\t\x1b<\u2028")
	text := make([]rune, r.IntN(40))
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

func randomError(r *rand.Rand, depth int) *message.Error {
	e := &message.Error{Code: 400 + r.IntN(200), Message: randomText(r)}
	if depth > 0 && r.IntN(2) == 0 {
		e.Cause = randomError(r, depth-1)
	}
	return e
}

func TestCurrentMessagesSurviveTheOlderDialect(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	kinds := []message.Kind{message.KindCommand, message.KindQuery, message.KindEvent, message.KindReply, message.KindError}
	for range 3000 {
		want := message.Message{Kind: kinds[r.IntN(len(kinds))], Type: "Job.TreeCreate", Data: json.RawMessage(`[{"a":"\u00e9"},1.50]`), Metadata: message.Metadata{
			ID: "a", Timestamp: r.Int64N(1 << 50), Correlation: "w", Causation: "b", IdempotencyKey: "k", SchemaVersion: "0.3"}}
		if want.Kind == message.KindError {
			e := randomError(r, 5)
			want.Data = e.AppendWhole(nil)
			if r.IntN(2) == 0 { // made here, with all that is known of it
				want.Err = e
				if r.IntN(2) == 0 {
					e.Reason = message.ErrEnvelope
				}
				if r.IntN(2) == 0 {
					e.Field, e.Expected = "key", []string{"string", "JSON"}[r.IntN(2)]
				}
			}
		}
		line := osevent.Append(nil, &want)
		got, lost := osevent.Translate(old(t, string(line)))
		want.Err = nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n got %+v\nwant %+v", line, got, want)
		}
		if lost != nil {
			t.Fatalf("%s: it lost %q", line, lost)
		}
	}
}

func TestOlderErrorsSurviveTheCurrentDialect(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	codes := []string{"INVALID_INPUT", "UNAUTHORIZED", "NOT_FOUND", "LINE_TOO_LONG", "SCHEMA_VIOLATION", "INTERNAL_ERROR"}
	for range 1000 {
		text, code := randomText(r), codes[r.IntN(len(codes))]
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		payload := fmt.Sprintf(`{"message":%s,"code":"%s"}`, quoted, code)
		if r.IntN(2) == 0 {
			payload = fmt.Sprintf(`{"details":{"cause":%s},"message":%s,"code":"%s"}`, randomError(r, 3).AppendWhole(nil), quoted, code)
		}
		m, lost := osevent.Translate(old(t, oldError(payload)))
		if lost != nil {
			t.Fatalf("%s is called lossy", payload)
		}
		// Over the wire of the current dialect and back.
		m, err = message.Decode(message.Append(nil, &m))
		if err != nil {
			t.Fatal(err)
		}
		line := osevent.Append(nil, &m)
		if gotText, gotCode := words(t, line); gotText != text || gotCode != code {
			t.Fatalf("%s\ncame back as %s", payload, line)
		}
		again, _ := osevent.Translate(old(t, string(line)))
		if string(again.Data) != string(m.Data) {
			t.Fatalf("the causes of %s came back as %s", m.Data, again.Data)
		}
	}
}

// Lines of this dialect are long enough for work that grows with the square of their length to stop a
// kernel. With as many members as here, such work would not end before the test does.
func TestManyUnknownMembersAreRejectedQuickly(t *testing.T) {
	var many strings.Builder
	for i := 0; many.Len() < 1<<22; i++ {
		fmt.Fprintf(&many, `,"%x":1`, i)
	}
	for name, line := range map[string]string{
		"in the envelope": `{"type":"query","name":"Ping","payload":1,"metadata":{"id":"a","timestamp":1}` + many.String() + `}`,
		"in metadata":     `{"type":"query","name":"Ping","payload":1,"metadata":{"id":"a","timestamp":1` + many.String() + `}}`,
		"in the payload":  `{"type":"error","name":"Ping","metadata":{"id":"a","timestamp":1},"payload":{"message":"m"` + many.String() + `}}`,
	} {
		d := message.Decoder{Dialect: osevent.Dialect}
		m, err := d.Decode([]byte(line))
		if (err == nil) != (name == "in the payload") {
			t.Fatal(err)
		}
		osevent.Translate(m)
	}
}

// A name that a caller made up is not repeated at full length.
func TestAnswerToALongUnknownMemberIsShort(t *testing.T) {
	line := `{"type":"query","name":"Ping","payload":1,"metadata":{"id":"a","timestamp":1},"` + strings.Repeat("x", 1<<19) + `":1}`
	d := message.Decoder{Dialect: osevent.Dialect}
	_, err := d.Decode([]byte(line))
	e, known := message.ErrorOf(err)
	if !known || e.Code != 422 {
		t.Fatalf("got %v", err)
	}
	request := message.SalvageLine([]byte(line)).Request(osevent.Dialect)
	m := request.Fail(e)
	if n := len(osevent.Append(nil, &m)); n > message.MaxLine {
		t.Errorf("the answer has %d bytes", n)
	}
}

// Each loss is reported with the member that it concerns.
func TestLossesAreNamed(t *testing.T) {
	const payload = `{"message":"m","code":"E_CUSTOM","stack":"s","details":{"status":200,"cause":"c","key":"k","hint":"h"}}`
	_, lost := osevent.Translate(old(t, oldError(payload)))
	const want = `payload.details.status is left out: it isn't a number from 400 to 599
payload.details.cause is left out: it isn't an error {code, message, cause}
payload.stack is left out: an error of version 0.3 has no place for it
payload.details.hint is left out: an error of version 0.3 has no place for it
payload.details.key is left out: an error of version 0.3 has no place for it
payload.code E_CUSTOM is left out: codes are numbers, and this one becomes 500`
	if got := strings.Join(lost, "\n"); got != want {
		t.Errorf("lost\n%s", got)
	}
}
