package message_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"kernos/message"
)

func TestAppendWritesTheMembersInTheirOrder(t *testing.T) {
	full := message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: json.RawMessage(`{"a": 1}`), Metadata: message.Metadata{
		ID: `i"`, Timestamp: 1735000000000, Correlation: "c\\", Causation: "p", IdempotencyKey: "k", SchemaVersion: "0.3"},
		Err: &message.Error{Code: 500, Message: "not on the wire"}}
	for _, test := range []struct {
		m    message.Message
		want string
	}{
		{full, `{"kind":"command","type":"Memory.Set","data":{"a": 1},"metadata":{"id":"i\"","timestamp":1735000000000,"correlation":"c\\","causation":"p","idempotencyKey":"k","schemaVersion":"0.3"}}`},
		{message.Message{Kind: message.KindQuery, Type: "Ping", Metadata: message.Metadata{ID: "a"}},
			`{"kind":"query","type":"Ping","data":null,"metadata":{"id":"a","timestamp":0}}`},
		{message.Message{Kind: message.KindReply, Type: "Ping", Data: json.RawMessage(`0`), Metadata: message.Metadata{ID: "a", Timestamp: 1, Causation: "b"}},
			`{"kind":"reply","type":"Ping","data":0,"metadata":{"id":"a","timestamp":1,"causation":"b"}}`},
	} {
		if got := string(message.Append([]byte("x"), &test.m)); got != "x"+test.want {
			t.Errorf("Append:\n got %s\nwant x%s", got, test.want)
		}
	}
	got, err := json.Marshal(full)
	if want := strings.Replace(string(message.Append(nil, &full)), `{"a": 1}`, `{"a":1}`, 1); err != nil || string(got) != want {
		t.Errorf("json.Marshal:\n got %s, %v\nwant %s", got, err, want)
	}
}

func TestWhatAppendWritesDecodeReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := []message.Kind{message.KindCommand, message.KindQuery, message.KindEvent, message.KindReply, message.KindError}
	types := []message.Type{"Echo", "Ping", "Memory.Get", "VFS.Read", "Job.TreeCreate"}
	data := []string{`null`, `{}`, `[1,{"a":"é\n"}]`, `"\ud83d\ude00"`, `-1.50e+3`, `{ "x" : [ ] }`}
	name := func() string {
		s := []rune("aZ9-_ \"\\/é日😀\u00A0<>&'")
		b := make([]rune, 1+r.IntN(30))
		for i := range b {
			b[i] = s[r.IntN(len(s))]
		}
		return string(b)
	}
	maybe := func() string {
		if r.IntN(2) == 0 {
			return ""
		}
		return name()
	}
	var d message.Decoder
	for range 5000 {
		want := message.Message{Kind: kinds[r.IntN(len(kinds))], Type: types[r.IntN(len(types))], Data: json.RawMessage(data[r.IntN(len(data))]),
			Metadata: message.Metadata{ID: message.ID(name()), Timestamp: r.Int64N(1 << 60), Correlation: maybe(), Causation: message.ID(maybe()), IdempotencyKey: maybe(), SchemaVersion: []string{"", "0.1", "0.3"}[r.IntN(3)]}}
		switch want.Kind {
		case message.KindReply:
			want.Metadata.Causation = message.ID(name())
		case message.KindError:
			want.Data = (&message.Error{Code: 400 + r.IntN(200), Message: maybe(), Cause: &message.Error{Code: 500, Message: name()}}).Append(nil)
		}
		line := message.Append(nil, &want)
		got, err := d.Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n got %+v\nwant %+v", line, got, want)
		}
	}
}

// A line is one line: data that was laid out over several, as a caller over HTTP may
// send it, must not break it up. Otherwise it stays as it was written.
func TestAppendedMessageIsOneLine(t *testing.T) {
	for _, test := range []struct{ data, want string }{
		{"{\n  \"pay load\": [1,\r\n\t2.50 ]\r\n}", `{"pay load":[1,2.50]}`},
		{"[\n\"a\\n \\\" b\",\n\"\\\\\" ]", `["a\n \" b","\\"]`},
		{`{ "a" :  1 }`, `{ "a" :  1 }`},
	} {
		m, err := message.Decode([]byte(line(`"query"`, `"Ping"`, test.data, meta)))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(message.Append(nil, &m)), line(`"query"`, `"Ping"`, test.want, meta); got != want {
			t.Errorf("%q is written as\n     %s\nwant %s", test.data, got, want)
		}
	}
}

// A handler may return anything as data. It is wrong then, but must neither end the
// kernel nor stop it, nor end the line.
func TestAppendComesBackFromDataThatIsNotJSON(t *testing.T) {
	for _, data := range []string{"\"\n", "\n\"", "{\"a\n", "\"\\\n", "\"\\\"\n", "\n\"\\", "\\\"\n", "\n", "\"a\nb\""} {
		line := message.Append(nil, &message.Message{Data: json.RawMessage(data)})
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Errorf("data %q makes more than a line", data)
		}
	}
}

// Every message passes here twice, so what it costs is part of the contract.
func TestDecodeAndEncodeOfAPingHardlyAllocate(t *testing.T) {
	ping := []byte(`{"kind":"query","type":"Ping","data":{"payload":"hello"},"metadata":{"id":"01JAXV5Y2Z4B8Q0R6T7W9E3F1G","timestamp":1735000000000}}`)
	var d message.Decoder
	if n := testing.AllocsPerRun(200, func() {
		if _, err := d.Decode(ping); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("a decode makes %v allocations, want at most 1", n)
	}
	m, err := d.Decode(ping)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, message.MaxLine)
	if n := testing.AllocsPerRun(200, func() { buf = message.Append(buf[:0], &m) }); n != 0 {
		t.Errorf("an encode makes %v allocations, want none", n)
	}
}
