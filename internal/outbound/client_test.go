package outbound_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/internal/outbound"
)

// serve starts a server on loopback that counts its requests, and returns its port.
func serve(t *testing.T) (port string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "hello "+r.Proto)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, requests
}

func client(t *testing.T, p outbound.Policy, opts *outbound.Options) *http.Client {
	t.Helper()
	c := outbound.NewClient(p, opts)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func get(c *http.Client, url string) (string, error) {
	r, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

func isRefused(err error) bool { return errors.As(err, new(*outbound.Refused)) }

func TestLoopbackFollowsThePolicy(t *testing.T) {
	port, requests := serve(t)
	dns := newFakeDNS(map[string][][]string{"inside.example": {{"127.0.0.1"}}})
	opts := &outbound.Options{Resolver: dns.resolver()}
	for _, host := range []string{"127.0.0.1", "inside.example", "[::ffff:127.0.0.1]"} {
		url := "http://" + host + ":" + port + "/"
		if _, err := get(client(t, outbound.Policy{Private: true}, opts), url); !isRefused(err) {
			t.Errorf("%s: got %v, want a refusal", url, err)
		}
		if n := requests.Load(); n != 0 {
			t.Fatalf("%s: %d requests arrived", url, n)
		}
		if body, err := get(client(t, outbound.Personal, opts), url); err != nil || body != "hello HTTP/1.1" {
			t.Errorf("%s: got %q, %v", url, body, err)
		}
		requests.Store(0)
	}
	named := outbound.Policy{Allow: rules(t, "inside.example")}
	if body, err := get(client(t, named, opts), "http://inside.example:"+port+"/"); err != nil || body == "" {
		t.Errorf("a name that is allowed: got %q, %v", body, err)
	}
	if _, err := get(client(t, named, opts), "http://127.0.0.1:"+port+"/"); !isRefused(err) {
		t.Errorf("the address behind a name that is allowed: got %v, want a refusal", err)
	}
}

func TestSpellingsOfAnAddressChangeNothing(t *testing.T) {
	port, requests := serve(t)
	// What the resolvers of some systems make of such names.
	dns := newFakeDNS(map[string][][]string{
		"2130706433": {{"127.0.0.1"}}, "0x7f000001": {{"127.0.0.1"}}, "0177.0.0.1": {{"127.0.0.1"}}, "127.1": {{"127.0.0.1"}},
		"2852039166": {{"169.254.169.254"}}, "0251.0376.0251.0376": {{"169.254.169.254"}}, "0": {{"0.0.0.0"}},
		"localhost.example": {{"::1"}}, "mapped.example": {{"::ffff:7f00:1"}}, "metadata.example": {{"fd00:ec2::254"}},
	})
	c := client(t, outbound.Policy{}, &outbound.Options{Resolver: dns.resolver()})
	for name := range dns.answers {
		_, err := get(c, "http://"+name+":"+port+"/")
		// Go's own resolver takes a number for no name, and does not ask.
		if missing, ok := errors.AsType[*net.DNSError](err); !isRefused(err) && !(ok && missing.IsNotFound && !strings.Contains(name, "example")) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	for _, host := range []string{"[::1]", "[::]", "0.0.0.0", "[::ffff:0.0.0.0]", "[64:ff9b::7f00:1]", "[fe80::1%25lo]"} {
		if _, err := get(c, "http://"+host+":"+port+"/"); !isRefused(err) {
			t.Errorf("%s: got %v, want a refusal", host, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestMetadataIsRefusedByAnOpenPolicy(t *testing.T) {
	dns := newFakeDNS(map[string][][]string{"metadata.example": {{"169.254.169.254"}}})
	c := client(t, outbound.Policy{Private: true, Loopback: true, Allow: rules(t, "metadata.example")}, &outbound.Options{Resolver: dns.resolver()})
	for _, host := range []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fe80::a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]",
		"100.100.100.200", "metadata.example", "0.0.0.0", "224.0.0.1",
	} {
		if _, err := get(c, "http://"+host+"/latest/meta-data/"); !isRefused(err) {
			t.Errorf("%s: got %v, want a refusal", host, err)
		}
	}
}

func TestNameThatChangesItsAddress(t *testing.T) {
	port, requests := serve(t)
	dns := newFakeDNS(map[string][][]string{"rebind.example": {{"127.0.0.1"}, {"169.254.169.254"}, {"10.255.255.1"}}})
	policy := outbound.Policy{Loopback: true}
	c := client(t, policy, &outbound.Options{Resolver: dns.resolver()})
	url := "http://rebind.example:" + port + "/"
	if body, err := get(c, url); err != nil || body == "" {
		t.Fatalf("the first time: %q, %v", body, err)
	}
	for range 2 {
		c.CloseIdleConnections() // so that the name is asked for again
		if _, err := get(c, url); !isRefused(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests arrived, want 1", n)
	}
}

func TestOneGoodAddressAmongBadOnes(t *testing.T) {
	port, _ := serve(t)
	dns := newFakeDNS(map[string][][]string{"mixed.example": {{"169.254.169.254", "127.0.0.1"}}})
	c := client(t, outbound.Personal, &outbound.Options{Resolver: dns.resolver()})
	if body, err := get(c, "http://mixed.example:"+port+"/"); err != nil || body == "" {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestRedirectsAreGuarded(t *testing.T) {
	port, _ := serve(t)
	c := client(t, outbound.Personal, nil)
	for _, to := range []string{"http://169.254.169.254/latest/", "http://[fd00:ec2::254]/", "http://[::ffff:169.254.169.254]/"} {
		if _, err := get(c, "http://127.0.0.1:"+port+"/?to="+url.QueryEscape(to)); !isRefused(err) {
			t.Errorf("to %s: got %v, want a refusal", to, err)
		}
	}
}

func TestEnvironmentsProxyIsNotUsed(t *testing.T) {
	port, _ := serve(t)
	proxy, proxied := serve(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+proxy)
	}
	dns := newFakeDNS(map[string][][]string{"site.example": {{"127.0.0.1"}}}) // loopback itself is never proxied
	c := client(t, outbound.Personal, &outbound.Options{Resolver: dns.resolver()})
	if body, err := get(c, "http://site.example:"+port+"/"); err != nil || body == "" {
		t.Errorf("got %q, %v", body, err)
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("%d requests went to the proxy", n)
	}
}

func TestHTTP2AndCookies(t *testing.T) {
	var cookies atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int64(len(r.Cookies())))
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	settings := &tls.Config{RootCAs: roots}
	c := client(t, outbound.Personal, &outbound.Options{TLS: settings})
	for range 2 {
		if body, err := get(c, s.URL); err != nil || body != "HTTP/2.0" {
			t.Errorf("got %q, %v", body, err)
		}
	}
	if n := cookies.Load(); n != 0 {
		t.Errorf("%d cookies came back", n)
	}
	if len(settings.NextProtos) != 0 {
		t.Error("the settings were changed")
	}
	if _, err := get(client(t, outbound.Personal, nil), s.URL); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("a certificate that no authority has signed: %v", err)
	}
}

func TestHeadersHaveALimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", outbound.MaxHeaderBytes+1))
	}))
	defer s.Close()
	if _, err := get(client(t, outbound.Personal, nil), s.URL); err == nil {
		t.Error("headers without end are taken")
	}
}

func TestCancelledRequestMakesNoConnection(t *testing.T) {
	port, requests := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, outbound.Personal, nil).Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}
