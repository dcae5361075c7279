// Package httpfs mounts the files below an address of an https server in the tree of files,
// read-only.
package httpfs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"kernos/capability/vfs"
	"kernos/internal/outbound"
	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/message"
)

// Options are the settings of a server. The zero value is usable.
type Options struct {
	// Client asks the server. Its CheckRedirect and its cookies are not used. Nil means
	// one of its own.
	Client *http.Client

	// Timeout is how long an answer may take. 0 means 10 seconds.
	Timeout time.Duration

	// deadline ends a request at its timeout. Nil means [context.WithTimeout]; tests set another one.
	deadline func(context.Context, time.Duration) (context.Context, context.CancelFunc)

	// Development allows plain http.
	Development bool
}

const maxRedirects = 5

type page struct {
	data         []byte
	version      string
	modified     time.Time
	etag         string // the ETag to ask for the file again
	lastModified string // likewise, if there is no ETag
}

var pageLimits = recent.Limits{Values: 512, Bytes: 32 << 20, Each: 4 << 20}

// server is a driver of the files below an address. It can't list them. What it has read is
// kept and asked for again with its ETag, so a file that has not changed is not sent twice,
// and one that has is seen at once.
type server struct {
	base     *url.URL // the path ends with a slash
	client   http.Client
	timeout  time.Duration
	deadline func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	limit    int64
	kept     *recent.Cache[*page]
}

// Open returns the driver of an https server below an address, read-only.
func Open(address string, opts Options) (vfs.Driver, error) {
	base, err := serverAddress(address, opts.Development)
	if err != nil {
		return nil, err
	}
	s := &server{base: base, timeout: cmp.Or(opts.Timeout, 10*time.Second), deadline: opts.deadline, limit: vfs.MaxFile, kept: recent.New[*page](pageLimits)}
	if s.deadline == nil {
		s.deadline = context.WithTimeout
	}
	client := cmp.Or(opts.Client, outbound.NewClient(outbound.Personal, nil))
	s.client = http.Client{Transport: client.Transport, CheckRedirect: s.redirect}
	return s, nil
}

// serverAddress checks the address of a mount. Its errors don't quote what may be a secret.
func serverAddress(address string, development bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("vfs: the address of a server is https://host/path")
	case u.Scheme == "http" && !development:
		return nil, fmt.Errorf("vfs: http://%s is not encrypted: use https, or development mode", u.Host)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("vfs: a server is mounted by https, not %s", u.Scheme)
	case u.User != nil:
		return nil, fmt.Errorf("vfs: the address of %s has a user name in it, and mounts are shown to every caller; leave it out", u.Host)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("vfs: the address of %s has a query or a fragment, and files are asked for by path", u.Host)
	}
	return u.JoinPath("/"), nil
}

func (s *server) Can() vfs.Can {
	return vfs.Can{Read: true, Because: "servers are read only; mount a directory to write"}
}

func (s *server) String() string { return "server " + s.base.String() }

// Close implements [io.Closer].
func (s *server) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

var errRedirect = errors.New("redirected out of the mount")

// redirect lets a server send the reader around below the address that is mounted, and to
// no other place.
func (s *server) redirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if r.URL.Scheme != s.base.Scheme || r.URL.Host != s.base.Host || !strings.HasPrefix(r.URL.EscapedPath(), s.base.EscapedPath()) {
		return errRedirect
	}
	if admit := vfs.Landing(r.Context()); admit != nil {
		if err := admit(path.Clean("/" + strings.TrimPrefix(r.URL.Path, s.base.Path))[1:]); err != nil {
			return landingError{err}
		}
	}
	return nil
}

// A landingError is why a redirect isn't followed for the caller.
type landingError struct{ error }

// address returns where a file is. Whatever its name has in it, it stays one path.
func (s *server) address(name string) string {
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	u := *s.base
	u.RawPath = u.EscapedPath() + strings.Join(segments, "/")
	u.Path += name
	return u.String()
}

func (s *server) Read(ctx context.Context, name string) (vfs.File, error) {
	page, err := s.get(ctx, name)
	if err != nil {
		return vfs.File{}, err
	}
	return vfs.File{Data: bytes.Clone(page.data), Version: page.version, Modified: page.modified}, nil
}

// Stat asks for the file, which costs little if it is kept: what a server states about a file
// without giving it is not to be relied on.
func (s *server) Stat(ctx context.Context, name string) (vfs.Info, error) {
	page, err := s.get(ctx, name)
	if err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Size: int64(len(page.data)), Version: page.version, Modified: page.modified}, nil
}

// get returns a file as it is now. Its data must not be changed.
func (s *server) get(ctx context.Context, name string) (*page, error) {
	limited, cancel := s.deadline(ctx, s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(limited, http.MethodGet, s.address(name), nil)
	if err != nil {
		return nil, err
	}
	old, known := s.kept.Get(name)
	if known {
		if old.etag != "" {
			r.Header.Set("If-None-Match", old.etag)
		} else {
			r.Header.Set("If-Modified-Since", old.lastModified)
		}
	}
	if err := kernel.Reaching(kernel.OnItsOwn(ctx), kernel.ToNetwork, r.URL.Scheme+"://"+r.URL.Host); err != nil {
		return nil, err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, s.failure(ctx, limited, err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch {
	case answer.StatusCode == http.StatusNotModified && known:
		return old, nil
	case answer.StatusCode != http.StatusOK:
		if answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusGone {
			s.kept.Drop(name)
		}
		return nil, s.refusal(answer, name)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, s.limit+1))
	if err == nil {
		// When the time is over the connection is closed, and a server that notices may end
		// its answer in time to make it look whole.
		err = limited.Err()
	}
	switch {
	case err != nil:
		return nil, s.failure(ctx, limited, err)
	case int64(len(data)) > s.limit:
		return nil, vfs.ErrTooLarge
	}
	p := &page{data: data, version: vfs.Digest(data), etag: answer.Header.Get("ETag"), lastModified: answer.Header.Get("Last-Modified")}
	p.modified, _ = http.ParseTime(p.lastModified)
	// It has whole seconds: a file that is changed twice in one of them keeps it.
	if date, err := http.ParseTime(answer.Header.Get("Date")); err != nil || date.Sub(p.modified) < 2*time.Second {
		p.lastModified = ""
	}
	if p.etag == "" && p.lastModified == "" {
		s.kept.Drop(name) // without an ETag or a date it can't be validated
	} else {
		s.kept.Put(name, p, len(p.data))
	}
	return p, nil
}

// refusal returns the error for an answer without the file. The cause has the status of the answer,
// where that is one of an error, and what was asked for: never what the server has written.
func (s *server) refusal(answer *http.Response, name string) error {
	status := answer.StatusCode
	cause := &message.Error{Code: status, Message: fmt.Sprintf("%s: %s", cmp.Or(http.StatusText(status), "Unknown status"), message.Clip(s.address(name), 400))}
	if status < 400 || status > 599 {
		cause.Code = http.StatusBadGateway
	}
	return message.Errorf(502, "VFS fetch failed: %s answered with status %d: %w", s.base.Host, status, cause)
}

func (s *server) failure(ctx, limited context.Context, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if refusal, ok := errors.AsType[landingError](err); ok {
		return refusal.error
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil || ok && timeout.Timeout():
		return message.Errorf(504, "VFS fetch failed: %s did not answer within %v", s.base.Host, s.timeout)
	case errors.Is(err, errRedirect):
		return message.Errorf(502, "VFS fetch failed: %s sends the reader out of %s, and nothing leaves a mount; mount the other place", s.base.Host, s.base)
	}
	cause := &message.Error{Code: 502, Message: message.Clip(err.Error(), 300)}
	return message.Errorf(502, "VFS fetch failed: %s can't be reached: %w", s.base.Host, cause)
}
