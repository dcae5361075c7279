package content

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"kernos/message"
)

// A FetchFunc gets a page of a server. With the ETag of a page that the caller has, it may
// say that this page is still the one. It returns the page's ETag, or "" if there is none.
// It bounds how much it reads, and ends with its context.
type FetchFunc func(ctx context.Context, uri, etag string) (data []byte, newETag string, notModified bool, err error)

const (
	maxPage      = 8 << 20
	maxRedirects = 5
)

// Fetcher returns a FetchFunc that asks by https with a client. The cookies, the timeout and
// the rule for redirects of the client are not used. Its errors are *message.Error: 404,
// 413 for more than 8 MB, 502, 504.
func Fetcher(client *http.Client) FetchFunc {
	own := http.Client{Transport: client.Transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if r.URL.Scheme != "https" {
			return errors.New("a redirect away from https")
		}
		return nil
	}}
	return func(ctx context.Context, uri, etag string) ([]byte, string, bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
		if err != nil || r.URL.Scheme != "https" {
			return nil, "", false, message.Errorf(502, "Fetch failed: the URI is not the address of a page; write https://host/path")
		}
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		answer, err := own.Do(r)
		if err != nil {
			return nil, "", false, unreachable(r.URL, err)
		}
		defer func() { _ = answer.Body.Close() }()
		return take(answer, etag)
	}
}

// take takes the page out of an answer.
func take(answer *http.Response, etag string) ([]byte, string, bool, error) {
	host := answer.Request.URL.Host
	switch status := answer.StatusCode; {
	case status == http.StatusNotModified && etag != "":
		return nil, etag, true, nil
	case status == http.StatusNotFound || status == http.StatusGone:
		return nil, "", false, message.Errorf(404, "Fetch failed: %s has no such page", host)
	case status != http.StatusOK:
		return nil, "", false, message.Errorf(502, "Fetch failed: %s answered with status %d", host, status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, "", false, unreachable(answer.Request.URL, err)
	case len(data) > maxPage:
		return nil, "", false, message.Errorf(413, "Fetch failed: the page of %s has more than %d bytes", host, maxPage)
	}
	return data, answer.Header.Get("ETag"), false, nil
}

// unreachable puts a failure of the network into words, without the URL, which may hold a
// token.
func unreachable(u *url.URL, err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	code := 502
	if errors.Is(err, context.DeadlineExceeded) {
		code = 504
	}
	return message.Errorf(code, "Fetch failed: %s can't be reached: %s", u.Host, message.Clip(err.Error(), 300))
}

// fetch reads a page of a server, unless it still has the ETag that is known.
func (c *Content) fetch(ctx context.Context, uri, known string) (f File, same bool, err error) {
	if c.opts.Fetch == nil {
		return File{}, false, message.Errorf(503, "%s can't be fetched: this kernel is not allowed to ask servers", message.Clip(uri, 200))
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	data, etag, same, err := c.opts.Fetch(ctx, uri, known)
	return File{Data: data, Version: etag}, same, err
}
