package connection

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// pending is the answers of a connection that wait: one whose commit is not durable yet, and
// those that come after it, so that answers keep their order while thousands of commits are
// on their way. As long as nothing waits, an answer is sent by the goroutine that gives it;
// what waits is sent by a goroutine of the connection, the sender.
//
// Invariants:
//
//	O1  an outcome is not sent before its commit is decided; if the commit has failed,
//	    an error is sent in its place
//	O2  what is posted by one goroutine is sent in the order in which it is posted
type pending struct {
	errors  atomic.Uint64 // that were posted
	waiting atomic.Int64  // answers that are queued or being sent by the sender

	mu     sync.Mutex
	queue  []answer
	bytes  int           // that those in queue take
	idle   bool          // the sender waits for an answer, and for the commit of the first one
	wake   chan struct{} // tells it; nil if there is no sender
	room   *sync.Cond    // told when answers leave
	closed bool
	done   chan struct{} // closed when the sender has ended
}

// answer is one message that waits for those before it, and for a commit if it is not nil.
type answer struct {
	send   kernel.Emit
	m      message.Message
	commit *store.Commit
	posted time.Time // if there is a commit
}

const (
	maxPending      = 8192     // that wait on one connection
	maxPendingBytes = 4 << 20  // that they take, but one always fits
	maxPendingAll   = 64 << 20 // that those of all connections take before each has to do with less
	fewPendingBytes = 64 << 10 // which is this
	perAnswer       = 256      // that one takes beside its data
	maxCommit       = 30 * time.Second
)

// size is how many bytes an answer takes, more or less.
func (a *answer) size() int { return perAnswer + len(a.m.Data) }

// Post implements [kernel.Origin]. It waits while too much waits already.
func (c *Connection) Post(send kernel.Emit, m message.Message, commit *store.Commit) {
	p := &c.pending
	if m.Kind == message.KindError {
		p.errors.Add(1)
	}
	if commit != nil {
		if done, err := commit.Resolved(); done && err == nil {
			commit = nil
		}
	}
	if commit == nil && p.waiting.Load() == 0 {
		send(m)
		return
	}
	a := answer{send: send, m: m, commit: commit}
	a.m.Data = bytes.Clone(m.Data) // it outlives the line that its data may be part of
	if commit != nil {
		a.posted = time.Now()
	}
	c.queueAnswer(a)
}

func (c *Connection) queueAnswer(a answer) {
	p := &c.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake == nil {
		p.wake = make(chan struct{}, 1)
		p.done = make(chan struct{})
		p.room = sync.NewCond(&p.mu)
		go c.sendPending()
	}
	for len(p.queue) >= maxPending || p.bytes > c.allowed() {
		p.room.Wait()
	}
	p.waiting.Add(1)
	p.queue = append(p.queue, a)
	p.bytes += a.size()
	c.k.Connections().PendingBytes.Add(int64(a.size()))
	switch {
	case !p.idle || len(p.queue) > 1:
	case a.commit == nil:
		p.wakeSender(nil)
	default: // the sender is not woken before there is something to send
		a.commit.Then(p.wakeSender)
	}
}

// wakeSender must not wait for anything: the engine's goroutine calls it.
func (p *pending) wakeSender(error) {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// allowed is how many bytes may wait before a call with more has to wait too. If those of
// all connections are many, because many peers do not read, it is little.
func (c *Connection) allowed() int {
	if c.k.Connections().PendingBytes.Load() > maxPendingAll {
		return fewPendingBytes
	}
	return maxPendingBytes
}

// sendPending is the sender: it sends what waits, until the connection has ended. No other
// goroutine waits for commits, so a connection has one of them however many commits it has
// on the way.
func (c *Connection) sendPending() {
	p := &c.pending
	defer close(p.done)
	patience := time.NewTimer(maxCommit)
	defer patience.Stop()
	var batch []answer
	for {
		p.mu.Lock()
		batch, p.queue = p.queue, batch[:0]
		p.bytes = 0
		p.room.Broadcast()
		closed := p.closed
		p.idle = len(batch) == 0
		p.mu.Unlock()
		if len(batch) == 0 {
			if closed {
				return
			}
			patience.Reset(maxCommit)
			select {
			case <-p.wake:
			case <-patience.C: // a disk that hangs decides nothing
			}
			continue
		}
		for i := range batch {
			c.sendAnswer(&batch[i], patience)
			c.k.Connections().PendingBytes.Add(-int64(batch[i].size()))
			batch[i] = answer{}
		}
		p.waiting.Add(-int64(len(batch)))
		c.ready()
	}
}

// sendAnswer sends an answer when its commit is decided.
func (c *Connection) sendAnswer(a *answer, patience *time.Timer) {
	if a.commit == nil {
		a.send(a.m)
		return
	}
	decided, err := a.commit.Resolved()
	if !decided {
		c.src.Flush() // what is ready does not wait for the disk
		patience.Reset(max(0, maxCommit-time.Since(a.posted)))
		select {
		case <-a.commit.Done():
			_, err = a.commit.Resolved()
		case <-patience.C:
			err = context.DeadlineExceeded
		}
	}
	switch {
	case err == nil:
		a.send(a.m)
	case a.m.Kind.Answers():
		a.send(c.k.Undone(&a.m, err))
	default: // what the event tells of is not known to have happened
	}
}

// ready tells the source that what has been sent does not have to wait for more.
func (c *Connection) ready() {
	if c.pending.waiting.Load() == 0 {
		c.src.Flush()
	}
}

// close sends what waits and ends the sender.
func (p *pending) close() {
	p.mu.Lock()
	if p.wake == nil {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	p.wakeSender(nil)
	<-p.done
}
