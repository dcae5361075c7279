package kernel

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"kernos/message"
)

// Connections are the open connections of a kernel, and the counters of the limits that they share.
// Package connection adds and removes them.
type Connections struct {
	InFlight       atomic.Int64 // slow calls that run
	ReadAhead      atomic.Int64 // bytes of queued messages
	IdleGoroutines atomic.Int64 // goroutines that wait for the next slow call of their connection
	PendingBytes   atomic.Int64 // bytes of pending answers

	mu    sync.Mutex
	all   map[Connection]struct{}
	last  uint64 // the id given out last
	ended Stats  // totals of the connections that have ended
}

// A Connection is what a kernel knows of one of its connections.
type Connection interface {
	// Count adds the connection's numbers to the stats.
	Count(*Stats)

	// CountServices adds the types that the peer serves, and the requests that it has not answered.
	// service finds the entry of a type.
	CountServices(service func(message.Type) *Service)
}

// Connections returns what the kernel's connections share.
func (k *Kernel) Connections() *Connections { return &k.connections }

// Add adds a connection, and returns its id, which no other connection has had.
func (c *Connections) Add(one Connection) (id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[Connection]struct{})
	}
	c.last++
	c.all[one] = struct{}{}
	return c.last
}

// Remove takes a connection out that has ended. What it has done still counts.
func (c *Connections) Remove(one Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, one)
	var s Stats
	one.Count(&s)
	c.ended.Messages += s.Messages
	c.ended.Errors += s.Errors
}

// alone counts a message that came over a connection of its own.
func (c *Connections) alone(failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.Messages++
	if failed {
		c.ended.Errors++
	}
}

// Stats are the numbers of a kernel's connections: what they do at a moment, and the totals since the
// kernel was made.
type Stats struct {
	Connections int    // open connections
	InFlight    int    // slow requests that run
	Held        int    // connections with as many slow requests as they may have, and a message that waits
	Queued      int    // messages that wait on held connections
	Waiting     int    // answers that wait for the disk, or for earlier answers
	Messages    uint64 // messages received
	Errors      uint64 // errors sent
}

// Stats returns the numbers of this moment.
func (k *Kernel) Stats() Stats {
	c := &k.connections
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.ended
	s.Connections = len(c.all)
	for one := range c.all {
		one.Count(&s)
	}
	return s
}

// InFlight returns how many slow requests of connections run.
func (k *Kernel) InFlight() int { return int(k.connections.InFlight.Load()) }

// A Service is a type that programs on connections serve.
type Service struct {
	Type        message.Type
	Connections int // connections that serve it
	Resting     int // connections that get no requests for a while, since they have failed
	Waiting     int // requests sent and not answered
}

// Services returns what programs on connections serve at the moment, by type.
func (k *Kernel) Services() []Service {
	all := make(map[message.Type]*Service)
	k.connections.mu.Lock()
	defer k.connections.mu.Unlock()
	for one := range k.connections.all {
		one.CountServices(func(t message.Type) *Service {
			if all[t] == nil {
				all[t] = &Service{Type: t}
			}
			return all[t]
		})
	}
	sorted := make([]Service, 0, len(all))
	for _, t := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, *all[t])
	}
	return sorted
}

// Of returns the kernel that the call of ctx runs in.
func Of(ctx context.Context) (*Kernel, bool) {
	c, ok := CallOf(ctx)
	if !ok {
		return nil, false
	}
	return c.k, true
}
