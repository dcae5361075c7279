// Package connection is the life of a connection to a kernel: messages run in the order in
// which they came, slow calls run beside them, answers wait for their commits, and the peer
// can be sent requests too.
//
// A wire implements [Source]:
//
//	err := connection.New(k, source, nil).Serve(ctx)
//
// # Goroutines
//
//   - The loop, one per connection: [Connection.Start] starts it. It ends when the source ends, or when the timer of a
//     deadline has started another goroutine for the loop.
//   - A slow call, 64 per connection: the goroutine of the loop runs it, and passes the loop on. It ends when its
//     handler has returned, and 8 other goroutines of its connection or 1,024 of all connections wait to run the loop;
//     or the connection ends.
//   - Reading ahead, one per connection: the loop starts it while a slow call waits for a place. It ends when the
//     source ends, or when it runs the loop.
//   - Ending a call of which an event can't be sent, for a moment: the sender starts it.
//   - The sender of pending answers, one per connection: the first answer that waits for a commit starts it, and it
//     ends with the connection.
//   - Watching a peer that isn't read, one per connection: it begins after the end of the source and while the queue is
//     full, and ends when the connection has ended or is read again.
//   - An abandoned handler was one of these. It ends when it returns; each is logged, and their number has no bound.
package connection

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// A Source is the wire of a connection: messages come from it, and it knows its peer.
type Source interface {
	// Next returns the next message, which is valid, and what sends its answers. The message
	// and its data may be overwritten by the next call of Next. A *Refused is answered, and
	// the connection continues; any other error ends it, io.EOF in an orderly way.
	//
	// Next is called by several goroutines, but never at the same time.
	Next() (*message.Message, kernel.Emit, error)

	// Detach leaves the data of the last message alone from now on: its handler is
	// still running, and the next message can't wait for it.
	Detach()

	// Flush writes the answers that were sent: nothing more is ready. It may be called by any
	// goroutine.
	Flush()

	// Writable reports whether the next answer can be sent without waiting for the peer. With wait,
	// it waits until it can be, or until sending has ended. A wire whose answers wait
	// by themselves returns wait.
	Writable(wait bool) bool

	// Left returns true when the peer has gone for good, or false when finished is closed. It
	// is called while queries run and nothing is read: after the end of the source, and while
	// too many messages wait. A source that can't know waits for finished.
	Left(finished <-chan struct{}) bool
}

// Options are the settings of a connection. The zero value is usable.
type Options struct {
	// InFlight is how many slow calls may run at once. 0 means as many as the kernel's
	// limits allow.
	InFlight int

	// NoRequests means that the wire carries no requests to its peer: [PeerOf] finds none.
	NoRequests bool
}

// A Refused is the error for something on a connection that is not a valid message.
type Refused struct {
	Request message.Message // the parts that could be read
	Err     *message.Error  // the answer
}

func (r *Refused) Error() string { return r.Err.Error() }

// A Connection answers the messages of a source. One goroutine at a time runs the connection's
// loop: it reads the next message and runs its handler. If the handler overstays its deadline,
// the timer takes the loop away from that goroutine and starts a new one.
//
// Invariants:
//
//	S1  at most one goroutine runs the loop
//	S2  a call is current only while its goroutine runs the loop; the goroutine that swaps
//	    the call for nil continues the loop
//	S3  the source is read by one goroutine: the one that runs the loop or, while messages
//	    are queued, the one that reads ahead
type Connection struct {
	k       *kernel.Kernel
	id      uint64
	src     Source
	opts    Options
	sender  kernel.Sender
	begun   time.Time
	ended   func(error)     // called once, when the connection has ended
	ctx     context.Context // for commands, which are completed even if their caller leaves
	queries context.Context // for queries, which end with the connection
	abandon func()          // cancels queries

	received atomic.Uint64 // messages read
	pending  pending       // answers that are not sent yet
	outgoing outgoing      // requests to the peer

	goroutines sync.WaitGroup // slow calls, and the loop while another goroutine reads ahead
	mu         sync.Mutex     // guards slow and ahead
	slow       slowCalls
	ahead      readAhead
	readsAhead bool // another goroutine reads the source; only the goroutine that runs the loop uses it
	idle       idleGoroutines

	current  atomic.Pointer[kernel.Call]
	watching sync.Mutex
	timer    *time.Timer
	wake     atomic.Int64 // when the timer fires, in nanoseconds after begun; 0 if it is not set
	over     bool         // the timer is no longer set; guarded by watching
}

// New returns a connection, which is to be served once. Nil options mean defaults.
func New(k *kernel.Kernel, src Source, opts *Options) *Connection {
	c := &Connection{k: k, src: src, begun: time.Now()}
	if opts != nil {
		c.opts = *opts
	}
	return c
}

// Serve answers the messages until the source ends and everything is answered. Messages start
// in the order in which they came, and one that is not slow is finished before the next is
// begun, so a later message sees what an earlier one did. Slow calls run beside the others. A
// handler that overstays its deadline, whether it looks at its context or not, is answered for
// with a 504 and left behind.
//
// The connection acts for the sender of ctx ([kernel.ActFor]).
//
// The error is that of the source, nil for io.EOF. After any other error, and when the peer
// has left, nothing waits for the answers: queries that still run are cancelled, and commands
// are completed.
func (c *Connection) Serve(ctx context.Context) error {
	ended := make(chan error, 1)
	c.Start(ctx, func(err error) { ended <- err })
	return <-ended
}

// Start is Serve for a caller that does not wait: it returns at once, and ended is called with
// the error at the end. A connection that is idle has one goroutine, and at most 8 more if it has made
// slow calls.
func (c *Connection) Start(ctx context.Context, ended func(error)) {
	c.queries, c.abandon = context.WithCancel(ctx)
	c.ctx, c.ended, c.sender = ctx, ended, kernel.SenderIn(ctx)
	c.id = c.k.Connections().Add(c)
	go c.loop()
}

// Serves reports whether calls of other connections wait for the peer, or may: then it has to
// be read whatever happens.
func (c *Connection) Serves() bool { return c.outgoing.serves() }

// Sender implements [kernel.Origin]. A request that a program sends while it serves another
// request, and because of that request, acts for both: the principal of that request, and its own.
func (c *Connection) Sender(cause message.ID) kernel.Sender {
	if cause != "" && c.outgoing.n.Load() > 0 {
		if r := c.outgoing.find(cause); r != nil {
			return r.call.Serving(c.sender.Principal(), c.sender.Wire(), c.sender.Scope())
		}
	}
	return c.sender
}

// Count implements [kernel.Connection].
func (c *Connection) Count(s *kernel.Stats) {
	s.Messages += c.received.Load()
	s.Errors += c.pending.errors.Load()
	s.Waiting += int(c.pending.waiting.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	s.InFlight += c.slow.n
	s.Queued += len(c.ahead.queue)
	if c.ahead.first != nil {
		s.Held++
		s.Queued++
	}
}

func (c *Connection) loop() {
	for c.loopFrom(c.next()) && c.awaitLoop() {
	}
}

func (c *Connection) next() (*message.Message, kernel.Emit, error) {
	if c.readsAhead {
		return c.dequeue()
	}
	return c.read()
}

// loopFrom runs one message after the other, beginning with m. It returns when another goroutine
// runs the loop, and reports whether that was for a slow call, which has ended.
func (c *Connection) loopFrom(m *message.Message, send kernel.Emit, err error) (slow bool) {
	var call *kernel.Call // the call that this goroutine runs
	left := false
	defer func() {
		// If left is false, the handler has ended the goroutine. Its call is settled; a new
		// goroutine continues the loop, unless the timer has started one already.
		if !left && call != nil && c.current.CompareAndSwap(call, nil) {
			c.detach()
			go c.loop()
		}
	}()
	for ; ; m, send, err = c.next() {
		if err != nil {
			left = true
			if err != errQueueEmpty {
				c.end(err)
			}
			return false
		}
		if call = c.k.Admit(c.queries, m, send, c); call == nil {
			continue
		}
		s := call.Syscall()
		if s.Runs != kernel.Inline {
			if a := c.beginSlow(call); a != nil {
				// This goroutine has the call at hand: another one continues the loop.
				left = true
				c.passLoop()
				a.run()
				return true
			}
			continue
		}
		if s.Kind == message.KindCommand {
			call.SetParent(c.ctx)
		}
		c.current.Store(call)
		deadline, _ := call.Deadline()
		if wake := c.wake.Load(); wake == 0 || int64(deadline.Sub(c.begun)) < wake {
			c.watchUntil(deadline)
		}
		call.Run()
		if !c.current.CompareAndSwap(call, nil) {
			left = true
			return false
		}
		call = nil // a connection that is idle holds nothing of it
	}
}

// read returns the next message from the source that is for the kernel. Invalid input and events
// that no connection may send are answered; answers to outgoing requests go to their calls.
func (c *Connection) read() (*message.Message, kernel.Emit, error) {
	for {
		m, send, err := c.src.Next()
		if r, ok := err.(*Refused); ok {
			c.received.Add(1)
			c.outgoing.spoil(r)
			c.k.Refuse(&r.Request, send, c, r.Err)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		c.received.Add(1)
		c.outgoing.inherit(m)
		if m.Kind.Asks() || !c.outgoing.take(m) && !c.forged(m, send) {
			return m, send, nil
		}
	}
}

// forged answers an event from the connection that can't come from there, and reports whether
// it is one. It is not recorded: watchers would see it.
func (c *Connection) forged(m *message.Message, send kernel.Emit) bool {
	if m.Kind != message.KindEvent {
		return false
	}
	err := c.k.CheckForeignEvent(m.Type)
	cancelled := kernel.Universal(m.Type) && c.Serves() // the event's request may have been cancelled, which the peer can't know
	if err != nil && !cancelled {
		c.k.Reject(m, send, c, err)
	}
	return err != nil
}

// detach leaves the data of the last message alone, whose handler is still running. A message
// that was read ahead has memory of its own.
func (c *Connection) detach() {
	if !c.readsAhead {
		c.src.Detach()
	}
}

// end ends the connection when its source has: what is under way is answered first. It is
// called by the goroutine that reads.
func (c *Connection) end(err error) {
	c.outgoing.close()
	stopWatching := func() {}
	if err != io.EOF {
		c.abandon()
	} else if c.busy() {
		stopWatching = c.watchPeer()
	}
	c.goroutines.Wait()
	c.idle.end()
	c.stopTimer()
	c.pending.close()
	stopWatching()
	c.k.Connections().Remove(c)
	c.abandon()
	if err == io.EOF {
		err = nil
	}
	c.ended(err)
}

func (c *Connection) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow.n > 0 || c.ahead.working
}

// watchPeer cancels the queries when the peer has left. The source is not read until stop has
// returned.
func (c *Connection) watchPeer() (stop func()) {
	finished := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if c.src.Left(finished) {
			c.abandon()
		}
	}()
	return func() {
		close(finished)
		<-watched
	}
}

func (c *Connection) watchUntil(t time.Time) {
	c.watching.Lock()
	defer c.watching.Unlock()
	due := int64(t.Sub(c.begun)) // the monotonic clock: the wall clock may be set
	if wake := c.wake.Load(); c.over || wake != 0 && wake <= due {
		return
	}
	c.wake.Store(due)
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Until(t), c.overdue)
		return
	}
	c.timer.Reset(time.Until(t))
}

func (c *Connection) stopTimer() {
	c.watching.Lock()
	defer c.watching.Unlock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// overdue looks at the current call when the timer fires. If there is none, the next
// call sets the timer again: it is made current before it looks at wake.
func (c *Connection) overdue() {
	c.wake.Store(0)
	call := c.current.Load()
	if call == nil {
		return
	}
	deadline, _ := call.Deadline()
	if time.Until(deadline) > 0 {
		c.watchUntil(deadline)
		return
	}
	if c.current.CompareAndSwap(call, nil) {
		c.detach()
		call.Expire()
		go c.loop()
	}
}

// ServeOne serves a connection that carries one request, which must be valid. It counts among
// the connections and has the same limits. Its peer can't be sent requests. When gone is
// closed, no caller waits for the answers.
func ServeOne(ctx context.Context, k *kernel.Kernel, request message.Message, send kernel.Emit, gone <-chan struct{}) error {
	return New(k, &single{request: request, send: send, gone: gone}, &Options{NoRequests: true}).Serve(ctx)
}

type single struct {
	request message.Message
	send    kernel.Emit
	gone    <-chan struct{}
	sent    bool
}

func (s *single) Next() (*message.Message, kernel.Emit, error) {
	if s.sent {
		return nil, nil, io.EOF
	}
	s.sent = true
	return &s.request, s.send, nil
}

func (s *single) Detach() {} // the data is not used for anything else

func (s *single) Flush() {} // nothing is held back

func (s *single) Writable(wait bool) bool { return wait }

func (s *single) Left(finished <-chan struct{}) bool {
	select {
	case <-s.gone:
		return true
	case <-finished:
		return false
	}
}
