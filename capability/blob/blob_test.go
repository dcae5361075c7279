package blob_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/capability/blob"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store/blobs"
)

type world struct {
	t      *testing.T
	k      *kernel.Kernel
	dir    *blobs.Dir
	denied blobs.Hash
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := blobs.New(t.TempDir() + "/blobs")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir}
	reaches := func(_ context.Context, h blobs.Hash) (bool, error) { return h != w.denied, nil }
	w.k = kerneltest.Around(t, nil, func(*kernel.Registry) kernel.Module { return blob.Module(blob.Options{Dir: dir, Reaches: reaches}) })
	return w
}

func (w *world) put(data []byte) string {
	w.t.Helper()
	b, err := w.dir.Put(data)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b.Pointer().Append(nil))
}

type part struct {
	Text, Base64 *string
	Offset, Size int64
	Next         int64
	Code         int
	Message      string
}

func (w *world) read(ref, rest string) (p part) {
	w.t.Helper()
	a := kerneltest.Answer(w.t, w.k, kerneltest.Query("r", "Blob.Read", `{"ref":`+ref+rest+`}`))
	if line := message.Append(nil, &a); len(line) > message.MaxLine {
		w.t.Errorf("the reply has %d bytes", len(line))
	}
	if err := json.Unmarshal(a.Data, &p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// Whatever a blob holds, its parts are the whole, each fits into a line, and text stays text.
func TestPartsAreTheWhole(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		data []byte
		text bool
	}{
		"ascii":   {[]byte(strings.Repeat("0123456789", 5000)), true},
		"unicode": {[]byte(strings.Repeat("aé€😀", 5000)), true},
		"escapes": {[]byte(strings.Repeat("\"\\\n\t\u2028", 5000)), true},
		"json":    {[]byte(`{"a":"` + strings.Repeat("x", 20000) + `"}`), true},
		"binary":  {bytes.Repeat([]byte{0, 1, 0xff, 'a'}, 10000), false},
		"short":   {[]byte("€"), true},
		"cut":     {[]byte("€")[:2], false},
		"empty":   {nil, true},
	} {
		for _, length := range []string{"", `,"length":1000`, `,"length":4`} {
			if length == `,"length":4` && len(c.data) > 100 {
				continue
			}
			ref, whole := w.put(c.data), []byte(nil)
			for next := int64(0); ; {
				p := w.read(ref, fmt.Sprintf(`,"offset":%d%s`, next, length))
				if p.Code != 0 || p.Offset != next || p.Size != int64(len(c.data)) || (p.Text != nil) != c.text || (p.Base64 != nil) == c.text {
					t.Fatalf("%s%s at %d: %+v", name, length, next, p)
				}
				if p.Text != nil {
					whole = append(whole, *p.Text...)
				} else {
					b, err := base64.StdEncoding.DecodeString(*p.Base64)
					if err != nil {
						t.Fatal(err)
					}
					whole = append(whole, b...)
				}
				if p.Next == 0 {
					break
				}
				if p.Next <= next {
					t.Fatalf("%s%s: after %d comes %d", name, length, next, p.Next)
				}
				next = p.Next
			}
			if !bytes.Equal(whole, c.data) {
				t.Errorf("%s%s: the parts have %d bytes, the whole %d", name, length, len(whole), len(c.data))
			}
		}
	}
}

func TestWhatIsNotRead(t *testing.T) {
	w := newWorld(t)
	there, secret := w.put([]byte("abc")), w.put([]byte("for others"))
	w.denied = blobs.Sum([]byte("for others"))
	for _, c := range []struct {
		ref, rest string
		code      int
		words     string
	}{
		{there, `,"offset":4`, 422, "at most 3, the size of the blob, got 4"},
		{there, `,"offset":-1`, 422, "offset"},
		{there, `,"length":12001`, 422, "length"},
		{secret, ``, 404, "Blob not found"},
		{string(w.dir.Pointer(blobs.Sum([]byte("gone"))).Append(nil)), ``, 404, "Blob not found"},
		{`{"scheme":"file","path":"/etc/passwd"}`, ``, 422, "expected a pointer to a blob of this kernel"},
		{`{"scheme":"https","authority":"example.com","path":"/x"}`, ``, 422, "Http.Fetch the web"},
		{`{"path":"x"}`, ``, 422, "scheme"},
	} {
		if p := w.read(c.ref, c.rest); p.Code != c.code || !strings.Contains(p.Message, c.words) {
			t.Errorf("%s%s: got %+v", c.ref, c.rest, p)
		}
	}
	if p := w.read(there, `,"offset":3`); p.Code != 0 || *p.Text != "" {
		t.Errorf("at the end: %+v", p)
	}
	if p := w.read(`{"scheme":"data","path":"text/plain,hello"}`, `,"offset":1,"length":3`); p.Code != 0 || *p.Text != "ell" || p.Next != 4 {
		t.Errorf("a data pointer: %+v", p)
	}
}
