package client

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzEvents reads anything at all as server-sent events. What is read doesn't depend on how the bytes come, and
// data that is written as an event comes out as it was.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "\n\n", "data: {}\n\n", "data:a\ndata: b\n\n", ": comment\n\n", "id: 1\nretry: 5\nevent: message\ndata: x\r\n\r\n",
		"retry: 99999999999\n\n", "id: \x00\n\n", "data", "data: x\n", ":\n\ndata\n\n\n", "event:a:b\nid:\n\n",
	} {
		f.Add([]byte(seed))
	}
	read := func(from io.Reader) (all []event) {
		for e, err := range events(from) {
			if err != nil || e.tooLong {
				break
			}
			e.data = bytes.Clone(e.data)
			all = append(all, e)
		}
		return all
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, single := read(bytes.NewReader(input)), read(iotest.OneByteReader(bytes.NewReader(input)))
		if len(whole) != len(single) {
			t.Fatalf("%q: %d events at once, %d byte by byte", input, len(whole), len(single))
		}
		for i, e := range whole {
			if o := single[i]; e.name != o.name || e.id != o.id || e.retry != o.retry || !bytes.Equal(e.data, o.data) {
				t.Errorf("%q: %+v at once, %+v byte by byte", input, e, o)
			}
		}
		if line := bytes.TrimRight(input, "\r"); len(input) > 0 && bytes.IndexByte(line, '\n') < 0 {
			got := read(bytes.NewReader(append(append([]byte("data: "), line...), "\n\n"...)))
			if len(got) != 1 || !bytes.Equal(got[0].data, line) {
				t.Errorf("%q is read as %+v", line, got)
			}
		}
	})
}
