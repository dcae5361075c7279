package http

import (
	"container/list"
	"sync"
	"time"
)

// newcomers are the connections of a door that have not sent a request that was let in. They
// cost a descriptor each, and anyone can make them: they have little time, and there are few. If
// there is one more, the oldest is closed: an honest client has sent its request by then.
type newcomers struct {
	most int
	time time.Duration

	mu  sync.Mutex
	all list.List // elements are *connection, the oldest first
}

func (n *newcomers) add(c *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.newcomers, c.newcomer = n, n.all.PushBack(c)
	c.late = time.AfterFunc(n.time, func() {
		if n.remove(c) {
			_ = c.Close()
		}
	})
}

// makeRoom closes the oldest if there are as many as there may be. Its place is free when
// makeRoom returns.
func (n *newcomers) makeRoom() {
	n.mu.Lock()
	var oldest *connection
	if n.all.Len() >= n.most {
		oldest = n.all.Front().Value.(*connection)
		n.take(oldest)
	}
	n.mu.Unlock()
	if oldest != nil {
		oldest.leave()
		go oldest.Close() // over TLS that may take seconds
	}
}

// remove takes a connection out, and reports whether it was there.
func (n *newcomers) remove(c *connection) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.take(c)
}

func (n *newcomers) take(c *connection) bool {
	if c.newcomer == nil {
		return false
	}
	c.late.Stop()
	n.all.Remove(c.newcomer)
	c.newcomer = nil
	return true
}
