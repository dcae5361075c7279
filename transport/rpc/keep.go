package rpc

import (
	"container/list"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
)

// keep is the connections of a service, and those that were lost and whose streams may be
// resumed.
type keep struct {
	bytes    atomic.Int64 // of what is kept of lost connections
	endless  atomic.Int64 // calls of theirs that do not end by themselves, and go on
	shedding atomic.Bool

	limit        int64 // of bytes
	limitEndless int64

	mu     sync.Mutex
	conns  map[string]*conn // by name
	lost   list.List        // of *conn, the first one first
	closed bool
}

// What a lost connection counts for, beside its streams: more if calls of it still run.
const (
	lostSize    = 1 << 10
	lostRunning = 8 << 10
)

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
	c.gone = true
	c.orphans = make(map[*stream]bool)
	c.weight = lostSize
	if c.running > 0 {
		c.weight = lostRunning
	}
	c.mu.Unlock()
	for _, st := range c.all() {
		st.mu.Lock()
		if st.at == c {
			st.detach()
			st.lostBy = c
			st.goOnAlone(!st.over && st.route != nil && st.route.Syscall.Runs == kernel.Endless)
			k.grow(st.size())
			c.mu.Lock()
			c.orphans[st] = true
			c.mu.Unlock()
		}
		st.mu.Unlock()
	}
	if !k.list(c) {
		c.expire()
		return
	}
	c.mu.Lock()
	c.expiry = time.AfterFunc(c.svc.opts.KeepFor, c.expire)
	c.mu.Unlock()
	k.grow(0)
	c.found(nil) // there may be none, or none any more
}

// found notes that a stream was resumed, or given up. Its lock is held.
func (c *conn) found(st *stream) {
	c.mu.Lock()
	delete(c.orphans, st)
	none := len(c.orphans) == 0
	if none && c.expiry != nil {
		c.expiry.Stop()
	}
	c.mu.Unlock()
	if none {
		c.svc.kept.unlist(c)
	}
}

// expire gives up the streams that no peer has resumed.
func (c *conn) expire() {
	c.mu.Lock()
	orphans := slices.Collect(maps.Keys(c.orphans))
	c.mu.Unlock()
	for _, st := range orphans {
		st.abandon(func() bool { return st.at == nil && st.lostBy == c })
	}
	c.svc.kept.tidy(c)
}

// list takes a connection in among the lost ones, unless the service is closed.
func (k *keep) list(c *conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	c.place = k.lost.PushBack(c)
	k.bytes.Add(int64(c.weight))
	return true
}

// unlist takes a connection out of the lost ones: it has nothing that waits.
func (k *keep) unlist(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.place != nil {
		k.lost.Remove(c.place)
		c.place = nil
		k.bytes.Add(-int64(c.weight))
	}
}

// grow counts what is kept. If it is too much, the connection that was lost first is given
// up.
func (k *keep) grow(n int) {
	k.bytes.Add(int64(n))
	if k.tooMuch() && k.shedding.CompareAndSwap(false, true) {
		// On another goroutine: the caller may hold locks.
		go k.shed()
	}
}

// tooMuch reports whether more is kept, or goes on, than may.
func (k *keep) tooMuch() bool {
	return k.bytes.Load() > k.limit || k.endless.Load() > k.limitEndless
}

func (k *keep) shed() {
	for {
		for oldest := k.oldest(); oldest != nil && k.tooMuch(); oldest = k.oldest() {
			oldest.expire()
		}
		k.shedding.Store(false)
		// A connection that was lost in the meantime found that shedding was set, and left its
		// streams to this goroutine.
		if k.oldest() == nil || !k.tooMuch() || !k.shedding.CompareAndSwap(false, true) {
			return
		}
	}
}

// oldest is the connection that was lost first, or nil.
func (k *keep) oldest() *conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	if first := k.lost.Front(); first != nil {
		return first.Value.(*conn)
	}
	return nil
}

// tidy forgets a connection whose peer is gone and that has no streams.
func (k *keep) tidy(c *conn) {
	c.mu.Lock()
	empty := c.gone && len(c.streams) == 0
	c.mu.Unlock()
	if empty {
		k.mu.Lock()
		delete(k.conns, c.name)
		k.mu.Unlock()
	}
}

// close gives up everything that waits.
func (k *keep) close() {
	k.mu.Lock()
	k.closed = true
	var lost []*conn
	for e := k.lost.Front(); e != nil; e = e.Next() {
		lost = append(lost, e.Value.(*conn))
	}
	k.mu.Unlock()
	for _, c := range lost {
		c.expire()
	}
}
