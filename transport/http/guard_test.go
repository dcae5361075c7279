package http

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"kernos/kernel/principal"
)

// Those are the headers that browsers send, as Chromium and Firefox write them.
//
// Clauses: RPC-8.1-1
func TestWhoComesIn(t *testing.T) {
	s := open(t, siteOptions{guard: &Guard{Hosts: []string{"agent.example.com", "app.example.com"}, Origins: []string{"https://app.example.com"}, Authenticate: authenticate}})
	_, port, _ := net.SplitHostPort(s.addr)
	bearer := "Bearer " + secret
	for _, c := range []struct {
		about   string
		headers []string
		status  int
		name    string
	}{
		{"curl", []string{"Authorization", bearer}, 200, ""},
		{"curl with another spelling", []string{"Authorization", "bearer  " + secret}, 200, ""},
		{"no token", nil, 401, "token_required"},
		{"a wrong token", []string{"Authorization", "Bearer nonsense"}, 401, "token_required"},
		{"the beginning of the token", []string{"Authorization", bearer[:len(bearer)-1]}, 401, "token_required"},
		{"an empty token", []string{"Authorization", "Bearer "}, 401, "token_required"},
		{"another scheme", []string{"Authorization", "Basic " + secret}, 401, "token_required"},
		{"a name of this machine", []string{"Authorization", bearer, "Host", "localhost:" + port}, 200, ""},
		{"the name in capitals", []string{"Authorization", bearer, "Host", "LocalHost"}, 200, ""},
		{"through a tunnel", []string{"Authorization", bearer, "Host", "localhost:8000"}, 200, ""},
		{"the other loopback address", []string{"Authorization", bearer, "Host", "[::1]:" + port}, 200, ""},
		{"a name that was allowed", []string{"Authorization", bearer, "Host", "agent.example.com"}, 200, ""},
		{"a name below it", []string{"Authorization", bearer, "Host", "x.agent.example.com"}, 403, "host_not_allowed"},

		{"DNS rebinding", []string{"Authorization", bearer, "Host", "rebound.example.net:" + port,
			"Origin", "http://rebound.example.net:" + port, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, 403, "host_not_allowed"},
		{"DNS rebinding without a token", []string{"Host", "rebound.example.net:" + port}, 403, "host_not_allowed"},
		{"DNS rebinding, a name that looks like ours", []string{"Authorization", bearer, "Host", "localhost.example.net"}, 403, "host_not_allowed"},
		{"another address of this machine", []string{"Authorization", bearer, "Host", "192.0.2.1"}, 403, "host_not_allowed"},

		{"a page of another origin", []string{"Authorization", bearer, "Origin", "https://evil.example.net",
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, 403, "origin_not_allowed"},
		{"a page of another port", []string{"Authorization", bearer, "Origin", "http://127.0.0.1:1",
			"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403, "origin_not_allowed"},
		{"a page of another scheme", []string{"Authorization", bearer, "Origin", "https://" + s.addr}, 403, "origin_not_allowed"},
		{"a page in a sandbox, or a file", []string{"Authorization", bearer, "Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403, "origin_not_allowed"},
		{"two origins", []string{"Authorization", bearer, "Origin", s.url, "Origin", "https://evil.example.net"}, 403, "origin_not_allowed"},
		{"an image in a page", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403, "origin_not_allowed"},
		{"a form in a page", []string{"Origin", "https://evil.example.net", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403, "origin_not_allowed"},
		{"a link in a page", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 401, "token_required"},
		{"a frame in a page", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403, "origin_not_allowed"},
		{"the address, typed in", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 401, "token_required"},
		{"our own page", []string{"Authorization", bearer, "Origin", s.url, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, 200, ""},
		{"a page that was allowed", []string{"Authorization", bearer, "Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site"}, 200, ""},
		{"our own page behind a proxy with TLS", []string{"Authorization", bearer, "Host", "app.example.com", "Origin", "https://app.example.com", "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"a page that was allowed, without the token", []string{"Origin", "https://app.example.com"}, 401, "token_required"},
	} {
		a := s.do("GET", "/metrics", "", c.headers...)
		if a.status != c.status || a.name() != c.name {
			t.Errorf("%s: %d %s", c.about, a.status, a.body)
		}
		if allowed := a.header.Get("Access-Control-Allow-Origin"); (allowed != "") != strings.HasPrefix(c.about, "a page that was allowed") {
			t.Errorf("%s: the browser is told that %q may read the answer", c.about, allowed)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := s.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s without a token: %d %s", path, a.status, a.body)
		}
		if a := s.do("GET", path, "", "Host", "rebound.example.net"); a.status != 403 {
			t.Errorf("%s of another host: %d %s", path, a.status, a.body)
		}
	}
}

func TestABrowserAsksBeforeItSends(t *testing.T) {
	s := open(t, siteOptions{guard: &Guard{Origins: []string{"https://app.example.com"}, Authenticate: authenticate}})
	ask := func(origin string) answer {
		return s.do("OPTIONS", "/v1/call/kernel/ping", "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	}
	a := ask("https://app.example.com")
	if a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") || a.header.Get("Vary") != "Origin" {
		t.Errorf("one that was allowed: %d %v", a.status, a.header)
	}
	if a := ask("https://evil.example.net"); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another one: %d %v", a.status, a.header)
	}
	if a := s.do("OPTIONS", "/v1/call/kernel/ping", ""); a.status != 401 {
		t.Errorf("one that is no browser: %d", a.status)
	}
}

// teapot takes WebSockets, and has none to shut down.
type teapot struct{ http.HandlerFunc }

func (teapot) Shutdown(context.Context) error { return nil }

// A web page can't set headers of a WebSocket, so it says the token in its protocols.
func TestAWebSocketComesInByItsProtocol(t *testing.T) {
	var seen http.Header
	handler := teapot{func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.WriteHeader(http.StatusTeapot)
	}}
	s := open(t, siteOptions{Options: Options{WebSocket: handler}, guard: &Guard{Authenticate: authenticate}})
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	for _, c := range []struct {
		about   string
		path    string
		headers []string
		status  int
		left    string
	}{
		{"a page", "/", []string{"Origin", s.url, "Sec-WebSocket-Protocol", "kernos, kernos.token." + secret}, 418, "kernos"},
		{"at the other path", "/ws", []string{"Sec-WebSocket-Protocol", "kernos.token." + secret}, 418, ""},
		{"a program", "/ws", []string{"Authorization", "Bearer " + secret, "Sec-WebSocket-Protocol", "kernos"}, 418, "kernos"},
		{"no token", "/", nil, 401, ""},
		{"a wrong one", "/", []string{"Sec-WebSocket-Protocol", "kernos.token.x"}, 401, ""},
		{"in the address, where it would be logged", "/?token=" + secret, nil, 401, ""},
		{"a page of another origin", "/", []string{"Origin", "https://evil.example.net", "Sec-WebSocket-Protocol", "kernos.token." + secret}, 403, ""},
		{"DNS rebinding", "/", []string{"Host", "evil.example.net", "Origin", "http://evil.example.net"}, 403, ""},
	} {
		seen = nil
		a := s.do("GET", c.path, "", append(c.headers, upgrade...)...)
		if a.status != c.status || (seen != nil) != (c.status == 418) {
			t.Errorf("%s: %d %s", c.about, a.status, a.body)
			continue
		}
		if seen.Get("Sec-WebSocket-Protocol") != c.left || seen.Get("Authorization") != "" {
			t.Errorf("%s: behind the guard one sees %v", c.about, seen)
		}
	}
	if a := s.do("GET", "/ws", "", "Authorization", "Bearer "+secret); a.status != 426 || a.name() != "upgrade_required" {
		t.Errorf("no upgrade: %d %s", a.status, a.body)
	}
}

func TestATokenThatCantBeRead(t *testing.T) {
	s := open(t, siteOptions{guard: &Guard{Authenticate: func(string) (*principal.Principal, error) { return nil, io.ErrUnexpectedEOF }}})
	if a := s.do("GET", "/metrics", "", "Authorization", "Bearer "); a.status != 503 || a.name() != "no_token" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("health: %d %s", a.status, a.body)
	}
}

func TestHostsAndOriginsOnTheCommandLine(t *testing.T) {
	for text, want := range map[string]string{
		"https://App.example.com": "https://app.example.com", "http://localhost:5173": "http://localhost:5173",
		"https://a.example:443/": "https://a.example", "http://a.example:80": "http://a.example", "null": "null",
		"app.example.com": "", "https://": "", "*": "", "https://*.example.com": "", "https://a.example/path": "",
		"https://me@a.example": "", "https://a.example?q": "", "": "",
	} {
		if got, err := ParseOrigin(text); got != want || (err == nil) != (want != "") {
			t.Errorf("origin %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"Agent.example.com": "agent.example.com", "agent.example.com:7420": "agent.example.com", "agent.example.com.": "agent.example.com",
		"[::1]": "::1", "::1": "::1", "192.0.2.1": "192.0.2.1",
		"": "", "https://a": "", "*.example.com": "", "[::1": "", "a b": "", ":80": "",
	} {
		if got, err := ParseHost(text); got != want || (err == nil) != (want != "") {
			t.Errorf("host %q: %q, %v", text, got, err)
		}
	}
}

// A client without a token is told which authorization server gives one, if one was named.
func TestProtectedResourceMetadata(t *testing.T) {
	named := open(t, siteOptions{guard: &Guard{Authenticate: authenticate, Issuer: "https://login.example.com"}})
	for path, resource := range map[string]string{"/.well-known/oauth-protected-resource/mcp": "/mcp", "/.well-known/oauth-protected-resource": ""} {
		want := `{"resource":"https://` + named.addr + resource + `","authorization_servers":["https://login.example.com"],"bearer_methods_supported":["header"],"resource_name":"Kernos"}`
		if a := named.do("GET", path, ""); a.status != 200 || string(a.body) != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	want := `Bearer realm="kernos", resource_metadata="https://` + named.addr + `/.well-known/oauth-protected-resource/mcp"`
	if a := named.do("POST", "/mcp", "{}"); a.status != 401 || a.header.Get("WWW-Authenticate") != want || !strings.Contains(a.body, "from https://login.example.com") {
		t.Errorf("%d %s", a.status, a.header.Get("WWW-Authenticate"))
	}
	if a := named.do("GET", "/.well-known/oauth-protected-resource/other", ""); a.status != 401 {
		t.Errorf("another path: %d %s", a.status, a.body)
	}
	unnamed := open(t, siteOptions{guard: &Guard{Authenticate: authenticate}})
	if a := unnamed.do("GET", "/.well-known/oauth-protected-resource/mcp", ""); a.status != 401 || a.header.Get("WWW-Authenticate") != `Bearer realm="kernos"` {
		t.Errorf("without an issuer: %d %s", a.status, a.header.Get("WWW-Authenticate"))
	}
	for text, ok := range map[string]bool{"https://login.example.com": true, "https://a.example/tenant": true, "http://a.example": false, "a.example": false, "https://a.example?x": false} {
		if _, err := ParseIssuer(text); (err == nil) != ok {
			t.Errorf("issuer %q: %v", text, err)
		}
	}
}

// Whatever the headers are, no request comes in without the token, under another name, or as a
// page of another origin.
func FuzzGuard(f *testing.F) {
	f.Add("127.0.0.1:80", "http://127.0.0.1:80", "Bearer "+secret, "kernos")
	f.Add("localhost", "", "", "kernos.token."+secret)
	f.Add("[::1]:7", "null", "Basic x", ",,")
	f.Add("evil", "https://evil", "Bearer", "kernos.token.")
	guard := &Guard{Hosts: []string{"allowed.example"}, Origins: []string{"https://page.example"}, Authenticate: authenticate}
	f.Fuzz(func(t *testing.T, host, origin, authorization, protocol string) {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})))
		r.Header["Origin"] = []string{origin}
		r.Header["Authorization"] = []string{authorization}
		r.Header["Sec-Websocket-Protocol"] = []string{protocol}
		w := httptest.NewRecorder()
		caller, why := guard.check(w, r)
		answered := caller == nil
		if answered != (why != "") || answered && w.Code < 400 {
			t.Fatalf("answered %t with %d, because of %q", answered, w.Code, why)
		}
		if answered {
			return
		}
		if !strings.Contains(authorization, secret) && !strings.Contains(protocol, secret) {
			t.Error("it came in without the token")
		}
		lower := strings.ToLower(host)
		if !strings.HasPrefix(lower, "localhost") && !strings.HasPrefix(lower, "allowed.example") && !strings.Contains(lower, "127.") && !strings.Contains(lower, ":1") {
			t.Errorf("it came in as %q", host)
		}
		if o := strings.ToLower(origin); o != "" && !strings.HasPrefix(o, "https://page.example") && !strings.Contains(lower, strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(o, "http://"), "/"), ":80")) {
			t.Errorf("a page of %q came in to %q", origin, host)
		}
		if r.Header.Get("Authorization") != "" || slices.ContainsFunc(strings.Split(r.Header.Get("Sec-Websocket-Protocol"), ", "), func(p string) bool { return strings.HasPrefix(p, tokenProtocol) }) {
			t.Errorf("the token is behind the guard: %v", r.Header)
		}
	})
}
