// Package console is the web console: a page that is a reflective client of the kernel like any
// other, and the way into it for the owner's browser.
//
//	c := console.New(console.Options{Enrol: …, Prove: …})
//	link := "http://127.0.0.1:7420/" + c.Link(false) // for one browser, for a minute
//
// The page itself is public, and has nothing of the kernel. A browser that opens it by a link makes a key that can't be
// read, and keeps it in its IndexedDB; the code of the link enrols the public part. Each connection and request of the
// page then proves that the browser holds the key (key.go).
//
// The page is in dist, which is made of src by package build: make console. It is embedded, and
// read from there; a kernel whose console is never opened pays for its bytes only.
package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"kernos/message"
)

//go:embed all:dist
var embedded embed.FS

const (
	// Where the page asks: for a challenge, to be let in, who it is, and to be let out.
	challengePath = "/console/challenge"
	enrolPath     = "/console/enrol"
	whoPath       = "/console/who"
	leavePath     = "/console/leave"

	// codeTime is how long the code of a link is good for.
	codeTime = time.Minute

	// maxCodes is how many codes are good at a time. One more takes the place of the oldest.
	maxCodes = 16

	// maxEnrolment is how many bytes a request to be let in may have.
	maxEnrolment = 4 << 10
)

// policy lets the page load its own files and talk to its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Options are the settings of a Console.
type Options struct {
	// Home tells the homes that a browser knows under one address apart.
	Home string

	// Enrol lets a browser in, for an hour with the owner's rights if owner is set. It returns the name that the browser's proofs
	// begin with.
	Enrol func(ctx context.Context, b Browser, owner bool) (name string, err error)

	// Who describes the browser that the caller of the context is, and reports whether it is one. Leave ends its sign-in.
	Who   func(context.Context) (who any, ok bool)
	Leave func(context.Context)

	// Now is the clock that links and challenges end by. Nil means the machine's.
	Now func() time.Time
}

// A Browser is what is known of a browser that is let in.
type Browser struct {
	Public []byte // its public key: a point of P-256
	Origin string // the origin of the console for the browser
	Name   string // "" if it isn't known
}

// A Console serves the page, and lets browsers in. It is safe for concurrent use.
type Console struct {
	opts       Options
	challenges *challenges

	mu    sync.Mutex
	codes []code // the oldest first
}

// A code lets one browser in.
type code struct {
	hash  [sha256.Size]byte
	end   time.Time
	owner bool
	used  bool
}

// New returns a console.
func New(o Options) *Console {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Console{opts: o, challenges: newChallenges(o.Now)}
}

// Link returns the end of an address that lets one browser in, within a minute, with the owner's rights if owner is set. The code is in
// the fragment, which browsers send to no server.
func (c *Console) Link(owner bool) string {
	text := rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.codes) >= maxCodes {
		c.codes = c.codes[1:]
	}
	c.codes = append(c.codes, code{hash: sha256.Sum256([]byte(text)), end: c.opts.Now().Add(codeTime), owner: owner})
	return "#enter=" + text
}

// redeem makes a code useless, and returns what it was good for. The error is for the person at the browser.
func (c *Console) redeem(text string) (owner bool, err error) {
	hash := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.codes {
		known := &c.codes[i]
		switch {
		case known.hash != hash:
			continue
		case known.used:
			return false, message.Errorf(403, "This link was used already, and lets one browser in only. If that wasn't yours, kernos token list shows it, and kernos token revoke ends it")
		case !c.opts.Now().Before(known.end):
			return false, message.Errorf(403, "This link is older than a minute")
		}
		known.used = true
		return known.owner, nil
	}
	return false, message.Errorf(403, "This link was used already, or is older than a minute")
}

// Public reports whether a path leads to the page or to a way in, which need no sign-in.
func Public(path string) bool {
	return strings.HasPrefix(path, "/console/") && path != whoPath && path != leavePath
}

// ServeHTTP implements [http.Handler]: the page at /, and everything below /console/.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, answer := http.MethodGet, c.file
	switch r.URL.Path {
	case challengePath:
		answer = c.challenge
	case whoPath:
		answer = c.who
	case enrolPath:
		method, answer = http.MethodPost, c.enrol
	case leavePath:
		method, answer = http.MethodPost, c.leave
	}
	if r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
		w.Header().Set("Allow", method)
		refuse(w, message.Errorf(http.StatusMethodNotAllowed, "%s takes %s", message.Clip(r.URL.Path, 100), method))
		return
	}
	answer(w, r)
}

func (c *Console) file(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		serveFile(w, r, "index.html")
		return
	}
	serveFile(w, r, strings.TrimPrefix(r.URL.Path, "/console/"))
}

func (c *Console) challenge(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{"challenge": c.challenges.next(), "home": c.opts.Home})
}

// An enrolment is what a browser sends that was opened by a link.
type enrolment struct {
	Code      string `json:"code"`
	Key       []byte `json:"key"`
	Challenge string `json:"challenge"`
	Signature []byte `json:"signature"`
}

// enrol lets a browser in that was opened by a link.
func (c *Console) enrol(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if !fromLoopback(r) {
		refuse(w, message.Errorf(403, "This link is for a browser on the machine of the kernel"))
		return
	}
	if !ownOrigin(r, origin) {
		refuse(w, message.Errorf(403, "A browser is let in by the page of the console only"))
		return
	}
	var e enrolment
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxEnrolment)).Decode(&e); err != nil {
		refuse(w, message.Errorf(400, "Expected the code of a link and a key that has signed a challenge, as the page of the console sends them"))
		return
	}
	// The key comes before the code: a request that proves nothing must not use a link up.
	if !verify(e.Key, origin, purpose(r), e.Challenge, e.Signature) || !c.challenges.take(e.Challenge) {
		refuse(w, message.Errorf(403, "The key of this browser has not signed the challenge; reload the page, which tries again"))
		return
	}
	owner, err := c.redeem(e.Code)
	if err != nil {
		refuse(w, err)
		return
	}
	name, err := c.opts.Enrol(r.Context(), Browser{Public: e.Key, Origin: origin, Name: browserName(r.UserAgent())}, owner)
	if err != nil {
		refuse(w, message.Errorf(503, "The kernel can't let a browser in: %v", err))
		return
	}
	reply(w, map[string]any{"name": name})
}

func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// who describes the caller to the page.
func (c *Console) who(w http.ResponseWriter, r *http.Request) {
	who, ok := c.opts.Who(r.Context())
	if !ok {
		who = nil
	}
	reply(w, map[string]any{"browser": who})
}

// leave ends the sign-in of a browser.
func (c *Console) leave(w http.ResponseWriter, r *http.Request) {
	if _, ok := c.opts.Who(r.Context()); !ok {
		refuse(w, message.Errorf(409, "This caller was not let in by a link, so it can't sign out"))
		return
	}
	w.WriteHeader(http.StatusNoContent)
	_ = http.NewResponseController(w).Flush() // the connection ends with the sign-in
	c.opts.Leave(r.Context())
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func refuse(w http.ResponseWriter, err error) {
	e, _ := message.ErrorOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code)
	_, _ = w.Write(append(e.Append(nil), '\n'))
}

// serveFile serves a file of the page, which a browser asks for again each time, and gets again
// if it has changed.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	body, err := embedded.ReadFile("dist/" + name)
	if err != nil {
		http.Error(w, "The console has no such file", http.StatusNotFound)
		return
	}
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if strings.HasSuffix(name, ".woff2") { // not every system knows it
		h.Set("Content-Type", "font/woff2")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
