package http_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kernos/capability/http"
	"kernos/internal/sealed"
	"kernos/message"
)

// A vault seals for destinations, and opens as a keyring does for the owner.
type vault struct{ *sealed.Cipher }

func newVault(t *testing.T) vault {
	t.Helper()
	c, err := sealed.NewCipher(bytes.Repeat([]byte{7}, sealed.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return vault{c}
}

func (v vault) seal(to ...string) string {
	return v.Seal(sealed.Kid{Source: sealed.Local}, []byte("s3cret-value"), "", to)
}

func (v vault) open(_ context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error) {
	box, err := sealed.Parse(text)
	if err != nil {
		return nil, nil, message.Errorf(422, "%v", err)
	}
	if err := box.For.Refuses(use); err != nil {
		return nil, nil, message.Errorf(403, "The sealed string is not for this use: %v", err)
	}
	plain, err := v.Open(&box)
	return plain, box.For, err
}

func hostOf(url string) string { return url[strings.Index(url, "//")+2:] }

// spy is a server that notes its name for each request that carries the secret.
func spy(t *testing.T, seen *[]string, name string, answer nethttp.HandlerFunc) string {
	t.Helper()
	return serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if strings.Contains(fmt.Sprint(r.Header), "s3cret-value") {
			*seen = append(*seen, name)
		}
		answer(w, r)
	})
}

func TestASecretGoesToItsDestinationOnly(t *testing.T) {
	v := newVault(t)
	w := newWorld(t, http.Options{Open: v.open})
	var seen []string
	there, elsewhere := spy(t, &seen, "there", redirector), spy(t, &seen, "elsewhere", redirector)
	at := hostOf(there)
	_, port, _ := net.SplitHostPort(at)
	local := "http://localhost:" + port
	for _, c := range []struct {
		name string
		to   []string
		url  string
		more in
		code int
		seen string
	}{
		{name: "its host", to: []string{at}, url: there, seen: "there"},
		{name: "its host and syscall", to: []string{at, "Http.*"}, url: there, seen: "there"},
		{name: "its syscall", to: []string{"Http.Fetch"}, url: elsewhere, seen: "elsewhere"},
		{name: "one of several", to: []string{"api.example.com", at}, url: there, seen: "there"},
		{name: "another host", to: []string{at}, url: elsewhere, code: 403},
		{name: "another name of the host", to: []string{at}, url: local, code: 403},
		{name: "the usual ports only", to: []string{"127.0.0.1"}, url: there, code: 403},
		{name: "another syscall", to: []string{"Mail.*"}, url: there, code: 403},
		{name: "another Host header", to: []string{at}, url: there, more: in{"Host": "evil.example.org"}, code: 403},
		{name: "a user before the host", to: []string{at}, url: "http://" + at + "@" + hostOf(elsewhere), code: 403},
		{name: "a redirect within", to: []string{at}, url: there + "/?to=/elsewhere", seen: "there there"},
		{name: "a redirect away", to: []string{at}, url: there + "/?to=" + elsewhere + "/", seen: "there"},
		{name: "a redirect away and back", to: []string{at}, url: there + "/?to=" + elsewhere + "/%3Fto=" + there + "/", seen: "there"},
		{name: "a redirect to another of its hosts", to: []string{at, hostOf(elsewhere)}, url: there + "/?to=" + elsewhere + "/", seen: "there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen = nil
			headers := in{"X-Plain": "p", "X-Sealed": "Key " + v.seal(c.to...)}
			for name, value := range c.more {
				headers[name] = value
			}
			a := w.fetch(t, in{"url": c.url, "headers": headers})
			if got := strings.Join(seen, " "); a.Code != c.code || got != c.seen {
				t.Errorf("the secret was seen by %q, want %q: %s", got, c.seen, a.text)
			}
			if c.code != 0 {
				a.wantError(t, c.code, "it is sealed for "+strings.Join(c.to, ", "))
			}
			if strings.Contains(a.text, "s3cret") || strings.Contains(w.records.text(), "s3cret") {
				t.Errorf("the secret is shown: %s", a.text)
			}
		})
	}
}

// A host may redirect from http to https, which credentials may follow; a secret that is for
// one port of it doesn't.
func TestEachHopIsChecked(t *testing.T) {
	v := newVault(t)
	plain := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, "https://api.example.com/", nethttp.StatusFound)
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(nethttp.HandlerFunc(redirector))
	defer secure.Close()
	transport := &nethttp.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := plain.Listener.Addr()
			if strings.HasSuffix(address, ":443") {
				to = secure.Listener.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, to.String())
		},
	}
	w := newWorld(t, http.Options{Open: v.open, Client: &nethttp.Client{Transport: transport}})
	for to, want := range map[string]string{
		"api.example.com":    ` X-Plain X-Sealed`,
		"*.example.com":      ` X-Plain X-Sealed`,
		"api.example.com:80": ` X-Plain`,
	} {
		a := w.fetch(t, in{"url": "http://api.example.com/", "headers": in{"X-Plain": "p", "X-Sealed": v.seal(to)}})
		if got := a.content(t); got != `GET ""`+want {
			t.Errorf("for %s: got %s", to, got)
		}
	}
}
