package connection

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// slowCalls tracks the slow calls of a connection until they are answered. The connection's mu
// guards it.
type slowCalls struct {
	running map[message.ID]*kernel.Call // by request id
	n       int                         // number of slow calls
	endless int                         // number of endless calls, which n counts too
	changed chan struct{}               // closed when a slow call has ended; nil if no call waits for that
}

// A slowCall is a call that runs beside the loop. Its place is free when it is answered, even
// if its handler still runs.
type slowCall struct {
	*kernel.Call
	conn    *Connection
	release func()    // releases the context of an endless call; nil for other calls
	share   sync.Once // gives back the place in the limit of all connections
	left    sync.Once // gives back the place in the limit of the connection
}

// beginSlow begins a slow call; it returns nil if the call is refused.
func (c *Connection) beginSlow(call *kernel.Call) *slowCall {
	if !c.readsAhead { // otherwise its request has memory of its own
		call.Detach()
	}
	parent := c.queries
	if call.Syscall().Kind == message.KindCommand {
		parent = c.ctx
	}
	s := &slowCall{Call: call, conn: c}
	if err := c.enter(s, parent); err != nil {
		call.Fail(err)
		return nil
	}
	c.goroutines.Add(1)
	if s.endless() {
		parent, s.release = c.k.UntilStop(parent)
	}
	call.SetParent(parent)
	call.Begin() // the deadline doesn't include the wait for a place
	return s
}

func (s *slowCall) endless() bool { return s.Syscall().Runs == kernel.Endless }

func (s *slowCall) run() {
	defer s.finish()
	s.RunHere(s.overdue)
	s.conn.ready() // the loop may be waiting for input, and flushes nothing
}

// overdue answers the call with 504 at its deadline.
func (s *slowCall) overdue() {
	defer s.finish()
	// A peer that does not read may hold the answer up. Meanwhile the call takes up a place of
	// its own connection, but none in the limit of all connections.
	s.giveBackShare()
	s.Expire()
	s.conn.ready()
}

func (s *slowCall) giveBackShare() {
	s.share.Do(func() { s.conn.k.Connections().InFlight.Add(-1) })
}

func (s *slowCall) finish() {
	s.left.Do(func() {
		if s.release != nil {
			s.release()
		}
		s.giveBackShare()
		s.conn.removeSlow(s)
		s.conn.goroutines.Done()
	})
}

// endlessBytes is what an endless call counts for in the kernel's budget. A watch over a WebSocket
// has 150 KB that are in use, mostly the records that it has read last, and the collector lets the
// memory of a daemon become twice as much and more: 96 to 460 KB of it were resident for each.
const endlessBytes = 256 << 10

func (c *Connection) enter(s *slowCall, parent context.Context) *message.Error {
	limits := c.k.Limits()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.await(s, parent, cmp.Or(c.opts.InFlight, limits.InFlight)); err != nil {
		return err
	}
	// An endless call does nothing most of the time, and its connection has a place less for it.
	all := &c.k.Connections().InFlight
	if s.endless() {
		if err := c.k.Kept().Take(s.Principal(), endlessBytes); err != nil {
			return err
		}
		s.share.Do(func() {})
		c.slow.endless++
	} else if all.Add(1) > int64(limits.InFlightAll) {
		all.Add(-1)
		return message.Errorf(503, "%d slow requests of all connections are in flight, and no more are taken; try again later", limits.InFlightAll)
	}
	c.slow.n++
	id := s.Request().Metadata.ID
	if c.slow.running == nil {
		c.slow.running = make(map[message.ID]*kernel.Call)
	}
	if _, taken := c.slow.running[id]; !taken {
		c.slow.running[id] = s.Call
	}
	return nil
}

// await waits until fewer slow calls run than there are places. Messages that arrive in the meantime
// are queued. The call is refused if no place becomes free for a long time, and at once if it, or
// every running call, is endless: only Syscall.Cancel could then free a place. It is called with mu
// held.
func (c *Connection) await(s *slowCall, parent context.Context, places int) *message.Error {
	if parent.Err() != nil {
		return c.tooLate()
	}
	if c.slow.n < places {
		return nil
	}
	if s.endless() || c.slow.endless >= places {
		return message.Errorf(429, "%d slow requests of this connection are in flight, and no more are taken; wait for their answers, cancel some, or use another connection", places)
	}
	if !c.readsAhead {
		c.readsAhead, c.ahead.working = true, true
		c.goroutines.Add(1)
		go c.readAhead()
	}
	c.ahead.first = s.Call
	defer func() { c.ahead.first = nil }()
	patience := 2 * s.Timeout() // usually longer than any running call may take
	late := time.NewTimer(patience)
	defer late.Stop()
	for c.slow.n >= places {
		if c.slow.changed == nil {
			c.slow.changed = make(chan struct{})
		}
		changed := c.slow.changed
		c.mu.Unlock()
		overdue := false
		select {
		case <-changed:
		case <-late.C:
			overdue = true
		case <-parent.Done():
		}
		c.mu.Lock()
		switch {
		case c.ahead.first == nil:
			return cancelled()
		case parent.Err() != nil:
			return c.tooLate()
		case overdue && c.slow.n >= places:
			return message.Errorf(429, "%d slow requests of this connection are in flight, and none has ended for %v; wait for their answers, cancel some, or use another connection", places, patience)
		}
	}
	return nil
}

// tooLate returns the error for a call that was to begin after its context had ended.
func (c *Connection) tooLate() *message.Error {
	if c.ctx.Err() != nil {
		return message.Errorf(503, "The kernel is shutting down")
	}
	return cancelled()
}

func cancelled() *message.Error {
	e, _ := message.ErrorOf(context.Canceled)
	return e
}

func (c *Connection) removeSlow(s *slowCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow.n--
	if s.endless() {
		c.k.Kept().Give(s.Principal(), endlessBytes)
		c.slow.endless--
	}
	if id := s.Request().Metadata.ID; c.slow.running[id] == s.Call {
		delete(c.slow.running, id)
	}
	c.slowChanged()
}

// slowChanged wakes the call that waits for a place. It is called with mu held.
func (c *Connection) slowChanged() {
	if c.slow.changed != nil {
		close(c.slow.changed)
		c.slow.changed = nil
	}
}

// Cancel cancels the slow call or the queued request with this id. It returns false if there
// is none.
func (c *Connection) Cancel(id message.ID) bool {
	c.mu.Lock()
	call := c.slow.running[id]
	first := call == nil && c.ahead.first != nil && c.ahead.first.Request().Metadata.ID == id
	if first {
		c.ahead.first = nil
		c.slowChanged()
	}
	waits := slices.IndexFunc(c.ahead.queue, func(a queued) bool { return a.m.Kind.Asks() && a.m.Metadata.ID == id })
	var withdrawn queued
	if call == nil && !first && waits >= 0 {
		withdrawn = c.remove(waits)
	}
	c.mu.Unlock()
	if call != nil {
		call.Cancel(context.Canceled)
	} else if withdrawn.send != nil {
		if call := c.k.Admit(c.queries, &withdrawn.m, withdrawn.send, c); call != nil {
			call.Fail(cancelled())
		}
	}
	return call != nil || first || withdrawn.send != nil
}
