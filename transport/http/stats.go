package httpd

import (
	"context"
	"sync"
	"sync/atomic"
)

// A reason is why a request was refused before anything looked at what it asks for.
type reason int

const (
	refusedNothing reason = iota
	refusedStopping
	refusedConnections
	refusedRequests
	refusedRate
	refusedHost
	refusedOrigin
	refusedToken
	reasons
)

func (r reason) String() string {
	return [reasons]string{"", "stopping", "connections", "requests", "rate", "host", "origin", "token"}[r]
}

// stats are what a server does, and has done.
type stats struct {
	connections atomic.Int64 // that there are, without WebSockets
	running     atomic.Int64 // requests that are served
	aside       atomic.Int64 // calls whose request may have ended

	mu      sync.Mutex
	changed chan struct{} // closed when running or aside is less; nil unless somebody waits

	answers [6]atomic.Uint64 // by the first digit of their status
	refused [reasons]atomic.Uint64
}

// left notes that a request, or a call aside, has ended.
func (s *stats) left(n *atomic.Int64) {
	n.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// busy is how many requests and calls there are.
func (s *stats) busy() int64 { return s.running.Load() + s.aside.Load() }

// idle waits until there are no requests and no calls.
func (s *stats) idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		if s.busy() == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answered counts an answer. One that nobody gave is that of a handler which found that its
// peer has left.
func (s *stats) answered(status int) {
	if class := status / 100; class < len(s.answers) {
		s.answers[class].Add(1)
	}
}

// Stats is what a server does at a moment, and has done since it was made.
type Stats struct {
	Connections int    // that there are, without WebSockets
	Requests    int    // that are being served
	Refused     uint64 // requests that were turned away before anything looked at what they ask for
}

// Stats returns what the server does at the moment.
func (s *Server) Stats() Stats {
	now := Stats{Connections: int(s.stats.connections.Load()), Requests: int(s.stats.running.Load())}
	for i := range s.stats.refused {
		now.Refused += s.stats.refused[i].Load()
	}
	return now
}
