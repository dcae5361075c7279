package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/mcp/jsonrpc"
)

// Serve answers a request: streamable HTTP of both eras, and the upgrade to a connection of kernos mcp.
// The request is one that requests has admitted. Calls may continue when it has ended; a drain of requests
// waits for them, and cuts them off.
func (s *Server) Serve(requests *transport.Server, w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		s.upgrade(w, r)
	case r.Method == http.MethodPost:
		s.post(requests, w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodDelete:
		s.get(w, r)
	default:
		w.Header().Set("Allow", "DELETE, GET, POST")
		refuse(w, http.StatusMethodNotAllowed, nil, &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: /mcp takes POST, GET and DELETE"})
	}
}

// lasting is the context of an exchange: it has the values of a request, and doesn't end with the request.
type lasting struct {
	context.Context // ends when all calls are cut
	request         context.Context
	x               *exchange
}

// Value implements [context.Context].
func (l *lasting) Value(key any) any {
	if key == (exchangeKey{}) {
		return l.x
	}
	if v := l.Context.Value(key); v != nil {
		return v
	}
	return l.request.Value(key)
}

// refuse answers a request that doesn't become an exchange.
func refuse(w http.ResponseWriter, status int, id []byte, f *jsonrpc.Failure) {
	transport.WriteJSON(w, status, jsonrpc.AppendFailure(nil, id, f))
}

// readBody reads a body, at once if its length is known.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n >= 0 && n <= min(int64(s.opts.MaxBody), 64<<10) {
		body := make([]byte, n)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.opts.MaxBody)))
}

var scanners = sync.Pool{New: func() any { return new(jsonscan.Scanner) }}

// post takes one message.
func (s *Server) post(requests *transport.Server, w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(w, r)
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			status = http.StatusRequestEntityTooLarge
		}
		refuse(w, status, nil, &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: the message can't be read: " + err.Error()})
		return
	}
	scan := scanners.Get().(*jsonscan.Scanner)
	f, bad := jsonrpc.Parse(scan, body)
	scanners.Put(scan)
	if bad != nil {
		refuse(w, http.StatusBadRequest, f.ID, bad)
		return
	}
	version := r.Header.Get(mcp.HeaderVersion)
	if version != "" && !known(version) {
		refuse(w, http.StatusBadRequest, f.ID, unsupported(message.Clip(version, 64)))
		return
	}
	if version == mcp.Stateless || version == "" && (r.Header.Get(mcp.HeaderMethod) != "" || jsonscan.Member(f.Meta, mcp.MetaVersion) != nil) {
		s.postModern(requests, w, r, &f)
		return
	}
	if bad := checkVersion(r.Header, &f); bad != nil {
		refuse(w, http.StatusBadRequest, f.ID, bad)
		return
	}
	s.postLegacy(requests, w, r, &f)
}

// postModern answers a request that stands for itself.
func (s *Server) postModern(requests *transport.Server, w http.ResponseWriter, r *http.Request, f *jsonrpc.Frame) {
	if f.ID == nil || f.Method == "" {
		w.WriteHeader(http.StatusAccepted) // no notification has a meaning here
		return
	}
	var c *client
	bad := checkVersion(r.Header, f)
	if bad == nil {
		c, bad = modernClient(f)
	}
	if bad == nil {
		bad = checkHeaders(r.Header, f)
	}
	if bad != nil {
		refuse(w, http.StatusBadRequest, f.ID, bad)
		return
	}
	s.answer(requests, w, r, f, c)
}

// lastEvent is the header that names the last event that a client has.
const lastEvent = "Last-Event-Id"

// postLegacy answers a message of a session.
func (s *Server) postLegacy(requests *transport.Server, w http.ResponseWriter, r *http.Request, f *jsonrpc.Frame) {
	caller := kernel.SenderIn(r.Context()).Principal()
	var n *session
	if f.Method == "initialize" && f.ID != nil {
		n = s.open(requests, caller)
		w.Header().Set(mcp.HeaderSession, n.id)
	} else if n = s.named(w, r, f.ID); n == nil {
		return
	}
	defer n.release()
	switch {
	case f.Method == "":
		n.answered(f)
	case f.ID == nil:
		n.notified(f)
		if f.Method == "notifications/initialized" {
			n.follow(s, choiceOf(r))
		}
	default:
		s.answer(requests, w, r, f, &n.client)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// named returns the session that a request names; the request calls release. If there is none, it has answered the request.
func (s *Server) named(w http.ResponseWriter, r *http.Request, id []byte) *session {
	name := r.Header.Get(mcp.HeaderSession)
	if name == "" {
		refuse(w, http.StatusBadRequest, id, &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: the header " + mcp.HeaderSession + " is missing; send initialize first, or the header MCP-Protocol-Version: " + mcp.Stateless})
		return nil
	}
	n := s.session(name, kernel.SenderIn(r.Context()).Principal())
	if n == nil {
		refuse(w, http.StatusNotFound, id, &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: the session has ended; send initialize again"})
	}
	return n
}

// answer serves an exchange over HTTP.
func (s *Server) answer(requests *transport.Server, w http.ResponseWriter, r *http.Request, f *jsonrpc.Frame, c *client) {
	h := &httpExchange{events: newEventStream(c.session, w), w: w, exchange: exchange{s: s, work: requests, Frame: *f, client: c, choice: choiceOf(r), session: c.session}}
	x := &h.exchange
	h.lasting = lasting{requests.Work(), r.Context(), x}
	x.ctx, x.out, x.run = &h.lasting, h.events, h.call
	if c.modern {
		x.header = r.Header
	}
	if x.session != nil {
		x.session.begin(x)
	}
	m, bad := c.find(f.Method)
	switch {
	case bad != nil:
		x.fail(bad)
	case m.quick:
		m.answer(x)
	default:
		h.outlive()
		requests.Go(func() {
			defer x.cancel()
			m.begin(x)()
		})
	}
	if !h.events.serve(w, r, nil) {
		return
	}
	if c.session != nil {
		return // the client may come back for the rest
	}
	if h.left != nil {
		close(h.left)
		x.mu.Lock()
		asked := x.asked
		x.mu.Unlock()
		if asked == "" {
			x.cancel()
		}
	}
	<-h.events.done // a command is completed
}

// An httpExchange is an exchange whose request came over HTTP.
type httpExchange struct {
	exchange
	lasting lasting
	events  *eventStream
	w       http.ResponseWriter
	left    chan struct{} // closed when the client has left; nil for what doesn't wait
}

// outlive prepares what may continue when the request has ended, as long as its session lasts.
func (h *httpExchange) outlive() {
	// The deadline of the body would end the wait for a client that leaves.
	_ = http.NewResponseController(h.w).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(&h.lasting)
	h.left = make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ctx, h.cancel = ctx, cancel
	if h.session != nil {
		release := context.AfterFunc(h.session.life, cancel)
		h.cancel = func() {
			release()
			cancel()
		}
	}
}

// call sends a message to the kernel. What is done soon is done by the goroutine of the request.
func (h *httpExchange) call(m message.Message, emit kernel.Emit) {
	s := h.s
	if d, ok := s.k.Registry().Lookup(m.Type); ok && d.Runs == kernel.Inline {
		s.k.HandleHere(h.ctx, m, emit, h.events.late)
		h.unanswered(nil)
		return
	}
	h.outlive()
	h.work.Go(func() {
		h.unanswered(connection.ServeOne(h.ctx, s.k, m, emit, h.left))
		h.cancel()
	})
}

// choiceOf returns which tools a client wants to see: /mcp?tools=all.
func choiceOf(r *http.Request) choice {
	if r.URL.RawQuery == "" {
		return coreTools
	}
	return choice(r.URL.Query().Get("tools"))
}

// get opens the stream of a session, resumes one, or ends the session.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(mcp.HeaderVersion) == mcp.Stateless {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: of revision " + mcp.Stateless + " there is POST only"})
		return
	}
	n := s.named(w, r, nil)
	if n == nil {
		return
	}
	defer n.release()
	if r.Method == http.MethodDelete {
		s.close(n)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	stopping, release := s.k.UntilStop(r.Context())
	defer release()
	if last := r.Header.Get(lastEvent); last != "" {
		e := n.resume(last, w)
		if e == nil {
			refuse(w, http.StatusNotFound, nil, &jsonrpc.Failure{Code: mcp.InvalidRequest, Text: "Invalid request: the events of this stream are no longer kept; send the request again"})
			return
		}
		e.serve(w, r, stopping.Done())
		return
	}
	e := newEventStream(n, w)
	n.mu.Lock()
	n.general = e
	n.mu.Unlock()
	e.mu.Lock()
	e.write([]byte(":\n\n")) // the client has a response, and misses nothing from here on
	e.mu.Unlock()
	e.serve(w, r, stopping.Done())
}
