package message_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"kernos/message"
)

func TestSalvageReadsWhomToAnswer(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, test := range []struct {
		name string
		line string
		typ  message.Type
		id   message.ID
	}{
		{"a message", line(`"query"`, `"Memory.Get"`, `1`, meta), "Memory.Get", "q1"},
		{"metadata first", `{"metadata":{"timestamp":1,"id":"a"},"type":"Ping"`, "Ping", "a"},
		{"space", "{ \"type\" :\t\"Ping\" , \"metadata\" : { \"id\" : \"a\" } }", "Ping", "a"},
		{"cut off behind the id", `{"kind":"query","type":"Memory.Get","metadata":{"id":"a"`, "Memory.Get", "a"},
		{"cut off in the id", `{"type":"Ping","metadata":{"id":"ab`, "Ping", ""},
		{"garbage between", `{"kind":nope,"type":"Ping","data":[1,,2}},"metadata":{"id":"a"}}`, "Ping", ""},
		{"garbage before and behind", `xx{"type":"Ping",'x',"metadata":{"id":"a"},}yy`, "Ping", "a"},
		{"escapes", `{"t\u0079pe":"\u0050ing","met\u0061data":{"\u0069d":"\u00e9\"\\"}}`, "Ping", `é"\`},
		{"an invalid type", `{"type":"memory.get","metadata":{"id":"a"}}`, "Validation.Failed", "a"},
		{"no type", `{"metadata":{"id":"a"}}`, "Validation.Failed", "a"},
		{"a type that is no string", `{"type":{"type":"Ping"},"metadata":{"id":"a"}}`, "Validation.Failed", "a"},
		{"a type inside of data", `{"data":{"type":"Ping","metadata":{"id":"b"}},"metadata":{"id":"a"}}`, "Validation.Failed", "a"},
		{"an id inside of data", `{"type":"Ping","data":{"id":"b"}}`, "Ping", ""},
		{"an id at the top", `{"type":"Ping","id":"b"}`, "Ping", ""},
		{"an id deeper in metadata", `{"type":"Ping","metadata":{"x":{"id":"b"},"y":[{"id":"c"}],"id":"a"}}`, "Ping", "a"},
		{"an id as a value", `{"type":"Ping","metadata":{"x":"id","timestamp":"b"}}`, "Ping", ""},
		{"an id that is a number", `{"type":"Ping","metadata":{"id":7,"x":"b"}}`, "Ping", ""},
		{"an empty id", `{"type":"Ping","metadata":{"id":""}}`, "Ping", ""},
		{"brackets in strings", `{"data":"{[\"}","type":"Ping","metadata":{"id":"a"}}`, "Ping", "a"},
		{"control characters in the id", `{"type":"Ping","metadata":{"id":"a\u001b[31m"}}`, "Ping", ""},
		{"a raw control character in the id", "{\"type\":\"Ping\",\"metadata\":{\"id\":\"a\x1b\"}}", "Ping", ""},
		{"bad UTF-8 in the id", "{\"type\":\"Ping\",\"metadata\":{\"id\":\"a\xff\"}}", "Ping", ""},
		{"bad escape in the id", `{"type":"Ping","metadata":{"id":"\q"}}`, "Ping", ""},
		{"the longest id", `{"type":"Ping","metadata":{"id":"` + long + `"}}`, "Ping", message.ID(long)},
		{"an id too long", `{"type":"Ping","metadata":{"id":"` + long + `x"}}`, "Ping", ""},
		{"an id much too long", `{"type":"Ping","metadata":{"id":"` + strings.Repeat(long, 100) + `"}}`, "Ping", ""},
		{"a long string before", `{"data":"` + strings.Repeat(`\"`, 5000) + `","type":"Ping","metadata":{"id":"a"}}`, "Ping", "a"},
		{"a long string that looks like members", `{"data":"` + strings.Repeat("x", 600) + `\",\"metadata\":{\"id\":\"b\"},\"type\":\"Echo\",\"","type":"Ping"`, "Ping", ""},
		{"a long string with an escaped quote", `{"data":"` + strings.Repeat("x", 600) + `\"","type":"Ping","metadata":{"id":"a"}}`, "Ping", "a"},
		{"the first type counts", `{"type":"Ping","type":"Echo","metadata":{"id":"a","id":"b"}}`, "Ping", "a"},
		{"too many closed", `}}]]{"type":"Ping","metadata":{"id":"a"}}`, "Ping", "a"},
		{"nothing", ``, "Validation.Failed", ""},
		{"no object", `"type"`, "Validation.Failed", ""},
		{"an array of objects", `[{"type":"Ping","metadata":{"id":"a"}}]`, "Validation.Failed", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := message.SalvageLine([]byte(test.line)).Request(message.Current)
			if m.Type != test.typ || m.Metadata.ID != test.id {
				t.Errorf("%.80s\n got %q %q\nwant %q %q", test.line, m.Type, m.Metadata.ID, test.typ, test.id)
			}
			if m.Metadata.Correlation != "" || m.Data != nil {
				t.Errorf("there is more in it than an answer needs: %+v", m)
			}
		})
	}
}

func TestSalvageReadsTheKindAndTheLineage(t *testing.T) {
	older := &message.Dialect{Kind: "type", Type: "name", Reply: "response"}
	for _, test := range []struct {
		dialect *message.Dialect
		line    string
		kind    message.Kind
	}{
		{message.Current, `{"kind":"command","type":"Ping"`, message.KindCommand},
		{message.Current, `{"kind":"reply"`, message.KindReply},
		{message.Current, `{"kind":"shout"}`, ""}, {message.Current, `{"kind":"response"}`, ""}, {message.Current, `{"kind":7}`, ""}, {message.Current, `{}`, ""},
		{older, `{"type":"response"}`, message.KindReply}, {older, `{"type":"error"}`, message.KindError}, {older, `{"type":"reply"}`, ""},
	} {
		if m := message.SalvageLine([]byte(test.line)).Request(test.dialect); m.Kind != test.kind {
			t.Errorf("%s: got %q, want %q", test.line, m.Kind, test.kind)
		}
	}
	m := message.SalvageLine([]byte(`{"metadata":{"id":"a","correlation":"w","causation":"c"}`)).Request(message.Current)
	if m.Metadata != (message.Metadata{ID: "a", Correlation: "w", Causation: "c"}) {
		t.Errorf("got %+v", m.Metadata)
	}
}

func TestSalvageTellsWhichMembersThereAre(t *testing.T) {
	s := message.SalvageLine([]byte(`{"kind":"query","data":{"x":1},"n":null,"e":"","metadata":{"id":"a"},"list":["a","b"],"last`))
	for _, test := range []struct {
		name, value string
		seen        bool
	}{
		{"kind", "query", true}, {"data", "", true}, {"n", "", true}, {"e", "", true}, {"metadata", "", true}, {"list", "", true},
		{"x", "", false}, {"id", "", false}, {"query", "", false}, {"a", "", false}, {"b", "", false}, {"last", "", false}, {"none", "", false},
	} {
		if value, seen := s.Member(test.name); value != test.value || seen != test.seen {
			t.Errorf("Member(%q) = %q, %v; want %q, %v", test.name, value, seen, test.value, test.seen)
		}
	}
}

// same compares what two salvages found.
func same(a, b *message.Salvage) error {
	for _, d := range []*message.Dialect{message.Current, {Kind: "type", Type: "name", Data: "payload"}} {
		if x, y := a.Request(d), b.Request(d); x.Type != y.Type || x.Metadata != y.Metadata {
			return fmt.Errorf("%q %q and %q %q", x.Type, x.Metadata.ID, y.Type, y.Metadata.ID)
		}
	}
	for _, name := range []string{"kind", "type", "data", "metadata", "name", "payload", "x", ""} {
		x, seen := a.Member(name)
		if y, also := b.Member(name); x != y || seen != also {
			return fmt.Errorf("member %q: %q %v and %q %v", name, x, seen, y, also)
		}
	}
	return nil
}

func TestSalvageInPiecesOfEverySizeFindsTheSame(t *testing.T) {
	for _, text := range []string{
		line(`"query"`, `"Memory.Get"`, `{"a":["\\\"",{}]}`, `{"timestamp":5,"id":"\u00e9\"\\"}`),
		`{"type":"response","name":"Memory.Get","payload":"` + strings.Repeat(`\\\"`, 300) + `","metadata":{"id":"é😀"}}`,
		`}{"x":"\ud83d\ude00","type":"Ping","metadata":{"id":"a`,
	} {
		whole := message.SalvageLine([]byte(text))
		for size := 1; size <= len(text); size++ {
			pieces := new(message.Salvage)
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				if got, err := pieces.Write(rest[:n]); got != n || err != nil {
					t.Fatalf("Write of %d bytes says %d, %v", n, got, err)
				}
				rest = rest[n:]
			}
			if err := same(whole, pieces); err != nil {
				t.Fatalf("in pieces of %d bytes: %v", size, err)
			}
		}
	}
}

// What stands in a list is no member, and must not decide which dialect is spoken.
func TestSalvageFindsNoMembersInAnArray(t *testing.T) {
	for _, text := range []string{`["x","name"]`, `[1,"payload",2]`, `["type","Ping","metadata",{"id":"a"}]`} {
		s := message.SalvageLine([]byte(text))
		for _, name := range []string{"name", "payload", "metadata"} {
			if _, seen := s.Member(name); seen {
				t.Errorf("%s has no member %s", text, name)
			}
		}
		if m := s.Request(message.Current); m.Metadata.ID != "" {
			t.Errorf("%s has no id, got %q", text, m.Metadata.ID)
		}
	}
}

// It sees lines of any length, so what it keeps must not depend on them.
func TestSalvageKeepsLittleHoweverLongTheLineIs(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := new(message.Salvage)
	_, _ = s.Write([]byte(`{"type":"Ping"`))
	var piece []byte
	for i := range 5_000 {
		piece = fmt.Appendf(piece[:0], `,"%0400d":"%0400d"`, i, i)
		_, _ = s.Write(piece)
	}
	_, _ = s.Write([]byte(`,"x":"` + strings.Repeat("x", 1<<20)))
	if grown := int64(heap()) - int64(before); grown > 64<<10 {
		t.Errorf("it keeps %d bytes of a line of 5 MB", grown)
	}
	if m := s.Request(message.Current); m.Type != message.Ping {
		t.Errorf("the type is %q", m.Type)
	}
}

func TestSalvageKeepsTheWorkflow(t *testing.T) {
	line := []byte(`{"kind":"query","type":"Ping","data":nope,"metadata":{"correlation":"wf","id":"a"}}`)
	m := message.SalvageLine(line).Request(message.Current)
	if m.Metadata.ID != "a" || m.Metadata.Correlation != "wf" || m.Type != "Ping" {
		t.Errorf("got %+v", m)
	}
}
