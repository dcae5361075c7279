package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/secret"
	"kernos/kernel"
)

func (f *fetcher) fetch(parent context.Context, in input, stream *kernel.Stream) (output, error) {
	r, err := in.check()
	if err != nil {
		return output{}, err
	}
	ctx, cancel := context.WithTimeout(parent, r.timeout)
	defer cancel()
	out, err := f.attempt(ctx, r, stream)
	if err == nil {
		return out, nil
	}
	if parent.Err() != nil {
		return output{}, parent.Err() // the caller's time is over, or the kernel's
	}
	return output{}, r.failure(err, ctx.Err() != nil)
}

// attempt opens the secrets of the request, and tries until an answer comes or the request may
// not be repeated.
func (f *fetcher) attempt(ctx context.Context, r *request, stream *kernel.Stream) (output, error) {
	if err := f.open(ctx, r); err != nil {
		return output{}, err
	}
	pauses := backoff.Backoff{First: 100 * time.Millisecond, Longest: 3200 * time.Millisecond, Jitter: true}
	for try := 0; ; try++ {
		out, err := f.try(ctx, r, stream)
		repeat := err != nil && try < f.Retries && r.mayRepeat() && isNetwork(err)
		if !repeat || !pauses.Wait(ctx.Done()) {
			return out, err
		}
	}
}

// mayRepeat reports whether the request does the same if it is done twice.
func (r *request) mayRepeat() bool {
	return r.method != nethttp.MethodPost && r.method != nethttp.MethodPatch
}

func (f *fetcher) try(ctx context.Context, r *request, stream *kernel.Stream) (output, error) {
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	q, err := nethttp.NewRequestWithContext(ctx, r.method, "", body)
	if err != nil {
		return output{}, err
	}
	q.URL, q.Host, q.Header = r.url, cmp.Or(r.host, r.url.Host), r.header
	client := nethttp.Client{Transport: f.Client.Transport, CheckRedirect: r.redirect}
	response, err := client.Do(q)
	if err != nil {
		return output{}, &networkError{phase: asking, err: err}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == nethttp.StatusSwitchingProtocols {
		return output{}, &networkError{phase: asking, err: errors.New("the server switched to another protocol, which was not asked for")}
	}
	t := taking{fetcher: f, response: response, secrets: r.secrets}
	return t.take(ctx, stream)
}

var errRedirects = fmt.Errorf("the server redirects more than %d times", maxRedirects)

// redirect decides about a redirect, as [nethttp.Client.CheckRedirect]. What the caller
// sent to one host is not for another to see: credentials stay behind, and do not come
// back if a later redirect leads back.
func (r *request) redirect(next *nethttp.Request, via []*nethttp.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	if next.URL.Scheme != "http" && next.URL.Scheme != "https" {
		return nethttp.ErrUseLastResponse // the caller decides whether to follow such a redirect
	}
	if _, ok := r.header["Referer"]; !ok {
		next.Header.Del("Referer") // the URL before may hold a token
	}
	foreign := func(q *nethttp.Request) bool { return !sameHost(r.url, q.URL) }
	leftHost := foreign(next) || slices.ContainsFunc(via, foreign)
	use := useOf(next.URL, next.Host)
	for name := range next.Header {
		_, isSealed := r.sealed[name]
		if leftHost && (isSealed || secret.Named([]byte(name), secret.Request)) || !r.stays(name, use) {
			delete(next.Header, name)
		}
	}
	return nil
}

// sameHost reports whether what is meant for one URL may be sent to another: the same
// host and port by the same scheme, or by https in place of http on their usual ports.
func sameHost(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	if from.Scheme == to.Scheme {
		return portOf(from) == portOf(to)
	}
	return from.Scheme == "http" && portOf(from) == "80" && portOf(to) == "443"
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
