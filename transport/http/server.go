// Package http serves a kernel over HTTP: to curl, to web pages, and to programs that collect
// metrics. Clients may switch to a WebSocket.
//
//	POST /v1/messages                NDJSON in and out, both at the same time
//	POST /v1/call/{module}/{method}  one call: JSON, or server-sent events if asked for
//	GET  /v1/streams/{id}            server-sent events again, from where they broke off
//	DELETE /v1/streams/{id}          the end of a stream
//	GET  /v1/blobs/{id}              large data, whole or in part
//	GET  /openapi.json               what there is, described: [Routes], and a path for each syscall
//	GET  /openrpc.json               all methods, described
//	GET  /llms.txt, /docs/{file...}  the documentation
//	GET  /healthz, /readyz           whether it lives, whether it serves
//	GET  /metrics                    numbers, in the text format of Prometheus
//	GET  /, /ws                      a WebSocket; / is the console for a browser
//	/mcp                             the Model Context Protocol
//
// A [Server] has any number of endpoints, each a listener with its own rule for who may connect:
//
//	server := http.NewServer(k, &http.Options{Blobs: dir})
//	err := server.Serve(ctx, http.Endpoint{Listener: tcp, Guard: guard, Remote: true}, http.Endpoint{Listener: socket})
//
// A [Guard] checks the Host and the Origin of every request, so that no web page reaches the
// kernel of the user who looks at it, and wants a token for everything but health.
//
// # Goroutines
//
//   - Accepting, one per endpoint: [Server.Serve] starts it, and it ends when the server drains. net/http has one per
//     connection.
//   - A call with server-sent events, one per call: the request starts it through [transport.Server.Go], and it ends
//     when the call is done or given up, also after the request.
//   - Closing a connection that is cut off, or that sent no request in time, one per connection: over TLS that may take
//     seconds.
//   - Timers of connections that haven't been admitted and of streams that are silent; what the end of a principal
//     causes.
package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/store/blobs"
	"kernos/transport"
	"kernos/transport/rpc"
)

// Name is the server that every answer names in the header Server.
const Name = "kernos"

// A stopper is shut down with the server.
type stopper interface {
	Shutdown(context.Context) error
}

// Options are the settings of a Server. The zero value is usable.
type Options struct {
	// WebSocket serves requests at / and /ws that ask for a WebSocket. It gets them after
	// the guard has let them in. Its connections end with those of the server. Nil means that
	// there are no WebSockets.
	WebSocket interface {
		http.Handler
		stopper
	}

	// MCP serves requests at /mcp. What continues after its request
	// has ended counts among requests, so that a drain waits for it. Nil means that there is nothing at /mcp.
	MCP interface {
		Serve(requests *transport.Server, w http.ResponseWriter, r *http.Request)
		stopper
	}

	// Console serves the web console: / to browsers, and all below /console/. Nil means that
	// there is none.
	Console http.Handler

	// RPC answers calls, and keeps the streams of server-sent events. The
	// server closes it when it stops. Nil means one of the server's own.
	RPC *rpc.Service

	// Blobs are what /v1/blobs serves. Nil means nothing.
	Blobs *blobs.Dir

	// ReachesBlob reports whether a caller may have a blob. Nil means all of them.
	ReachesBlob func(*principal.Principal, blobs.Hash) (bool, error)

	// Ready reports why the kernel can't do its work at the moment. Nil means that it can.
	Ready func() error

	// Collect adds metrics to those that the server knows of. May be nil.
	Collect func(*Metrics)

	// MaxConnections is how many connections there may be at a time over all endpoints, without
	// WebSockets. One more gets a 429 and is closed. 0 means 4,096.
	MaxConnections int

	// MaxUnadmitted is how many connections of a remote endpoint may be open that have not sent a
	// request that was let in, and UnadmittedTime how long each has for it. If there is one more,
	// the oldest is closed. 0 means an eighth of MaxConnections, and 5 seconds.
	MaxUnadmitted  int
	UnadmittedTime time.Duration

	// MaxRequests is how many requests are served at a time; one connection may have many.
	// One more gets a 503. 0 means 4,096.
	MaxRequests int

	// RequestRate is how many requests per second are taken from one address, after as many
	// as a second allows at once. One more gets a 429. 0 means as many as come.
	RequestRate float64

	// FrameRate is how many messages per second are taken from one stream of messages. One
	// more waits, and its peer does too; a peer that continues to send more gets the
	// event [transport.Throttled]. 0 means as many as come.
	FrameRate float64

	// MaxBody is how many bytes the parameters of a call may have. 0 means 1 MB.
	MaxBody int64

	// MaxHeader is how many bytes the headers of a request may have. 0 means 16 KB.
	MaxHeader int

	// HeaderTime is how long the headers of a request may take, BodyTime the parameters of
	// a call, WriteTime one write to a peer that does not read, and Idle a connection without
	// a request, or a stream of messages on which nothing happens. 0 means 10 seconds, a minute,
	// 30 seconds and 2 minutes.
	HeaderTime, BodyTime, WriteTime, Idle time.Duration

	// Grace is how long what has begun may take to end when the server stops. 0 means 10 seconds.
	Grace time.Duration

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// An Endpoint is a listener with its own rule for who may connect.
type Endpoint struct {
	// Listener accepts connections. The server closes it when it stops.
	Listener net.Listener

	// Guard decides about requests. Nil admits every request.
	Guard *Guard

	// Certificate, if there is one, makes this an endpoint for TLS.
	Certificate *Certificate

	// Remote means that clients may be on another machine: pointers in what they send
	// may not mean files of this one.
	Remote bool
}

// A Server serves a kernel over HTTP.
type Server struct {
	k     *kernel.Kernel
	opts  Options
	mux   http.Handler
	rates *rates

	conns    *transport.Server // connections, without WebSockets
	requests *transport.Server
	answers  [6]atomic.Uint64 // counted by the first digit of the status

	served atomic.Bool
}

// Defaults returns the options of a server for which none are set.
func Defaults() Options {
	var o Options
	o.complete()
	return o
}

// complete gives limits that aren't set their defaults.
func (o *Options) complete() {
	transport.Default(&o.MaxConnections, 4096)
	transport.Default(&o.MaxUnadmitted, max(16, o.MaxConnections/8))
	transport.Default(&o.UnadmittedTime, 5*time.Second)
	transport.Default(&o.MaxRequests, 4096)
	transport.Default(&o.MaxBody, 1<<20)
	transport.Default(&o.MaxHeader, 16<<10)
	transport.Default(&o.HeaderTime, 10*time.Second)
	transport.Default(&o.BodyTime, time.Minute)
	transport.Default(&o.WriteTime, 30*time.Second)
	transport.Default(&o.Idle, 2*time.Minute)
	transport.Default(&o.Grace, 10*time.Second)
}

// NewServer returns a server of a kernel. Nil options mean defaults.
func NewServer(k *kernel.Kernel, opts *Options) *Server {
	s := &Server{k: k}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	o.complete()
	if o.RPC == nil {
		o.RPC = rpc.New(k, nil)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s.conns = transport.NewServer(k, transport.Limits{Connections: o.MaxConnections, Extra: extraPlaces}, []transport.Reason{transport.TooMany}, nil, o.Log)
	s.requests = transport.NewServer(k, transport.Limits{Connections: o.MaxRequests, FrameRate: o.FrameRate},
		[]transport.Reason{transport.Stopping, transport.TooMany, refusedRate, refusedHost, refusedOrigin, refusedToken}, nil, o.Log)
	s.rates = newRates(o.RequestRate)
	s.mux = s.routes()
	return s
}

// Serve serves the endpoints until ctx is done. Then it drains: it accepts nothing more, stops
// the kernel ([kernel.Kernel.Stop]), stops reading streams of messages, and finishes what
// has begun. What takes longer than the grace is cut.
//
// Serve returns when every connection has ended: nil, or what ended it before ctx did. A
// server serves once.
func (s *Server) Serve(ctx context.Context, endpoints ...Endpoint) error {
	if s.served.Swap(true) {
		return errors.New("a server serves once; make another one")
	}
	ended := make(chan error, len(endpoints))
	var servers []*http.Server
	for _, e := range endpoints {
		h := s.server(e)
		servers = append(servers, h)
		l := &listener{Listener: e.Listener, conns: s.conns}
		if e.Remote {
			l.unadmitted = &unadmitted{most: s.opts.MaxUnadmitted, time: s.opts.UnadmittedTime}
		}
		go func() {
			if e.Certificate != nil {
				ended <- h.ServeTLS(l, "", "")
			} else {
				ended <- h.Serve(l)
			}
		}()
	}
	var err error
	open := len(endpoints)
	select {
	case <-ctx.Done():
	case err = <-ended: // a listener ends only by an error, or when it is closed
		open--
		err = fmt.Errorf("a listener failed while it was served: %w", err)
	}
	err = errors.Join(err, s.drain(servers))
	for range open {
		if closed := <-ended; !errors.Is(closed, http.ErrServerClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}

// server returns the server of an endpoint.
func (s *Server) server(e Endpoint) *http.Server {
	h := &http.Server{
		Handler:                      s.enter(e),
		ReadHeaderTimeout:            s.opts.HeaderTime,
		DisableGeneralOptionsHandler: true, // OPTIONS * is refused like everything else
		IdleTimeout:                  s.opts.Idle,
		MaxHeaderBytes:               s.opts.MaxHeader,
		BaseContext:                  func(net.Listener) context.Context { return s.requests.Work() },
		ConnContext:                  withConnection,
		ConnState:                    noteState,
		ErrorLog:                     slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
	}
	if e.Certificate != nil {
		h.TLSConfig = e.Certificate.Config()
	}
	return h
}

// drain ends the connections and requests of all endpoints in order, and WebSockets with them.
func (s *Server) drain(servers []*http.Server) error {
	s.opts.RPC.Close() // streams that were lost can no longer be resumed
	grace, cancel := context.WithTimeout(context.Background(), s.opts.Grace)
	defer cancel()
	var drained sync.WaitGroup
	var err, connsErr error
	drained.Go(func() { err = s.requests.Drain(grace) })
	drained.Go(func() { connsErr = s.conns.Drain(grace) })
	for _, h := range servers {
		drained.Go(func() { _ = h.Shutdown(grace) }) // closes the listener, and connections that are idle
	}
	for _, other := range []stopper{s.opts.WebSocket, s.opts.MCP} {
		if other != nil {
			drained.Go(func() { _ = other.Shutdown(grace) })
		}
	}
	drained.Wait()
	return errors.Join(err, connsErr)
}
