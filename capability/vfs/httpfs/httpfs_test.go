package httpfs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/vfs"
	"kernos/capability/vfs/vfstest"
	"kernos/message"
)

// newServer returns a tree with a server mounted at its root.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, opts Options, h http.HandlerFunc) *vfs.Tree {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	opts.Client = s.Client()
	d, err := Open(s.URL+"/base", opts)
	if err != nil {
		t.Fatal(err)
	}
	return vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/", Driver: d}}})
}

func TestAServer(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	tree := newServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		if strings.HasSuffix(r.URL.Path, "missing") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("hello"))
	})
	for uri, path := range map[string]string{
		"os://a/b.md":       "/base/a/b.md",
		"os://a/../../x":    "/base/x",
		"os://a b":          "/base/a%20b",
		"os://a?b#c":        "/base/a%3Fb%23c",
		"os://100%.md":      "/base/100%25.md",
		"os://%252e%252e/x": "/base/%25252e%25252e/x",
		"os://C:/x":         "/base/C:/x",
		"os://@evil.com/x":  "/base/@evil.com/x",
		"os://ü":            "/base/%C3%BC",
	} {
		f, err := tree.Read(t.Context(), uri)
		if err != nil || string(f.Data) != "hello" || f.Version == "" {
			t.Errorf("Read(%s) = %+v, %v", uri, f, err)
			continue
		}
		if got := seen.Load().RequestURI; got != path {
			t.Errorf("Read(%s) asks for %s, want %s", uri, got, path)
		}
	}
	_, err := tree.Read(t.Context(), "os://missing")
	vfstest.WantCode(t, "a file that is missing", err, 502)
	want := message.Error{Code: 404, Message: "Not Found: https://" + seen.Load().Host + "/base/missing"}
	if e, ok := errors.AsType[*message.Error](err); !ok || !strings.HasPrefix(e.Message, "VFS fetch failed: ") || e.Cause == nil || e.Cause.Code != want.Code || e.Cause.Message != want.Message {
		t.Errorf("a file that is missing: the error is %#v, want the cause %#v", e, want)
	}
	_, err = tree.Write(t.Context(), "os://x", nil, "")
	vfstest.WantCode(t, "Write", err, 403)
	_, err = tree.Read(t.Context(), "os://")
	vfstest.WantCode(t, "reading the root", err, 422)
	for _, err := range tree.Walk(t.Context(), "os://") {
		vfstest.WantCode(t, "listing", err, 403)
	}
	if info, err := tree.Stat(t.Context(), "os://x"); err != nil || info.Size != 5 {
		t.Errorf("Stat = %+v, %v", info, err)
	}
}

// TestAServerIsAskedAgain: what has not changed is not sent twice, and what has is seen.
func TestAServerIsAskedAgain(t *testing.T) {
	for _, header := range []string{"ETag", "Last-Modified", ""} {
		content := "first"
		mark := map[string]string{"first": `"1"`, "second": `"2"`}
		if header == "Last-Modified" {
			mark = map[string]string{"first": "Mon, 02 Jan 2023 15:04:05 GMT", "second": "Tue, 03 Jan 2023 15:04:05 GMT"}
		}
		sent, gone := 0, false
		tree := newServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if gone {
				http.Error(w, "gone", http.StatusGone)
				return
			}
			if header != "" {
				w.Header().Set(header, mark[content])
				if r.Header.Get("If-None-Match") == mark[content] || r.Header.Get("If-Modified-Since") == mark[content] {
					w.WriteHeader(http.StatusNotModified)
					return
				}
			}
			sent++
			_, _ = w.Write([]byte(content))
		})
		read := func() vfs.File {
			t.Helper()
			f, err := tree.Read(t.Context(), "os://x")
			if err != nil || string(f.Data) != content {
				t.Errorf("%s: read %q, %v; want %q", header, f.Data, err, content)
			}
			return f
		}
		first := read()
		first.Data[0] = 'X' // it is the reader's own
		if again := read(); again.Version != first.Version {
			t.Errorf("%s: the version changes without the content", header)
		}
		content = "second"
		if second := read(); second.Version == first.Version {
			t.Errorf("%s: the version does not change with the content", header)
		}
		read()
		if want := 2; header != "" && sent != want {
			t.Errorf("%s: sent %d times, want %d", header, sent, want)
		}
		gone = true
		_, err := tree.Read(t.Context(), "os://x")
		vfstest.WantCode(t, "a file that has gone", err, 502)
	}
}

func TestAServerThatFails(t *testing.T) {
	tree := newServer(t, Options{Timeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/broken":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half of"))
		case "/base/unasked":
			w.WriteHeader(http.StatusNotModified)
		case "/base/out":
			http.Redirect(w, r, "/elsewhere/secret", http.StatusFound)
		case "/base/away":
			http.Redirect(w, r, "https://example.com/base/x", http.StatusFound)
		case "/base/plain":
			http.Redirect(w, r, "http://"+r.Host+"/base/x", http.StatusFound)
		case "/base/around":
			http.Redirect(w, r, "/base/around", http.StatusFound)
		case "/base/moved":
			http.Redirect(w, r, "/base/here", http.StatusFound)
		case "/base/here":
			_, _ = w.Write([]byte("here"))
		case "/base/denied":
			http.Error(w, "SECRET", http.StatusForbidden)
		default:
			http.Error(w, "SECRET", http.StatusInternalServerError)
		}
	})
	for name, want := range map[string]int{
		"broken": 502, "unasked": 502, "out": 502, "away": 502, "plain": 502, "around": 502,
		"denied": 502, "error": 502, "moved": 0,
	} {
		_, err := tree.Read(t.Context(), "os://"+name)
		vfstest.WantCode(t, name, err, want)
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error tells what the server said: %v", name, err)
		}
	}
}

func TestAServerThatIsSlow(t *testing.T) {
	var expire atomic.Pointer[context.CancelFunc] // makes the deadline of the last request pass
	deadline := func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		expire.Store(&cancel)
		return ctx, cancel
	}
	tree := newServer(t, Options{deadline: deadline}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/stuck" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		(*expire.Load())()
		<-r.Context().Done()
	})
	for _, name := range []string{"slow", "stuck"} {
		_, err := tree.Read(t.Context(), "os://"+name)
		vfstest.WantCode(t, name, err, 504)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tree.Read(ctx, "os://slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that has gone: %v", err)
	}
}

// TestAServerThatSendsTooMuch: also if it is little before it is unpacked.
func TestAServerThatSendsTooMuch(t *testing.T) {
	const limit = 1 << 20
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, limit+1))
	_ = w.Close()
	tree := newServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		case "/base/large":
			_, _ = w.Write(make([]byte, limit+1))
		default:
			_, _ = w.Write(make([]byte, limit))
		}
	})
	tree.Mounts()[0].Driver.(*server).limit = limit
	for name, want := range map[string]int{"large": 413, "bomb": 413, "enough": 0} {
		_, err := tree.Read(t.Context(), "os://"+name)
		vfstest.WantCode(t, name, err, want)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	d, err := Open("https://127.0.0.1:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree := vfstest.NewTree(t, vfs.Options{Mounts: []vfs.Mount{{Path: "/far", Driver: d}}})
	_, err = tree.Read(t.Context(), "os://far/x")
	vfstest.WantCode(t, "Read", err, 502)
	if e := err.Error(); !strings.HasPrefix(e, "VFS fetch failed: 127.0.0.1:1 can't be reached") {
		t.Errorf("the error is %q", e)
	}
}

// TestAChangeWithinASecond: Last-Modified does not tell two versions of one second apart.
func TestAChangeWithinASecond(t *testing.T) {
	var content atomic.Value
	content.Store("one")
	modified := time.Now()
	tree := newServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", modified, strings.NewReader(content.Load().(string)))
	})
	for _, want := range []string{"one", "two"} {
		content.Store(want)
		if f, err := tree.Read(t.Context(), "os://a"); err != nil || string(f.Data) != want {
			t.Errorf("got %q, %v, want %q", f.Data, err, want)
		}
	}
}
