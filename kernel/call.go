package kernel

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/secret"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Call is one command or query in flight: [Kernel.Admit] makes it, Run runs its handler.
// It is also the context that the handler gets. Most handlers never look at that, so its
// channel is made when it is asked for.
//
// Invariants:
//
//	C1  exactly one outcome is sent for a call (settled goes from false to true once)
//	C2  nothing is sent for a call after its outcome
//	C3  what is sent for a call carries its lineage, an id and a time
type Call struct {
	k       *Kernel
	parent  context.Context
	syscall *Syscall
	request message.Message
	send    Emit      // where events and the outcome go
	origin  Origin    // the connection or program that sends them on
	sender  Sender    // the principal, wire and session that the call acts for
	caller  *Call     // the call that made this one, or nil
	work    Work      // the work that the call is a part of, or nil
	granted []Reached // what was approved that the call reaches
	depth   int32     // how many calls this one is nested in
	taken   bool      // events go to the caller's handler, and to no other place

	expired  bool        // guarded by mu
	settled  atomic.Bool // changed with mu held
	harmless atomic.Bool // the recorded request is the request unchanged: the definition redacts nothing in it

	timeout  time.Duration
	asked    bool // the timeout was asked for
	deadline time.Time

	mu      sync.Mutex
	done    chan struct{}        // made by Done
	err     error                // why done is closed
	release func() bool          // ends what Done has set up
	after   map[*func()]struct{} // called when done is closed
	outcome message.Message

	secrets atomic.Pointer[secret.Values] // the secrets of the request; nil until they are looked for

	effect
}

type callKey struct{} // the key under which a context finds its call

// Request returns the message that the call answers. It must not be changed.
func (c *Call) Request() *message.Message { return &c.request }

// Syscall returns what the call asks for.
func (c *Call) Syscall() *Syscall { return c.syscall }

// Timeout returns how long the call may take.
func (c *Call) Timeout() time.Duration { return c.timeout }

// Asked returns how long the call may take if the work that it is a part of was given that time by its starter, and
// otherwise 0. A handler takes it in the place of a default of its own.
func (c *Call) Asked() time.Duration {
	if !c.asked {
		return 0
	}
	return c.timeout
}

// Root returns the call of a connection or of a work that has caused this call; it may be this call itself.
func (c *Call) Root() *Call {
	for c.caller != nil {
		c = c.caller
	}
	return c
}

// Direct reports whether a client has made the call itself: no other call, job, session or message has caused it.
func (c *Call) Direct() bool {
	return c.caller == nil && c.work == nil && c.sender.Session() == "" && c.request.Metadata.Causation == ""
}

// Origin returns where the call came from.
func (c *Call) Origin() Origin { return c.origin }

// Work returns the work that the call is a part of, or nil. A call that another call has made is part of none.
func (c *Call) Work() Work { return c.work }

// Granted returns what was approved before that the call reaches.
func (c *Call) Granted() []Reached { return c.granted }

// Send returns what Admit was given to send answers with.
func (c *Call) Send() Emit { return c.send }

// Principal returns who the call acts for.
func (c *Call) Principal() *principal.Principal { return c.sender.Principal() }

// Sender returns where the call came from.
func (c *Call) Sender() Sender { return c.sender }

// CallOf returns the call whose handler was given ctx.
func CallOf(ctx context.Context) (*Call, bool) {
	c, ok := ctx.Value(callKey{}).(*Call)
	return c, ok
}

// Detach gives the call a copy of its request, whose memory is about to be used again. It must
// not run yet.
func (c *Call) Detach() { c.request = c.request.Clone() }

// SenderOf returns the sender that the call of ctx acts for, or that ctx does if it is of no call.
func SenderOf(ctx context.Context) Sender {
	if c, ok := CallOf(ctx); ok {
		return c.sender
	}
	return SenderIn(ctx)
}

// PrincipalOf returns who the call of ctx acts for.
func PrincipalOf(ctx context.Context) *principal.Principal { return SenderOf(ctx).Principal() }

// ReceiverOf returns whose connection the answers to the call of ctx go to. It is not who the call
// acts for if a program has made it to serve the request of another principal.
func ReceiverOf(ctx context.Context) *principal.Principal {
	c, ok := CallOf(ctx)
	if !ok {
		return SenderIn(ctx).Principal()
	}
	return c.Root().origin.Sender("").Principal()
}

// SetParent gives the call another context, with which it ends. It must not run yet.
func (c *Call) SetParent(parent context.Context) { c.parent = parent }

// Begin starts the time that the call has. It must not run yet.
func (c *Call) Begin() {
	// Reckoned from the kernel's start: half the price of asking for the time of day.
	c.deadline = c.k.begun.Add(time.Since(c.k.begun) + c.timeout)
	if d, ok := c.parent.Deadline(); ok && d.Before(c.deadline) {
		c.timeout = max(time.Until(d), 0)
		c.deadline = d
	}
}

// RunWithin runs the handler and returns when it has returned, or at the deadline.
// Either way the outcome is posted by then. A call that is late before it begins, on
// behalf of a handler that was left behind, does not begin.
func (c *Call) RunWithin() {
	if !time.Now().Before(c.deadline) {
		c.Expire()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run()
	}()
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.Expire()
	}
	// Another goroutine of the handler may be posting the outcome.
	c.mu.Lock()
	defer c.mu.Unlock()
}

// RunHere runs the handler on the goroutine of the caller, which waits for it even after the deadline.
// A goroutine of its own would cost 3 µs. At the deadline another goroutine calls expire, which calls
// Expire and has returned before RunHere returns.
func (c *Call) RunHere(expire func()) {
	expired := make(chan struct{})
	timer := time.AfterFunc(time.Until(c.deadline), func() {
		defer close(expired)
		expire()
	})
	defer func() {
		if !timer.Stop() {
			<-expired // expire may be posting the outcome
		}
	}()
	c.Run()
}

// Run runs the handler, and runs it again in its turn if its change met a concurrent one. There is an
// outcome when Run returns. The caller makes sure that Expire is called at the deadline.
func (c *Call) Run() {
	if c.idempotent() && !c.beginRun() {
		return
	}
	if err := c.awaitReaches(); err != nil {
		c.emit(c.failure(err))
		return
	}
	for range maxAttempts {
		if c.runOnce(); !c.startOver() {
			return
		}
	}
	c.giveUp("%s met a concurrent change of the same data %d times; try again", c.request.Type, maxAttempts)
}

// giveUp settles a call whose change can't be applied, with an error that is not kept.
func (c *Call) giveUp(format string, args ...any) {
	c.settleAs(c.request.Fail(message.Errorf(503, format, args...)))
}

// startOver reports whether the handler has to run again, and forgets what it has done.
func (c *Call) startOver() bool {
	c.mu.Lock()
	overtaken := c.overtaken
	again := overtaken != nil && !c.settled.Load()
	called := c.nested != nil
	var decided func(error)
	if again {
		decided, c.decided = c.decided, nil
	}
	if again && !called {
		c.overtaken, c.staged, c.published, c.delayed, c.applied = nil, nil, nil, nil, nil
	}
	c.mu.Unlock()
	if decided != nil {
		decided(errAgain)
	}
	switch {
	case !again:
		return false
	case called: // the changes of a nested call must not be made twice
		c.giveUp("%s met a concurrent change of the same data after it had changed something else; check what is there, and decide again", c.request.Type)
		return false
	case c.work != nil && c.run == nil:
		err := c.work.Held()
		if err == nil && c.syscall.Kind == message.KindCommand && c.syscall.Effect != InStore {
			err = message.Errorf(503, "%s has acted outside of the kernel, and can't run again", c.request.Type)
		}
		if err != nil { // the work decides about the outcome
			c.work = nil
			c.settleAs(c.failure(err))
			return false
		}
	}
	if err := c.enterQueues(overtaken); errors.Is(err, context.DeadlineExceeded) {
		c.Expire()
		return false
	} else if err != nil {
		c.settleAs(c.failure(err))
		return false
	}
	return c.run == nil || c.lookup()
}

// runOnce runs the handler, and settles the call if the handler has not: it may have panicked,
// or ended its goroutine.
func (c *Call) runOnce() {
	returned := false
	defer func() {
		if returned {
			return
		}
		c.logError("handler panicked", "panic", recover(), "stack", string(debug.Stack()))
		if !c.settled.Load() {
			c.fail(internalError(c.request.Type))
		}
	}()
	c.syscall.Handler(c, c.request, c.emit)
	returned = true
	if c.settled.Load() {
		return
	}
	c.mu.Lock()
	overtaken := c.overtaken != nil
	c.mu.Unlock()
	if !overtaken {
		c.logError("handler returned without an outcome")
		c.fail(message.Errorf(500, "%s ended without an outcome", c.request.Type))
	}
}

func (c *Call) logError(text string, args ...any) {
	c.k.opts.Log.Error(text, append([]any{"type", c.request.Type, "id", c.request.Metadata.ID}, args...)...)
}

// internalError returns the answer to a caller after a mistake in the program.
func internalError(t message.Type) *message.Error {
	return message.Errorf(500, "Internal error in %s; the kernel's log has the details", t)
}

// Expire settles a call that has run out of time, and ends its handler's context.
func (c *Call) Expire() {
	c.mu.Lock()
	c.close(context.DeadlineExceeded)
	late := !c.settled.Load()
	c.expired = late
	applying := c.applying
	c.mu.Unlock()
	if !late {
		return
	}
	c.k.opts.Log.Warn("call not done in time", "type", c.request.Type, "id", c.request.Metadata.ID, "timeout", c.timeout)
	if !applying {
		c.Fail(c.tooLate())
	}
	c.abandon() // does nothing unless another goroutine is giving an outcome to the store
}

// tooLate returns the error for a call that has run out of time.
func (c *Call) tooLate() *message.Error {
	return message.Errorf(504, "%s was not done within %v", c.request.Type, c.timeout.Round(time.Millisecond))
}

// Fail settles the call with an error, if it is not settled.
func (c *Call) Fail(e *message.Error) {
	m := c.request.Fail(e)
	c.emitAt(time.Now(), &m)
}

// fail is Fail in the place of the handler.
func (c *Call) fail(e *message.Error) { c.emit(c.request.Fail(e)) }

// A Call is the context of its handler.

func (c *Call) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *Call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	return c.parent.Value(key)
}

func (c *Call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.settled.Load() && c.err == nil {
			c.err = context.Canceled
		}
		if c.err != nil {
			close(c.done)
			return c.done
		}
		// The deadline needs no timer: Expire is called then.
		c.release = context.AfterFunc(c.parent, func() { c.Cancel(c.parent.Err()) })
		if life := c.Principal().Life(); life.Done() != nil {
			release, released := c.release, context.AfterFunc(life, func() { c.Cancel(context.Canceled) })
			c.release = func() bool { released(); return release() }
		}
	}
	return c.done
}

func (c *Call) Err() error {
	if err := c.parent.Err(); err != nil {
		c.Cancel(err)
	} else if c.Principal().Life().Err() != nil {
		c.Cancel(context.Canceled)
	} else if !time.Now().Before(c.deadline) {
		c.Cancel(context.DeadlineExceeded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Cancel ends the context of the handler, which is to give up.
func (c *Call) Cancel(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(err)
}

// close is called with mu held.
func (c *Call) close(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
		c.release()
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// AfterFunc is what package context looks for in a parent that is not its own: without it,
// each context that is derived from a call would cost a goroutine.
func (c *Call) AfterFunc(f func()) (stop func() bool) {
	c.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = make(map[*func()]struct{})
	}
	c.after[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.after[&f]
		delete(c.after, &f)
		return waits
	}
}
