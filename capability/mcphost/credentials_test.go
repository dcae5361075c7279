package mcphost_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/store"
)

// A guard stands before a server, and is its authorization server: it gives tokens to one client, for what the client proves.
type guard struct {
	url     string
	issuer  atomic.Value // what it names as its authorization server
	proves  func(r *http.Request, issuer string) error
	granted atomic.Int64
	expired atomic.Int64 // tokens up to this one are no longer good
	refused atomic.Value // why the last client got no token
}

func newGuard(t *testing.T, w *world, proves func(r *http.Request, issuer string) error) *guard {
	t.Helper()
	behind, err := url.Parse(strings.TrimSuffix(serveHTTP(t, "stateless", w.dir), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{proves: proves}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(v any) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		}
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			answer(object{"resource": g.url + "/mcp", "authorization_servers": []any{g.issuer.Load()}, "scopes_supported": []string{"tools"}})
		case "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/other":
			answer(object{"issuer": g.url + strings.TrimPrefix(r.URL.Path, "/.well-known/oauth-authorization-server"), "token_endpoint": g.url + "/token", "authorization_endpoint": g.url + "/authorize", "response_types_supported": []string{"code"},
				"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "private_key_jwt"}, "code_challenge_methods_supported": []string{"S256"}})
		case "/token":
			err := r.ParseForm()
			if err == nil {
				err = g.proves(r, g.url)
			}
			if err == nil && (r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("resource") != g.url+"/mcp" || r.Form.Get("scope") != "tools") {
				err = fmt.Errorf("the request is %v", r.Form)
			}
			if err != nil {
				g.refused.Store(err.Error())
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				answer(object{"error": "invalid_client"})
				return
			}
			answer(object{"access_token": fmt.Sprintf("granted-token-%d", g.granted.Add(1)), "token_type": "Bearer", "expires_in": 3600})
		default:
			number := int64(0)
			_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer granted-token-%d", &number)
			if number <= g.expired.Load() {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+g.url+`/.well-known/oauth-protected-resource/mcp"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	g.url = s.URL
	g.issuer.Store(s.URL)
	g.refused.Store("")
	return g
}

// privatePEM returns a private key as the owner gives it.
func privatePEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// signed checks the assertion of a client (RFC 7523), and that its identifier is new.
func signed(verify func(text, signature []byte) bool, algorithm string) func(*http.Request, string) error {
	seen := make(map[string]bool)
	return func(r *http.Request, issuer string) error {
		parts := strings.Split(r.Form.Get("client_assertion"), ".")
		if len(parts) != 3 || r.Form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || r.Header.Get("Authorization") != "" {
			return fmt.Errorf("it has no assertion: %v", r.Form)
		}
		var decoded [3][]byte
		for i, part := range parts {
			var err error
			if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
				return err
			}
		}
		var claims struct {
			Iss, Sub, Aud, Jti string
			Iat, Exp           int64
		}
		if err := json.Unmarshal(decoded[1], &claims); err != nil {
			return err
		}
		ok := verify([]byte(parts[0]+"."+parts[1]), decoded[2])
		if header := string(decoded[0]); !ok || header != `{"alg":"`+algorithm+`","typ":"JWT","kid":"k1"}` || claims.Iss != "kernos-1" || claims.Sub != "kernos-1" || claims.Aud != issuer || claims.Exp <= claims.Iat || claims.Jti == "" || seen[claims.Jti] {
			return fmt.Errorf("%t %s %+v", ok, header, claims)
		}
		seen[claims.Jti] = true
		return nil
	}
}

// A client gets tokens by itself, with its secret or its key, and another one when the server no longer takes the first. Neither is
// stored, shown or recorded, and no other authorization server gets them.
func TestClientCredentials(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	half := func(b []byte, first bool) *big.Int {
		if first {
			return new(big.Int).SetBytes(b[:len(b)/2])
		}
		return new(big.Int).SetBytes(b[len(b)/2:])
	}
	for name, c := range map[string]struct {
		client object
		proves func(*http.Request, string) error
	}{
		"secret": {object{"secret": "s3cret+of/kernos", "grant": "client_credentials"}, func(r *http.Request, _ string) error {
			if id, secret, ok := r.BasicAuth(); !ok || id != "kernos-1" || secret != url.QueryEscape("s3cret+of/kernos") {
				return fmt.Errorf("it proves itself with %s %s", id, secret)
			}
			return nil
		}},
		"ES256": {object{"key": privatePEM(t, ec), "keyId": "k1"}, signed(func(text, s []byte) bool {
			sum := sha256.Sum256(text)
			return len(s) == 64 && ecdsa.Verify(&ec.PublicKey, sum[:], half(s, true), half(s, false))
		}, "ES256")},
		"ES384": {object{"key": privatePEM(t, ec384), "keyId": "k1"}, signed(func(text, s []byte) bool {
			sum := sha512.Sum384(text)
			return len(s) == 96 && ecdsa.Verify(&ec384.PublicKey, sum[:], half(s, true), half(s, false))
		}, "ES384")},
		"RS256": {object{"key": privatePEM(t, rs), "keyId": "k1"}, signed(func(text, s []byte) bool {
			sum := sha256.Sum256(text)
			return rsa.VerifyPKCS1v15(&rs.PublicKey, crypto.SHA256, sum[:], s) == nil
		}, "RS256")},
		"EdDSA": {object{"key": privatePEM(t, ed), "keyId": "k1"}, signed(func(text, s []byte) bool { return ed25519.Verify(public, text, s) }, "EdDSA")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := newGuard(t, w, c.proves)
			c.client["id"] = "kernos-1"
			input, _ := json.Marshal(object{"name": "web", "url": g.url + "/mcp", "client": c.client})
			if e := w.call("Mcp.Add", string(input), nil); e != nil {
				t.Fatalf("%v; %s", e, g.refused.Load())
			}
			w.must("Web.Echo", `{"text":"hi"}`, nil)
			g.expired.Store(g.granted.Load())
			var got, all string
			w.must("Web.Echo", `{"text":"it is granted-token-2"}`, &got)
			if n := g.granted.Load(); n != 2 || !strings.Contains(got, "[redacted]") {
				t.Errorf("%d tokens were granted, and the echo is %s", n, got)
			}
			// Another authorization server gets nothing.
			g.expired.Store(g.granted.Load())
			g.issuer.Store(g.url + "/other")
			if e := w.call("Web.Echo", `{"text":"hi"}`, nil); e == nil || e.Code != 503 || !strings.Contains(e.Error(), "the client's credentials are for "+g.url) || g.granted.Load() != 2 {
				t.Errorf("another authorization server: %v", e)
			}
			w.must("Mcp.Show", `{"name":"web"}`, &all)
			for e, err := range w.Store().Scan(store.Prefix([]byte{store.SpaceMcp})) {
				if err != nil {
					t.Fatal(err)
				}
				all += string(e.Value)
			}
			w.must("Message.List", `{"type":"Mcp.Add","limit":10}`, &got)
			if all += got + w.log.String(); strings.Contains(all, "s3cret") || strings.Contains(all, "PRIVATE KEY") || strings.Contains(all, "granted-token") {
				t.Errorf("a secret is stored, shown or recorded: %s", all)
			}
		})
	}
	w := newWorld(t)
	g := newGuard(t, w, func(*http.Request, string) error { return fmt.Errorf("no") })
	for client, want := range map[string]string{
		`{"id":"kernos-1","grant":"client_credentials"}`:              "takes a secret or a key",
		`{"id":"kernos-1","key":"x"}`:                                 "the key can't be used: it isn't PEM",
		`{"id":"kernos-1","key":"x","secret":"y"}`:                    "one of secret and key",
		`{"id":"kernos-1","key":"x","grant":"authorization_code"}`:    "for the grant client_credentials",
		`{"id":"kernos-1","secret":"y","grant":"client_credentials"}`: "refused the client's credentials with status 401: invalid_client",
	} {
		if e := w.call("Mcp.Add", `{"name":"web","url":"`+g.url+`/mcp","client":`+client+`}`, nil); e == nil || !strings.Contains(fmt.Sprint(e, e.Cause), want) {
			t.Errorf("%s: %v", client, e)
		}
	}
}
