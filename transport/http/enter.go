package httpd

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"kernos/store/blobs"
)

// crowd counts the connections of all doors. There are always a few more than there may be:
// those who come too many get an answer that says so.
type crowd struct {
	net.Listener
	s *Server
}

// tooMany is how many connections there may be that are about to be refused.
const tooMany = 64

// Accept implements [net.Listener].
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		most := int64(c.s.opts.MaxConnections)
		n := c.s.stats.connections.Add(1)
		if n > most+tooMany {
			c.s.stats.connections.Add(-1)
			c.s.stats.refused[refusedConnections].Add(1)
			_ = conn.Close()
			continue
		}
		return &visitor{Conn: conn, s: c.s, tooMany: n > most}, nil
	}
}

// A visitor is a connection.
type visitor struct {
	net.Conn
	s       *Server
	tooMany bool
	left    atomic.Bool
}

// Close implements [net.Conn].
func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}

// leave takes the connection out of the count.
func (v *visitor) leave() {
	if !v.left.Swap(true) {
		v.s.stats.connections.Add(-1)
	}
}

type visitorKey struct{}

// withVisitor lets a request find its connection.
func withVisitor(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = t.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, conn)
}

// enter returns what happens to a request before anything looks at what it asks for.
func (s *Server) enter(d Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running := s.stats.running.Add(1)
		out := &patient{ResponseWriter: w, control: http.NewResponseController(w), time: s.opts.WriteTime, s: s}
		defer out.leave()
		w = out
		if r.ContentLength != 0 {
			// Also that of a request which is refused: its body is read, and dropped.
			_ = out.control.SetReadDeadline(time.Now().Add(s.opts.BodyTime))
		}
		h := w.Header()
		h.Set("Server", Name)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if no, name := s.crowded(r, running); no != nil {
			s.stats.refused[name].Add(1)
			if no.status == http.StatusServiceUnavailable {
				h.Set("Connection", "close")
			}
			h.Set("Retry-After", "1")
			refuse(w, *no)
			return
		}
		if d.Guard != nil {
			answered, name := d.Guard.check(w, r)
			if answered {
				if name != refusedNothing {
					s.stats.refused[name].Add(1)
					s.opts.Log.Debug("a request was refused", "reason", name.String(), "remote", r.RemoteAddr, "path", r.URL.Path)
				}
				return
			}
		}
		if d.Remote {
			remote := &blobs.Remote{Dir: s.opts.Blobs}
			if r.TLS != nil && s.opts.Blobs != nil {
				remote.Authority = authority(r.Host)
			}
			r = r.WithContext(blobs.WithRemote(r.Context(), remote))
		}
		s.mux.ServeHTTP(w, r)
	})
}

// crowded says why a request can't be served that everybody else's are in the way of.
func (s *Server) crowded(r *http.Request, running int64) (*refusal, reason) {
	v, _ := r.Context().Value(visitorKey{}).(*visitor)
	switch {
	case s.life.Err() != nil && !health(r): // whoever asks is told that it is not ready
		return &refusal{503, "stopping", "The daemon is shutting down; try again"}, refusedStopping
	case v != nil && v.tooMany:
		return &refusal{503, "too_many_connections",
			fmt.Sprintf("There are %d connections, and no more are taken; close some, or try again later", s.opts.MaxConnections)}, refusedConnections
	case running > int64(s.opts.MaxRequests):
		return &refusal{503, "too_many_requests_at_once",
			fmt.Sprintf("%d requests are being served, and no more are taken; try again later", s.opts.MaxRequests)}, refusedRequests
	case !s.rates.allow(r.RemoteAddr, time.Now()):
		return &refusal{429, "rate_exceeded",
			fmt.Sprintf("More than %g requests a second came from this address; send fewer, or many messages in one request to /v1/messages", s.opts.RequestRate)}, refusedRate
	}
	return nil, refusedNothing
}

// patient gives each write of an answer its time: an answer as a whole may take for ever.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
	s       *Server
	status  int
	left    bool
}

// leave takes the request out of those that are served.
func (p *patient) leave() {
	if p.left {
		return
	}
	p.left = true
	p.s.stats.answered(p.status)
	p.s.stats.left(&p.s.stats.running)
}

// WriteHeader implements [http.ResponseWriter].
func (p *patient) WriteHeader(status int) {
	if p.status == 0 && status >= 200 {
		p.status = status
	}
	p.ResponseWriter.WriteHeader(status)
}

// part is how much of an answer has to be read in the time of one write.
const part = 64 << 10

// Write implements [http.ResponseWriter].
func (p *patient) Write(b []byte) (written int, err error) {
	if p.status == 0 {
		p.status = http.StatusOK
	}
	for more := true; more && err == nil; more = len(b) > 0 {
		_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
		var n int
		n, err = p.ResponseWriter.Write(b[:min(len(b), part)])
		written += n
		b = b[n:]
	}
	return written, err
}

// FlushError is what [http.ResponseController.Flush] calls.
func (p *patient) FlushError() error {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
	return p.control.Flush()
}

// Unwrap is for [http.ResponseController].
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Hijack implements [http.Hijacker]: some who make WebSockets ask for it themselves. The
// connection has no deadlines, and counts no more among those of HTTP, nor does the request.
func (p *patient) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := p.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	p.status = http.StatusSwitchingProtocols
	p.leave()
	_ = conn.SetDeadline(time.Time{})
	inner := conn
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		inner = t.NetConn()
	}
	v, ok := inner.(*visitor)
	if ok {
		v.leave()
	}
	if ok && conn == inner {
		// As it was accepted: who has it may want more of it than a net.Conn gives. What is
		// buffered still goes through the visitor, which is the same connection.
		conn = v.Conn
	}
	return conn, buffered, nil
}
