package door

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/patience"
	"kernos/store/replicated"
	"kernos/transport"
)

// WebOptions are the settings of a Web.
type WebOptions struct {
	// Way leads to the owner.
	Way Way

	// Query reports whether a syscall, by its method such as memory/get, is a query, which may be repeated. Nil means that it isn't
	// known of any.
	Query func(method string) bool

	// MaxHeader and HeaderTime are the limits of the headers of a request, and Idle how long a connection may be without one.
	// 0 means 16 KB, 10 seconds and 2 minutes.
	MaxHeader        int
	HeaderTime, Idle time.Duration

	// Waiting is how long a request waits for an owner. 0 means [Waiting].
	Waiting time.Duration

	// Grace is how long requests that have begun may take when Serve ends. 0 means 3 seconds.
	Grace time.Duration

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// A Web passes connections on that carry requests of HTTP. Each has a connection of its own to the owner, which sees the
// addresses of the client. It is safe for concurrent use.
type Web struct {
	opts     WebOptions
	proxy    *httputil.ReverseProxy
	upgraded sync.WaitGroup // requests that are passed on, WebSockets too
}

// NewWeb returns a web.
func NewWeb(o *WebOptions) *Web {
	w := &Web{opts: *o}
	w.opts.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	w.opts.Waiting = cmp.Or(o.Waiting, Waiting)
	w.opts.MaxHeader = cmp.Or(o.MaxHeader, 16<<10)
	w.opts.HeaderTime = cmp.Or(o.HeaderTime, 10*time.Second)
	w.opts.Idle = cmp.Or(o.Idle, 2*time.Minute)
	w.opts.Grace = cmp.Or(o.Grace, 3*time.Second)
	w.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: trip{w}, FlushInterval: -1, ModifyResponse: endFrames, ErrorHandler: refuse,
		ErrorLog: slog.NewLogLogger(w.opts.Log.Handler(), slog.LevelDebug),
	}
	return w
}

// Serve passes on what a listener accepts until ctx is done, closes the listener, and finishes what has begun. Kind is how
// visitors have come; with a configuration of TLS, it ends here.
func (w *Web) Serve(ctx context.Context, l net.Listener, kind Kind, secure *tls.Config) error {
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var open sync.Map // of *webConn, by connection
	s := &http.Server{
		Handler: http.HandlerFunc(w.serve), ReadHeaderTimeout: w.opts.HeaderTime, IdleTimeout: w.opts.Idle, MaxHeaderBytes: w.opts.MaxHeader,
		DisableGeneralOptionsHandler: true, TLSConfig: secure, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			c := newWebConn(w, conn, kind, secure != nil)
			open.Store(conn, c)
			return context.WithValue(ctx, webConnKey{}, c)
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state != http.StateClosed && state != http.StateHijacked {
				return
			}
			if c, ok := open.LoadAndDelete(conn); ok {
				c.(*webConn).way.CloseIdleConnections()
			}
		},
		BaseContext: func(net.Listener) context.Context { return work },
		ErrorLog:    slog.NewLogLogger(w.opts.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	stopping := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.opts.Grace)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close()
		}
		cut() // ends WebSockets
	})
	var err error
	if secure != nil {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if stopping() {
		return errors.Join(err, s.Close())
	}
	<-stopped
	w.upgraded.Wait()
	return nil
}

type webConnKey struct{}

// A webConn is the connection of a client, and its connection to the owner.
type webConn struct {
	visitor Visitor
	way     *http.Transport
}

func newWebConn(w *Web, conn net.Conn, kind Kind, secured bool) *webConn {
	c := &webConn{visitor: Visitor{Kind: kind}}
	if kind == TCP {
		c.visitor = Visitor{Kind: kind, Remote: conn.RemoteAddr().String(), Local: conn.LocalAddr().String(), TLS: secured}
	}
	c.way = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, patience.For(w.opts.Waiting))
			defer cancel()
			conn, err := w.opts.Way(ctx, c.visitor)
			if err != nil {
				w.opts.Log.Debug("a request wasn't passed on", "error", err)
				return nil, errNoOwner
			}
			return conn, nil
		},
		DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: w.opts.Idle, ExpectContinueTimeout: time.Second,
		Protocols: new(http.Protocols),
	}
	c.way.Protocols.SetHTTP1(true)
	return c
}

// serve passes a request on.
func (w *Web) serve(out http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" { // about this process, as without a cluster
		out.Header().Set("Server", "kernos")
		transport.WriteJSON(out, http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
		return
	}
	if r.ContentLength < 0 {
		_ = http.NewResponseController(out).EnableFullDuplex() // the answer doesn't wait for the end of the request
	}
	w.upgraded.Add(1)
	defer w.upgraded.Done()
	w.proxy.ServeHTTP(out, r)
}

// rewrite passes the headers on as they came.
func rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = "http", "owner.kernos", p.In.URL.RawQuery
	p.Out.Host = p.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header.Values(name); len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
	if p.In.Header.Get("User-Agent") == "" {
		p.Out.Header["User-Agent"] = nil // net/http would add one
	}
}

// A trip sends a request to the owner, and again to the next one if that is safe.
type trip struct{ w *Web }

// RoundTrip implements [http.RoundTripper].
func (t trip) RoundTrip(r *http.Request) (*http.Response, error) {
	c := r.Context().Value(webConnKey{}).(*webConn)
	until := time.Now().Add(patience.For(t.w.opts.Waiting))
	again, err := t.w.repeatable(r)
	if err != nil {
		return nil, err
	}
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: 250 * time.Millisecond}
	for {
		answer, err := c.way.RoundTrip(r)
		moving := err != nil || moved(answer)
		if !moving || again == nil || errors.Is(err, errNoOwner) || r.Context().Err() != nil || time.Now().After(until) {
			return answer, err
		}
		if err == nil {
			_ = answer.Body.Close()
		}
		if !pauses.Wait(r.Context().Done()) {
			return nil, r.Context().Err()
		}
		r = again()
	}
}

// maxRepeated is how long the body of a request may be that is repeated.
const maxRepeated = 1 << 20

// repeatable returns what makes a request once more; nil if that isn't safe. The body of such a request is read.
func (w *Web) repeatable(r *http.Request) (func() *http.Request, error) {
	method, isCall := strings.CutPrefix(r.URL.Path, "/v1/call/")
	switch {
	case r.Header.Get("Upgrade") != "":
		return nil, nil
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0:
		return func() *http.Request { return r }, nil
	case r.Method != http.MethodPost, !isCall, r.ContentLength < 0, r.ContentLength > maxRepeated:
		return nil, nil
	case r.Header.Get("Idempotency-Key") == "" && (w.opts.Query == nil || !w.opts.Query(method)):
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	again := func() *http.Request {
		next := r.Clone(r.Context())
		next.Body = io.NopCloser(bytes.NewReader(body))
		return next
	}
	r.Body = again().Body
	return again, nil
}

// moved reports whether an answer means that the kernel is about to have another owner. The body of one that may is read.
func moved(answer *http.Response) bool {
	const short = 1 << 10
	if answer.StatusCode != http.StatusServiceUnavailable || answer.ContentLength < 0 || answer.ContentLength > short {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, short))
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return true
	}
	var no struct{ Name, Message string }
	return json.Unmarshal(body, &no) == nil && (no.Name == transport.ShuttingDown || no.Message == replicated.ErrDeposed.Error())
}

// errNoOwner is the error of a request that found no owner.
var errNoOwner = errors.New("no node owns the kernel")

// refuse answers a request that wasn't answered.
func refuse(out http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has hung up, or this node stops
	}
	out.Header().Set("Server", "kernos")
	out.Header().Set("Retry-After", "1")
	transport.Refuse(out, http.StatusServiceUnavailable, "no_owner", Away(!errors.Is(err, errNoOwner)).Message)
}
