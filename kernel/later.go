package kernel

import (
	"context"
	"sync"
)

// laters are the calls of a connection that no goroutine has: their handlers have returned,
// and somebody else gives the outcome. What a handler would see by its context, they are
// told.
type laters struct {
	mu    sync.Mutex
	calls map[*call]struct{}
	stop  []func() bool // ends what tells them; nil if nobody does yet
}

// begunLater begins a call that somebody else is going to answer, if that is possible. If
// not, nothing has happened.
func (c *call) begunLater() bool {
	if c.syscall.Later == nil || c.idempotent() {
		return false
	}
	l := &c.session.later
	l.add(c)
	c.setUnattended(true) // before anybody can answer it
	if c.tryLater() {
		if err := c.parent.Err(); err != nil {
			c.cancel(err) // those who tell may have come before
		}
		return true
	}
	c.setUnattended(false)
	l.remove(c)
	return false
}

func (c *call) setUnattended(unattended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unattended = unattended
}

// attend says that a goroutine has the call again, which may wait.
func (c *call) attend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patient = true
}

// tryLater calls Later, and answers for it if it panics.
func (c *call) tryLater() (begun bool) {
	defer func() {
		if cause := recover(); cause != nil {
			c.panicked(cause)
			begun = true
		}
	}()
	return c.syscall.Later(c, c.request, c.emit)
}

// whenForsaken has f called when the call is answered, cancelled or late. A call that is
// unattended has nobody else who would notice.
func (c *call) whenForsaken(f func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled.Load(): // at this very moment
		go f(context.Canceled)
	case c.err != nil:
		go f(c.err)
	default:
		c.forsake = f
	}
}

func (l *laters) add(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[*call]struct{})
		tell := l.tell
		l.stop = []func() bool{context.AfterFunc(c.session.asking, tell), context.AfterFunc(c.session.ctx, tell)}
	}
	l.calls[c] = struct{}{}
}

func (l *laters) remove(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
}

// tell cancels the calls whose contexts have ended.
func (l *laters) tell() {
	l.mu.Lock()
	var ended []*call
	for c := range l.calls {
		if c.parent.Err() != nil {
			ended = append(ended, c)
		}
	}
	l.mu.Unlock()
	for _, c := range ended {
		c.cancel(c.parent.Err())
	}
}

// forget ends what tells calls, when there are none any more.
func (l *laters) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stop := range l.stop {
		stop()
	}
}
