package http

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
)

// routes returns what answers requests that were let in.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for path, methods := range map[string]map[string]http.HandlerFunc{
		"/v1/messages":               {http.MethodPost: s.messages},
		"/v1/call/{module}/{method}": {http.MethodPost: s.call},
		"/v1/streams/{id}":           {http.MethodGet: s.resume, http.MethodDelete: s.unsubscribe},
		"/v1/blobs/{id}":             {http.MethodGet: s.blob, http.MethodHead: s.blob},
		"/openrpc.json":              {http.MethodGet: s.openRPC, http.MethodHead: s.openRPC},
		"/healthz":                   {http.MethodGet: s.healthz, http.MethodHead: s.healthz},
		"/readyz":                    {http.MethodGet: s.readyz, http.MethodHead: s.readyz},
		"/metrics":                   {http.MethodGet: s.metrics, http.MethodHead: s.metrics},
	} {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if h, ok := methods[r.Method]; ok {
				h(w, r)
				return
			}
			w.Header().Set("Allow", allowed)
			refuse(w, refusal{405, "method_not_allowed", fmt.Sprintf("%s takes %s, not %s", message.Clip(r.URL.Path, 200), allowed, message.Clip(r.Method, 40))})
		})
	}
	if s.opts.Console != nil {
		mux.Handle("/console/", s.opts.Console)
	}
	mux.HandleFunc("/{$}", s.root)
	mux.HandleFunc("/ws", s.websocket)
	mux.HandleFunc("/mcp", s.mcp)
	mux.HandleFunc("/", missing)
	return mux
}

func missing(w http.ResponseWriter, r *http.Request) {
	refuse(w, refusal{404, "not_found", fmt.Sprintf(
		"There is nothing at %s; there are /v1/messages, /v1/call/{module}/{method}, /v1/streams/{id}, /v1/blobs/{id}, /openrpc.json, /healthz, /readyz, /metrics, /mcp, and a WebSocket at / and /ws",
		message.Clip(r.URL.Path, 200))})
}

// root answers a browser with the console, and others as a WebSocket.
func (s *Server) root(w http.ResponseWriter, r *http.Request) {
	if s.opts.Console != nil && browses(r) {
		s.opts.Console.ServeHTTP(w, r)
		return
	}
	s.websocket(w, r)
}

// websocket hands a request over that asks for a WebSocket.
func (s *Server) websocket(w http.ResponseWriter, r *http.Request) {
	if s.opts.WebSocket == nil {
		missing(w, r)
		return
	}
	websocket := func(line string) bool { return strings.EqualFold(strings.TrimSpace(line), "websocket") }
	if !slices.ContainsFunc(r.Header.Values("Upgrade"), websocket) {
		w.Header().Set("Upgrade", "websocket")
		refuse(w, refusal{426, "upgrade_required", "This is the address of a WebSocket that speaks JSON-RPC; for plain HTTP there are /v1/messages and /v1/call/{module}/{method}, and /openrpc.json describes what can be called"})
		return
	}
	s.opts.WebSocket.ServeHTTP(w, r)
}

// mcp hands a request of the Model Context Protocol over.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	if s.opts.MCP == nil {
		missing(w, r)
		return
	}
	s.opts.MCP.Serve(s.requests, w, r)
}

// openRPC answers with the document that describes what the caller may call.
func (s *Server) openRPC(w http.ResponseWriter, r *http.Request) {
	document, hash := s.opts.RPC.OpenRPC(kernel.SenderIn(r.Context()).Principal())
	tag := `"` + hash + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	for known := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimSpace(known); known == tag || known == "W/"+tag || known == "*" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	transport.WriteJSON(w, http.StatusOK, document)
}

// lasting returns the context of what is done for a request. It has what the request's has,
// and ends when the server cuts it, not when the peer leaves: a command that has begun is
// completed.
func (s *Server) lasting(r *http.Request) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	forget := context.AfterFunc(s.requests.Work(), func() { cancel(context.Cause(s.requests.Work())) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
