package message_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	gojson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/message"
)

// seeds are lines on both sides of the rules of section 4.
func seeds() []string {
	deep := strings.Repeat("[", 999)
	return []string{
		line(`"query"`, `"Ping"`, `{"payload":[0,-0,1e400,"",null,"\ud83d\ude00"]}`, meta),
		line(`"command"`, `"Memory.Set"`, `{"key":"/notes/1","value":"é"}`, `{"id":"a","timestamp":1735000000000,"correlation":"w","causation":null,"idempotencyKey":"k","schemaVersion":"0.3"}`),
		line(`"event"`, `"Job.Completed"`, `null`, `{"timestamp":0,"id":"\u00e9"}`),
		line(`"reply"`, `"Ping"`, `1`, `{"id":"a","timestamp":1,"causation":"b"}`), line(`"reply"`, `"Ping"`, `1`, meta),
		line(`"error"`, `"Crypto.Seal"`, `{"code":500,"message":"Encryption failed","cause":{"code":404,"message":"no key"}}`, `{"id":"a","timestamp":1,"causation":"b"}`),
		line(`"error"`, `"Ping"`, `{"code":399,"message":""}`, meta), line(`"error"`, `"Ping"`, `{"code":"NOT_FOUND","message":"m"}`, meta),
		line(`"query"`, `"memory.get"`, `1`, meta), line(`"ask"`, `"Ping"`, `1`, meta), line(`7`, `7`, `7`, `7`), line(`"query"`, `"Ping"`, deep+strings.Repeat("]", 999), meta),
		line(`"query"`, `"Ping"`, `1`, `{"id":"","timestamp":5}`), line(`"query"`, `"Ping"`, `1`, `{"id":"a\n","timestamp":5}`), line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":-1}`),
		line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":1.0}`), line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":1,"correlationId":"w"}`), line(`"query"`, `"Ping"`, `1`, `{"id":"`+strings.Repeat("x", 257)+`","timestamp":5}`),
		`{"k\u0069nd":"quer\u0079","type":"\u0050ing","data":1,"metadata":{"\u0069d":"a","timestamp":1}}`,
		`{"kind":"query","kind":"query","type":"Ping","data":1,"metadata":` + meta + `}`, `{"kind":"query","type":"Ping","data":{"a":1,"\u0061":1},"metadata":` + meta + `}`,
		`{"type":"command","name":"Echo","payload":{"message":"hello"},"metadata":{"id":"abc123","timestamp":1735000000000}}`,
		"{\"kind\":\"query\",\"type\":\"Ping\",\"data\":{\n \"a b\" : [ 1 ,\r\n\"\\\\\" ] },\n\"metadata\":{\"id\":\"a\",\"timestamp\":1}}",
		" { \"kind\" : \"query\" ,\t\"type\":\"Echo\" , \"data\" : { } , \"metadata\" : { \"id\" : \"a\" , \"timestamp\" : 1 } } ",
		line(`"query"`, `"Ping"`, `1`, `{"id":"a","timestamp":1,"x-a":{"b":null},"traceparent":"00-1-2-01","correlation":null}`),
		`{}`, `[]`, `null`, ``, `{`, `{"kind":"query"`, `{"metadata":{`, `{"x":1,"x":2}`, `{"metadata":{"x":1,"x":2}}`, "{\"data\":\"\xff\"}", `{"data":"\ud800"}`, "\xEF\xBB\xBF{}", `{}{}`,
	}
}

var pattern = regexp.MustCompile(`^(Echo|Ping|[A-Z][a-zA-Z0-9]*\.[A-Z][a-zA-Z0-9]*)\z`)

// reference reads a line with another library and checks it by the letter of the
// specification. It returns nil if the line is not a message.
func reference(line []byte) *message.Message {
	var top, meta map[string]jsontext.Value
	if gojson.Unmarshal(line, &top) != nil || len(top) != 4 || top["kind"] == nil || top["type"] == nil || top["data"] == nil || top["metadata"] == nil {
		return nil
	}
	m := message.Message{Data: json.RawMessage(top["data"])}
	if gojson.Unmarshal(top["kind"], &m.Kind) != nil || gojson.Unmarshal(top["type"], &m.Type) != nil ||
		top["metadata"].Kind() != '{' || gojson.Unmarshal(top["metadata"], &meta) != nil || meta["id"] == nil || meta["timestamp"] == nil {
		return nil
	}
	if !m.Kind.Valid() || len(m.Type) > 128 || !pattern.MatchString(string(m.Type)) {
		return nil
	}
	for name, value := range meta {
		if name == "timestamp" {
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || value[0] == '-' || n > 1<<63-10 {
				return nil
			}
			m.Metadata.Timestamp = n
			continue
		}
		if name != "id" && value.Kind() == 'n' && slices.Contains([]string{"correlation", "causation", "idempotencyKey", "schemaVersion", "repeated", "traceparent", "tracestate"}, name) {
			continue
		}
		if message.IsExtension(name) {
			return nil // FuzzDecode doesn't compare these
		}
		var s string
		if value.Kind() != '"' || gojson.Unmarshal(value, &s) != nil || s == "" || len(s) > 256 || strings.ContainsFunc(s, unicode.IsControl) {
			return nil
		}
		switch name {
		case "id":
			m.Metadata.ID = message.ID(s)
		case "correlation":
			m.Metadata.Correlation = s
		case "causation":
			m.Metadata.Causation = message.ID(s)
		case "idempotencyKey":
			m.Metadata.IdempotencyKey = s
		case "schemaVersion":
			m.Metadata.SchemaVersion = s
		default:
			return nil
		}
	}
	if m.Kind == message.KindReply && m.Metadata.Causation == "" || m.Kind == message.KindError && !isErrorData(top["data"]) {
		return nil
	}
	return &m
}

func isErrorData(data jsontext.Value) bool {
	var top map[string]jsontext.Value
	if data.Kind() != '{' || gojson.Unmarshal(data, &top) != nil {
		return false
	}
	code, err := strconv.Atoi(string(top["code"]))
	cause, caused := top["cause"]
	want := 2
	if caused {
		want = 3
	}
	return err == nil && code >= 400 && code <= 599 && top["message"] != nil && top["message"].Kind() == '"' && len(top) == want && (!caused || isErrorData(cause))
}

// FuzzDecode holds Decode against a reading of the specification that is written
// with another library: they accept the same lines and read the same in them.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	var reused message.Decoder // what it remembers must not matter
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := reused.Decode(line)
		fresh, freshErr := message.Decode(line)
		if !reflect.DeepEqual(m, fresh) || !reflect.DeepEqual(err, freshErr) {
			t.Fatalf("a reused decoder gives %+v, %v; a fresh one %+v, %v", m, err, fresh, freshErr)
		}
		if err != nil {
			var r *message.Rejection
			if !errors.As(err, &r) || r.Err.Code != 400 && r.Err.Code != 422 {
				t.Fatalf("the error is %#v", err)
			}
			if strings.Contains(r.Err.Message, "nested deeper") && r.Err.Code == 400 {
				return
			}
			if valid := jsontext.Value(line).IsValid(); valid != (r.Err.Code == 422) {
				t.Fatalf("go-json-experiment says that its being JSON is %v, we say %d %s", valid, r.Err.Code, r.Err.Message)
			}
			if ref := reference(line); ref != nil {
				t.Fatalf("a message is rejected: %v", err)
			}
			return
		}
		want := reference(line)
		if m.Metadata.Extra != "" {
			want = &m
		}
		if want == nil {
			t.Fatalf("what is no message is accepted: %+v", m)
		}
		if !reflect.DeepEqual(m, *want) {
			t.Fatalf("got %+v\nwant %+v", m, *want)
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("Validate refuses it: %v", err)
		}
		lenient := message.Decoder{Lenient: true}
		if same, err := lenient.Decode(line); err != nil || !reflect.DeepEqual(same, m) {
			t.Fatalf("a lenient decoder says %+v, %v", same, err)
		}
		written := message.Append(nil, &m)
		if bytes.IndexByte(written, '\n') >= 0 {
			t.Fatalf("it was written as more than a line: %q", written)
		}
		again, err := message.Decode(written)
		if bytes.IndexByte(m.Data, '\n') >= 0 { // the one thing that may be changed in data
			data := jsontext.Value(bytes.Clone(m.Data))
			if err := data.Compact(); err != nil {
				t.Fatal(err)
			}
			m.Data = json.RawMessage(data)
		}
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("it was written and came back as %+v, %v", again, err)
		}
		if got := message.SalvageLine(line).Request(message.Current); got.Type != m.Type {
			t.Fatalf("Salvage reads the type %q, Decode %q", got.Type, m.Type)
		}
	})
}

// FuzzSalvage writes a line whole and in two and in small pieces.
func FuzzSalvage(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), i)
	}
	f.Fuzz(func(t *testing.T, line []byte, cut int) {
		whole := message.SalvageLine(line)
		request := whole.Request(message.Current)
		if !request.Type.Valid() {
			t.Fatalf("the answer would have the type %q", request.Type)
		}
		failure := request.Fail(&message.Error{Code: 400, Message: "m"})
		failure.Metadata.ID = "a"
		if err := failure.Validate(); err != nil {
			t.Fatalf("an answer can't be made of it: %v", err)
		}

		two, pieces := new(message.Salvage), new(message.Salvage)
		cut = int(uint(cut) % uint(len(line)+1))
		_, _ = two.Write(line[:cut])
		_, _ = two.Write(line[cut:])
		size := cut%7 + 1
		for rest := line; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = pieces.Write(rest[:min(size, len(rest))])
		}
		if err := errors.Join(same(whole, two), same(whole, pieces)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzBlobPointer: what is accepted is in its normal form, and stays in it.
func FuzzBlobPointer(f *testing.F) {
	for _, s := range []string{
		`{"scheme":"file","path":"/tmp/a"}`, `{"scheme":"https","authority":"Example.com:443","path":"/a","query":"q","fragment":"f"}`,
		`{"scheme":"https","authority":"[::1]:8443","path":"/"}`, `{"scheme":"data","path":"text/plain,Hello%20world"}`, `{"scheme":"data","path":"text/markdown;base64,SGk="}`,
		`{"scheme":"data","path":","}`, `{"scheme":"data","path":";base64,"}`, `{"path":"\/a","scheme":"f\u0069le"}`, `{"scheme":"file","path":"a"}`, `{"scheme":"file","path":"/\u0000"}`,
		`{"scheme":"https","authority":"u@h","path":"/"}`, `{"scheme":"file","path":"/a","x":1}`, `{}`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := message.ParseBlobPointer(data)
		if err != nil {
			var e *message.Error
			if !errors.As(err, &e) || e.Code != 422 || p != (message.BlobPointer{}) {
				t.Fatalf("got %+v, %#v", p, err)
			}
			return
		}
		text := p.Append(nil)
		again, err := message.ParseBlobPointer(text)
		if err != nil || again != p {
			t.Fatalf("%s came back as %+v, %v", text, again, err)
		}
		if p.Path == "" || p.Scheme != "https" && p.Authority+p.Query != "" || p.Scheme == "https" && p.Authority == "" || strings.HasSuffix(p.Authority, ":443") {
			t.Fatalf("a rule is broken by %s", text)
		}
		if p.Scheme == "data" {
			if _, blob, err := p.Inline(); err != nil || len(blob) > message.MaxInlineBlob {
				t.Fatalf("%s holds %d bytes, %v", text, len(blob), err)
			}
		} else if p.Path[0] != '/' {
			t.Fatalf("the path of %s is not absolute", text)
		}
	})
}
