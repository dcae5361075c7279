// Package console is the web console: a page that is a reflective client of the kernel like any
// other, and the way into it for the owner's browser.
//
//	c := console.New(console.Options{SignIn: …, SignOut: …})
//	link := "http://127.0.0.1:7420/" + c.Link() // for one browser, for a minute
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
	"html"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed all:dist
var embedded embed.FS

const (
	// EnterPath is where a link leads. It is the one path that needs no sign-in.
	EnterPath = "/console/enter"

	leavePath = "/console/leave"

	// codeTime is how long the code of a link is good for.
	codeTime = time.Minute

	// maxCodes is how many codes are good at a time. One more takes the place of the oldest.
	maxCodes = 16
)

// policy lets the page load its own files and talk to its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// Options are the settings of a Console.
type Options struct {
	// Cookie is the name of the cookie that a browser is known by.
	Cookie string

	// SignIn makes a secret for a browser, which the server's guard then takes from the cookie.
	SignIn func(context.Context) (secret string, life time.Duration, err error)

	// SignedIn reports whether the caller of the context has signed in, and SignOut ends that.
	SignedIn func(context.Context) bool
	SignOut  func(context.Context)

	// Now is the clock that links end by. Nil means the machine's.
	Now func() time.Time
}

// A Console serves the page, and lets browsers in. It is safe for concurrent use.
type Console struct {
	opts Options

	mu    sync.Mutex
	codes []code // the oldest first
}

// A code lets one browser in.
type code struct {
	hash [sha256.Size]byte
	end  time.Time
}

// New returns a console.
func New(o Options) *Console {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Console{opts: o}
}

// Link returns the end of an address that lets one browser in, within a minute.
func (c *Console) Link() string {
	text := rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.codes) >= maxCodes {
		c.codes = c.codes[1:]
	}
	c.codes = append(c.codes, code{sha256.Sum256([]byte(text)), c.opts.Now().Add(codeTime)})
	return strings.TrimPrefix(EnterPath, "/") + "?code=" + text
}

// redeem reports whether a code is good, and makes it useless.
func (c *Console) redeem(text string) bool {
	hash := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, known := range c.codes {
		if known.hash == hash {
			c.codes = append(c.codes[:i:i], c.codes[i+1:]...)
			return c.opts.Now().Before(known.end)
		}
	}
	return false
}

// ServeHTTP implements [http.Handler]: the page at /, and everything below /console/.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == EnterPath:
		c.enter(w, r)
	case r.URL.Path == leavePath:
		c.signOut(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The console is read with GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		serveFile(w, r, "index.html")
	default:
		serveFile(w, r, strings.TrimPrefix(r.URL.Path, "/console/"))
	}
}

// enter lets a browser in that has followed a link.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // what only looks at links asks with HEAD, and must not use them up
		w.Header().Set("Allow", "GET")
		http.Error(w, "A link is followed with GET", http.StatusMethodNotAllowed)
		return
	}
	if !fromLoopback(r) {
		Refuse(w, http.StatusForbidden, "This link is for a browser on the machine of the kernel.")
		return
	}
	if !c.redeem(r.URL.Query().Get("code")) {
		Refuse(w, http.StatusForbidden, "This link was used already, or is older than a minute.")
		return
	}
	secret, life, err := c.opts.SignIn(r.Context())
	if err != nil {
		Refuse(w, http.StatusServiceUnavailable, "The kernel can't let a browser in: "+err.Error())
		return
	}
	http.SetCookie(w, c.cookie(r, secret, int(life.Seconds())))
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", "../")
	w.WriteHeader(http.StatusSeeOther)
}

// cookie returns the cookie of a browser. Behind a proxy, headers of the proxy name the path and scheme under which the
// browser knows this server; both only narrow to whom the browser sends the cookie.
func (c *Console) cookie(r *http.Request, secret string, life int) *http.Cookie {
	at := path.Clean("/" + r.Header.Get("X-Forwarded-Prefix"))
	if at != "/" {
		at += "/"
	}
	return &http.Cookie{Name: c.opts.Cookie, Value: secret, Path: at, MaxAge: life, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"}
}

func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// signOut ends the sign-in of a browser.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "Signing out is a POST", http.StatusMethodNotAllowed)
		return
	}
	if !c.opts.SignedIn(r.Context()) {
		http.Error(w, "This caller did not sign in with a link, so it can't sign out", http.StatusConflict)
		return
	}
	http.SetCookie(w, c.cookie(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
	_ = http.NewResponseController(w).Flush() // the connection ends with the sign-in
	c.opts.SignOut(r.Context())
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

// Refuse answers a browser that isn't let in, with a page for its reader.
func Refuse(w http.ResponseWriter, status int, reason string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Kernos</title><h1>Kernos</h1><p>` + html.EscapeString(reason) +
		`</p><p>Type <code>kernos console</code> in a terminal of this machine to open the console.</p></html>`))
}
