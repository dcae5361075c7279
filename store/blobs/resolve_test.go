package blobs_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/message"
	"kernos/store/blobs"
)

// code returns the code that a caller would be answered with.
func code(err error) int {
	if err == nil {
		return 0
	}
	e, _ := message.ErrorOf(err)
	return e.Code
}

func TestResolveReadsFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a file")
	writeFile(t, file)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 300))
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	r := blobs.Resolver{Limit: 10}
	for _, c := range []struct {
		path string
		code int
	}{
		{file, 0},
		{link, 0},
		{dir + "//./a file", 0},
		{dir + "/../" + filepath.Base(dir) + "/a file", 0},
		{filepath.Join(dir, "none"), 404},
		{filepath.Join(file, "inside"), 404},
		{dir, 422},
		{"/dev/null", 422},
		{"relative", 422},
		{file + "\x00", 422},
		{long, 422},
		{loop, 422},
	} {
		data, err := r.Resolve(t.Context(), message.FileBlob(c.path))
		if code(err) != c.code {
			t.Errorf("%s: %v, want %d", c.path, err, c.code)
		}
		if c.code == 0 && string(data) != "in the way" {
			t.Errorf("%s holds %q", c.path, data)
		}
	}
	r.Limit = 9
	if _, err := r.Resolve(t.Context(), message.FileBlob(file)); code(err) != 413 {
		t.Errorf("ten bytes where nine are allowed: %v", err)
	}
	p := message.FileBlob(file)
	p.Fragment = "part"
	if _, err := r.Resolve(t.Context(), p); code(err) != 422 {
		t.Errorf("a fragment: %v", err)
	}
}

// A file of the system says that it is empty and is not.
func TestResolveTrustsNoSize(t *testing.T) {
	const path = "/proc/self/status"
	if _, err := os.Stat(path); err != nil {
		return // another system
	}
	r := blobs.Resolver{Limit: 10}
	if _, err := r.Resolve(t.Context(), message.FileBlob(path)); code(err) != 413 {
		t.Errorf("got %v", err)
	}
	r.Limit = 1 << 20
	if data, err := r.Resolve(t.Context(), message.FileBlob(path)); err != nil || len(data) == 0 {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestResolveConfinesToBlobs(t *testing.T) {
	parent := t.TempDir()
	outside := filepath.Join(parent, "outside")
	writeFile(t, outside)
	dir := filepath.Join(parent, "blobs")
	d := newDir(t, dir)
	r := blobs.Resolver{Dir: d, Confined: true}
	none := d.Pointer(blobs.Sum([]byte("none")))
	if _, err := r.Resolve(t.Context(), none); code(err) != 404 {
		t.Errorf("a directory that is not there: %v", err)
	}
	b, secret := put(t, d, "hello"), blobs.Sum([]byte("secret"))
	if err := os.MkdirAll(filepath.Dir(d.Path(secret)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, d.Path(secret)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, ".new-1"))
	for _, c := range []struct {
		path string
		code int
	}{
		{b.Path, 0},
		{none.Path, 404},
		{outside, 403},
		{dir + "/../outside", 403},
		{filepath.Join(dir, ".new-1"), 403},
		{dir, 403},
		{"/etc/passwd", 403},
		{filepath.Join("/other", b.Hash.String()[:2], b.Hash.String()), 403},
		{d.Path(secret), 403},
	} {
		data, err := r.Resolve(t.Context(), message.FileBlob(c.path))
		if code(err) != c.code {
			t.Errorf("%s: %q, %v; want %d", c.path, data, err, c.code)
		}
	}
	if _, err := (&blobs.Resolver{Confined: true}).Resolve(t.Context(), b.Pointer()); code(err) != 403 {
		t.Errorf("confined to nothing: %v", err)
	}
}

// Two origins have one home and never see each other's blobs, nor what is beside them.
func TestResolveKeepsOutOfTheHome(t *testing.T) {
	parent := t.TempDir()
	home := filepath.Join(parent, "home")
	mine := newDir(t, filepath.Join(home, "origins", "mine", "blobs"))
	others := newDir(t, filepath.Join(home, "origins", "others", "blobs"))
	outside := filepath.Join(parent, "outside")
	writeFile(t, outside)
	own, foreign := put(t, mine, "mine"), put(t, others, "theirs")
	for _, name := range []string{"token", "origins/mine/key", "origins/mine/blobs/.new-1", "origins/others/store/1.sst"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path)
	}
	link := func(to, name string) string {
		path := filepath.Join(parent, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	alias := link(home, "alias")
	hidden := blobs.Sum([]byte("hidden"))
	if err := os.MkdirAll(filepath.Dir(mine.Path(hidden)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(foreign.Path, mine.Path(hidden)); err != nil {
		t.Fatal(err)
	}
	within := func(dir, path string) string { return strings.Replace(path, home, dir, 1) }
	for _, r := range []blobs.Resolver{{Dir: mine, Private: []string{home}}, {Dir: mine, Private: []string{alias}}} {
		for _, c := range []struct {
			path string
			code int
		}{
			{own.Path, 0},
			{within(alias, own.Path), 0},
			{link(own.Path, "own"+filepath.Base(r.Private[0])), 0},
			{outside, 0},
			{link(outside, "far"+filepath.Base(r.Private[0])), 0},
			{filepath.Join(parent, "none"), 404},
			{mine.Path(blobs.Sum([]byte("none"))), 404},
			{foreign.Path, 403},
			{within(alias, foreign.Path), 403},
			{within("/proc/self/root"+home, foreign.Path), 403},
			{link(foreign.Path, "foreign"+filepath.Base(r.Private[0])), 403},
			{link(filepath.Dir(foreign.Path), "folder"+filepath.Base(r.Private[0])) + "/" + foreign.Hash.String(), 403},
			{mine.Path(hidden), 403},
			{filepath.Join(home, "token"), 403},
			{filepath.Join(home, "origins/mine/key"), 403},
			{filepath.Join(home, "origins/mine/blobs/.new-1"), 403},
			{filepath.Join(home, "origins/mine/blobs/../key"), 403},
			{filepath.Join(home, "origins/others/store/1.sst"), 403},
			{others.Path(blobs.Sum([]byte("none"))), 403}, // no caller learns what others have
			{within(alias, others.Path(blobs.Sum([]byte("none")))), 403},
			{home, 403},
			{parent, 422},
		} {
			data, err := r.Resolve(t.Context(), message.FileBlob(c.path))
			if code(err) != c.code {
				t.Errorf("%s: %q, %v; want %d", c.path, data, err, c.code)
			}
		}
	}
	if _, err := (&blobs.Resolver{Private: []string{filepath.Join(parent, "no home")}}).Resolve(t.Context(), message.FileBlob(outside)); err != nil {
		t.Errorf("without a home: %v", err)
	}
}

func TestResolveTakesDataPointers(t *testing.T) {
	p := message.BlobPointer{Scheme: "data", Path: "text/plain;base64," + base64.StdEncoding.EncodeToString([]byte("hello"))}
	if data, err := new(blobs.Resolver).Resolve(t.Context(), p); err != nil || string(data) != "hello" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := (&blobs.Resolver{Limit: 4}).Resolve(t.Context(), p); code(err) != 413 {
		t.Errorf("too large: %v", err)
	}
	p.Fragment = "x"
	if _, err := new(blobs.Resolver).Resolve(t.Context(), p); code(err) != 422 {
		t.Errorf("a fragment: %v", err)
	}
	for _, scheme := range []string{"", "http", "ftp"} {
		if _, err := new(blobs.Resolver).Resolve(t.Context(), message.BlobPointer{Scheme: scheme, Path: "/x"}); code(err) != 422 {
			t.Errorf("scheme %q: %v", scheme, err)
		}
	}
}

// A deadline is a context whose time is over when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} { return d.passed }

// Err implements [context.Context].
func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestResolveFetchesOverTLS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") }))
	defer plain.Close()
	stuck := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/data", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "token=secret" {
			http.Error(w, "no token", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, "hello")
	})
	mux.HandleFunc("/missing", http.NotFound)
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			fmt.Fprint(w, "0123456789")
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1000000") })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20")
		fmt.Fprint(w, "short")
	})
	mux.HandleFunc("/to/{n}", func(w http.ResponseWriter, r *http.Request) {
		n := strings.TrimPrefix(r.PathValue("n"), "x")
		if n == "" {
			fmt.Fprint(w, "arrived")
			return
		}
		http.Redirect(w, r, "/to/x"+n[1:], http.StatusFound)
	})
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	late := &deadline{Context: t.Context(), passed: make(chan struct{})}
	mux.HandleFunc("/stuck", func(http.ResponseWriter, *http.Request) {
		close(late.passed)
		<-stuck
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	defer close(stuck)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := blobs.Resolver{Client: server.Client(), Limit: 100}
	at := func(path, query string) message.BlobPointer {
		return message.BlobPointer{Scheme: "https", Authority: u.Host, Path: path, Query: query}
	}
	for _, c := range []struct {
		path, query, want string
		code              int
	}{
		{"/data", "token=secret", "hello", 0},
		{"/data", "token=wrong", "403 Forbidden", 502},
		{"/missing", "", "404 Not Found", 502},
		{"/empty", "", "204 No Content", 502},
		{"/endless", "", "", 413},
		{"/announced", "", "", 413},
		{"/cut", "", "", 502},
		{"/to/x11111", "", "arrived", 0},
		{"/to/x111111", "", "more than 5 times", 502},
		{"/down", "", "not https", 502},
	} {
		data, err := r.Resolve(t.Context(), at(c.path, c.query))
		if code(err) != c.code {
			t.Errorf("%s: %q, %v; want %d", c.path, data, err, c.code)
		}
		if c.code == 0 && string(data) != c.want {
			t.Errorf("%s: got %q", c.path, data)
		}
		if c.code == 502 {
			e, _ := message.ErrorOf(err)
			if text := err.Error(); e.Cause == nil || !strings.Contains(text, c.want) || strings.Contains(text, "token=") {
				t.Errorf("%s: the error says %q", c.path, text)
			}
		}
	}

	if _, err := r.Resolve(late, at("/stuck", "")); code(err) != 504 {
		t.Errorf("a server that is too slow: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(gone, at("/data", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone: %v", err)
	}
	// A certificate that no authority vouches for, and no server at all.
	if _, err := (&blobs.Resolver{Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}).Resolve(t.Context(), at("/data", "")); code(err) != 502 {
		t.Errorf("a stranger's certificate: %v", err)
	}
	if _, err := r.Resolve(t.Context(), message.BlobPointer{Scheme: "https", Authority: "127.0.0.1:1", Path: "/"}); code(err) != 502 {
		t.Errorf("no server: %v", err)
	}
	if _, err := new(blobs.Resolver).Resolve(t.Context(), at("/data", "")); code(err) != 403 {
		t.Errorf("no client: %v", err)
	}
	r.Client.CloseIdleConnections()
}
