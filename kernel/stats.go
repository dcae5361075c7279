package kernel

import (
	"context"
	"sync"
)

// Stats is what a kernel does at a moment, and has done since it was made.
type Stats struct {
	Connections int    // that are served
	InFlight    int    // slow requests that run
	Held        int    // connections that have as many of those as they may, and a message that waits
	Queued      int    // messages that wait for their turn, on those connections
	Waiting     int    // answers that wait for the disk, or for those before them
	Messages    uint64 // that came over connections
	Errors      uint64 // that were sent over connections
}

// InFlight is how many slow requests of connections run.
func (k *Kernel) InFlight() int { return int(k.inFlight.Load()) }

// Stats returns what the kernel does at the moment.
func (k *Kernel) Stats() Stats {
	var s Stats
	k.sessions.mu.Lock()
	defer k.sessions.mu.Unlock()
	s.Messages, s.Errors = k.sessions.messages, k.sessions.errors
	s.Connections = len(k.sessions.all)
	for one := range k.sessions.all {
		s.Messages += one.taken.Load()
		s.Errors += one.box.errors.Load()
		s.Waiting += int(one.box.waiting.Load())
		one.asides.Lock()
		s.InFlight += one.slow
		s.Queued += len(one.queue)
		if one.first != nil {
			s.Held++
			s.Queued++
		}
		one.asides.Unlock()
	}
	return s
}

// Of returns the kernel that the call of ctx runs in.
func Of(ctx context.Context) (*Kernel, bool) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, false
	}
	return c.k, true
}

// sessions are the connections of a kernel, and what those have done that have ended.
type sessions struct {
	mu       sync.Mutex
	all      map[*session]struct{}
	last     uint64 // id
	messages uint64
	errors   uint64
}

func (s *sessions) add(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*session]struct{})
	}
	s.last++
	one.id = s.last
	s.all[one] = struct{}{}
}

func (s *sessions) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, one)
	s.messages += one.taken.Load()
	s.errors += one.box.errors.Load()
}
