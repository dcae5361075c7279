package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// A Target describes where a server is.
type Target struct {
	// URL is ws://host:port/path or wss://…, http and https meaning the same, or
	// unix:///path/of/a.sock, on which a server answers as on its TCP address.
	URL string

	Token string      // a bearer token; "" if the server wants none
	TLS   *tls.Config // nil means the system's certificates

	// CAFile is a file with certificates in PEM. The server's must be signed by one of them,
	// or be among them; no other signature counts. "" means those of TLS. The file is
	// read once for a client.
	CAFile string

	// Dial connects to a server that URL only names, such as one in this process or one that wants a
	// signature. Nil means that the URL says where it is.
	Dial func(context.Context) (net.Conn, error)

	// Patience is how long a connection that broke is tried to be made again. 0 means 30 s.
	Patience time.Duration
}

// maxFrame is how long a frame may be that a server sends.
const maxFrame = 64 << 20

// An endpoint is a target that is understood.
type endpoint struct {
	url       string // address of the handshake
	shown     string // address in errors
	header    http.Header
	transport *http.Transport
}

// Check reports what is wrong with the target's address, or returns nil.
func (t Target) Check() error {
	_, err := t.endpoint()
	return err
}

// maxBody is how long the answer to a plain HTTP request may be.
const maxBody = maxFrame

// Get asks for a page of the target by plain HTTP, and reads all of it.
func (t Target) Get(ctx context.Context, path string) (*http.Response, []byte, error) {
	response, err := t.Open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return response, body, errors.Join(err, response.Body.Close())
}

// Open asks for a page of the target by plain HTTP. The caller reads its body and closes it.
func (t Target) Open(ctx context.Context, path string) (*http.Response, error) {
	e, r, err := t.request(ctx, path)
	if err != nil {
		return nil, err
	}
	e.transport.DisableKeepAlives = true // the connection ends with the body
	return (&http.Client{Transport: e.transport}).Do(r)
}

// request returns the request of a page, and the endpoint that it goes to.
func (t Target) request(ctx context.Context, path string) (*endpoint, *http.Request, error) {
	e, err := t.endpoint()
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(e.url)
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Scheme+"://"+u.Host+path, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header = e.header
	return e, r, nil
}

func (t Target) endpoint() (*endpoint, error) {
	if !strings.Contains(t.URL, "://") {
		return nil, fmt.Errorf("%q is not the address of a server: write how to reach it, as in ws://127.0.0.1:7420/, wss://example.org/ or unix:///path/of/a.sock", t.URL)
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%q is not the address of a server; it looks like ws://127.0.0.1:7420/ or unix:///path/of/a.sock: %w", t.URL, err)
	}
	settings, err := t.tls()
	if err != nil {
		return nil, err
	}
	e := &endpoint{shown: t.URL, header: make(http.Header), transport: &http.Transport{TLSClientConfig: settings, Proxy: http.ProxyFromEnvironment}}
	if t.Token != "" {
		e.header.Set("Authorization", "Bearer "+t.Token)
	}
	if t.CAFile != "" && u.Scheme != "wss" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s has no certificate that the file %s could vouch for; write wss:// or https://, or leave the file out", t.URL, t.CAFile)
	}
	if t.Dial != nil {
		e.transport.Proxy = nil
		e.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return t.Dial(ctx) }
	}
	switch u.Scheme {
	case "ws", "http":
		u.Scheme = "http"
	case "wss", "https":
		u.Scheme = "https"
	case "unix", "http+unix", "ws+unix":
		path := u.Host + u.Path
		if path == "" {
			return nil, fmt.Errorf("%q names no socket; write unix:///path/of/a.sock", t.URL)
		}
		e.transport.Proxy = nil
		if t.Dial == nil {
			e.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
		}
		e.url = "http://localhost/"
		return e, nil
	default:
		return nil, fmt.Errorf("%q is not the address of a server; it begins with ws://, wss://, http://, https:// or unix://", t.URL)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%q names no host; write ws://127.0.0.1:7420/", t.URL)
	}
	u.Path = cmp.Or(u.Path, "/")
	u.User = nil
	e.url = u.String()
	return e, nil
}

// tls returns the settings for connections to the target; nil means the system's.
func (t Target) tls() (*tls.Config, error) {
	if t.CAFile == "" {
		return t.TLS, nil
	}
	pool, err := readAuthorities(t.CAFile)
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLS != nil {
		settings = t.TLS.Clone()
	}
	settings.RootCAs = pool
	return settings, nil
}

// close lets go of connections that are not used.
func (e *endpoint) close() { e.transport.CloseIdleConnections() }

// dial opens a WebSocket.
func (e *endpoint) dial(ctx context.Context) (*webSocket, error) {
	conn, response, err := websocket.Dial(ctx, e.url, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: e.transport}, HTTPHeader: e.header, CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		conn.SetReadLimit(maxFrame)
		return &webSocket{conn: conn}, nil
	}
	if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		return nil, e.refusal(response)
	}
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	return nil, e.failure(err)
}

// refusal returns the error of a request that the server doesn't grant.
func (e *endpoint) refusal(response *http.Response) error {
	r := &Refused{URL: e.shown, Status: response.StatusCode}
	if response.Body != nil {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		_ = response.Body.Close()
		r.Text = string(bytes.ToValidUTF8(text, nil))
	}
	return r
}

// failure returns the error of a request that has no response.
func (e *endpoint) failure(err error) error {
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &Untrusted{URL: e.shown, Err: bad.Err}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op
	} else if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &Unreachable{URL: e.shown, Err: err}
}
