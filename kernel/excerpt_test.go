package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// shelf is blobs by their paths.
type shelf struct {
	kerneltest.NoBlobs
	files map[string]string
}

func (s shelf) Beginning(_ context.Context, p message.BlobPointer, n int) ([]byte, int64, error) {
	data, ok := s.files[p.Path]
	if !ok {
		return nil, 0, errors.New("not for this caller")
	}
	return []byte(data[:min(n, len(data))]), int64(len(data)), nil
}

func TestExcerptShowsWhereEachValueBegins(t *testing.T) {
	k := kerneltest.New(t, &kernel.Options{ReadBlob: "Blob.Read", Blobs: shelf{files: map[string]string{
		"/short": "hello", "/long": strings.Repeat("abc ", 1000), "/wide": strings.Repeat("€", 1000), "/lines": strings.Repeat("\x01\n", 1000), "/image": "\x89PNG\xff" + strings.Repeat("x", 100),
	}}})
	ref := func(path string) string { return `{"scheme":"file","path":"` + path + `"}` }
	note := func(name string, size, first int) string {
		return fmt.Sprintf("%s has %d bytes, and %[1]sBeginning the first %[3]d; Blob.Read {ref: %[1]sRef, offset: %[3]d} reads on.", name, size, first)
	}
	for _, c := range []struct {
		reply, more string // what is added to the reply
		moved       int
	}{
		{`{"a":1}`, ``, 0},
		{`["Ref"]`, ``, 0},
		{`null`, ``, 0},
		{`{"dataRef":` + ref("/elsewhere") + `}`, ``, 0},
		{`{"xRef":5,"yRef":{}}`, ``, 0},
		{`{"body":"whole","bodyRef":` + ref("/short") + `}`, ``, 0},
		{`{"inner":{"bodyRef":` + ref("/short") + `}}`, ``, 0},
		{`{"bodyRef":` + ref("/short") + `}`, `,"bodyBeginning":"hello","note":"` + note("body", 5, 5) + `"`, 1},
		{`{"status":200,"bodyRef":` + ref("/long") + `}`, `,"bodyBeginning":"` + strings.Repeat("abc ", 25) + `","note":"` + note("body", 4000, 100) + `"`, 1},
		{`{"dataRef":` + ref("/wide") + `}`, `,"dataBeginning":"` + strings.Repeat("€", 33) + `","note":"` + note("data", 3000, 99) + `"`, 1},
		{`{"dataRef":` + ref("/lines") + `}`, `,"dataBeginning":"` + strings.Repeat(`\u0001\n`, 12) + `","note":"` + note("data", 2000, 24) + `"`, 1},
		{`{"dataRef":` + ref("/image") + `}`, `,"note":"data has 105 bytes; Blob.Read {ref: dataRef, offset: 0} reads on."`, 1},
		{`{"aRef":` + ref("/short") + `,"bRef":` + ref("/short") + `}`, `,"aBeginning":"hello","bBeginning":"hello","note":"` + note("a", 5, 5) + " " + note("b", 5, 5) + `"`, 2},
	} {
		shown, moved := k.Excerpt(t.Context(), []byte(c.reply), 100)
		if want := strings.TrimSuffix(c.reply, "}") + c.more + strings.Repeat("}", strings.Count(c.reply[len(c.reply)-1:], "}")); string(shown) != want || len(moved) != c.moved {
			t.Errorf("got %s\nwant %s", shown, want)
		}
		if !json.Valid(shown) {
			t.Errorf("not JSON: %s", shown)
		}
	}
}
