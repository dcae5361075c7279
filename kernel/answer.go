package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// What a handler emits takes this way: emit checks it and gives it its lineage; settle
// applies what the call has staged together with an outcome; the origin of the call
// sends it when the commit is durable.

// An Origin is where calls come from, and where their answers go: a connection, or what has
// called within the process.
type Origin interface {
	// Sender returns where messages of the connection come from. cause is the causation of a
	// request; "" for messages that ask nothing.
	Sender(cause message.ID) Sender

	// Post sends a message, with what Admit was given, when a commit, which may be nil, is
	// durable, and after everything that the same goroutine has posted before. If the commit
	// fails, an error is sent in the place of an outcome, and nothing in that of an event, as by
	// [Kernel.SendDecided]. The message's data may be overwritten when Post has returned.
	Post(send Emit, m message.Message, commit *store.Commit)
}

// abandon answers for a call whose batch the store does not take in time. A call that is settled has its answer.
func (c *Call) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() {
		return
	}
	e := c.tooLate()
	if c.outcome.Kind == message.KindReply {
		e = message.Errorf(504, "%s is not known to have happened: the store did not take it within %v", c.request.Type, c.timeout.Round(time.Millisecond))
	}
	m := c.request.Fail(e)
	c.stamp(&m, time.Now())
	c.Record(m, c.way(Out))
	c.end()
	c.origin.Post(c.send, m, nil)
}

// emit sends a message of the handler, or of the kernel in its place. What comes after the
// deadline is dropped, and the outcome is a 504, also if the timer that is to call Expire is late.
func (c *Call) emit(m message.Message) {
	if c.syscall.Output == schema.Any && m.Kind == message.KindReply {
		c.k.refer(c, c.syscall, &m)
	}
	now := time.Now()
	if !now.Before(c.deadline) {
		c.Expire()
		return
	}
	c.emitAt(now, &m)
}

// emitAt sends events that the definition names, and one outcome.
func (c *Call) emitAt(now time.Time, m *message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() {
		if m.Kind.Answers() && !c.expired {
			c.logError("handler gave a second outcome; it is dropped")
		}
		return
	}
	if c.overtaken != nil && !c.expired || c.applying {
		return // about a change that was not made, or too late
	}
	if problem := c.check(m); problem != "" {
		c.logError(problem)
		*m = c.request.Fail(internalError(c.request.Type))
	}
	if m.Kind == message.KindError && c.syscall.Provider != BuiltIn {
		c.hideSecrets(m)
	}
	c.stamp(m, now)
	if m.Kind.Answers() {
		c.outcome = *m
		c.settle()
		return
	}
	c.postEvent(*m)
}

// settle applies what the call has staged together with the outcome, and posts the delayed
// events and the outcome. It is called with mu held.
func (c *Call) settle() {
	commit, err := c.commitWith(&c.outcome)
	if c.settled.Load() {
		c.decide(commit, err)
		return // the commit took too long, and abandon has answered
	}
	if err == errAgain {
		return
	}
	if err != nil {
		c.published, c.delayed = nil, nil
		c.outcome = c.failure(err)
		c.stamp(&c.outcome, time.Now())
		c.recordOutcome(&c.outcome)
	}
	c.end()
	changed := commit != nil && err == nil
	late := c.expired && c.outcome.Kind == message.KindError
	commit = lastOf(c.nested, commit)
	if !changed && !late {
		commit = c.fence(commit)
	}
	commit = c.decide(commit, err)
	for _, event := range c.delayed {
		c.origin.Post(c.send, event, commit)
	}
	c.origin.Post(c.send, c.outcome, commit)
}

// end marks the call as settled, and ends its idempotent run, its turn to write and its context. It is called
// with mu held.
func (c *Call) end() {
	c.settled.Store(true)
	c.k.writers.leave(c.first)
	c.first = 0
	if c.run != nil {
		c.run.End()
	}
	if c.done != nil {
		c.close(context.Canceled)
	}
}

// stamp gives what the handler emits its lineage, an id and a time.
func (c *Call) stamp(m *message.Message, now time.Time) {
	m.Metadata.Causation = c.request.Metadata.ID
	m.Metadata.Correlation, m.Metadata.Inherited, m.Metadata.Extra = c.request.Metadata.Correlation, c.request.Metadata.Inherited, c.request.Metadata.Extra
	if m.Kind.Answers() {
		m.Type = c.request.Type
	} else if m.Metadata.Correlation == "" {
		m.Metadata.Correlation = c.request.Caused().Correlation
	}
	if m.Metadata.ID == c.request.Metadata.ID { // made by changing the request
		m.Metadata.ID, m.Metadata.Timestamp = "", 0
	}
	c.k.stampAt(now, m)
}

// postEvent sends an event. After something was staged the event waits for the commit.
func (c *Call) postEvent(m message.Message) {
	if c.staged != nil {
		m.Data = bytes.Clone(m.Data)
		c.delayed = append(c.delayed, m)
		return
	}
	if c.syscall.Answers != FromJournal {
		c.Record(m, c.way(Out))
	}
	c.post(m)
}

// check checks what a handler emits and returns what is wrong with it, or "".
func (c *Call) check(m *message.Message) string {
	switch m.Kind {
	case message.KindReply:
	case message.KindError:
		e := m.Err
		if e == nil {
			if problem := checkData(m, c.request.Data); problem != "" {
				return problem
			}
			var err error
			if e, err = message.ParseError(m.Data); err != nil {
				return "handler failed with data that is not an error: " + err.Error()
			}
		}
		m.Data = e.Append(nil) // the texts are cut to fit into a line
		return ""
	case message.KindEvent:
		declared := func(e EventDefinition) bool { return e.Type == m.Type }
		if !Universal(m.Type) && c.syscall.Provider == BuiltIn && !slices.ContainsFunc(c.syscall.Emits, declared) {
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
	if c, ok := CallOf(ctx); ok && !known {
		c.logError("handler failed", "error", err)
	}
	emit(m.Fail(e))
}
