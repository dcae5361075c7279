package content

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"kernos/internal/patience"
	"kernos/message"
)

const (
	maxPage      = 8 << 20
	maxRedirects = 5
)

// httpsClient returns a client that uses the connections of another one and stays with https.
func httpsClient(client *http.Client) *http.Client {
	return &http.Client{Transport: client.Transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if r.URL.Scheme != "https" {
			return errors.New("a redirect away from https")
		}
		return nil
	}}
}

// fetch reads a page of a server, unless it still has the ETag that is known. Its errors are
// *message.Error: 404, 413 for more than 8 MB, 502, 503, 504.
func (c *Content) fetch(ctx context.Context, uri, known string) (f File, same bool, err error) {
	if c.client == nil {
		return f, false, message.Errorf(503, "%s can't be fetched: this kernel is not allowed to ask servers", message.Clip(uri, 200))
	}
	ctx, cancel := context.WithTimeout(ctx, patience.For(fetchTimeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil || r.URL.Scheme != "https" {
		return f, false, message.Errorf(502, "Fetch failed: the URI is not the address of a page; write https://host/path")
	}
	if known != "" {
		r.Header.Set("If-None-Match", known)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return f, false, unreachable(r.URL, err)
	}
	defer func() { _ = answer.Body.Close() }()
	host := answer.Request.URL.Host
	switch status := answer.StatusCode; {
	case status == http.StatusNotModified && known != "":
		return f, true, nil
	case status == http.StatusNotFound || status == http.StatusGone:
		return f, false, message.Errorf(404, "Fetch failed: %s has no such page", host)
	case status != http.StatusOK:
		return f, false, message.Errorf(502, "Fetch failed: %s answered with status %d", host, status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxPage+1))
	switch {
	case err != nil:
		return f, false, unreachable(answer.Request.URL, err)
	case len(data) > maxPage:
		return f, false, message.Errorf(413, "Fetch failed: the page of %s has more than %d bytes", host, maxPage)
	}
	return File{Data: data, Version: answer.Header.Get("ETag")}, false, nil
}

// unreachable puts a failure of the network into words, without the URL, which may hold a
// token.
func unreachable(u *url.URL, err error) error {
	if e, ok := errors.AsType[*message.Error](err); ok {
		return e // the caller may not fetch
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	code := 502
	if errors.Is(err, context.DeadlineExceeded) {
		code = 504
	}
	return message.Errorf(code, "Fetch failed: %s can't be reached: %s", u.Host, message.Clip(err.Error(), 300))
}
