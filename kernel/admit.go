package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"kernos/internal/nearest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// Refuse answers what never becomes a call: a line that is not a message, a message that
// breaks a rule. m is what could be read of it; if that is enough for a record, it gets one.
func (k *Kernel) Refuse(m *message.Message, emit Emit, origin Origin, err error) {
	k.recordRefused(m, senderOf(origin, m))
	k.Reject(m, emit, origin, err)
}

// Reject answers a message that is recorded already, or must not be, and does not become a
// call.
func (k *Kernel) Reject(m *message.Message, emit Emit, origin Origin, err error) {
	origin.Post(emit, k.refusal(m, senderOf(origin, m), Out, err), k.fence(nil))
}

// refusal returns the answer to a message that doesn't become a call, which it records.
func (k *Kernel) refusal(m *message.Message, sender Sender, way Way, err error) message.Message {
	e, _ := message.ErrorOf(err)
	answer := m.Fail(e)
	k.Stamp(&answer)
	k.recordCopy(answer, Record{Way: way, Refused: true, Sender: sender})
	return answer
}

// RecordRefused records a request that a wire answers itself, and the error that answers it. It stamps the request.
func (k *Kernel) RecordRefused(m *message.Message, from Sender, err error) {
	k.Stamp(m)
	k.recordRefused(m, from)
	k.refusal(m, from, Out, err)
}

// senderOf returns the sender of a message that comes through an origin.
func senderOf(o Origin, m *message.Message) Sender {
	if m.Kind.Asks() {
		return o.Sender(m.Metadata.Causation)
	}
	return o.Sender("")
}

// Admit finds the syscall of a message from a connection, which is valid, and makes a call.
// What can't be called is answered; then, and for what asks nothing, it returns nil. The
// message's data must stay as it is until the handler has returned, or until Call.Detach.
func (k *Kernel) Admit(ctx context.Context, m *message.Message, send Emit, origin Origin) *Call {
	return k.admit(ctx, m, send, origin, senderOf(origin, m), parent{})
}

// A parent is what a call that no connection has sent belongs to: the call that made it, or
// some work.
type parent struct {
	call *Call
	work Work
}

func (p parent) set() bool { return p.call != nil || p.work != nil }

// admit is Admit for calls from a connection, which have an origin, and for those that have a parent.
func (k *Kernel) admit(ctx context.Context, m *message.Message, emit Emit, origin Origin, sender Sender, by parent) (c *Call) {
	way, answerWay := In, Out
	if by.set() {
		way, answerWay = Within, Within
	} else if d := &m.Metadata; d.Causation != "" && d.Correlation == "" && d.Inherited == "" && k.opts.Workflow != nil {
		d.Inherited = k.opts.Workflow(d.Causation, sender.Principal())
	}
	if !m.Kind.Asks() {
		if k.opts.Recorder != nil {
			s, _ := k.registry.Lookup(m.Type)
			if s != nil && s.Answers == FromJournal {
				s = nil // a message from a connection was not read from the journal, whatever its type
			}
			k.recordCopy(*m, Record{Way: way, Syscall: s, Sender: sender, Claim: way == In && k.claims(m)})
		}
		return nil
	}
	checked := false
	defer func() {
		if checked {
			return
		}
		k.opts.Log.Error("checking a message panicked", "type", m.Type, "id", m.Metadata.ID,
			"panic", recover(), "stack", string(debug.Stack()))
		k.Refuse(m, emit, origin, internalError(m.Type))
	}()
	var s *Syscall
	var err error
	if m.Type == ThroughType {
		m, emit, err = k.through(m, emit)
	}
	if err == nil {
		s, err = k.check(m, sender, by.set(), by.call)
	}
	checked = true
	if err != nil {
		k.recordCopy(*m, Record{Way: way, Syscall: s, Refused: true, Sender: sender})
		refusal := k.refusal(m, sender, answerWay, err)
		if by.set() {
			origin.Post(emit, refusal, nil)
		} else {
			origin.Post(emit, refusal, k.fence(nil))
		}
		return nil
	}
	if instead := s.instead(m.Type); instead != "" && !by.set() {
		emit(k.Deprecated(m, "the name "+string(m.Type), string(instead), sender))
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = k.limits.Load().Timeout
	}
	c = &Call{k: k, parent: ctx, syscall: s, request: *m, send: emit, origin: origin, sender: sender, caller: by.call, work: by.work, timeout: timeout}
	c.Begin()
	if r := c.recorder(); r != nil {
		r.Record(Record{Message: &c.request, Way: way, Syscall: s, Sender: sender, call: c})
	}
	return c
}

// Check returns the syscall that a call would have as a part of some work now, or the error that the call would be
// refused with. The rules of a session are not asked.
func (k *Kernel) Check(t message.Type, data []byte, from Sender) (*Syscall, error) {
	return k.check(&message.Message{Kind: message.KindCommand, Type: t, Data: data}, From(from.Principal(), from.Wire()), true, nil)
}

// check returns the syscall of a request, and the error for one that can't be called: its type is
// unknown, its sender may not send it, its data is invalid, or a query would call a command. A nested request
// has a parent, which is a call or some work.
func (k *Kernel) check(m *message.Message, sender Sender, nested bool, caller *Call) (*Syscall, error) {
	s, err := k.resolve(m, sender)
	if err != nil {
		return nil, err
	}
	if err := s.permit(m, sender, nested); err != nil {
		return s, err
	}
	if err := s.fit(m); err != nil {
		return s, err
	}
	if k.opts.Rules != nil {
		for _, session := range sender.Sessions() {
			if err := k.opts.Rules.Call(session, s, m, caller != nil); err != nil {
				return s, err
			}
		}
	}
	if query := bindingQuery(sender, caller); query != "" && s.Kind == message.KindCommand {
		return s, message.Errorf(403, "%s is a query and may not call the command %s", query, m.Type)
	}
	return s, nil
}

// bindingQuery returns the query because of which a request was sent, which may not call commands, or "".
func bindingQuery(sender Sender, caller *Call) message.Type {
	if caller != nil && !caller.mayCommand() {
		return caller.request.Type
	}
	return sender.serves()
}

func (k *Kernel) resolve(m *message.Message, from Sender) (*Syscall, error) {
	c := k.registry.state.Load()
	s, ok := c.lookup(m.Type)
	if !ok {
		c = k.registry.complete()
		if s, ok = c.lookup(m.Type); !ok {
			return nil, k.unknown(m, c, from)
		}
	}
	if m.Kind == message.KindQuery && s.Kind == message.KindCommand {
		e := message.Errorf(422, "%s is a command and was sent as a query, which may not change anything; send it with kind command", m.Type)
		e.Reason = message.ErrEnvelope
		return nil, e
	}
	return s, nil
}

// ErrUnknownType is the reason of the error for a type that has no handler.
var ErrUnknownType = errors.New("no handler for the type")

// unknown returns the error for a type that has no handler. It names the types that were probably
// meant, of those that the sender may call, and the way to add a handler.
func (k *Kernel) unknown(m *message.Message, c *catalog, from Sender) error {
	t := m.Type
	text := fmt.Sprintf("No handler for %s", t)
	if why := k.Absent(t, from.Principal()); why != "" {
		return &message.Error{Code: 404, Message: text + ": " + why, Reason: ErrUnknownType}
	}
	builtIn, needs := k.registry.BuiltIn(t), k.opts.Needs
	c = c.of(from.Principal())
	near := View{c}.Near(string(t))
	slices.SortStableFunc(near, func(a, b message.Type) int { return c.misfit(a, m.Data) - c.misfit(b, m.Data) })
	if len(near) > 0 {
		text += ": " + nearest.Ask(near)
	} else if other := (View{c}).Instead(t, needs); other != "" {
		text += ": " + other
	}
	_, registers := c.lookup("Syscall.Register")
	switch {
	case !t.Valid():
		text += " (Syscall.List names the syscalls; a name is Domain.Action, such as Memory.Get)"
	case registers && builtIn:
		text += fmt.Sprintf(" (Syscall.List names the syscalls; a handler can be added with Syscall.Register under a name outside of %s.*)", t.Domain())
	case registers:
		text += fmt.Sprintf(" (Syscall.List names the syscalls; a handler for %s can be added with Syscall.Register)", t)
	default:
		text += fmt.Sprintf(" (Syscall.List names the syscalls; a handler for %s has to be registered in the program that runs the kernel)", t)
	}
	return &message.Error{Code: 404, Message: text, Reason: ErrUnknownType}
}

// misfit is 0 if data fits the input of a type, and 1 if not.
func (c *catalog) misfit(t message.Type, data []byte) int {
	if s, ok := c.lookup(t); ok && s.Input.Validate(data) == nil {
		return 0
	}
	return 1
}

func invalidInput(err error) error {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		return &message.Error{Code: 422, Message: "Schema validation failed: " + err.Error()}
	}
	// The value as a whole has a name in a message.
	named := schema.Invalid{Problems: slices.Clone(invalid.Problems)}
	for i, p := range named.Problems {
		if p.Path == "" && p.Predicate != "" {
			named.Problems[i].Text = "data" + p.Predicate
		}
	}
	first := named.Problems[0]
	return &message.Error{Code: 422, Message: "Schema validation failed: " + named.Error(), Field: first.Path, Expected: first.Expected, Reason: invalid}
}

// InvalidOutput returns the error for an answer that its schema doesn't allow, err being what [schema.Schema.Validate]
// returned. The format names whose answer it is.
func InvalidOutput(err error, format string, args ...any) *message.Error {
	e := message.Errorf(502, format+": %v", append(args, err)...)
	if invalid, ok := errors.AsType[*schema.Invalid](err); ok {
		e.Field, e.Expected = invalid.Problems[0].Path, invalid.Problems[0].Expected
	}
	return e
}

// Target returns the syscall as the rules of a principal see it.
func (d *Definition) Target() principal.Target {
	return principal.Target{Type: d.Type, Kind: d.Kind, Access: d.Access}
}

// permit returns the error for a request that its sender may not send.
func (s *Syscall) permit(m *message.Message, from Sender, nested bool) error {
	if e := from.Principal().May(s.Target()); e != nil {
		return e
	}
	if nested {
		return nil
	}
	if key := m.Metadata.IdempotencyKey; strings.HasPrefix(key, "session/") || strings.HasPrefix(key, "job/") {
		return &message.Error{Code: 403, Field: "metadata.idempotencyKey", Message: "Idempotency keys that begin with session/ or job/ are the kernel's; choose another key"}
	}
	if e := from.Principal().Admit(); e != nil {
		return e
	}
	return nil
}
