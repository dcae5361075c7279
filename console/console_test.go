package console

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kernos/console/build"
)

// pageFiles returns what the page is made of.
func pageFiles() fs.FS {
	files, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // dist is a valid path
	}
	return files
}

// What is embedded is what the source makes; make console makes it again.
func TestDistMatchesItsSource(t *testing.T) {
	made, err := build.Build(".")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(pageFiles(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(pageFiles(), name)
		if err == nil && !bytes.Equal(body, made[name]) {
			t.Errorf("dist/%s isn't what the source makes; make console makes it again", name)
		}
		delete(made, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range made {
		t.Errorf("dist/%s is missing; make console makes it", name)
	}
}

// The first view loads at most 60 KB of compressed JavaScript, and all of the console is small.
func TestTheConsoleIsSmall(t *testing.T) {
	whole := 0
	loaded := make(map[string]bool)
	imports := regexp.MustCompile(`(?:from|import)\s*"\./([^"]+)"`)
	var load func(name string) int
	load = func(name string) int {
		if loaded[name] {
			return 0
		}
		loaded[name] = true
		body, err := fs.ReadFile(pageFiles(), name)
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		_, _ = w.Write(body)
		_ = w.Close()
		size := packed.Len()
		for _, m := range imports.FindAllSubmatch(body, -1) {
			size += load(string(m[1]))
		}
		return size
	}
	first := load("app.js")
	names, err := fs.Glob(pageFiles(), "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := fs.Stat(pageFiles(), name)
		if err != nil {
			t.Fatal(err)
		}
		whole += int(info.Size())
		if strings.HasPrefix(name, "view-") && first < 60<<10 { // the largest view, opened first
			if size := load(name); size > 40<<10 {
				t.Errorf("%s is %d bytes compressed", name, size)
			}
		}
	}
	t.Logf("%d bytes of compressed JavaScript before the first view, %d bytes in all", first, whole)
	if first > 60<<10 || whole > 500<<10 {
		t.Errorf("the first view loads %d bytes, and the console is %d", first, whole)
	}
}

// Every text colour has a contrast of at least 4.5 to the grounds that it stands on, in both
// themes.
func TestContrast(t *testing.T) {
	text, err := os.ReadFile("src/app.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := regexp.MustCompile(`(?s):root(?:\[[^]]*\])? \{(.*?)\}`).FindAllSubmatch(text, -1)
	if len(themes) != 2 {
		t.Fatalf("%d themes", len(themes))
	}
	for _, theme := range themes {
		colour := make(map[string]float64)
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6})`).FindAllSubmatch(theme[1], -1) {
			colour[string(m[1])] = luminance(t, string(m[2]))
		}
		pairs := map[string][]string{"guidance": {"guidance-ground"}, "ink": {"guidance-ground", "hover"}, "on-accent": {"accent"}}
		for _, name := range []string{"ink", "ink2", "ink3", "accent", "command", "query", "event", "reply", "error"} {
			pairs[name] = append(pairs[name], "ground", "pane")
		}
		for name, grounds := range pairs {
			for _, ground := range grounds {
				a, b := colour[name], colour[ground]
				if ratio := (math.Max(a, b) + 0.05) / (math.Min(a, b) + 0.05); ratio < 4.5 || a == 0 && b == 0 {
					t.Errorf("%s on %s has a contrast of %.2f", name, ground, ratio)
				}
			}
		}
	}
}

func luminance(t *testing.T, hexadecimal string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hexadecimal, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	part := func(shift uint) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
}

// The libraries are those that SHA256SUMS names, each of them.
func TestLibrariesAreUnchanged(t *testing.T) {
	list, err := os.Open("third_party/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = list.Close() }()
	known := map[string]bool{"third_party/SHA256SUMS": true}
	for s := bufio.NewScanner(list); s.Scan(); {
		sum, name, _ := strings.Cut(s.Text(), "  ./")
		name = "third_party/" + name
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(body); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has changed", name)
		}
		known[name] = true
	}
	_ = filepath.WalkDir("third_party", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !known[filepath.ToSlash(name)] {
			t.Errorf("%s isn't listed", name)
		}
		return err
	})
}

// A link lets one browser of this machine in, once, within a minute.
func TestLinks(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Options{Cookie: "kernos-test"})
	c.opts.Now = func() time.Time { return now }
	c.opts.SignIn = func(context.Context) (string, time.Duration, error) { return "secret", time.Minute, nil }
	enter := func(link, method, from string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/"+link, nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	const here = "127.0.0.1:1234"
	link := c.Link()
	for _, try := range []struct {
		what, link, method, from string
		want                     int
	}{
		{"a look", link, http.MethodHead, here, 405},
		{"another machine", link, http.MethodGet, "192.0.2.1:1234", 403},
		{"a wrong code", "console/enter?code=AAAA", http.MethodGet, here, 403},
		{"the link", link, http.MethodGet, here, 303},
		{"the link again", link, http.MethodGet, here, 403},
	} {
		w := enter(try.link, try.method, try.from)
		if w.Code != try.want {
			t.Errorf("%s gets %d, want %d", try.what, w.Code, try.want)
		}
		cookie := w.Header().Get("Set-Cookie")
		if (try.want == 303) != strings.Contains(cookie, "kernos-test=secret; Path=/; Max-Age=60; HttpOnly; SameSite=Strict") {
			t.Errorf("%s gets the cookie %q", try.what, cookie)
		}
	}
	late := c.Link()
	now = now.Add(codeTime)
	if w := enter(late, http.MethodGet, here); w.Code != 403 {
		t.Errorf("a link of a minute ago gets %d", w.Code)
	}
	first := c.Link()
	for range maxCodes {
		c.Link()
	}
	if w := enter(first, http.MethodGet, here); w.Code != 403 {
		t.Errorf("the oldest of too many links gets %d", w.Code)
	}
}
