package kernel

import (
	"context"
	"sync"
	"time"
)

// laters are the calls of a connection that no goroutine has: their handlers have returned,
// and somebody else gives the outcome. What a handler would see by its context, they are
// told. They share a timer, since setting one for each would cost more than all the rest.
type laters struct {
	mu    sync.Mutex
	calls map[*call]*aside
	stop  []func() bool // ends what tells them; nil if nobody does yet
	timer *time.Timer   // nil if there was no call yet
	wake  time.Time     // when it fires, as early as the first of them is late; zero if it does not
}

// begunLater begins a call that somebody else is going to answer, if that is possible. If
// not, nothing has happened.
func (a *aside) begunLater() bool {
	c := a.c
	if c.syscall.Later == nil || c.idempotent() {
		return false
	}
	l := &c.session.later
	l.add(a)
	c.leaveUnattended(a) // before anybody can answer it
	if c.tryLater() {
		if err := c.parent.Err(); err != nil {
			c.cancel(err) // those who tell may have come before
		}
		return true
	}
	l.remove(c)
	return !c.takeBack()
}

// leaveUnattended says that no goroutine has the call.
func (c *call) leaveUnattended(a *aside) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unattended, c.aside = true, a
}

// takeBack says that a goroutine has the call again, unless it has been answered for: it may
// have been late.
func (c *call) takeBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() {
		return false
	}
	c.unattended, c.aside = false, nil
	return true
}

// attend says that a goroutine has the call again, which may wait.
func (c *call) attend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patient = true
}

// tryLater calls Later, and answers for it if it panics or ends its goroutine.
func (c *call) tryLater() (begun bool) {
	returned := false
	defer func() {
		if !returned {
			c.panicked(recover())
			begun = true
		}
	}()
	begun = c.syscall.Later(c, c.request, c.emit)
	returned = true
	return begun
}

// whenForsaken has an inquiry told when the call is answered, cancelled or late. A call that
// is unattended has nobody else who would notice.
func (c *call) whenForsaken(q *inquiry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.settled.Load(): // at this very moment
		go q.forsaken(context.Canceled)
	case c.err != nil:
		go q.forsaken(c.err)
	default:
		c.inquiry = q
	}
}

func (l *laters) add(a *aside) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[*call]*aside)
		tell := l.tell
		l.stop = []func() bool{context.AfterFunc(a.c.session.asking, tell), context.AfterFunc(a.c.session.ctx, tell)}
	}
	l.calls[a.c] = a
	if l.wake.IsZero() || a.c.deadline.Before(l.wake) {
		l.watch(a.c.deadline)
	}
}

// watch sets the timer. It is called with mu held.
func (l *laters) watch(t time.Time) {
	l.wake = t
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(t), l.late)
		return
	}
	l.timer.Reset(time.Until(t))
}

// late answers for the calls whose time is over.
func (l *laters) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next time.Time
	for c, a := range l.calls {
		switch {
		case time.Until(c.deadline) <= 0:
			delete(l.calls, c)
			go a.overdue() // the peer may not read
		case next.IsZero() || c.deadline.Before(next):
			next = c.deadline
		}
	}
	if l.wake = next; !next.IsZero() {
		l.watch(next)
	}
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
	if l.timer != nil {
		l.timer.Stop()
	}
}
