package console

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kernos/console/build"
	"kernos/message/mark"
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

// Each kind of message has the colour in the console that it has elsewhere.
func TestKindsHaveTheirColours(t *testing.T) {
	text, err := os.ReadFile("src/app.css")
	if err != nil {
		t.Fatal(err)
	}
	for kind, m := range mark.Of {
		var found []string
		for _, token := range regexp.MustCompile(`--`+string(kind)+`: (#[0-9a-f]{6});`).FindAllStringSubmatch(string(text), -1) {
			found = append(found, token[1])
		}
		if want := []string{m.Light, m.Dark}; !slices.Equal(found, want) {
			t.Errorf("%s is %v, not %v", kind, found, want)
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
	var enrolled []bool // as the owner
	c := New(Options{
		Now: func() time.Time { return now },
		Enrol: func(_ context.Context, b Browser, owner bool) (string, error) {
			if b.Origin != "http://127.0.0.1:7420" || b.Name != "Chrome 141" || len(b.Public) != 65 {
				t.Errorf("the browser is %+v", b)
			}
			enrolled = append(enrolled, owner)
			return "console-test", nil
		},
	})
	key := newKey(t)
	enter := func(link, from, origin string, spoil func(*enrolment)) *httptest.ResponseRecorder {
		_, code, _ := strings.Cut(link, "#enter=")
		e := enrolment{Code: code, Key: key.public, Challenge: c.challenges.next()}
		e.Signature = key.sign(origin, "POST /console/enrol", e.Challenge)
		if spoil != nil {
			spoil(&e)
		}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7420/console/enrol", bytes.NewReader(body))
		r.Header.Set("Origin", origin)
		r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	const here, origin = "127.0.0.1:1234", "http://127.0.0.1:7420"
	link, late := c.Link(true), c.Link(false)
	other := newKey(t)
	for _, try := range []struct {
		what, link, from, origin string
		spoil                    func(*enrolment)
		status                   int
		text                     string
	}{
		{"another machine", link, "192.0.2.1:1234", origin, nil, 403, "on the machine of the kernel"},
		{"another origin", link, here, "http://127.0.0.1:7421", nil, 403, "by the page of the console only"},
		{"no origin", link, here, "", nil, 403, "by the page of the console only"},
		{"the key of another browser", link, here, origin, func(e *enrolment) { e.Key = other.public }, 403, "has not signed"},
		{"no key", link, here, origin, func(e *enrolment) { e.Key = nil }, 403, "has not signed"},
		{"a challenge of its own", link, here, origin, func(e *enrolment) {
			e.Challenge = "AAAA"
			e.Signature = key.sign(origin, "POST /console/enrol", e.Challenge)
		}, 403, "has not signed"},
		{"a wrong code", "#enter=AAAA", here, origin, nil, 403, "used already, or is older"},
		{"the link", link, here, origin, nil, 200, `"name":"console-test"`},
		{"the link again", link, here, origin, nil, 403, "used already, and lets one browser in only"},
	} {
		w := enter(try.link, try.from, try.origin, try.spoil)
		if w.Code != try.status || !strings.Contains(w.Body.String(), try.text) {
			t.Errorf("%s gets %d %s", try.what, w.Code, w.Body)
		}
	}
	if len(enrolled) != 1 || !enrolled[0] {
		t.Errorf("enrolled are %v", enrolled)
	}
	now = now.Add(codeTime)
	if w := enter(late, here, origin, nil); w.Code != 403 || !strings.Contains(w.Body.String(), "older than a minute") {
		t.Errorf("a link of a minute ago gets %d %s", w.Code, w.Body)
	}
	first := c.Link(false)
	for range maxCodes {
		c.Link(false)
	}
	if w := enter(first, here, origin, nil); w.Code != 403 {
		t.Errorf("the oldest of too many links gets %d", w.Code)
	}
}

// A testKey signs as WebCrypto does.
type testKey struct {
	t       *testing.T
	private *ecdsa.PrivateKey
	public  []byte
}

func newKey(t *testing.T) *testKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return &testKey{t, private, public}
}

func (k *testKey) sign(origin, purpose, challenge string) []byte {
	hash := sha256.Sum256(signed(origin, purpose, challenge))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, hash[:])
	if err != nil {
		k.t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signature
}

// A proof holds for one origin, one purpose and one challenge, once, within a minute.
func TestProofs(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Options{Now: func() time.Time { return now }})
	restarted := New(Options{Now: c.opts.Now})
	key, other := newKey(t), newKey(t)
	const origin, purpose = "http://127.0.0.1:7420", "GET /ws"
	text := func(by *testKey, origin, purpose, challenge string) string {
		return "console-test." + challenge + "." + base64.RawURLEncoding.EncodeToString(by.sign(origin, purpose, challenge))
	}
	holds := func(at, from, proof string) bool {
		r := httptest.NewRequest(http.MethodGet, at, nil)
		if from != "" {
			r.Header.Set("Origin", from)
		}
		p, err := c.Proof(r, proof)
		return err == nil && p.Holds(key.public, origin)
	}
	once := text(key, origin, purpose, c.challenges.next())
	future := text(key, origin, purpose, New(Options{Now: func() time.Time { return now.Add(time.Hour) }}).challenges.next())
	for _, try := range []struct {
		what, at, from, proof string
		want                  bool
	}{
		{"another port", "http://127.0.0.1:7421/ws", "", once, false},
		{"another host", "http://localhost:7420/ws", "", once, false},
		{"another path", origin + "/openrpc.json", "", once, false},
		{"a page of another origin", origin + "/ws", "http://127.0.0.1:1", once, false},
		{"nothing else", origin + "/ws", origin, once, true},
		{"a second time", origin + "/ws", origin, once, false},
		{"a line end in the challenge", origin + "/ws", origin, strings.Replace(once, ".", ".\n", 1), false},
		{"a request without an origin", origin + "/ws", "", text(key, origin, purpose, c.challenges.next()), true},
		{"another key", origin + "/ws", origin, text(other, origin, purpose, c.challenges.next()), false},
		{"a signature for another origin", origin + "/ws", origin, text(key, "http://127.0.0.1:7421", purpose, c.challenges.next()), false},
		{"a challenge of another process", origin + "/ws", origin, text(key, origin, purpose, restarted.challenges.next()), false},
		{"a challenge that was never given", origin + "/ws", origin, text(key, origin, purpose, strings.Repeat("A", 54)), false},
		{"a challenge of the future", origin + "/ws", origin, future, false},
		{"no parts", origin + "/ws", origin, "console-test", false},
	} {
		if got := holds(try.at, try.from, try.proof); got != try.want {
			t.Errorf("%s: %t", try.what, got)
		}
	}
	late := text(key, origin, purpose, c.challenges.next())
	now = now.Add(challengeTime)
	if holds(origin+"/ws", origin, late) {
		t.Error("a challenge of a minute ago is taken")
	}
	if !holds(origin+"/ws", origin, text(key, origin, purpose, c.challenges.next())) || len(c.challenges.used) != 1 {
		t.Errorf("%d challenges are kept, of which one can be answered again", len(c.challenges.used))
	}
}

func TestBrowserNames(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0":                                                        "Firefox 143",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15":         "Safari 18",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0": "Edge 141",
		"curl/8.5.0": "", "": "", "Firefox/\x1b[31m": "",
	} {
		if got := browserName(agent); got != want {
			t.Errorf("%q is %q", agent, got)
		}
	}
}
