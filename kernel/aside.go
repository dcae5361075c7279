package kernel

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"kernos/message"
)

// Limits of slow calls, if the options do not say otherwise.
const (
	DefaultInFlight    = 64
	DefaultInFlightAll = 4096
)

// An aside is a slow call that goes on beside the turn. Its place is free when it is
// answered, even if its handler goes on.
type aside struct {
	c       *call
	release func() // of what its context depends on; or nil
	left    sync.Once
}

// beginAside begins a slow call; it returns nil if the call is refused.
func (s *session) beginAside(c *call) *aside {
	if !s.ahead { // otherwise it has memory of its own
		c.request = c.request.Clone()
	}
	if err := s.enter(c); err != nil {
		c.emit(c.request.Fail(err))
		return nil
	}
	s.aside.Add(1)
	c.begin() // waiting for the place does not count
	a := &aside{c: c}
	if c.syscall.Runs == Endless {
		c.parent, a.release = s.k.untilStop(c.parent)
	}
	return a
}

// run runs the handler.
func (a *aside) run() {
	timer := time.AfterFunc(time.Until(a.c.deadline), a.overdue)
	defer a.leave()
	defer timer.Stop()
	a.c.run()
	a.c.box.ready() // nobody else knows: the connection is waiting for input
}

// overdue answers for the call when its time is over.
func (a *aside) overdue() {
	defer a.leave()
	// A peer that does not read may keep the answer from being given. That takes up a
	// place of its own connection, and none of those that all of them share.
	a.c.share.Do(func() { a.c.k.inFlight.Add(-1) })
	a.c.expire()
}

// finish is called after the outcome of a call that no goroutine has.
func (a *aside) finish() {
	a.c.session.later.remove(a.c)
	a.leave()
	a.c.box.push()
}

// leave gives the place back.
func (a *aside) leave() {
	a.left.Do(func() {
		if a.release != nil {
			a.release()
		}
		a.c.session.leave(a.c)
		a.c.session.aside.Done()
	})
}

// enter finds a place for a slow call.
func (s *session) enter(c *call) *message.Error {
	limits := s.k.limits.Load()
	s.asides.Lock()
	defer s.asides.Unlock()
	if err := s.await(c, cmp.Or(s.places, limits.InFlight)); err != nil {
		return err
	}
	// What is endless does nothing most of the time, and its connection has a place less for it.
	if c.syscall.Runs == Endless {
		c.share.Do(func() {})
	} else if s.k.inFlight.Add(1) > int64(limits.InFlightAll) {
		s.k.inFlight.Add(-1)
		return message.Errorf(503, "%d slow requests of all connections are in flight, and no more are taken; try again later", limits.InFlightAll)
	}
	s.slow++
	if c.syscall.Runs == Endless {
		s.endless++
	}
	if _, taken := s.running[c.request.Metadata.ID]; !taken {
		s.running[c.request.Metadata.ID] = c
	}
	return nil
}

// await waits until a call may have one of so many places. What comes in the meantime waits
// behind it. If no place gets free for a long time the call is refused, and at once if none
// may get free by itself: then nothing would be served but Syscall.Cancel. It is called with
// asides held.
func (s *session) await(c *call, places int) *message.Error {
	if c.parent.Err() != nil {
		return s.tooLate()
	}
	if s.slow < places {
		return nil
	}
	if c.syscall.Runs == Endless || s.endless >= places {
		return message.Errorf(429, "%d slow requests of this connection are in flight, and no more are taken; wait for their answers, cancel some, or use another connection", places)
	}
	s.lookAhead()
	s.first = c
	defer func() { s.first = nil }()
	patience := 2 * c.timeout // longer than any of those may take, as a rule
	late := time.NewTimer(patience)
	defer late.Stop()
	for s.slow >= places {
		if s.waiting == nil {
			s.waiting = make(chan struct{})
		}
		changed := s.waiting
		s.asides.Unlock()
		overdue := false
		select {
		case <-changed:
		case <-late.C:
			overdue = true
		case <-c.parent.Done():
		}
		s.asides.Lock()
		switch {
		case s.first == nil:
			return cancelled()
		case c.parent.Err() != nil:
			return s.tooLate()
		case overdue && s.slow >= places:
			return message.Errorf(429, "%d slow requests of this connection are in flight, and none has ended for %v; wait for their answers, cancel some, or use another connection", places, patience)
		}
	}
	return nil
}

// tooLate is the error for a call that was to begin when nobody waits for it any more.
func (s *session) tooLate() *message.Error {
	if s.ctx.Err() != nil {
		return message.Errorf(503, "The kernel is shutting down")
	}
	return cancelled()
}

func cancelled() *message.Error {
	e, _ := message.ErrorOf(context.Canceled)
	return e
}

// leave gives the place of a call back.
func (s *session) leave(c *call) {
	c.share.Do(func() { s.k.inFlight.Add(-1) })
	s.asides.Lock()
	defer s.asides.Unlock()
	s.slow--
	if c.syscall.Runs == Endless {
		s.endless--
	}
	if s.running[c.request.Metadata.ID] == c {
		delete(s.running, c.request.Metadata.ID)
	}
	s.changed()
}

// changed wakes whoever waits for a place. It is called with asides held.
func (s *session) changed() {
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
}

// cancel cancels a call that runs aside, or waits for its turn, and reports whether there is
// one with this id.
func (s *session) cancel(id message.ID) bool {
	s.asides.Lock()
	c := s.running[id]
	first := c == nil && s.first != nil && s.first.request.Metadata.ID == id
	if first {
		s.first = nil
		s.changed()
	}
	var waits arrival
	if c == nil && !first {
		waits = s.withdraw(id)
	}
	s.asides.Unlock()
	switch {
	case c != nil:
		c.cancel(context.Canceled)
	case waits.send != nil:
		if c := s.k.admit(s.asking, &waits.m, waits.send, s.box, nil); c != nil {
			c.emit(c.request.Fail(cancelled()))
		}
	default:
		return first
	}
	return true
}

// ErrStopping is the cause of the context of an endless call that ends because the kernel
// does.
var ErrStopping = errors.New("the kernel is shutting down")

// Stop ends what would go on for ever: the calls of syscalls that are endless. Everything
// else is finished; it is for the connections to take nothing new.
func (k *Kernel) Stop() { k.stop() }

// untilStop returns a context that ends when the kernel stops.
func (k *Kernel) untilStop(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := context.AfterFunc(k.life, func() { cancel(ErrStopping) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
