package httpd

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

// call answers one call. The body of the request is its parameters; the body of the answer
// is what the syscall replies, and an error is one whose code is the status.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("module") + "_" + r.PathValue("method")
	if wantsEvents(r) {
		s.events(w, r)
		return
	}
	route, ok := s.k.Registry().LookupMethod(name)
	if !ok {
		refuse(w, refusal{404, "method_not_found", s.unknown(r)})
		return
	}
	data, no := s.parameters(w, r)
	if no != nil {
		refuse(w, *no)
		return
	}
	if data == nil {
		data = []byte("{}")
	}
	ctx, release := s.lasting(r)
	defer release()
	remote := blobs.RemoteOf(ctx)
	m := message.Message{Kind: route.Syscall.Kind, Type: route.Type, Data: remote.Inward(data)}
	m.Metadata.Correlation = r.Header.Get("X-Correlation-Id")
	m.Metadata.IdempotencyKey = r.Header.Get("Idempotency-Key")
	s.k.Stamp(&m)
	if err := m.Validate(); err != nil {
		e, _ := message.ErrorOf(err)
		refuse(w, refusal{e.Code, "invalid_request", e.Message})
		return
	}
	w.Header().Set("Kernos-Request", string(m.Metadata.ID))
	var outcome message.Message
	take := func(m message.Message) { // events are for those who ask for a stream
		if m.Kind.Answers() {
			outcome = m.Clone()
		}
	}
	_ = s.k.Serve(ctx, &kernel.One{Request: m, Emit: take, Gone: r.Context().Done()}) // it ends without an error
	status := http.StatusOK
	if outcome.Kind == message.KindError {
		status = http.StatusInternalServerError
		if e, err := message.ParseError(outcome.Data); err == nil && e.Code >= 400 && e.Code <= 599 {
			status = e.Code
		}
	}
	writeJSON(w, status, append(remote.Outward(outcome.Data), '\n'))
}

// unknown says what was probably meant by a method that there is not.
func (s *Server) unknown(r *http.Request) string {
	module, method := r.PathValue("module"), r.PathValue("method")
	registry := s.k.Registry()
	if n, ok := registry.LookupNamespace(module); ok {
		names := make([]string, len(n.Methods))
		for i, m := range n.Methods {
			names[i] = m.Method
		}
		hint := nearest.Hint(method, names)
		if hint == "" {
			hint = "there are " + strings.Join(names, ", ")
		}
		return fmt.Sprintf("The module %s has no method %q: %s", module, message.Clip(method, 100), hint)
	}
	var names []string
	for _, n := range registry.Namespaces() {
		names = append(names, n.Name)
	}
	hint := nearest.Hint(module, names)
	if hint == "" {
		hint = "there are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("There is no module %q: %s", message.Clip(module, 100), hint)
}

// parameters reads the body of a call. Nil means that there is none.
func (s *Server) parameters(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLong:
		return nil, &refusal{413, "body_too_large", fmt.Sprintf("The parameters of a call may have %d bytes; put large data where it can be fetched, and send a pointer to it", s.opts.MaxBody)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, &refusal{408, "body_too_slow", fmt.Sprintf("The parameters of the call did not come within %v", s.opts.BodyTime)}
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, &refusal{400, "body_broken", "The parameters of the call did not come to their end"}
	case jsonscan.Space(body, 0) == len(body):
		return nil, nil
	}
	var scan jsonscan.Scanner
	if err := scan.Text(body); err != nil {
		return nil, &refusal{400, "body_not_json", "The parameters of a call are JSON: " + err.Error()}
	}
	return body, nil
}

// wantsEvents reports whether a request asks for server-sent events.
func wantsEvents(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(line, ",") {
			if kind, _, err := mime.ParseMediaType(accepted); err == nil && kind == "text/event-stream" {
				return true
			}
		}
	}
	return false
}
