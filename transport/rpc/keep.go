package rpc

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// keep is the connections of a service, and those that were lost and whose streams may be
// resumed.
type keep struct {
	bytes    atomic.Int64 // of what is kept of lost connections
	shedding atomic.Bool
	limit    int64

	mu     sync.Mutex
	conns  map[string]*conn // by name
	lost   []*conn          // the first one first
	closed bool
}

// lostSize is what a lost connection counts for, beside its streams.
const lostSize = 8 << 10

// add takes a connection in, unless the service is closed.
func (k *keep) add(c *conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	if k.conns == nil {
		k.conns = make(map[string]*conn)
	}
	k.conns[c.name] = c
	return true
}

// find returns the stream of an id, or nil.
func (k *keep) find(id string) *stream {
	name, digits, _ := strings.Cut(id, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return nil
	}
	k.mu.Lock()
	c := k.conns[name]
	k.mu.Unlock()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[number]
}

// lose keeps the streams of a connection whose peer may come back.
func (c *conn) lose() {
	k := &c.svc.kept
	c.mu.Lock()
	c.lost = time.Now()
	c.mu.Unlock()
	var orphans []*stream
	for _, st := range c.all() {
		st.mu.Lock()
		if st.at == c {
			st.detach()
			st.lostBy = c
			k.grow(st.size())
			orphans = append(orphans, st)
		}
		st.mu.Unlock()
	}
	c.mu.Lock()
	c.orphans = orphans
	c.expiry = time.AfterFunc(c.svc.opts.KeepFor, c.expire)
	c.mu.Unlock()
	k.mu.Lock()
	closed := k.closed
	if !closed {
		k.lost = append(k.lost, c)
		k.bytes.Add(lostSize)
	}
	k.mu.Unlock()
	if closed || len(orphans) == 0 {
		c.expire()
	}
	k.grow(0)
}

// expire gives up what nobody has come back for.
func (c *conn) expire() {
	c.mu.Lock()
	orphans := c.orphans
	c.orphans = nil
	c.expiry.Stop()
	c.mu.Unlock()
	for _, st := range orphans {
		st.abandon(func() bool { return st.at == nil && st.lostBy == c })
	}
	c.svc.kept.unlist(c)
	c.svc.kept.tidy(c)
}

// unlist takes a connection out of the lost ones: it has nothing that waits.
func (k *keep) unlist(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range k.lost {
		if l == c {
			k.lost = append(k.lost[:i], k.lost[i+1:]...)
			k.bytes.Add(-lostSize)
			return
		}
	}
}

// grow counts what is kept. If it is too much, the connection that was lost first is given
// up.
func (k *keep) grow(n int) {
	if k.bytes.Add(int64(n)) > k.limit && k.shedding.CompareAndSwap(false, true) {
		// Not here: whoever keeps something may hold locks.
		go k.shed()
	}
}

func (k *keep) shed() {
	defer k.shedding.Store(false)
	for k.bytes.Load() > k.limit {
		k.mu.Lock()
		var oldest *conn
		if len(k.lost) > 0 {
			oldest = k.lost[0]
		}
		k.mu.Unlock()
		if oldest == nil {
			return
		}
		oldest.expire()
	}
}

// tidy forgets a lost connection that has no streams.
func (k *keep) tidy(c *conn) {
	c.mu.Lock()
	empty := !c.lost.IsZero() && len(c.streams) == 0
	c.mu.Unlock()
	if empty {
		k.remove(c)
	}
}

func (k *keep) remove(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c.name)
}

// close gives up everything that waits.
func (k *keep) close() {
	k.mu.Lock()
	k.closed = true
	lost := append([]*conn(nil), k.lost...)
	k.mu.Unlock()
	for _, c := range lost {
		c.expire()
	}
}
