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

// A Route is a path that the server answers.
type Route struct {
	Path    string   // as [http.ServeMux] has it: /v1/blobs/{id}
	Methods []string // that are answered; none means that what answers decides
	Summary string
	Query   []Parameter // parameters in the address, after the ones in the path
	Takes   string      // the media type of the body; "" if there is none
	Gives   string      // the media type of the answer; "" if it isn't an answer of HTTP, or differs
	Open    bool        // needs no token

	serve func(*Server, http.ResponseWriter, *http.Request)
}

// A Parameter is one in the address of a route.
type Parameter struct{ Name, Type, Summary string }

const (
	jsonMedia   = "application/json"
	ndjsonMedia = "application/x-ndjson"
	eventsMedia = "text/event-stream"

	markdownMedia = "text/markdown"
)

// callPath is the path of calls. The description of the server has the path of each syscall in its place.
const callPath = "/v1/call/{module}/{method}"

var (
	read = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

// Routes returns the routes of a server, in the order in which people read about them.
func Routes() []Route {
	return []Route{
		{Path: callPath, Methods: post, Takes: jsonMedia, Gives: jsonMedia, serve: (*Server).call,
			Summary: "Call a syscall. The body is its data; the answer is its reply or its error, or server-sent events if Accept asks for them."},
		{Path: "/v1/messages", Methods: post, Takes: ndjsonMedia, Gives: ndjsonMedia, serve: (*Server).messages,
			Summary: "Send messages, one per line, and get the answers as they come, while the request is still being sent."},
		{Path: "/v1/streams/{id}", Methods: []string{http.MethodGet}, Gives: eventsMedia, serve: (*Server).resume,
			Summary: "Resume the server-sent events of a call after the last one that came.",
			Query:   []Parameter{{"after", "integer", "The number of the last item that came, 0 if none did. The header Last-Event-ID, with the id of the last event, comes first."}}},
		{Path: "/v1/streams/{id}", Methods: []string{http.MethodDelete}, serve: (*Server).unsubscribe,
			Summary: "End a stream, and cancel its call."},
		{Path: "/v1/blobs/{id}", Methods: read, Gives: "application/octet-stream", serve: (*Server).blob,
			Summary: "Read large data by its hash, whole or a Range."},
		{Path: "/openapi.json", Methods: read, Gives: jsonMedia, serve: (*Server).openAPI,
			Summary: "Describe the routes and what the caller may call, as OpenAPI 3.1."},
		{Path: "/openrpc.json", Methods: read, Gives: jsonMedia, serve: (*Server).openRPC,
			Summary: "Describe what the caller may call over a WebSocket, as OpenRPC."},
		{Path: "/llms.txt", Methods: read, Gives: "text/plain", serve: (*Server).llms,
			Summary: "List the pages of the documentation, for models."},
		{Path: "/docs/{file...}", Methods: read, Gives: markdownMedia, serve: (*Server).docs,
			Summary: "Read a page of the documentation, which /llms.txt lists."},
		{Path: "/healthz", Methods: read, Gives: jsonMedia, Open: true, serve: (*Server).healthz,
			Summary: "Report that the daemon lives."},
		{Path: "/readyz", Methods: read, Gives: jsonMedia, Open: true, serve: (*Server).readyz,
			Summary: "Report whether the daemon can do its work; 503 if it can't, or is shutting down."},
		{Path: "/metrics", Methods: read, Gives: "text/plain", serve: (*Server).metrics,
			Summary: "Give the metrics, in the text format of Prometheus, to a caller that sees the messages of all."},
		{Path: "/ws", serve: (*Server).websocket,
			Summary: "Open a WebSocket that speaks JSON-RPC."},
		{Path: "/mcp", serve: (*Server).mcp,
			Summary: "Speak the Model Context Protocol (streamable HTTP)."},
		{Path: "/{$}", serve: (*Server).root,
			Summary: "Open the console for a browser, or else a WebSocket, as /ws does."},
		{Path: "/console/", Gives: "text/html", Open: true, serve: (*Server).console,
			Summary: "Serve the files of the console. The page calls nothing before its browser proves who it is."},
		{Path: protectedResource, Methods: read, Gives: jsonMedia, Open: true, serve: nowhere, // the guard answers
			Summary: "Name the authorization server to clients of OAuth (RFC 9728), if --oauth-issuer names one; below /mcp for that resource."},
	}
}

// routes returns what answers requests that were let in.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	byPath := make(map[string]map[string]Route)
	for _, route := range Routes() {
		if route.Methods == nil {
			mux.HandleFunc(route.Path, route.handler(s))
			continue
		}
		if byPath[route.Path] == nil {
			byPath[route.Path] = make(map[string]Route)
		}
		for _, method := range route.Methods {
			byPath[route.Path][method] = route
		}
	}
	for path, methods := range byPath {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if route, ok := methods[r.Method]; ok {
				route.serve(s, w, r)
				return
			}
			w.Header().Set("Allow", allowed)
			refuse(w, refusal{405, "method_not_allowed", fmt.Sprintf("%s takes %s, not %s", message.Clip(r.URL.Path, 200), allowed, message.Clip(r.Method, 40))})
		})
	}
	mux.HandleFunc("/", missing)
	return mux
}

func (r Route) handler(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) { r.serve(s, w, request) }
}

func missing(w http.ResponseWriter, r *http.Request) {
	refuse(w, refusal{404, "not_found", fmt.Sprintf(
		"There is nothing at %s; there are /v1/messages, /v1/call/{module}/{method}, /v1/streams/{id}, /v1/blobs/{id}, /openapi.json, /openrpc.json, /llms.txt, /docs/, /healthz, /readyz, /metrics, /mcp, and a WebSocket at / and /ws",
		message.Clip(r.URL.Path, 200))})
}

// nowhere answers what is answered elsewhere, if at all.
func nowhere(_ *Server, w http.ResponseWriter, r *http.Request) { missing(w, r) }

// console answers with a file of the console.
func (s *Server) console(w http.ResponseWriter, r *http.Request) {
	if s.opts.Console == nil {
		missing(w, r)
		return
	}
	s.opts.Console.ServeHTTP(w, r)
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
	s.writeDescription(w, r, document, hash)
}

// openAPI answers with the document that describes the routes, and the calls of what the caller may call.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) {
	document, hash := s.opts.RPC.OpenAPI(kernel.SenderIn(r.Context()).Principal(), paths)
	s.writeDescription(w, r, document, hash)
}

// writeDescription answers with a document that differs from caller to caller, unless the caller knows it by its hash.
func (s *Server) writeDescription(w http.ResponseWriter, r *http.Request, document []byte, hash string) {
	if err := s.k.AwaitFence(r.Context()); err != nil {
		refuseCall(w, err)
		return
	}
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
