package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/jsonscan"
	"kernos/kernel/idempotency"
	"kernos/message"
	"kernos/store"
)

// A Call is one command or query on its way: [Kernel.Admit] makes it, Run runs its handler.
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
	handler Handler
	request message.Message
	send    Emit   // where events and the outcome go
	origin  Origin // through which they go; nil for a nested call
	caller  *Call  // the call that made this one, or nil

	timeout  time.Duration
	deadline time.Time
	depth    int // of nested calls

	mu      sync.Mutex
	settled atomic.Bool // changed with mu held
	expired bool
	done    chan struct{}        // made by Done
	err     error                // why done is closed
	release func() bool          // ends what Done has set up
	after   map[*func()]struct{} // called when done is closed
	outcome message.Message

	confided atomic.Pointer[confidence] // the secrets of its request; nil until they were looked for
	harmless atomic.Bool                // its definition takes nothing out of the request when that is recorded

	effect
}

// An Origin is where calls come from, and where their answers go: a connection.
type Origin interface {
	// Post sends a message, with what Admit was given, when a commit, which may be nil, is
	// durable, and after everything that the same goroutine has posted before. If the commit
	// fails, [Kernel.Undone] is sent in the place of an outcome, and nothing in that of an
	// event. The message's data may be overwritten when Post has returned.
	Post(send Emit, m message.Message, commit *store.Commit)
}

// effect is what a call changes. Most calls change nothing.
type effect struct {
	staged    *store.Batch      // applied with the reply
	published []message.Message // events that are recorded with the reply
	later     []message.Message // events that are sent with the reply
	owed      *store.Commit     // of a nested call: the outcome waits for it too
	run       *idempotency.Run  // if the call has an idempotency key
	unkept    bool              // the outcome is not kept under that key
	overtaken bool              // a condition did not hold: the handler runs again
	deciding  bool              // the outcome is given, and on its way to the store
	commit    *store.Commit     // of what was staged
}

// callKey is the key under which a context finds its call.
type callKey struct{}

// Request is the message that the call answers. It must not be changed.
func (c *Call) Request() *message.Message { return &c.request }

// Syscall is what the call asks for.
func (c *Call) Syscall() *Syscall { return c.syscall }

// Timeout is how long the call may take.
func (c *Call) Timeout() time.Duration { return c.timeout }

// Root is the call from outside that has caused this one, or this one.
func (c *Call) Root() *Call {
	for c.caller != nil {
		c = c.caller
	}
	return c
}

// Origin is where the call came from, nil for a nested one; Send is what Admit was given.
func (c *Call) Origin() Origin { return c.origin }

// Send is what Admit was given to send answers with.
func (c *Call) Send() Emit { return c.send }

// CallOf returns the call whose handler was given ctx.
func CallOf(ctx context.Context) (*Call, bool) {
	c, ok := ctx.Value(callKey{}).(*Call)
	return c, ok
}

// Detach gives the call a copy of its request, whose memory is about to be used again. It must
// not run yet.
func (c *Call) Detach() { c.request = c.request.Clone() }

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

// Run runs the handler, again if it was overtaken. There is an outcome when it returns.
// Somebody else must call Expire at the deadline.
func (c *Call) Run() {
	if c.idempotent() && !c.beginRun() {
		return
	}
	for range maxAttempts {
		if c.runOnce(); !c.startOver() {
			return
		}
	}
	c.giveUp("%s was overtaken %d times by others who changed the same; try again", c.request.Type, maxAttempts)
}

// giveUp settles a call that can't have its way, with an error that is not remembered.
func (c *Call) giveUp(format string, args ...any) {
	c.settleAs(c.request.Fail(message.Errorf(503, format, args...)))
}

// startOver reports whether the handler has to run again, and forgets what it has done.
func (c *Call) startOver() bool {
	c.mu.Lock()
	again := c.overtaken && !c.settled.Load()
	called := c.owed != nil
	if again && !called {
		c.overtaken, c.staged, c.published, c.later = false, nil, nil, nil
	}
	c.mu.Unlock()
	switch {
	case !again:
		return false
	case called: // and what it has called must not happen twice
		c.giveUp("%s was overtaken by others who changed the same, after it had changed something else; look, and decide anew", c.request.Type)
		return false
	case c.run != nil:
		return c.look()
	}
	return true
}

func (c *Call) runOnce() {
	returned := false
	defer func() {
		if returned {
			return
		}
		c.panicked(recover()) // or the handler has ended its goroutine
	}()
	c.handler(c, c.request, c.emit)
	returned = true
	if !c.settled.Load() && !c.lost() {
		c.k.opts.Log.Error("handler returned without an outcome", "type", c.request.Type, "id", c.request.Metadata.ID)
		c.fail("%s ended without an outcome", c.request.Type)
	}
}

// panicked answers for a handler that has.
func (c *Call) panicked(cause any) {
	c.k.opts.Log.Error("handler panicked", "type", c.request.Type, "id", c.request.Metadata.ID,
		"panic", cause, "stack", string(debug.Stack()))
	c.fail("Internal error in %s; the kernel's log has the details", c.request.Type)
}

// lost reports whether the handler was overtaken by another.
func (c *Call) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overtaken
}

// fail settles the call with a 500, if it is not settled.
func (c *Call) fail(format string, args ...any) {
	if c.settled.Load() {
		return
	}
	c.emit(c.request.Fail(&message.Error{Code: 500, Message: fmt.Sprintf(format, args...)}))
}

// Expire settles a call that has run out of time, and ends its handler's context.
func (c *Call) Expire() {
	c.mu.Lock()
	c.close(context.DeadlineExceeded)
	late := !c.settled.Load()
	c.expired = late
	deciding := c.deciding
	c.mu.Unlock()
	if !late {
		return
	}
	c.k.opts.Log.Warn("call not done in time", "type", c.request.Type, "id", c.request.Metadata.ID, "timeout", c.timeout)
	if deciding {
		c.abandon()
		return
	}
	c.Fail(message.Errorf(504, "%s was not done within %v", c.request.Type, c.timeout.Round(time.Millisecond)))
}

// Fail settles the call with an error, if it is not settled.
func (c *Call) Fail(e *message.Error) { c.emit(c.request.Fail(e)) }

// abandon answers for a call whose change hangs on its way to the store.
func (c *Call) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() {
		return
	}
	m := c.request.Fail(message.Errorf(504, "%s is not known to have happened: the store did not take it within %v", c.request.Type, c.timeout.Round(time.Millisecond)))
	c.stamp(&m)
	c.Record(m, c.outWay())
	c.end()
	c.post(m, nil)
}

// emit is the Emit of the call's handler: it lets out events that the definition names, and
// one outcome.
func (c *Call) emit(m message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() {
		if m.Kind.Answers() && !c.expired {
			c.k.opts.Log.Error("handler gave a second outcome; it is dropped", "type", c.request.Type, "id", c.request.Metadata.ID)
		}
		return
	}
	if c.overtaken && !c.expired || c.deciding {
		return // it speaks of what did not come about, or too late
	}
	if problem := c.check(&m); problem != "" {
		c.k.opts.Log.Error(problem, "type", c.request.Type, "id", c.request.Metadata.ID)
		m = c.request.Fail(message.Errorf(500, "Internal error in %s; the kernel's log has the details", c.request.Type))
	}
	if m.Kind == message.KindError && c.syscall.Provider == Program {
		c.keepConfidence(&m)
	}
	c.stamp(&m)
	if m.Kind.Answers() {
		c.outcome = m
		c.settle()
		return
	}
	c.notify(m)
}

// settle makes the outcome and what the call has staged one, and posts both. It is called
// with mu held.
func (c *Call) settle() {
	commit, err := c.commitWith(&c.outcome)
	if c.settled.Load() {
		return // it took too long, and was answered for
	}
	if err == errAgain {
		c.overtaken = true
		return
	}
	if err != nil {
		c.published, c.later = nil, nil
		c.outcome = c.failure(err)
		c.stamp(&c.outcome)
		c.recordOutcome(&c.outcome)
	}
	c.end()
	commit = lastOf(c.owed, commit)
	for _, event := range c.later {
		c.post(event, commit)
	}
	c.post(c.outcome, commit)
}

// end notes that there is an outcome, and releases what waits for it. It is called with mu
// held.
func (c *Call) end() {
	c.settled.Store(true)
	if c.run != nil {
		c.run.End()
	}
	if c.done != nil {
		c.close(context.Canceled)
	}
}

// stamp gives what the handler emits its lineage, an id and a time.
func (c *Call) stamp(m *message.Message) {
	m.Metadata.Causation = c.request.Metadata.ID
	m.Metadata.Correlation = c.request.Metadata.Correlation
	if m.Kind.Answers() {
		m.Type = c.request.Type
	} else if m.Metadata.Correlation == "" {
		m.Metadata.Correlation = string(c.request.Metadata.ID) // the workflow begins with it
	}
	if m.Metadata.ID == c.request.Metadata.ID { // made by changing the request
		m.Metadata.ID, m.Metadata.Timestamp = "", 0
	}
	c.k.Stamp(m)
}

// notify sends an event, or keeps it if it tells of something that has not happened yet.
func (c *Call) notify(m message.Message) {
	if c.staged != nil {
		c.putOff(m)
		return
	}
	if c.syscall.Answers != FromJournal {
		c.Record(m, c.outWay())
	}
	c.post(m, c.owed)
}

// post sends a message when a commit, which may be nil, is durable. A nested call leaves
// the waiting to its caller.
func (c *Call) post(m message.Message, commit *store.Commit) {
	if c.origin != nil {
		c.origin.Post(c.send, m, commit)
		return
	}
	if m.Kind.Answers() {
		c.caller.adopt(commit)
	}
	c.send(m)
}

// check checks what a handler emits and returns what is wrong with it, or "".
func (c *Call) check(m *message.Message) string {
	switch m.Kind {
	case message.KindReply:
	case message.KindError:
		if m.Err != nil { // made by Fail, and perhaps changed since
			m.Data = m.Err.Append(nil)
			return ""
		}
		if problem := checkData(m, c.request.Data); problem != "" {
			return problem
		}
		e, err := message.ParseError(m.Data)
		if err != nil {
			return "handler failed with data that is no error: " + err.Error()
		}
		m.Data = e.Append(nil) // with texts that fit into a line
		return ""
	case message.KindEvent:
		declared := func(e EventDefinition) bool { return e.Type == m.Type }
		if m.Type != Progressed && c.syscall.Provider == BuiltIn && !slices.ContainsFunc(c.syscall.Emits, declared) {
			return fmt.Sprintf("handler emitted the event %s, which its definition does not name", m.Type)
		}
	default:
		return fmt.Sprintf("handler emitted a %s; it may emit events, a reply or an error", m.Kind)
	}
	return checkData(m, c.request.Data)
}

var scanners = sync.Pool{New: func() any { return new(jsonscan.Scanner) }}

// checkData makes sure that data is JSON on one line. Data that came with the
// request was checked then.
func checkData(m *message.Message, request json.RawMessage) string {
	if len(m.Data) == 0 {
		m.Data = json.RawMessage("null")
		return ""
	}
	if len(m.Data) == len(request) && &m.Data[0] == &request[0] {
		return ""
	}
	s := scanners.Get().(*jsonscan.Scanner)
	err := s.Text(m.Data)
	scanners.Put(s)
	if err != nil {
		return "handler emitted data that is not JSON: " + err.Error()
	}
	if bytes.IndexByte(m.Data, '\n') >= 0 {
		m.Data = jsonscan.AppendCompact(nil, m.Data)
	}
	return ""
}

// Fail is how a raw handler fails with any error. The text of an error that is not
// meant for the caller goes to the log.
func Fail(ctx context.Context, m message.Message, emit Emit, err error) {
	e, known := message.ErrorOf(err)
	if !known {
		if c, ok := ctx.Value(callKey{}).(*Call); ok {
			c.k.opts.Log.Error("handler failed", "type", m.Type, "id", m.Metadata.ID, "error", err)
		}
	}
	emit(m.Fail(e))
}
