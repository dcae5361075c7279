package kernel

import (
	"encoding/json"
	"slices"

	"kernos/message"
	"kernos/store"
)

// A Recorder keeps what passes through a kernel: the journal. It is safe for concurrent
// use and copies what it keeps. It is given messages as they are, and must keep of their
// data only what [Redact] leaves.
type Recorder interface {
	// Record records a message. It does not wait for the disk. It may wait for other
	// records to be written; that bounds its memory.
	Record(Record)

	// RecordWith records messages together with the batch that one of them caused: it
	// adds to the batch what makes the records survive whatever the batch survives,
	// applies it, and records them if that went well. The first of them, the request,
	// has been given to Record before. The batch must not be used afterwards.
	RecordWith(b *store.Batch, rs []Record, apply func() error) error
}

// A Record is a message that passes.
type Record struct {
	Message *message.Message
	Way     Way

	// Syscall is the one that the message asks for, answers, or comes from. Its
	// definition decides what must not be recorded. Nil means that there is none: a message
	// of an unknown type, an event from a connection.
	Syscall *Syscall

	// Refused means that the message was never given to a handler, or is the answer to
	// such a message. Its content may be anything, and its data is not recorded;
	// that of an error that answers it is.
	Refused bool

	// Sender is the sender of the message or, if it is an answer, of the request.
	Sender Sender

	// Claim means that the message is only a claim of a program: a reply or an error that a
	// connection has sent without being asked, which answers nothing, or an event of a type
	// that is the kernel's.
	Claim bool

	// call is the one that the message belongs to, or nil. The secrets of its request are
	// not recorded, wherever they appear.
	call *Call
}

// A Way is where a message comes from and goes to.
type Way byte

// The ways of a message.
const (
	In     Way = 1 + iota // from a connection
	Out                   // to a connection
	Within                // between handlers, or from a handler to watchers
)

// way returns the way of a message of the call, given the way that it has if a connection sends or
// gets it: all messages of a nested call are within.
func (c *Call) way(connected Way) Way {
	if c.caller != nil || c.work != nil {
		return Within
	}
	return connected
}

// recorder returns what keeps the messages of the call, or nil if nothing does.
func (c *Call) recorder() Recorder {
	if c.unrecorded() {
		return nil
	}
	return c.k.opts.Recorder
}

// unrecorded reports whether the call isn't recorded: see [Recording]. Neither is what a query asks by itself that isn't recorded.
func (c *Call) unrecorded() bool {
	if c.caller == nil || c.request.Kind != message.KindQuery {
		return c.syscall.unrecorded(&c.request, c.sender)
	}
	looks := c.syscall.Recording == InWorkflows || c.Root().request.Metadata.Repeated
	return looks && c.caller.request.Kind == message.KindQuery && c.caller.unrecorded()
}

// Record records a message that belongs to the call. Of a reply that breaks the syscall's
// schema nothing is kept: its secrets may be anywhere.
func (c *Call) Record(m message.Message, way Way) {
	if c.recorder() == nil || m.Kind == message.KindEvent && c.unrecordedEvent(m.Type) {
		return
	}
	misplaced := way == In && m.Kind == message.KindReply && c.syscall.Output.Sensitive() && c.syscall.Output.Validate(m.Data) != nil
	claim := m.Kind == message.KindEvent && c.syscall.Provider == Program && c.k.claims(&m)
	c.k.recordCopy(m, Record{Way: way, Syscall: c.syscall, Refused: misplaced, Sender: c.sender, Claim: claim, call: c})
}

// Log records an event that isn't sent to the caller. If the call is a part of some work, the work gets
// it too.
func (c *Call) Log(event message.Message) {
	c.k.Stamp(&event)
	c.Record(event, Within)
	if o, ok := c.Root().origin.(*workOrigin); ok && o.event != nil {
		event.Data = c.small(&event).Data
		event.Data, _ = Redact(Record{Message: &event, Syscall: c.syscall, call: c})
		o.event(event)
	}
}

// unrecordedEvent reports whether an event of the call isn't recorded.
func (c *Call) unrecordedEvent(t message.Type) bool {
	return c.taken || slices.ContainsFunc(c.syscall.Emits, func(e EventDefinition) bool { return e.Unrecorded && e.Type == t })
}

// Brief returns the data of a record that [Redact] has left as the journal keeps it, and whether
// it differs.
func (r *Record) Brief(data json.RawMessage) (json.RawMessage, bool) {
	if r.Refused || r.Syscall == nil || r.Message.Kind == message.KindError || r.Message.Kind == message.KindEvent {
		return data, false
	}
	brief := r.Syscall.Brief
	if r.call != nil {
		brief = r.call.brief()
	}
	if brief == nil {
		return data, false
	}
	return callRedact(brief, data)
}

// brief returns what shortens the data of the call's request and of its reply for the record, or nil.
func (c *Call) brief() func(json.RawMessage) json.RawMessage {
	if o, ok := c.origin.(*workOrigin); ok && o.brief != nil {
		return o.brief
	}
	return c.syscall.Brief
}

// claims reports whether a message that a program has sent without being asked states what only
// the kernel can know: that a request was answered, or what has happened in the kernel.
func (k *Kernel) claims(m *message.Message) bool {
	return m.Kind.Answers() || m.Kind == message.KindEvent && !Universal(m.Type) && k.registry.BuiltIn(m.Type)
}

// cancelled is the code of the error for a call that its caller has cancelled.
const cancelled = 499

// recordOutcome records the outcome of a call without an effect, and what it published. The failure of a call that isn't
// recorded is, with its request, unless the caller has cancelled it.
func (c *Call) recordOutcome(m *message.Message) {
	r := c.recorder()
	if r == nil && m.Kind == message.KindError && m.Failure().Code != cancelled && c.k.opts.Recorder != nil {
		r, c.published = c.k.opts.Recorder, nil
		r.Record(Record{Message: &c.request, Way: c.way(In), Syscall: c.syscall, Sender: c.sender, call: c})
	}
	if r == nil {
		return
	}
	for i := range c.published {
		c.k.Stamp(&c.published[i])
		r.Record(Record{Message: &c.published[i], Way: Within, Syscall: c.syscall, Sender: c.sender, call: c})
	}
	r.Record(Record{Message: c.recordable(m), Way: c.way(Out), Syscall: c.syscall, Sender: c.sender, call: c})
}

// Record records a message that belongs to no call.
func (k *Kernel) Record(m message.Message, way Way, from Sender) {
	k.recordCopy(m, Record{Way: way, Sender: from})
}

// recordCopy records a message that is not part of anything that lives longer, without
// making it escape where nothing is recorded.
func (k *Kernel) recordCopy(m message.Message, r Record) {
	if k.opts.Recorder != nil {
		kept := m
		r.Message = &kept
		k.opts.Recorder.Record(r)
	}
}

// recordRefused records what could be read of an invalid message: its type and its lineage,
// and nothing of its data. Without a kind, a type and an id it could not be found again.
func (k *Kernel) recordRefused(m *message.Message, from Sender) {
	if k.opts.Recorder == nil || m.Type == message.ValidationFailed || !m.Kind.Valid() || m.Metadata.ID == "" {
		return
	}
	stub := message.Message{Kind: message.KindEvent, Type: m.Type, Data: []byte(RefusedData)}
	stub.Metadata = message.Metadata{ID: m.Metadata.ID, Correlation: m.Metadata.Workflow(), Causation: m.Metadata.Causation}
	k.Stamp(&stub)
	if stub.Validate() != nil { // checked as an event, which needs fewer members than an answer
		return
	}
	stub.Kind = m.Kind
	k.recordCopy(stub, Record{Way: In, Refused: true, Sender: from})
}
