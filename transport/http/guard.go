package http

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"kernos/kernel/principal"
	"kernos/message"
	"kernos/transport"
)

// A Guard decides which requests come in by an endpoint.
//
// A browser lets any page send requests to any address, this machine's among them. It names
// the page in Origin and Sec-Fetch-Site, so pages of other origins are refused. A
// page whose server renames itself to an address of this machine (DNS rebinding) is of the
// same origin as far as the browser knows, but the name stands in Host, so names that are
// not ours are refused too. A client other than a browser may send any header, and needs the
// token.
type Guard struct {
	// Hosts are the names, without ports, by which this endpoint is known, beside the address
	// that a connection came to and, if that is a loopback address, localhost.
	Hosts []string

	// Origins are the origins whose pages may use this endpoint, such as
	// https://app.example.com, beside that of the endpoint itself. One that has the Host of a request
	// is that of the endpoint itself, behind a proxy that has TLS.
	Origins []string

	// Authenticate returns the principal that a secret stands for, or nil if there is none.
	// Every request but those for health must have such a secret. Nil means that requests need
	// none, and act for Anyone.
	Authenticate func(secret string) (*principal.Principal, error)

	// Anyone returns the principal of callers who need no secret. Nil means the owner.
	Anyone func() *principal.Principal

	// Issuer is the address of the authorization server that gives clients the secrets which Authenticate knows.
	// It is named to clients, for which the endpoint must have TLS. "" means that there is none.
	Issuer string

	// Console lets the pages of the console in, which prove that their browser holds a key. Nil means that there is
	// no console.
	Console *ConsoleGuard
}

// A ConsoleGuard knows the browsers that were let in to the console.
type ConsoleGuard struct {
	// Public reports whether a path leads to the page itself, or to a way in. It needs no secret, and its caller may call nothing.
	Public func(path string) bool

	// Prove returns the principal of a browser that proves, with a request, that it holds a key. The error is a
	// *message.Error for the person at the browser.
	Prove func(r *http.Request, proof string) (*principal.Principal, error)

	// Cookie is the name of the cookie in which versions before 0.19 kept a secret. It opens nothing: browsers are told to drop it.
	Cookie string
}

// anonymous is the principal of requests for the page of the console, which call nothing.
var anonymous = sync.OnceValue(func() *principal.Principal {
	p, err := principal.New("anonymous", "anonymous", principal.Grant{Deny: []string{"*"}})
	if err != nil {
		panic(err) // can't happen: the grant is a constant
	}
	return p
})

// browses reports whether a person opens a page.
func browses(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Upgrade") == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// ParseOrigin returns an origin as a browser writes it.
func ParseOrigin(text string) (string, error) {
	if text == "null" { // pages without an origin send null; an operator may want to allow them
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Opaque != "" ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(text, "*?#") {
		return "", fmt.Errorf("expected the origin of a web page, such as https://app.example.com or http://localhost:5173, got %q", message.Clip(text, 200))
	}
	return originOf(u), nil
}

// originOf writes the origin of an address without the port that goes without saying.
func originOf(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host
}

// ParseHost returns a name, or an address, as it is compared with a Host.
func ParseHost(text string) (string, error) {
	host, ok := hostOf(text)
	if !ok || strings.ContainsAny(text, "/*@ ") {
		return "", fmt.Errorf("expected the name of a host, such as kernos.example.com, got %q", message.Clip(text, 200))
	}
	return host, nil
}

// hostOf returns the name in a Host, in lower case, without its port.
func hostOf(text string) (string, bool) {
	host := text
	if h, _, err := net.SplitHostPort(text); err == nil {
		host = h
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		host, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return "", false
		}
	} else if strings.Contains(text, ":") {
		if _, err := netip.ParseAddr(text); err != nil {
			return "", false
		}
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host, host != ""
}

// authority returns a Host as it stands in a BlobPointer.
func authority(host string) string { return strings.TrimSuffix(strings.ToLower(host), ":443") }

// check returns the principal that a request acts for. If there is none, it has answered the
// request; reason reports why, if that was a refusal.
func (g *Guard) check(w http.ResponseWriter, r *http.Request) (p *principal.Principal, reason transport.Reason) {
	if answered, why := g.checkPage(w, r); answered {
		return nil, why
	}
	if g.describe(w, r) {
		return nil, ""
	}
	return g.authenticate(w, r)
}

// checkPage checks the headers of a browser about the page, and reports whether it has answered the request.
func (g *Guard) checkPage(w http.ResponseWriter, r *http.Request) (answered bool, why transport.Reason) {
	if !g.knows(r) {
		refuse(w, refusal{403, "host_not_allowed", fmt.Sprintf(
			"This server isn't known by the host name %q; use its address, or start it with --allow-host and this name", message.Clip(r.Host, 200))})
		return true, refusedHost
	}
	origin, foreign, ok := g.page(r)
	if !ok {
		refuse(w, refusal{403, "origin_not_allowed", fmt.Sprintf(
			"Pages of %s may not use this server; start it with --allow-origin and that origin if they should", message.Clip(origin, 200))})
		return true, refusedOrigin
	}
	if foreign {
		h := w.Header()
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", exposed)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			preflight(w)
			return true, ""
		}
	}
	return false, ""
}

// authenticate finds the principal of a request, as check does.
func (g *Guard) authenticate(w http.ResponseWriter, r *http.Request) (p *principal.Principal, reason transport.Reason) {
	g.dropCookies(w, r)
	given := credentials(r)
	if g.Console != nil && (g.Console.Public(r.URL.Path) || r.URL.Path == "/" && browses(r)) {
		return anonymous(), ""
	}
	if g.Console != nil && given.proof != "" {
		p, err := g.Console.Prove(r, given.proof)
		if err != nil {
			e, _ := message.ErrorOf(err)
			refuse(w, refusal{e.Code, "key_refused", e.Message})
			return nil, refusedToken
		}
		return p, ""
	}
	if health(r) || g.Authenticate == nil {
		if g.Anyone == nil {
			return principal.TheOwner(), ""
		}
		return g.Anyone(), ""
	}
	if given.token != nil {
		p, err := g.Authenticate(*given.token)
		if err != nil {
			refuse(w, refusal{503, "no_token", "The token can't be read, so no request can be checked; the daemon's log says why"})
			return nil, refusedToken
		}
		if p != nil {
			return p, ""
		}
	}
	w.Header().Set("WWW-Authenticate", g.challenge(r))
	refuse(w, refusal{401, "token_required", g.help(given.token != nil)})
	return nil, refusedToken
}

// dropCookies takes the cookies out of a request: none is a credential. A browser that has one of an earlier version is told to
// drop it.
func (g *Guard) dropCookies(w http.ResponseWriter, r *http.Request) {
	if g.Console != nil {
		if _, err := r.Cookie(g.Console.Cookie); err == nil {
			at := path.Clean("/" + r.Header.Get("X-Forwarded-Prefix"))
			if at != "/" {
				at += "/"
			}
			http.SetCookie(w, &http.Cookie{Name: g.Console.Cookie, Path: at, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		}
	}
	r.Header.Del("Cookie")
}

// help returns the text for a caller that has given no secret, or one that doesn't count.
func (g *Guard) help(given bool) string {
	source := "kernos token prints one"
	if g.Issuer != "" {
		source = "MCP clients get one from " + g.Issuer + ", and kernos token prints one"
	}
	if given {
		return "This isn't a token of the daemon, or is no longer one; " + source + ", and kernos token create NAME makes another"
	}
	return "This needs a token of the daemon: send the header Authorization: Bearer TOKEN (" + source + "); a web page that opens a WebSocket sends the protocols kernos and kernos.token.TOKEN"
}

// knows reports whether the Host of a request is one of ours.
func (g *Guard) knows(r *http.Request) bool {
	host, ok := hostOf(r.Host)
	if !ok {
		return false
	}
	if slices.Contains(g.Hosts, host) {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if local == nil {
		return false
	}
	here := local.AddrPort().Addr().Unmap()
	if host == "localhost" {
		return here.IsLoopback()
	}
	given, err := netip.ParseAddr(host)
	given = given.Unmap()
	return err == nil && (given == here.WithZone("") || given.IsLoopback() && here.IsLoopback())
}

// page returns the origin of the page that a request came from, whether it is another one
// than ours, and whether it may send requests at all. No page is fine.
func (g *Guard) page(r *http.Request) (origin string, foreign, ok bool) {
	origin = r.Header.Get("Origin")
	if len(r.Header.Values("Origin")) > 1 {
		return origin, true, false
	}
	if origin == "" {
		// A browser sends no origin where a page embeds or links to something. What is
		// embedded is refused, frames too; a link is followed by a person, who sees the result.
		site, mode, dest := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
		if site == "cross-site" || site == "same-site" {
			followed := mode == "navigate" && (dest == "document" || dest == "")
			return "another origin", false, followed && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		}
		return "", false, true
	}
	written, err := ParseOrigin(origin)
	if err != nil {
		return origin, true, false
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if written == originOf(&url.URL{Scheme: scheme, Host: r.Host}) {
		return origin, false, true
	}
	allowed := slices.Contains(g.Origins, written)
	// A proxy that has TLS passes a Host that the browser knows under https.
	proxied := r.TLS == nil && written == originOf(&url.URL{Scheme: "https", Host: r.Host})
	return origin, !(allowed && proxied), allowed
}

// exposed are the headers of answers that a page of another origin may see.
const exposed = "Kernos-Request, Kernos-Stream, Kernos-Note, Kernos-Deprecated, Deprecation, Sunset, ETag, Content-Range, Retry-After"

// preflight answers a browser that asks what a page of another origin may send. The browser asks without
// the token.
func preflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Range, If-None-Match, Idempotency-Key, X-Correlation-Id, X-Causation-Id, Traceparent, Tracestate, Last-Event-ID")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// health reports whether a request asks for nothing but health.
func health(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// tokenProtocol and keyProtocol begin the protocols in which a web page, which can't set headers of a
// WebSocket, sends the token or the proof of its browser. Elsewhere, the proof has a scheme of its own in Authorization.
const (
	tokenProtocol = "kernos.token."
	keyProtocol   = "kernos.key."
	keyScheme     = "Kernos-Key"
)

// given are the credentials that came with a request.
type given struct {
	token *string // nil if none was sent
	proof string  // "" if none was sent
}

// credentials takes the token and the proof out of a request, so that nothing behind the guard sees them.
func credentials(r *http.Request) (g given) {
	const header = "Sec-Websocket-Protocol"
	var others []string
	found := false
	for _, line := range r.Header.Values(header) {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			if t, is := strings.CutPrefix(p, tokenProtocol); is {
				g.token, found = &t, true
			} else if t, is := strings.CutPrefix(p, keyProtocol); is {
				g.proof, found = t, true
			} else if p != "" {
				others = append(others, p)
			}
		}
	}
	if found {
		r.Header.Del(header)
		if len(others) > 0 {
			r.Header.Set(header, strings.Join(others, ", "))
		}
	}
	scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	t = strings.TrimSpace(t)
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		g.token = &t
	case strings.EqualFold(scheme, keyScheme):
		g.proof = t
	}
	r.Header.Del("Authorization")
	return g
}
