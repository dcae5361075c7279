package kernel

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kernos/message"
	"kernos/store"
)

// outbox sends the answers of one connection. An answer whose commit is not durable yet
// waits, and those that come after it wait behind it, so that answers keep their order
// while thousands of commits are on their way. As long as nothing waits, an answer is
// sent by whoever gives it. What waits is sent by the engine's goroutine that decides the
// commit, if the connection can be written to without waiting, and by a courier otherwise.
//
// Invariants:
//
//	O1  an outcome is not sent before its commit is decided; if the commit has failed,
//	    an error is sent in its place
//	O2  what is posted by one goroutine is sent in the order in which it is posted
type outbox struct {
	k     *Kernel
	flush func()   // tells the connection that nothing more is ready; or nil
	at    Prompter // the connection, if it can be sent something without waiting; or nil

	errors  atomic.Uint64 // that were posted
	waiting atomic.Int64  // parcels that are queued or being sent by the courier

	mu      sync.Mutex
	queue   []parcel
	bytes   int           // that those in queue take
	idle    bool          // the courier waits for a parcel, or for the commit of the first one
	wake    chan struct{} // tells it; nil if there is no courier
	nudge   func(error)   // o.decided
	watched *store.Commit // calls it
	room    *sync.Cond    // told when parcels leave
	closed  bool
	done    chan struct{} // closed when the courier has gone
}

// parcel is one message that waits for its turn, and for a commit if it is not nil.
type parcel struct {
	send   Emit
	m      message.Message
	commit *store.Commit
	posted time.Time // if there is a commit
}

const (
	maxParcels  = 8192     // that wait on one connection
	maxBytes    = 4 << 20  // that they take, but one parcel always fits
	maxParked   = 64 << 20 // that those of all connections take before each has to do with less
	fewBytes    = 64 << 10 // which is this
	perParcel   = 256      // that one takes beside its data
	maxCommit   = 30 * time.Second
	firstParcel = 64
)

func newOutbox(k *Kernel, flush func()) *outbox { return &outbox{k: k, flush: flush} }

// A Prompter is a Source whose peer can be sent something by somebody who must not wait.
type Prompter interface {
	// Prompts reports whether Prompt would send a message at this moment.
	Prompts(m *message.Message) bool

	// Prompt sends a message, with what was got from Next, if that can be done without
	// waiting, and reports whether it has. A Push must follow.
	Prompt(send Emit, m message.Message) bool

	// Push writes what was sent, as far as that needs no waiting, and sees to the rest.
	Push()
}

// post sends a message when its commit, which may be nil, is durable and everything
// before it is sent. It waits while too much waits already.
func (o *outbox) post(send Emit, m message.Message, commit *store.Commit) {
	o.postAs(send, m, commit, false)
}

// postPromptly is post for somebody who must not wait: what can't be sent at this moment is
// queued. A push must follow. Whoever uses it bounds how much that may be.
func (o *outbox) postPromptly(send Emit, m message.Message, commit *store.Commit) {
	o.postAs(send, m, commit, true)
}

// push writes what was posted promptly.
func (o *outbox) push() {
	if o.at != nil {
		o.at.Push()
	}
}

func (o *outbox) postAs(send Emit, m message.Message, commit *store.Commit, promptly bool) {
	if m.Kind == message.KindError {
		o.errors.Add(1)
	}
	if commit != nil {
		if done, err := commit.Resolved(); done && err == nil {
			commit = nil
		}
	}
	if commit == nil && o.waiting.Load() == 0 {
		if !promptly {
			send(m)
			return
		}
		if o.at != nil && o.at.Prompt(send, m) {
			return
		}
	}
	// It outlives the turn, and with it the line that its data may be part of.
	m.Data = bytes.Clone(m.Data)
	o.mu.Lock()
	if o.wake == nil {
		o.wake = make(chan struct{}, 1)
		o.done = make(chan struct{})
		o.room = sync.NewCond(&o.mu)
		o.queue = make([]parcel, 0, firstParcel)
		o.nudge = o.decided
		go o.courier()
	}
	for !promptly && (len(o.queue) >= maxParcels || o.bytes > o.allowed()) {
		o.room.Wait()
	}
	o.waiting.Add(1)
	p := parcel{send: send, m: m, commit: commit}
	if commit != nil {
		p.posted = time.Now()
	}
	o.queue = append(o.queue, p)
	o.bytes += p.size()
	o.k.parked.Add(int64(p.size()))
	first := o.expect()
	o.mu.Unlock()
	if first != nil {
		first.Then(o.nudge)
	}
}

// size is how many bytes a parcel takes, more or less.
func (p *parcel) size() int { return perParcel + len(p.m.Data) }

// allowed is how many bytes may wait before whoever has more has to wait too. If those of
// all connections are many, because many peers do not read, it is little.
func (o *outbox) allowed() int {
	if o.k.parked.Load() > o.k.maxParked {
		return fewBytes
	}
	return maxBytes
}

// call wakes the courier if it waits. It is called with mu held.
func (o *outbox) call() {
	if o.idle {
		o.idle = false
		o.wake <- struct{}{}
	}
}

// decided is called when the commit of the first parcel is. It sends what is ready, if that
// can be done without waiting, or wakes the courier.
func (o *outbox) decided(error) {
	o.mu.Lock()
	sent := 0
	for o.idle && sent < len(o.queue) {
		p := &o.queue[sent]
		if p.commit != nil {
			decided, err := p.commit.Resolved()
			if !decided {
				break
			}
			if err != nil {
				o.call()
				break
			}
		}
		if o.at == nil || !o.at.Prompt(p.send, p.m) {
			o.call()
			break
		}
		o.bytes -= p.size()
		o.k.parked.Add(-int64(p.size()))
		sent++
	}
	if sent > 0 {
		n := copy(o.queue, o.queue[sent:])
		clear(o.queue[n:])
		o.queue = o.queue[:n]
		o.waiting.Add(-int64(sent))
		o.room.Broadcast()
	}
	next := o.expect()
	o.mu.Unlock()
	if sent > 0 {
		o.at.Push()
	}
	if next != nil {
		next.Then(o.nudge)
	}
}

// expect returns the commit that decided is to be called for, if nobody has seen to that. It
// is called with mu held.
func (o *outbox) expect() *store.Commit {
	if !o.idle || len(o.queue) == 0 {
		return nil
	}
	first := o.queue[0].commit
	if first == nil {
		o.call()
		return nil
	}
	if first == o.watched {
		return nil
	}
	o.watched = first
	return first
}

// courier sends what waits, until the outbox is closed. It is the only one that waits for
// commits, so a connection has one such goroutine however many commits it has on the way.
func (o *outbox) courier() {
	defer close(o.done)
	patience := time.NewTimer(maxCommit)
	defer patience.Stop()
	batch := make([]parcel, 0, firstParcel)
	for {
		o.mu.Lock()
		batch, o.queue = o.queue, batch[:0]
		o.bytes = 0
		o.room.Broadcast()
		closed := o.closed
		o.idle = len(batch) == 0 && !closed
		o.mu.Unlock()
		if len(batch) == 0 {
			if closed {
				return
			}
			o.rest(patience)
			continue
		}
		for i := range batch {
			o.deliver(&batch[i], patience)
			o.k.parked.Add(-int64(batch[i].size()))
			batch[i] = parcel{}
		}
		o.waiting.Add(-int64(len(batch)))
		o.ready()
	}
}

// rest waits for something to do. It looks now and then by itself: a disk that hangs
// decides nothing.
func (o *outbox) rest(patience *time.Timer) {
	patience.Reset(maxCommit)
	select {
	case <-o.wake:
	case <-patience.C:
		o.mu.Lock()
		woken := !o.idle
		o.idle = false
		o.mu.Unlock()
		if woken {
			<-o.wake // somebody has, at this very moment
		}
	}
}

// deliver sends a parcel, when its commit is decided.
func (o *outbox) deliver(p *parcel, patience *time.Timer) {
	if p.commit == nil {
		p.send(p.m)
		return
	}
	decided, err := p.commit.Resolved()
	if !decided {
		if o.flush != nil {
			o.flush() // what is ready does not wait for the disk
		}
		patience.Reset(max(0, maxCommit-time.Since(p.posted)))
		select {
		case <-p.commit.Done():
			_, err = p.commit.Resolved()
		case <-patience.C:
			err = context.DeadlineExceeded
		}
	}
	switch {
	case err == nil:
		p.send(p.m)
	case p.m.Kind.Answers():
		p.send(o.k.undone(&p.m, err))
	default: // what the event tells of is not known to have happened
	}
}

// undone is the error that is sent instead of an outcome whose commit has failed.
func (k *Kernel) undone(m *message.Message, err error) message.Message {
	k.opts.Log.Error("a commit failed", "type", m.Type, "causation", m.Metadata.Causation, "error", err)
	e, _ := message.ErrorOf(err)
	e = message.Errorf(e.Code, "%s is not known to have happened: it could not be made durable: %w", m.Type, e)
	failed := message.Message{Kind: message.KindError, Type: m.Type, Data: e.Append(nil), Err: e,
		Metadata: message.Metadata{Causation: m.Metadata.Causation, Correlation: m.Metadata.Correlation}}
	k.Stamp(&failed)
	k.record(Record{Message: &failed, Way: Out})
	return failed
}

// ready tells the connection that what has been sent does not have to wait for more.
func (o *outbox) ready() {
	if o.flush != nil && o.waiting.Load() == 0 {
		o.flush()
	}
}

// close sends what waits and ends the courier.
func (o *outbox) close() {
	o.mu.Lock()
	if o.wake == nil {
		o.mu.Unlock()
		return
	}
	o.closed = true
	o.call()
	o.mu.Unlock()
	<-o.done
}
