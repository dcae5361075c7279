package sse_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"kernos/internal/sse"
)

// read returns copies of all events, and the error that ends the stream.
func read(from io.Reader, max int) (all []sse.Event, err error) {
	r := sse.NewReader(from, max)
	for {
		e, err := r.Next()
		if err != nil {
			return all, err
		}
		e.Name, e.ID, e.Data = bytes.Clone(e.Name), bytes.Clone(e.ID), bytes.Clone(e.Data)
		all = append(all, e)
	}
}

func TestEvents(t *testing.T) {
	event := func(name, id string, retry time.Duration, data string) sse.Event {
		return sse.Event{Name: []byte(name), ID: []byte(id), Retry: retry, Data: []byte(data)}
	}
	for text, want := range map[string][]sse.Event{
		"data: a\n\ndata:b\r\n\r\ndata: c\r\rdata":                      {{Retry: -1, Data: []byte("a")}, {Retry: -1, Data: []byte("b")}, {Retry: -1, Data: []byte("c")}},
		"\xEF\xBB\xBFdata: a\ndata\ndata:  b\n\n":                       {{Retry: -1, Data: []byte("a\n\n b")}},
		": comment\n\nevent: x\nid: 7\nretry: 50\ndata: a\nnone: b\n\n": {event("x", "7", 50*time.Millisecond, "a")},
		"id: 1\n\nid\n\n\n\n":                                           {{ID: []byte("1"), Retry: -1}, {ID: []byte{}, Retry: -1}},
		"id: \x00\nretry: soon\n\ndata: cut off":                        nil,
		"data: a\ndata: b\n\nevent: y\ndata: c\n\n":                     {{Retry: -1, Data: []byte("a\nb")}, {Name: []byte("y"), Retry: -1, Data: []byte("c")}},
	} {
		for way, from := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := read(from, 1<<20); err != io.EOF || !reflect.DeepEqual(got, want) {
				t.Errorf("%q %s: %q, %v", text, way, got, err)
			}
		}
	}
}

// A long line that comes in many parts is looked at once: the square of a megabyte would take hours.
func TestALongLineInManyParts(t *testing.T) {
	text := "data: " + strings.Repeat("x", 1<<20) + "\n\n"
	if got, err := read(iotest.OneByteReader(strings.NewReader(text)), 1<<21); err != io.EOF || len(got) != 1 || len(got[0].Data) != 1<<20 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func TestAnEventThatIsTooLong(t *testing.T) {
	for _, text := range []string{
		"data: " + strings.Repeat("x", 100_000) + "\n\n",
		strings.Repeat("data: "+strings.Repeat("x", 100)+"\n", 1000) + "\n",
		strings.Repeat("x", 100_000),
	} {
		if got, err := read(strings.NewReader("data: a\n\n"+text), 20_000); len(got) != 1 || !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%d events, %v", len(got), err)
		}
	}
}

// FuzzEvents reads anything at all as server-sent events. What is read doesn't depend on how the bytes come, and
// data that is written as an event comes out as it was.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "\n\n", "data: {}\n\n", "data:a\ndata: b\n\n", ": comment\n\n", "id: 1\nretry: 5\nevent: message\ndata: x\r\n\r\n",
		"retry: 99999999999\n\n", "id: \x00\n\n", "data", "data: x\n", ":\n\ndata\n\n\n", "event:a:b\nid:\n\n", "data: a\r\rdata: b\r\n\r", "\xEF\xBB\xBFdata: x\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, _ := read(bytes.NewReader(input), 1<<20)
		single, _ := read(iotest.OneByteReader(bytes.NewReader(input)), 1<<20)
		if len(whole) != len(single) {
			t.Fatalf("%q: %d events at once, %d byte by byte", input, len(whole), len(single))
		}
		for i, e := range whole {
			if o := single[i]; !bytes.Equal(e.Name, o.Name) || !bytes.Equal(e.ID, o.ID) || e.Retry != o.Retry || !bytes.Equal(e.Data, o.Data) {
				t.Errorf("%q: %q at once, %q byte by byte", input, e, o)
			}
		}
		if len(input) > 0 && !bytes.ContainsAny(input, "\r\n") {
			got, _ := read(strings.NewReader("data: "+string(input)+"\n\n"), 1<<20)
			if len(got) != 1 || !bytes.Equal(got[0].Data, input) {
				t.Errorf("%q is read as %q", input, got)
			}
		}
	})
}

// An event costs nothing to allocate.
func BenchmarkNext(b *testing.B) {
	text := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n")
	r := sse.NewReader(repeated{text}, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

type repeated struct{ text []byte }

func (r repeated) Read(p []byte) (n int, err error) {
	for n+len(r.text) <= len(p) {
		n += copy(p[n:], r.text)
	}
	return n, nil
}
