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

// beginAside begins a slow call and returns what runs it, beside the turn; nil if the call is
// refused. Its place is free when it is answered, even if its handler goes on.
func (s *session) beginAside(c *call) (run func()) {
	c.request = c.request.Clone()
	if err := s.enter(c); err != nil {
		c.emit(c.request.Fail(err))
		return nil
	}
	s.aside.Add(1)
	c.begin() // waiting for the place does not count
	release := func() {}
	if c.syscall.Endless {
		c.parent, release = s.k.untilStop(c.parent)
	}
	var once sync.Once
	free := func() {
		once.Do(func() {
			release()
			s.leave(c)
			s.aside.Done()
		})
	}
	timer := time.AfterFunc(time.Until(c.deadline), func() {
		defer free()
		// A peer that does not read may keep the answer from being given. That takes up a
		// place of its own connection, and none of those that all of them share.
		c.share.Do(func() { s.k.inFlight.Add(-1) })
		c.expire()
	})
	return func() {
		defer free()
		defer timer.Stop()
		c.run()
		s.box.ready() // nobody else knows: the connection is waiting for input
	}
}

// enter finds a place for a slow call. A connection that has as many as it may is not read
// while it waits for one of them to end; if none does for a long time, the call is refused.
// It is refused at once if none may end by itself, or if others wait for what the connection
// says.
func (s *session) enter(c *call) *message.Error {
	var late *time.Timer
	limits := s.k.limits.Load()
	places := cmp.Or(s.places, limits.InFlight)
	for {
		s.asides.Lock()
		if s.slow < places {
			break
		}
		// While this one waits nothing is read: neither what would end one of those, such as
		// Syscall.Cancel, nor what others wait for.
		if c.syscall.Endless || s.endless >= places || s.inquiries.serves() {
			s.asides.Unlock()
			return message.Errorf(429, "%d slow requests of this connection are in flight, and no more are taken; wait for their answers, cancel some, or use another connection", places)
		}
		if s.waiting == nil {
			s.waiting = make(chan struct{})
		}
		ended := s.waiting
		s.asides.Unlock()
		if late == nil {
			late = time.NewTimer(2 * c.timeout) // longer than any of those may take
			defer late.Stop()
		}
		select {
		case <-ended:
		case <-late.C:
			return message.Errorf(429, "%d slow requests of this connection are in flight, and none has ended for %v; wait for their answers, or use another connection", places, 2*c.timeout)
		case <-s.ctx.Done():
			return message.Errorf(503, "The kernel is shutting down")
		}
	}
	defer s.asides.Unlock()
	// What is endless does nothing most of the time, and its connection has a place less for it.
	if c.syscall.Endless {
		c.share.Do(func() {})
	} else if s.k.inFlight.Add(1) > int64(limits.InFlightAll) {
		s.k.inFlight.Add(-1)
		return message.Errorf(503, "%d slow requests of all connections are in flight, and no more are taken; try again later", limits.InFlightAll)
	}
	s.slow++
	if c.syscall.Endless {
		s.endless++
	}
	if _, taken := s.running[c.request.Metadata.ID]; !taken {
		s.running[c.request.Metadata.ID] = c
	}
	return nil
}

// leave gives the place of a call back.
func (s *session) leave(c *call) {
	c.share.Do(func() { s.k.inFlight.Add(-1) })
	s.asides.Lock()
	defer s.asides.Unlock()
	s.slow--
	if c.syscall.Endless {
		s.endless--
	}
	if s.running[c.request.Metadata.ID] == c {
		delete(s.running, c.request.Metadata.ID)
	}
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
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
