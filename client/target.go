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
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"kernos/message"
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

	// Dial connects to a server that URL only names, such as one in this process. Nil means that
	// the URL names it.
	Dial func(context.Context) (net.Conn, error)

	// Patience is how long a connection that broke is tried to be made again. 0 means 30 s.
	Patience time.Duration
}

// maxFrame is how long a frame may be that a server sends.
const maxFrame = 64 << 20

const (
	pingEvery = 30 * time.Second
	pongTime  = 15 * time.Second
)

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

// An Upgraded is a connection to a server that speaks another protocol than HTTP.
type Upgraded struct {
	io.ReadWriteCloser
	Header http.Header // headers of the server's answer
	conn   net.Conn
}

// CloseWrite ends writing. What the server still sends can be read.
func (u *Upgraded) CloseWrite() error {
	if half, ok := u.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Upgrade connects to a page of the target, and switches to another protocol. The error is a *Refused if
// the server doesn't want to.
func (t Target) Upgrade(ctx context.Context, path, protocol string) (*Upgraded, error) {
	e, r, err := t.request(ctx, path)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	up := new(Upgraded)
	dial := e.transport.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	e.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		up.conn = conn
		return conn, err
	}
	response, err := e.transport.RoundTrip(r)
	if err != nil {
		return nil, e.failure(err)
	}
	if both, ok := response.Body.(io.ReadWriteCloser); ok && response.StatusCode == http.StatusSwitchingProtocols {
		up.ReadWriteCloser, up.Header = both, response.Header
		return up, nil
	}
	return nil, e.refusal(response)
}

// A MessageStream carries messages in both directions, one per line. After CloseWrite the server answers
// everything, and ends the stream. After Close, queries that the server still works on are cancelled, and
// commands are completed.
type MessageStream struct {
	answers  io.ReadCloser
	requests *io.PipeWriter
	cut      func()
}

// Read reads answers. The error is io.EOF only if the server has ended the stream in order.
func (s *MessageStream) Read(p []byte) (int, error) { return s.answers.Read(p) }

// Write sends requests.
func (s *MessageStream) Write(p []byte) (int, error) { return s.requests.Write(p) }

// CloseWrite ends writing. What the server still sends can be read.
func (s *MessageStream) CloseWrite() error { return s.requests.Close() }

// Close ends the stream.
func (s *MessageStream) Close() error {
	s.cut()
	return errors.Join(s.requests.Close(), s.answers.Close())
}

// Messages opens a stream of messages to the target. Ctx bounds that and has no effect on the stream later.
// The error is an *Unreachable, an *Untrusted or a *Refused.
func (t Target) Messages(ctx context.Context) (*MessageStream, error) {
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	e, r, err := t.request(life, "/v1/messages")
	if err != nil {
		cut()
		return nil, err
	}
	body, write := io.Pipe()
	r.Method, r.Body = http.MethodPost, body
	r.Header.Set("Content-Type", "application/x-ndjson")
	e.transport.DisableKeepAlives = true
	forget := context.AfterFunc(ctx, cut)
	response, err := e.transport.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK && forget() {
		return &MessageStream{response.Body, write, cut}, nil
	}
	_ = write.Close()
	switch {
	case err != nil:
		err = e.failure(err)
	case response.StatusCode != http.StatusOK:
		err = e.refusal(response)
	}
	cut()
	return nil, cmp.Or(ctx.Err(), err)
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
		e.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
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

// A webSocket is one connection.
type webSocket struct {
	conn       *websocket.Conn
	delivering atomic.Bool // the reader waits for a stream that is not read
}

func (l *webSocket) read(ctx context.Context) ([]byte, error) {
	_, text, err := l.conn.Read(ctx)
	if c, ok := errors.AsType[websocket.CloseError](err); ok {
		err = fmt.Errorf("the server has closed it with code %d", c.Code)
		if c.Code == websocket.StatusGoingAway {
			err = message.ErrServerStopping
		}
		if c.Reason != "" {
			err = fmt.Errorf("%w: %s", err, c.Reason)
		}
	}
	return text, err
}

// write writes a frame, whole or not at all: it is not given up halfway because one caller
// has lost interest.
func (l *webSocket) write(ctx context.Context, frame []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, frame)
}

// watch pings the server as long as the connection is read, and breaks a connection on which nothing
// comes back: a machine that is gone doesn't close its connections.
func (l *webSocket) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(pingEvery):
			case <-ctx.Done():
				return
			}
			pinging, done := context.WithTimeout(ctx, pongTime)
			err := l.conn.Ping(pinging)
			done()
			if err != nil && !l.delivering.Load() {
				_ = l.conn.CloseNow()
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// closeInOrder closes the connection, and waits for the server to close its side.
func (l *webSocket) closeInOrder() { _ = l.conn.Close(websocket.StatusNormalClosure, "") }

func (l *webSocket) close() { _ = l.conn.CloseNow() }
