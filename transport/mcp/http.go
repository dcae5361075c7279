package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// Serve answers a request: streamable HTTP of both eras, and the upgrade to a connection of kernos mcp.
// Calls that go on when the client has left end with work.
func (s *Server) Serve(work context.Context, w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithValue(r.Context(), workKey{}, work))
	switch {
	case r.Header.Get("Upgrade") != "":
		s.upgrade(w, r)
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodDelete:
		s.get(w, r)
	default:
		w.Header().Set("Allow", "DELETE, GET, POST")
		refuse(w, http.StatusMethodNotAllowed, nil, &failure{code: codeInvalidRequest, text: "Invalid request: /mcp takes POST, GET and DELETE"})
	}
}

// workKey is the key of the context that the calls of a request end with.
type workKey struct{}

// refuse answers a request that doesn't become an exchange.
func refuse(w http.ResponseWriter, status int, id []byte, f *failure) {
	writeJSON(w, status, appendResponse(nil, id, nil, f))
}

// post takes one message.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.opts.MaxBody)))
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			status = http.StatusRequestEntityTooLarge
		}
		refuse(w, status, nil, &failure{code: codeInvalidRequest, text: "Invalid request: the message can't be read: " + err.Error()})
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	var scan jsonscan.Scanner
	f, bad := parse(&scan, body)
	if bad != nil {
		refuse(w, http.StatusBadRequest, f.id, bad)
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	if version != "" && !known(version) {
		refuse(w, http.StatusBadRequest, f.id, unsupported(message.Clip(version, 64)))
		return
	}
	if version == modernVersion || version == "" && (r.Header.Get("Mcp-Method") != "" || member(f.meta, metaVersion) != nil) {
		s.postModern(w, r, &f)
		return
	}
	s.postLegacy(w, r, &f)
}

// postModern answers a request that stands for itself.
func (s *Server) postModern(w http.ResponseWriter, r *http.Request, f *frame) {
	if f.id == nil || f.method == "" {
		w.WriteHeader(http.StatusAccepted) // there is no notification that means something here
		return
	}
	c, bad := modernClient(f)
	if bad == nil {
		bad = checkHeaders(r.Header, f)
	}
	if bad != nil {
		refuse(w, http.StatusBadRequest, f.id, bad)
		return
	}
	s.answer(w, r, f, c)
}

// checkHeaders compares the headers of a request with its body: what stands between may have decided by them.
func checkHeaders(h http.Header, f *frame) *failure {
	mismatch := func(text string) *failure {
		return &failure{code: codeHeaderMismatch, text: "Header mismatch: " + text}
	}
	if v := h.Get("Mcp-Protocol-Version"); v != textOf(member(f.meta, metaVersion)) {
		return mismatch("MCP-Protocol-Version must be the version that _meta names")
	}
	if m := h.Get("Mcp-Method"); m != f.method {
		return mismatch("Mcp-Method must be the method of the request, " + message.Clip(f.method, 100))
	}
	var name []byte
	switch f.method {
	case "tools/call", "prompts/get":
		name = member(f.params, "name")
	case "resources/read":
		name = member(f.params, "uri")
	default:
		return nil
	}
	got, ok := decodeHeader(h.Get("Mcp-Name"))
	if !ok || got != textOf(name) {
		return mismatch("Mcp-Name must be the name or the uri in params, " + message.Clip(textOf(name), 100))
	}
	return nil
}

// decodeHeader returns the value of a header that may be in base64.
func decodeHeader(value string) (string, bool) {
	inner, encoded := strings.CutPrefix(value, "=?base64?")
	if !encoded {
		return value, true
	}
	inner, encoded = strings.CutSuffix(inner, "?=")
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), encoded && err == nil
}

// The headers of the stateful era.
const (
	sessionHeader = "Mcp-Session-Id"
	lastEvent     = "Last-Event-Id"
)

// postLegacy answers a message of a session.
func (s *Server) postLegacy(w http.ResponseWriter, r *http.Request, f *frame) {
	caller := kernel.SenderIn(r.Context()).Principal()
	var n *session
	if f.method == "initialize" && f.id != nil {
		n = s.open(caller)
		w.Header().Set(sessionHeader, n.id)
	} else if n = s.named(w, r, f.id); n == nil {
		return
	}
	switch {
	case f.method == "":
		n.answered(f)
	case f.id == nil:
		n.notified(f)
	default:
		s.answer(w, r, f, &n.client)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// named returns the session that a request names. If there is none, it has answered the request.
func (s *Server) named(w http.ResponseWriter, r *http.Request, id []byte) *session {
	name := r.Header.Get(sessionHeader)
	if name == "" {
		refuse(w, http.StatusBadRequest, id, &failure{code: codeInvalidRequest, text: "Invalid request: the header " + sessionHeader + " is missing; send initialize first, or the header MCP-Protocol-Version: " + modernVersion})
		return nil
	}
	n := s.session(name, kernel.SenderIn(r.Context()).Principal())
	if n == nil {
		refuse(w, http.StatusNotFound, id, &failure{code: codeInvalidRequest, text: "Invalid request: the session has ended; send initialize again"})
	}
	return n
}

// answer serves an exchange over HTTP.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, f *frame, c *client) {
	out := newEventStream(c.session, w)
	ctx, cancel := context.WithCancel(r.Context().Value(workKey{}).(context.Context))
	left := make(chan struct{})
	x := &exchange{s: s, frame: *f, client: c, choice: choiceOf(r), out: out, cancel: cancel, among: c.session}
	x.ctx = context.WithValue(ctx, exchangeKey{}, x)
	x.run = func(m message.Message, emit kernel.Emit) {
		connection.StartOne(x.ctx, s.k, m, emit, left, func(err error) {
			x.unanswered(err)
			cancel()
		})
	}
	if x.among != nil {
		x.among.begin(x)
	}
	m, bad := c.find(f.method)
	switch {
	case bad != nil:
		x.fail(bad)
	case m.quick:
		m.answer(x)
	default:
		go m.answer(x)
	}
	if out.serve(r, nil) {
		close(left)
		<-out.done // a command is completed
	}
}

// choiceOf is which tools a client wants to see: /mcp?tools=all.
func choiceOf(r *http.Request) choice {
	if r.URL.RawQuery == "" {
		return Core
	}
	return choice(r.URL.Query().Get("tools"))
}

// get opens the stream of a session, resumes one, or ends the session.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Mcp-Protocol-Version") == modernVersion {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, &failure{code: codeInvalidRequest, text: "Invalid request: of revision " + modernVersion + " there is POST only"})
		return
	}
	n := s.named(w, r, nil)
	if n == nil {
		return
	}
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
			refuse(w, http.StatusNotFound, nil, &failure{code: codeInvalidRequest, text: "Invalid request: the events of this stream aren't kept any more; send the request again"})
			return
		}
		e.serve(r, stopping.Done())
		return
	}
	e := newEventStream(n, w)
	e.mu.Lock()
	e.write([]byte(":\n\n"))
	e.mu.Unlock()
	n.mu.Lock()
	n.alone = e
	n.mu.Unlock()
	e.serve(r, stopping.Done())
}
