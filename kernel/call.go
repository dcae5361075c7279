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
	"kernos/message"
	"kernos/store"
)

// call is one command or query on its way. It is also the context that its handler
// gets: most handlers never look at it, so its channel and its timer are made when
// somebody asks for them.
//
// Invariants:
//
//	C1  exactly one outcome is sent for a call (settled goes from false to true once)
//	C2  nothing is sent for a call after its outcome
//	C3  what is sent for a call carries its lineage, an id and a time
type call struct {
	k       *Kernel
	parent  context.Context
	syscall *Syscall
	handler Handler
	request message.Message
	send    Emit     // where events and the outcome go
	box     *outbox  // through which they go; nil for a nested call
	caller  *call    // the call that made this one, or nil
	session *session // the connection that it came over, or nil

	timeout  time.Duration
	deadline time.Time
	depth    int // of nested calls

	share   sync.Once // gives the place back that a slow call has among those of all connections
	aside   *aside    // finished after the outcome, if the call is unattended
	inquiry *inquiry  // told when such a call is cancelled, or late; or nil

	mu         sync.Mutex
	unattended bool        // its handler has returned: see later.go
	patient    bool        // but whoever emits may wait
	settled    atomic.Bool // changed with mu held
	expired    bool
	done       chan struct{}        // made by Done
	err        error                // why done is closed
	release    func()               // what Done set up
	after      map[*func()]struct{} // called when done is closed
	outcome    message.Message

	confided atomic.Pointer[confidence] // what it was told in confidence; nil until somebody has looked
	harmless atomic.Bool                // its definition takes nothing out of the request when that is recorded

	effect
}

// effect is what a call changes. Most calls change nothing.
type effect struct {
	staged    *store.Batch      // applied with the reply
	published []message.Message // events that are recorded with the reply
	later     []message.Message // events that are sent with the reply
	owed      *store.Commit     // of a nested call: the outcome waits for it too
	flight    *flight           // if the call has an idempotency key
	replayed  bool              // the outcome is that of an earlier call
	overtaken bool              // a condition did not hold: the handler runs again
	deciding  bool              // the outcome is given, and on its way to the store
	commit    *store.Commit     // of what was staged
}

// maxDepth is how deep calls may nest.
const maxDepth = 32

// callKey is the key under which a context finds its call.
type callKey struct{}

// begin starts the time that the call has.
func (c *call) begin() {
	// Reckoned from the kernel's start: half the price of asking for the time of day.
	c.deadline = c.k.begun.Add(time.Since(c.k.begun) + c.timeout)
	if d, ok := c.parent.Deadline(); ok && d.Before(c.deadline) {
		c.timeout = max(time.Until(d), 0)
		c.deadline = d
	}
}

// runWithin runs the handler and returns when it has returned, or at the deadline.
// Either way there is an outcome by then. A call that is late before it begins, on
// behalf of a handler that was left behind, does not begin.
func (c *call) runWithin() {
	if !time.Now().Before(c.deadline) {
		c.expire()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run()
	}()
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.expire()
	}
}

// run runs the handler, again if it was overtaken, and sees to it that there is an outcome.
func (c *call) run() {
	if c.idempotent() && !c.embark() {
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
func (c *call) giveUp(format string, args ...any) {
	c.settleAs(c.request.Fail(message.Errorf(503, format, args...)))
}

// startOver reports whether the handler has to run again, and forgets what it has done.
func (c *call) startOver() bool {
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
	case c.flight != nil:
		return c.look()
	}
	return true
}

func (c *call) runOnce() {
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
func (c *call) panicked(cause any) {
	c.k.opts.Log.Error("handler panicked", "type", c.request.Type, "id", c.request.Metadata.ID,
		"panic", cause, "stack", string(debug.Stack()))
	c.fail("Internal error in %s; the kernel's log has the details", c.request.Type)
}

// lost reports whether the handler was overtaken by another.
func (c *call) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overtaken
}

// fail settles the call with a 500, if it is not settled.
func (c *call) fail(format string, args ...any) {
	if c.settled.Load() {
		return
	}
	c.emit(c.request.Fail(&message.Error{Code: 500, Message: fmt.Sprintf(format, args...)}))
}

// expire settles a call that has run out of time, and tells its handler.
func (c *call) expire() {
	c.mu.Lock()
	asked := c.inquiry
	c.inquiry = nil
	c.close(context.DeadlineExceeded)
	late := !c.settled.Load()
	c.expired = late
	deciding := c.deciding
	c.mu.Unlock()
	if !late {
		return
	}
	if asked != nil {
		asked.forsaken(context.DeadlineExceeded)
	}
	c.k.opts.Log.Warn("call not done in time", "type", c.request.Type, "id", c.request.Metadata.ID, "timeout", c.timeout)
	if deciding {
		c.abandon()
		return
	}
	c.emit(c.request.Fail(message.Errorf(504, "%s was not done within %v", c.request.Type, c.timeout.Round(time.Millisecond))))
}

// abandon answers for a call whose change hangs on its way to the store.
func (c *call) abandon() {
	c.mu.Lock()
	if c.settled.Load() {
		c.mu.Unlock()
		return
	}
	m := c.request.Fail(message.Errorf(504, "%s is not known to have happened: the store did not take it within %v", c.request.Type, c.timeout.Round(time.Millisecond)))
	c.stamp(&m)
	_, out := c.ways()
	c.k.recordCopy(m, Record{Way: out, Syscall: c.syscall})
	c.settle()
	c.post(m, nil)
	c.told()
}

// emit is the Emit of the call's handler.
func (c *call) emit(m message.Message) {
	c.mu.Lock()
	c.take(m)
	c.told()
}

// told sees to what follows when something was posted: somebody has to for a call that is
// unattended. It is called with mu held, and lets go of it.
func (c *call) told() {
	if !c.unattended {
		c.mu.Unlock()
		return
	}
	var ended *aside
	var asked *inquiry
	if c.settled.Load() {
		ended, c.aside = c.aside, nil
		asked, c.inquiry = c.inquiry, nil
	}
	c.mu.Unlock()
	if ended != nil {
		ended.finish()
	} else {
		c.box.push()
	}
	if asked != nil {
		asked.forsaken(context.Canceled) // whoever was asked may not have answered
	}
}

// take takes what the handler emits. It is called with mu held.
func (c *call) take(m message.Message) {
	if c.settled.Load() {
		if m.Kind.Answers() && !c.expired {
			c.k.opts.Log.Error("handler gave a second outcome; it is dropped", "type", c.request.Type, "id", c.request.Metadata.ID)
		}
		return
	}
	if c.overtaken && !c.expired || c.deciding {
		return // it speaks of what did not come about, or too late
	}
	if problem := c.vet(&m); problem != "" {
		c.k.opts.Log.Error(problem, "type", c.request.Type, "id", c.request.Metadata.ID)
		m = c.request.Fail(message.Errorf(500, "Internal error in %s; the kernel's log has the details", c.request.Type))
	}
	if m.Kind == message.KindError && c.syscall.Provider == Program {
		c.keepConfidence(&m)
	}
	c.stamp(&m)
	if !m.Kind.Answers() {
		c.notify(m)
		return
	}
	c.outcome = m
	commit, err := c.decide()
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
		c.k.recordOutcome(c, &c.outcome)
	}
	c.settle()
	commit = lastOf(c.owed, commit)
	for _, event := range c.later {
		c.post(event, commit)
	}
	c.post(c.outcome, commit)
}

// decide makes the outcome and what the call has staged one. The disk may take its time,
// so the lock is let go: a deadline must be able to pass. It is called with mu held.
func (c *call) decide() (*store.Commit, error) {
	if c.staged == nil && c.flight == nil {
		return c.settleWith(&c.outcome)
	}
	c.deciding = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.deciding = false
	}()
	return c.settleWith(&c.outcome)
}

// stamp gives what the handler emits its lineage, an id and a time.
func (c *call) stamp(m *message.Message) {
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
func (c *call) notify(m message.Message) {
	if c.staged != nil {
		c.putOff(m)
		return
	}
	if c.syscall.Answers != FromJournal {
		_, out := c.ways()
		c.k.recordCopy(m, Record{Way: out, Syscall: c.syscall, call: c})
	}
	c.post(m, c.owed)
}

// post sends a message when a commit, which may be nil, is durable. A nested call leaves
// the waiting to its caller.
func (c *call) post(m message.Message, commit *store.Commit) {
	switch {
	case c.box != nil && c.unattended && !c.patient:
		c.box.postPromptly(c.send, m, commit)
		return
	case c.box != nil:
		c.box.post(c.send, m, commit)
		return
	}
	if m.Kind.Answers() && c.caller != nil {
		c.caller.adopt(commit)
	}
	c.send(m)
}

// vet checks what a handler emits and returns what is wrong with it, or "".
func (c *call) vet(m *message.Message) string {
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

// settle notes the outcome and releases what Done has set up. It is called with mu
// held.
func (c *call) settle() {
	c.settled.Store(true)
	if c.flight != nil {
		c.k.land(c.flight)
	}
	if c.done != nil {
		c.close(context.Canceled)
	}
}

// Fail is how a raw handler fails with any error. The text of an error that is not
// meant for the caller goes to the log.
func Fail(ctx context.Context, m message.Message, emit Emit, err error) {
	e, known := message.ErrorOf(err)
	if !known {
		if c, ok := ctx.Value(callKey{}).(*call); ok {
			c.k.opts.Log.Error("handler failed", "type", m.Type, "id", m.Metadata.ID, "error", err)
		}
	}
	emit(m.Fail(e))
}

// nested makes a call on behalf of c.
func (c *call) nested(ctx context.Context, n NewCall) (json.RawMessage, error) {
	t, data := n.Type, n.Data
	if c.depth+1 > maxDepth {
		return nil, message.Errorf(508, "Calls nest deeper than %d: %s calls %s", maxDepth, c.request.Type, t)
	}
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	m := message.Message{Kind: message.KindCommand, Type: t, Data: data, Metadata: c.request.Caused()}
	if n.Correlation != "" {
		m.Metadata.Correlation = n.Correlation
	}
	if s, ok := c.k.registry.Lookup(t); ok {
		m.Kind = s.Kind
	}
	c.k.Stamp(&m)
	if err := m.Validate(); err != nil {
		return nil, err
	}
	m = m.Clone() // its handler may outlive the call, and the caller's data
	var outcome message.Message
	child := c.k.admit(ctx, &m, func(m message.Message) {
		if m.Kind.Answers() {
			outcome = m
			return
		}
		m.Via = append([]message.Type{t}, m.Via...)
		c.forward(m)
	}, nil, c)
	if child != nil {
		child.depth = c.depth + 1
		child.runWithin()
	}
	if outcome.Kind == message.KindReply {
		if n.Kept {
			return c.k.small(child, &outcome).Data, nil
		}
		return outcome.Data, nil
	}
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	e, err := message.ParseError(outcome.Data)
	if err != nil {
		return nil, err
	}
	return nil, e
}

// mayCommand reports whether the call may call commands: a query may not, since it may
// not change anything.
func (c *call) mayCommand() bool {
	return c.syscall.Kind == message.KindCommand || c.syscall.Effect == Delegated && c.request.Kind == message.KindCommand
}

// forward passes an event of a nested call on; it has its lineage already.
func (c *call) forward(m message.Message) {
	c.mu.Lock()
	if !c.settled.Load() {
		c.post(m, c.owed)
	}
	c.told()
}

// The context of the handler.

func (c *call) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	return c.parent.Value(key)
}

func (c *call) Done() <-chan struct{} {
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
		timer := time.AfterFunc(time.Until(c.deadline), func() { c.cancel(context.DeadlineExceeded) })
		stop := context.AfterFunc(c.parent, func() { c.cancel(c.parent.Err()) })
		c.release = func() {
			timer.Stop()
			stop()
		}
	}
	return c.done
}

func (c *call) Err() error {
	if err := c.parent.Err(); err != nil {
		c.cancel(err)
	} else if !time.Now().Before(c.deadline) {
		c.cancel(context.DeadlineExceeded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *call) cancel(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(err)
}

// close is called with mu held.
func (c *call) close(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
		c.release()
	}
	if c.inquiry != nil {
		go c.inquiry.forsaken(err)
		c.inquiry = nil
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// AfterFunc is what package context looks for in a parent that is not its own: without it,
// each context that is derived from a call would cost a goroutine.
func (c *call) AfterFunc(f func()) (stop func() bool) {
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
