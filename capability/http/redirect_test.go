package http_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kernos/capability/http"
	"kernos/internal/outbound"
)

// redirector goes where the query says with the status that it says, and otherwise tells
// what came.
func redirector(w nethttp.ResponseWriter, r *nethttp.Request) {
	if to := r.URL.Query().Get("to"); to != "" {
		status := 302
		_, _ = fmt.Sscanf(r.URL.Query().Get("status"), "%d", &status)
		w.Header().Set("Location", to)
		nethttp.SetCookie(w, &nethttp.Cookie{Name: "kept", Value: "no"})
		w.WriteHeader(status)
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "%s %q", r.Method, body)
	for _, name := range []string{"Authorization", "Cookie", "Referer", "X-Api-Key", "X-Plain", "X-Sealed"} {
		if v := r.Header.Get(name); v != "" {
			_, _ = fmt.Fprintf(w, " %s", name)
		}
	}
}

// opener opens sealed strings that are no more than reversed.
func opener(_ context.Context, sealed string) ([]byte, error) {
	text := strings.TrimPrefix(sealed, "pwenc:v1:")
	plain := make([]byte, len(text))
	for i := range text {
		plain[len(text)-1-i] = text[i]
	}
	return plain, nil
}

func TestCredentialsStayWithTheHostTheyAreFor(t *testing.T) {
	first, second := serve(t, redirector), serve(t, redirector) // two ports are two hosts
	secure := httptest.NewTLSServer(nethttp.HandlerFunc(redirector))
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	w := newWorld(t, http.Options{Open: anywhere(opener), Client: outbound.NewClient(outbound.Personal, &outbound.Options{TLS: &tls.Config{RootCAs: roots}})})
	given := in{"Authorization": "Bearer pwenc:v1:terces", "Cookie": "a=b", "X-Api-Key": "k", "X-Plain": "p", "X-Sealed": "pwenc:v1:terces"}
	const all = " Authorization Cookie X-Api-Key X-Plain X-Sealed"
	for _, c := range []struct{ url, want string }{
		{first, all},
		{first + "/?to=/elsewhere", all},
		{first + "/?to=" + first + "/elsewhere", all},
		{first + "/?to=" + second + "/", " X-Plain"},
		{first + "/?to=" + strings.Replace(first, "127.0.0.1", "localhost", 1), " X-Plain"},
		{first + "/?to=" + second + "/%3Fto=" + first + "/", " X-Plain"}, // there and back
		{secure.URL, all},
		{secure.URL + "/?to=/elsewhere", all},
		{secure.URL + "/?to=" + first + "/", " X-Plain"},
		{first + "/?to=" + secure.URL + "/", " X-Plain"},
	} {
		if got := w.fetch(t, in{"url": c.url, "headers": given}).content(t); got != `GET ""`+c.want {
			t.Errorf("%s: got %s, want%s", c.url, got, c.want)
		}
	}
}

func TestMethodsOnRedirects(t *testing.T) {
	url := serve(t, redirector)
	w := newWorld(t, http.Options{})
	for _, c := range []struct {
		method string
		status int
		want   string
	}{
		{"GET", 301, `GET ""`}, {"GET", 302, `GET ""`}, {"GET", 303, `GET ""`}, {"GET", 307, `GET ""`}, {"GET", 308, `GET ""`},
		{"POST", 301, `GET ""`}, {"POST", 302, `GET ""`}, {"POST", 303, `GET ""`}, {"POST", 307, `POST "data"`}, {"POST", 308, `POST "data"`},
		{"PUT", 307, `PUT "data"`}, {"PATCH", 308, `PATCH "data"`}, {"DELETE", 307, `DELETE "data"`},
	} {
		a := w.fetch(t, in{"url": fmt.Sprintf("%s/?to=/&status=%d", url, c.status), "method": c.method, "body": "data"})
		if got := a.content(t); got != c.want {
			t.Errorf("%s, %d: got %s, want %s", c.method, c.status, got, c.want)
		}
	}
}

func TestRedirectsEnd(t *testing.T) {
	hops := 0
	url := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		var left int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &left)
		if hops++; left == 0 {
			return
		}
		nethttp.Redirect(w, r, fmt.Sprintf("/%d", left-1), nethttp.StatusFound)
	})
	w := newWorld(t, http.Options{Retries: 5})
	if a := w.fetch(t, in{"url": url + "/10"}); a.Status != 200 || hops != 11 {
		t.Errorf("ten redirects: %d requests, %s", hops, a.text)
	}
	hops = 0
	w.fetch(t, in{"url": url + "/11"}).wantError(t, 502, "redirects more than 10 times")
	if hops != 11 {
		t.Errorf("%d requests, want 11", hops)
	}
	loop := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, r.URL.Path, nethttp.StatusFound)
	})
	w.fetch(t, in{"url": loop}).wantError(t, 502, "redirects more than 10 times")
}

func TestReferer(t *testing.T) {
	url := serve(t, redirector)
	w := newWorld(t, http.Options{})
	if got := w.fetch(t, in{"url": url + "/?token=x&to=/"}).content(t); got != `GET ""` {
		t.Errorf("got %s", got)
	}
	if got := w.fetch(t, in{"url": url + "/?to=/", "headers": in{"Referer": "https://example.com/"}}).content(t); got != `GET "" Referer` {
		t.Errorf("got %s", got)
	}
}
