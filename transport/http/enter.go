package http

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/store/blobs"
	"kernos/transport"
)

// enter returns what happens to a request before its path is looked up.
func (s *Server) enter(e Endpoint) http.Handler {
	plain := &blobs.Remote{Dir: s.opts.Blobs}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response{ResponseWriter: w, control: *http.NewResponseController(w), time: s.opts.WriteTime, s: s}
		defer out.leave()
		w = out
		if r.ContentLength != 0 {
			// Also that of a request which is refused: its body is read, and dropped.
			_ = out.control.SetReadDeadline(time.Now().Add(s.opts.BodyTime))
		}
		if r.ContentLength < 0 {
			// A sender of messages waits for the answer before it sends them: a refusal doesn't wait for the body.
			_ = out.control.EnableFullDuplex() // a writer without this method is full duplex anyway
		}
		h := w.Header()
		maps.Copy(h, everyHeader)
		if no := s.admit(r, out); no != nil {
			if no.name != rateExceeded { // another connection may find a place
				h.Set("Connection", "close")
			}
			h.Set("Retry-After", "1")
			refuse(w, *no)
			return
		}
		if r.TLS == nil && clientTLS(r) {
			r.TLS = &tls.ConnectionState{HandshakeComplete: true}
		}
		caller := principal.TheOwner()
		if e.Guard != nil {
			var reason transport.Reason
			if caller, reason = e.Guard.check(w, r); caller == nil {
				if reason != "" {
					s.requests.Refuse(reason)
					s.opts.Log.Debug("a request was refused", "reason", reason, "remote", r.RemoteAddr, "path", r.URL.Path)
				}
				return
			}
		}
		if c, _ := r.Context().Value(connectionKey{}).(*connection); c != nil && !health(r) {
			c.admitted()
		}
		ctx := kernel.ActFor(r.Context(), kernel.From(caller, "http"))
		if e.Remote {
			remote := plain
			if r.TLS != nil && s.opts.Blobs != nil {
				remote = &blobs.Remote{Dir: s.opts.Blobs, Authority: authority(r.Host)}
			}
			ctx = blobs.WithRemote(ctx, remote)
		}
		ctx, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(caller.Life(), func() {
			end()
			out.expire()
		})()
		defer out.finish()
		s.mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// clientTLS reports whether the client of a connection that another node of a cluster has passed on uses TLS, which has ended there.
func clientTLS(r *http.Request) bool {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	if c == nil {
		return false
	}
	passed, ok := c.Conn.(interface{ ClientTLS() bool })
	return ok && passed.ClientTLS()
}

// everyHeader is what every answer has. Its values are shared.
var everyHeader = http.Header{"Server": {Name}, "X-Content-Type-Options": {"nosniff"}, "Cache-Control": {"no-store"}}

var stopping = refusal{503, transport.ShuttingDown, transport.ShuttingDownText}

// rateExceeded is the name of the refusal of a request whose address sends too many of them.
const rateExceeded = "rate_exceeded"

// admit gives a request a place, or returns the reason why none is free.
func (s *Server) admit(r *http.Request, out *response) *refusal {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	switch {
	case s.requests.Stopping().Err() != nil && health(r):
		return nil // the health check answers that the daemon isn't ready
	case s.requests.Stopping().Err() != nil:
		s.requests.Refuse(transport.Stopping)
		return &stopping
	case c != nil && c.tooMany:
		s.conns.Refuse(transport.TooMany)
		full := s.conns.Full()
		return &refusal{full.Code, transport.TooManyConnections, full.Message}
	}
	switch _, reason := s.requests.Admit(out); reason {
	case transport.Stopping:
		return &stopping
	case transport.TooMany:
		return &refusal{503, "too_many_requests_at_once",
			fmt.Sprintf("%d requests are being served, and no more are taken; try again later", s.opts.MaxRequests)}
	}
	if !s.rates.allow(r.RemoteAddr, time.Now()) {
		s.requests.Refuse(refusedRate)
		return &refusal{429, rateExceeded,
			fmt.Sprintf("More than %g requests per second came from this address; send fewer, or many messages in one request to /v1/messages", s.opts.RequestRate)}
	}
	return nil
}

// response is the answer to a request. Each write has a deadline: an answer as a whole may
// take for ever. It implements [transport.Conn].
type response struct {
	http.ResponseWriter
	control http.ResponseController
	time    time.Duration
	s       *Server
	status  int
	left    bool
	expired atomic.Bool

	ending   sync.Mutex // held while the request's principal ends it, or its handler does
	finished bool
}

// leave takes the request out of those that are served.
func (p *response) leave() {
	if p.left {
		return
	}
	p.left = true
	p.s.answered(p.status)
	if p.s.requests.Leave(p) {
		p.s.requests.Done()
	}
}

// finish is called when the handler is about to return: net/http's response must not be used afterwards.
func (p *response) finish() {
	p.ending.Lock()
	defer p.ending.Unlock()
	p.finished = true
}

// expire ends a request whose principal has ended: it reads and writes nothing more.
func (p *response) expire() {
	p.ending.Lock()
	defer p.ending.Unlock()
	if p.finished {
		return
	}
	_ = p.control.SetReadDeadline(time.Unix(1, 0))
	p.expired.Store(true)
	_ = p.control.SetWriteDeadline(time.Unix(1, 0))
}

// Stop implements [transport.Conn]. Requests that read for long watch the end of
// [transport.Server.Stopping].
func (p *response) Stop() {}

// Cut implements [transport.Conn]. The connection of the request is closed.
func (p *response) Cut() {}

// Serves implements [transport.Conn].
func (p *response) Serves() bool { return false }

// Throttled implements [transport.Conn].
func (p *response) Throttled() bool { return false }

// WriteHeader implements [http.ResponseWriter].
func (p *response) WriteHeader(status int) {
	if p.status == 0 && status >= 200 {
		p.status = status
	}
	if status == http.StatusServiceUnavailable && p.Header().Get("Retry-After") == "" {
		p.Header().Set("Retry-After", "1")
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *response) Write(b []byte) (int, error) {
	if p.status == 0 {
		p.status = http.StatusOK
	}
	if len(b) == 0 {
		return p.ResponseWriter.Write(b) // the headers
	}
	return transport.WriteInTime((*timedResponse)(p), b, p.time)
}

// timedResponse is what a response writes to. It implements [transport.TimedWriter].
type timedResponse response

func (p *timedResponse) Write(b []byte) (int, error) {
	if p.expired.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	return p.ResponseWriter.Write(b)
}

// SetWriteDeadline leaves the last deadline in place: net/http sends the rest when the handler has returned.
func (p *timedResponse) SetWriteDeadline(t time.Time) error {
	if t.IsZero() || p.expired.Load() {
		return nil
	}
	return p.control.SetWriteDeadline(t)
}

// FlushError is what [http.ResponseController.Flush] calls.
func (p *response) FlushError() error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
	return p.control.Flush()
}

// Unwrap is for [http.ResponseController].
func (p *response) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Hijack implements [http.Hijacker]: some WebSocket libraries ask for it themselves. The
// connection has no deadlines, and counts no more among those of HTTP, nor does the request.
func (p *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := p.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	p.status = http.StatusSwitchingProtocols
	p.leave()
	_ = conn.SetDeadline(time.Time{})
	if c := connectionOf(conn); c != nil {
		c.leave()
		if conn == net.Conn(c) {
			// As it was accepted: its new owner may want more of it than a net.Conn gives. What
			// is buffered still goes through c, which is the same connection.
			conn = c.Conn
		}
	}
	return conn, buffered, nil
}
