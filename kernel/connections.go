package kernel

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"kernos/message"
)

// Connections are the connections of a kernel, and what they share. Package connection keeps
// them.
type Connections struct {
	InFlight     atomic.Int64 // slow calls
	ReadAhead    atomic.Int64 // bytes of messages that wait for their turn
	Spare        atomic.Int64 // goroutines that wait for the turn of their connection
	PendingBytes atomic.Int64 // of answers that wait

	mu    sync.Mutex
	all   map[Connection]struct{}
	last  uint64 // id
	ended Stats  // what those have done that have ended
}

// A Connection is what a kernel knows of one of its connections.
type Connection interface {
	// Count adds what the connection does at the moment, and has done, to the numbers.
	Count(*Stats)

	// CountServices adds what the peer serves, and has to answer. service finds the entry of
	// a type.
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

// alone counts a message that came over a connection of its own, which has ended.
func (c *Connections) alone(failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.Messages++
	if failed {
		c.ended.Errors++
	}
}

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

// Stats returns what the kernel does at the moment.
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

// InFlight is how many slow requests of connections run.
func (k *Kernel) InFlight() int { return int(k.connections.InFlight.Load()) }

// A Service is a type that programs on connections serve.
type Service struct {
	Type        message.Type
	Connections int // that serve it
	Resting     int // of those
	Waiting     int // requests that they were sent and have not answered
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
