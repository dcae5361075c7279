package http

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/message"
)

// An output is the data of a reply. It is written by hand: reflection would cost as much as
// the rest of a short fetch.
type output = json.RawMessage

func (f *fetcher) handle(ctx context.Context, m message.Message, emit kernel.Emit) {
	out, err := f.fetch(ctx, m.Data, kernel.NewStream(&m, emit))
	if err != nil {
		kernel.Fail(ctx, m, emit, err)
		return
	}
	emit(m.Reply(out))
}

func (f *fetcher) fetch(parent context.Context, data json.RawMessage, stream *kernel.Stream) (output, error) {
	r, err := parse(data).check()
	if err != nil {
		return nil, err
	}
	r.data = data
	ctx, cancel := context.WithTimeout(parent, r.timeout)
	defer cancel()
	header, secrets, err := f.open(ctx, r)
	var out output
	pauses := backoff.Backoff{First: 100 * time.Millisecond, Longest: 3200 * time.Millisecond, Jitter: true}
	for try := 0; err == nil; try++ {
		out, err = f.try(ctx, r, header, secrets, stream)
		if err == nil {
			return out, nil
		}
		if try < f.opts.Retries && r.mayRepeat() && isNetwork(err) && pauses.Wait(ctx.Done()) {
			err = nil
		}
	}
	if parent.Err() != nil {
		return nil, parent.Err() // the caller's time is over, or the kernel's
	}
	if ctx.Err() != nil {
		return nil, r.late(err).Map(secrets.Hide)
	}
	return nil, r.failure(err, secrets)
}

// mayRepeat reports whether the request does the same if it is done twice.
func (r *request) mayRepeat() bool {
	return r.method != nethttp.MethodPost && r.method != nethttp.MethodPatch
}

// try sends the request once and takes the answer.
func (f *fetcher) try(ctx context.Context, r *request, header nethttp.Header, secrets *secret.Values, stream *kernel.Stream) (output, error) {
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	q, err := nethttp.NewRequestWithContext(ctx, r.method, "", body)
	if err != nil {
		return nil, err
	}
	q.URL, q.Host, q.Header = r.url, cmp.Or(r.host, r.url.Host), header
	client := nethttp.Client{Transport: f.opts.Client.Transport, CheckRedirect: r.redirect}
	response, err := client.Do(q)
	if err != nil {
		return nil, &networkError{phase: asking, err: err}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == nethttp.StatusSwitchingProtocols {
		return nil, &networkError{phase: asking, err: errors.New("the server switched to another protocol, which was not asked for")}
	}
	t := taking{f: f, request: r.data, response: response, secrets: secrets, stream: stream}
	out := strconv.AppendInt([]byte(`{"status":`), int64(response.StatusCode), 10)
	return t.take(out)
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
		return nethttp.ErrUseLastResponse // it is for the caller to go there
	}
	if _, ok := r.header["Referer"]; !ok {
		next.Header.Del("Referer") // the URL before may hold a token
	}
	strays := func(q *nethttp.Request) bool { return !sameHost(r.url, q.URL) }
	if strays(next) || slices.ContainsFunc(via, strays) {
		for name := range next.Header {
			if secret.Named([]byte(name), secret.Request) || slices.Contains(r.sealed, name) {
				delete(next.Header, name)
			}
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
