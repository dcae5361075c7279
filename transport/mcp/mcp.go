// Package mcp serves a kernel as a server of the Model Context Protocol: every syscall is a tool.
// Memory, files, blobs and recorded messages are resources, agents and skills are prompts, jobs are
// tasks.
//
//	clients := mcp.New(k, &mcp.Options{Version: "1.2.3"})
//	server := http.NewServer(k, &http.Options{MCP: clients}) // streamable HTTP, and the bridge of kernos mcp
//	err := server.Serve(ctx, http.Endpoint{Listener: listener})
//
// The server of HTTP decides who may connect, and shuts this one down; what a client sees and may call is
// decided by the principal in the context of the request.
//
// Both eras of the protocol are served at once. A request whose _meta names its protocol version
// (2026-07-28) stands for itself. A client that begins with initialize (2025-11-25 and before) has a
// session. The two differ in how a request arrives and how its answer leaves; a [exchange] is what
// they have in common, and everything else is written once, for exchanges.
//
// # Goroutines
//
//   - Serving a connection of kernos mcp, one per connection, beside the loop of package connection: it ends when the
//     client has left.
//   - A request that isn't quick, one per request: the server that it came to starts it, and it ends when the response
//     is sent, or its call waits for the client's answer.
//   - An approval that the client shows, one per approval: it ends when it is decided, or its call has ended.
//   - Following what a client watches, one per subscription: it ends with the subscription, or with the connection.
//   - Closing a connection that is cut off, one per connection. What the end of a principal, a session or a connection
//     causes.
package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kernos/internal/mcp"
	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/transport"
	"kernos/transport/mcp/jsonrpc"
)

// Options are the settings of a Server. The zero value is usable.
type Options struct {
	// Version is that of the program, as clients see it.
	Version string

	// Find returns the token of a name, for which the owner wants a connection to act. Nil means that
	// the owner's connections act for the owner.
	Find func(name string) (*principal.Principal, error)

	// Offers are syscalls that are prompts or resources too, of a program that embeds the server.
	Offers []Offer

	// Tasks are shared with [Module]. Nil means those of the server alone: jobs can't ask its clients.
	Tasks *Tasks

	// Resolve fetches what a pointer in a reply points to. Nil means that it can't be fetched.
	Resolve func(context.Context, message.BlobPointer) ([]byte, error)

	// Blobs are those that are resources, and ReachesBlob reports whether a caller may have one; nil means
	// all of them. Nil Blobs mean none.
	Blobs       *blobs.Dir
	ReachesBlob func(*principal.Principal, blobs.Hash) (bool, error)

	// Watch watches a resource, a folder of agents and skills, whose URI ends with a slash, or the names of all keys: memory://. The function that
	// it returns waits for the next change after Watch was called, and reports false when ctx has ended, which acts
	// for the caller; it is called until then. Nil means that clients aren't notified.
	Watch func(ctx context.Context, uri string) (next func() bool)

	// MaxBody is how many bytes a message may have. 0 means 4 MB, which is also what package bridge repeats.
	MaxBody int

	// MaxSessions is how many sessions of the stateful era are kept. If there are more, the principal
	// that has the most loses the one that was idle for longest. 0 means 1,000.
	MaxSessions int

	// MaxConnections is how many connections of kernos mcp there may be at a time. 0 means 1,000.
	MaxConnections int

	// FrameRate is how many messages per second are taken from one connection of kernos mcp, after as many
	// as a second allows at once. A message beyond it waits, unread, and nothing is lost. A client that
	// continues to send more gets a log message, unless it doesn't want those. 0 means no limit.
	FrameRate float64

	// ApprovalWait is how long a call waits for an approval that its client can't ask for, before it is answered with what
	// it waits for. 0 means 20 s, which is less than the time after which clients give up.
	ApprovalWait time.Duration

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// A Server serves a kernel. It is safe for concurrent use.
type Server struct {
	k     *kernel.Kernel
	opts  Options
	info  []byte // the server, as JSON
	about []byte // the same with an icon

	kinds []resourceKind // kinds of resources

	toolsets *recent.Cache[*toolset] // keys are hashes
	lists    *recent.Cache[[]byte]   // rendered lists, by hash, selection and era

	conns *transport.Server // connections of kernos mcp

	life context.Context // ends when the server is shut down
	stop context.CancelFunc

	waiting waitingCalls

	mu       sync.Mutex
	sessions map[string]*session
}

// New returns a server of a kernel. Nil options mean defaults.
func New(k *kernel.Kernel, opts *Options) *Server {
	s := &Server{k: k, sessions: make(map[string]*session)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Version = cmp.Or(s.opts.Version, "0")
	transport.Default(&s.opts.MaxBody, jsonrpc.MaxMessage)
	transport.Default(&s.opts.MaxSessions, 1000)
	transport.Default(&s.opts.MaxConnections, 1000)
	transport.Default(&s.opts.ApprovalWait, 20*time.Second)
	s.opts.Tasks = cmp.Or(s.opts.Tasks, new(Tasks))
	s.opts.Log = cmp.Or(s.opts.Log, slog.New(slog.DiscardHandler))
	s.life, s.stop = context.WithCancel(context.Background())
	type program struct {
		Name    string     `json:"name"`
		Title   string     `json:"title"`
		Version string     `json:"version"`
		Icons   []mcp.Icon `json:"icons,omitempty"`
	}
	s.info = marshal(program{"kernos", "Kernos", s.opts.Version, nil})
	s.about = marshal(program{"kernos", "Kernos", s.opts.Version, []mcp.Icon{{Src: icon, MimeType: "image/svg+xml", Sizes: []string{"any"}}}})
	for i := range s.opts.Offers {
		if s.opts.Offers[i].Resource != "" {
			s.kinds = append(s.kinds, s.opts.Offers[i].kind(s))
		}
	}
	s.kinds = append(s.kinds, resourceKinds()...)
	s.toolsets = recent.New[*toolset](recent.Limits{Values: 64, Bytes: 64, Each: 1})
	s.lists = recent.New[[]byte](recent.Limits{Values: 256, Bytes: 64 << 20, Each: 16 << 20})
	s.conns = transport.NewServer(k, transport.Limits{Connections: s.opts.MaxConnections, FrameRate: s.opts.FrameRate}, []transport.Reason{transport.TooMany}, nil, s.opts.Log)
	return s
}

// Stats returns the figures of the connections of kernos mcp.
func (s *Server) Stats() transport.Stats { return s.conns.Stats() }

// Shutdown ends the sessions, and drains the connections of kernos mcp ([transport.Server.Drain]): requests
// that have begun may finish until ctx ends. Those of HTTP are drained by the server that they came to.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	s.mu.Lock()
	sessions := slices.Collect(maps.Values(s.sessions))
	clear(s.sessions)
	s.mu.Unlock()
	for _, n := range sessions {
		n.end()
	}
	return s.conns.Drain(ctx)
}
