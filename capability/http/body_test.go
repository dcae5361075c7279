package http_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"kernos/capability/http"
	"kernos/kernel"
	"kernos/store"
	"kernos/store/blobs"
)

func TestShortTextIsInlineAndAllElseABlob(t *testing.T) {
	w := newWorld(t, http.Options{})
	long := strings.Repeat("é", 8000)
	for name, c := range map[string]struct {
		contentType, body, text string // the text is "" if a blob is wanted
	}{
		"plain":            {"text/plain", "hello\r\n\tworld\f", "hello\r\n\tworld\f"},
		"json":             {"application/json", `{"a":"\u0000"}`, `{"a":"\u0000"}`},
		"no type":          {"", "hello", "hello"},
		"broken type":      {"///;;;", "hello", "hello"},
		"octets of text":   {"application/octet-stream", "hello", "hello"},
		"unicode":          {"text/plain; charset=UTF-8", "日本語 😀", "日本語 😀"},
		"byte order mark":  {"text/plain", "\ufeffhello", "\ufeffhello"},
		"16,000 bytes":     {"text/plain", long, long}, // a line has 16,384
		"more":             {"text/plain", long + strings.Repeat("x", 384), ""},
		"escapes":          {"text/plain", strings.Repeat("\"", 9000), ""},              // which take two bytes each
		"latin 1":          {"text/html; charset=ISO-8859-1", "caf\xe9 \x80", "café €"}, // as browsers read it
		"shift-jis":        {"text/html; charset=Shift_JIS", "\x93\xfa\x96\x7b", "日本"},
		"utf-16":           {"text/plain; charset=utf-16", "h\x00i\x00", "hi"},
		"utf-16, big end":  {"text/plain; charset=utf-16", "\xfe\xff\x00h\x00i", "hi"},
		"unknown charset":  {"text/plain; charset=klingon", "hello", ""},
		"not as declared":  {"text/plain; charset=euc-jp", "\xff\xff\xff", ""},
		"not utf-8":        {"text/plain", "caf\xe9", ""},
		"cut in a letter":  {"text/plain", "caf\xc3", ""},
		"zero":             {"text/plain", "a\x00b", ""},
		"escape":           {"text/plain", "a\x1b[31mb", ""},
		"png":              {"image/png", "\x89PNG\r\n\x1a\n", ""},
		"binary as text":   {"text/html", "\x89PNG\r\n\x1a\n", ""},
		"large and binary": {"application/zip", strings.Repeat("\x00\xff", 50_000), ""},
	} {
		a := w.fetch(t, in{"url": same(t, c.contentType, c.body)})
		if c.text != "" {
			if a.Body == nil || *a.Body != c.text {
				t.Errorf("%s: got %.300s", name, a.text)
			}
			continue
		}
		if a.BodyRef == nil {
			t.Errorf("%s: got %.300s", name, a.text)
			continue
		}
		if got := a.content(t); got != c.body {
			t.Errorf("%s: %d bytes became %d others", name, len(c.body), len(got))
		}
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	return z.EncodeAll(data, nil)
}

// encoded is a server that sends these bytes with these headers.
func encoded(t testing.TB, status int, coding string, body []byte) string {
	return serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
}

func TestCompressedBodies(t *testing.T) {
	w := newWorld(t, http.Options{})
	short, long := "hello", strings.Repeat("hello ", 100_000)
	for _, text := range []string{short, long} {
		for coding, body := range map[string][]byte{
			"gzip": gzipped(t, []byte(text)), "GZIP": gzipped(t, []byte(text)), "x-gzip": gzipped(t, []byte(text)),
			"zstd":     zstandard(t, []byte(text)),
			" gzip\t ": append(gzipped(t, []byte(text[:3])), gzipped(t, []byte(text[3:]))...), // two members are one body
		} {
			a := w.fetch(t, in{"url": encoded(t, 200, coding, body)})
			if got := a.content(t); got != text {
				t.Errorf("%q: got %d bytes, want %d", coding, len(got), len(text))
			}
			if a.Headers["content-encoding"] != "" || a.Headers["content-length"] != "" {
				t.Errorf("%q: the headers still speak of it: %v", coding, a.Headers)
			}
		}
	}
	for _, coding := range []string{"br", "deflate", "gzip, gzip", "zstd, gzip"} { // which weren't asked for
		body := gzipped(t, []byte(short))
		a := w.fetch(t, in{"url": encoded(t, 200, coding, body)})
		if got := a.content(t); got != string(body) || a.Headers["content-encoding"] != coding {
			t.Errorf("%s: got %s", coding, a.text)
		}
	}
	body := gzipped(t, []byte(short))
	if a := w.fetch(t, in{"url": encoded(t, 206, "gzip", body), "headers": in{"Range": "bytes=0-"}}); a.content(t) != string(body) {
		t.Errorf("a part: got %s", a.text)
	}
	if a := w.fetch(t, in{"url": encoded(t, 200, "gzip", nil)}); a.content(t) != "" || a.Body == nil {
		t.Errorf("nothing: got %s", a.text)
	}
}

func TestDamagedCompression(t *testing.T) {
	w := newWorld(t, http.Options{})
	text := []byte(strings.Repeat("hello ", 10_000))
	broken := gzipped(t, text)
	broken[len(broken)-5] ^= 1
	for name, c := range map[string]struct {
		coding string
		body   []byte
	}{
		"not gzip": {"gzip", []byte("hello")}, "one byte": {"gzip", []byte("h")}, "cut": {"gzip", gzipped(t, text)[:50]}, "changed": {"gzip", broken},
		"not zstd": {"zstd", []byte("hello")}, "cut zstd": {"zstd", zstandard(t, text)[:20]},
		"a window of 1 GB": {"zstd", []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xA0, 0x01, 0x00, 0x00}},
	} {
		a := w.fetch(t, in{"url": encoded(t, 200, c.coding, c.body)})
		if a.Code != 502 || a.Cause == nil {
			t.Errorf("%s: got %s", name, a.text)
		}
	}
	if kept := w.files(t); len(kept) != 0 {
		t.Errorf("parts are kept: %q", kept)
	}
}

func TestBodiesHaveALimit(t *testing.T) {
	const limit = 100_000
	w := newWorld(t, http.Options{MaxBody: limit})
	zeros := make([]byte, 50<<20)
	endless := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(zeros[:10_000]); err != nil {
				return
			}
		}
	})
	for name, url := range map[string]string{
		"a gzip bomb":    encoded(t, 200, "gzip", gzipped(t, zeros)),
		"a zstd bomb":    encoded(t, 200, "zstd", zstandard(t, zeros)),
		"announced":      same(t, "text/plain", string(zeros[:limit+1])),
		"without an end": endless,
	} {
		a := w.fetch(t, in{"url": url})
		if a.Code != 413 || !strings.Contains(a.Message, "more than 100000 bytes") {
			t.Errorf("%s: got %s", name, a.text)
		}
	}
	if kept := w.files(t); len(kept) != 0 {
		t.Errorf("parts are kept: %q", kept)
	}
	if got := w.fetch(t, in{"url": same(t, "text/plain", string(zeros[:limit]))}).content(t); len(got) != limit {
		t.Errorf("exactly as much as is allowed: %d bytes", len(got))
	}
	tiny := newWorld(t, http.Options{MaxBody: 4})
	if a := tiny.fetch(t, in{"url": encoded(t, 200, "gzip", gzipped(t, []byte("hello")))}); a.Code != 413 {
		t.Errorf("a limit below that of inline text: got %s", a.text)
	}
}

// brokenBlobs is a disk that does not take anything.
type brokenBlobs struct{ err error }

func (b brokenBlobs) PutReader(_ context.Context, r io.Reader, _ int64) (blobs.Blob, error) {
	_, _ = io.Copy(io.Discard, r)
	return blobs.Blob{}, b.err
}

func TestDiskThatFails(t *testing.T) {
	url := same(t, "text/plain", strings.Repeat("x", 20_000))
	full := newWorld(t, http.Options{Blobs: brokenBlobs{store.Errorf(507, errors.New("secret path"), "The disk is full: make room, and try again")}})
	if a := full.fetch(t, in{"url": url}); a.Code != 507 || strings.Contains(a.text, "secret") {
		t.Errorf("got %s", a.text)
	}
	broken := newWorld(t, http.Options{Blobs: brokenBlobs{errors.New("secret path")}})
	if a := broken.fetch(t, in{"url": url}); a.Code != 500 || strings.Contains(a.text, "secret") {
		t.Errorf("got %s", a.text)
	}
	registry, err := kernel.NewRegistry(http.Module(http.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := registry.Lookup("Network.Fetch"); !ok {
		t.Error("no module without options")
	}
}

// percentages reads the progress events.
func percentages(t *testing.T, a *answer) (all []float64) {
	t.Helper()
	for _, e := range a.events {
		var data struct {
			Message    string
			Percentage float64
		}
		if err := json.Unmarshal(e.Data, &data); err != nil || e.Type != kernel.Progressed || data.Message == "" {
			t.Errorf("got the event %s %s", e.Type, e.Data)
		}
		all = append(all, data.Percentage)
	}
	return all
}

// flow is a server that sends megabytes without having them.
func flow(t testing.TB, megabytes int, announce bool) string {
	piece := bytes.Repeat([]byte("kernos\n\x00"), 1<<17)
	return serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		if announce {
			w.Header().Set("Content-Length", strconv.Itoa(megabytes*len(piece)))
		}
		for range megabytes {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
}

func TestLargeBodiesTellHowFarTheyAre(t *testing.T) {
	w := newWorld(t, http.Options{})
	known := percentages(t, w.fetch(t, in{"url": flow(t, 40, true), "timeout": 30000}))
	if len(known) < 15 || len(known) > 21 {
		t.Errorf("%d events: %v", len(known), known)
	}
	for i, p := range known {
		if p <= 0 || p > 1 || i > 0 && p <= known[i-1] {
			t.Errorf("not one after the other: %v", known)
		}
	}
	unknown := percentages(t, w.fetch(t, in{"url": flow(t, 40, false), "timeout": 30000}))
	if len(unknown) < 4 || len(unknown) > 8 {
		t.Errorf("%d events: %v", len(unknown), unknown)
	}
	if a := w.fetch(t, in{"url": same(t, "text/plain", strings.Repeat("x", 100_000))}); len(a.events) != 0 {
		t.Errorf("%d events for a body that is not large", len(a.events))
	}
}

func TestLargeBodyNeedsLittleMemory(t *testing.T) {
	const megabytes = 64
	w := newWorld(t, http.Options{})
	url := flow(t, megabytes, true)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := w.fetch(t, in{"url": url, "timeout": 30000})
	runtime.ReadMemStats(&after)
	if len(w.files(t)) != 1 || a.BodyRef == nil {
		t.Fatalf("got %s", a.text)
	}
	// Everything that was allocated on the way, by the server too, not what was left.
	if used := after.TotalAlloc - before.TotalAlloc; used > megabytes<<20/8 {
		t.Errorf("%d bytes were allocated for a body of %d MB", used, megabytes)
	}
}

func TestSameBodyIsKeptOnce(t *testing.T) {
	w := newWorld(t, http.Options{})
	url := same(t, "image/png", strings.Repeat("\x00", 5000))
	first, second := w.fetch(t, in{"url": url}), w.fetch(t, in{"url": url})
	if *first.BodyRef != *second.BodyRef || len(w.files(t)) != 1 {
		t.Errorf("got %s and %s", first.text, second.text)
	}
	if want := fmt.Sprintf("%s/", w.blobs); !strings.HasPrefix(first.BodyRef.Path, want) {
		t.Errorf("kept at %s", first.BodyRef.Path)
	}
}
