package http

import (
	"container/list"
	"sync"
	"time"
)

// unadmitted holds the connections of an endpoint that have not sent an authorized request yet. Each
// costs a descriptor, and any client can open one, so their number and their time are limited. If
// one more is opened, the oldest is closed: an honest client has sent its request by then.
type unadmitted struct {
	most int
	time time.Duration

	mu  sync.Mutex
	all list.List // elements are *connection, the oldest first
}

func (u *unadmitted) add(c *connection) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c.unadmitted, c.listed = u, u.all.PushBack(c)
	c.late = time.AfterFunc(u.time, func() {
		if u.remove(c) {
			_ = c.Close()
		}
	})
}

// closeOldest closes the oldest connection if there are as many as there may be. Its place is free
// when closeOldest returns.
func (u *unadmitted) closeOldest() {
	u.mu.Lock()
	var oldest *connection
	if u.all.Len() >= u.most {
		oldest = u.all.Front().Value.(*connection)
		u.take(oldest)
	}
	u.mu.Unlock()
	if oldest != nil {
		oldest.leave()
		go oldest.Close() // over TLS that may take seconds
	}
}

// remove takes a connection out, and reports whether it was there.
func (u *unadmitted) remove(c *connection) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.take(c)
}

func (u *unadmitted) take(c *connection) bool {
	if c.listed == nil {
		return false
	}
	c.late.Stop()
	u.all.Remove(c.listed)
	c.listed = nil
	return true
}
