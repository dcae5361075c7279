package script

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"kernos/capability/script/engine"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// handler returns the handler of a script: it runs the versions in turn.
func (s *Scripts) handler(sp *split) kernel.Handler {
	return func(ctx context.Context, m message.Message, emit kernel.Emit) {
		v := sp.pick()
		begun := time.Now()
		out, err := s.call(ctx, sp, v, &m, emit)
		v.count(time.Since(begun), err != nil)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(out))
	}
}

// call runs one version for a request.
func (s *Scripts) call(ctx context.Context, sp *split, v *version, m *message.Message, emit kernel.Emit) (json.RawMessage, error) {
	author, err := s.opts.Find(sp.author.ID)
	if err != nil {
		return nil, err
	}
	if author == nil || author.Life().Err() != nil {
		return nil, message.Errorf(403, "%s is code of %s, which was revoked or has expired; the owner can remove it (kernos unregister %s)", v.definition.Type, sp.author, v.definition.Type)
	}
	if !s.isRoot(sp.script) { // it is withdrawn in a moment
		return nil, notServed(ctx, sp.script.name)
	}
	p, err := s.programOf(v)
	if err != nil {
		return nil, err
	}
	c, _ := kernel.CallOf(ctx)
	k, _ := kernel.Of(ctx)
	caller := c.Principal()
	sends := c.Serving(author, c.Sender().Wire(), v.Scope)
	h := &host{k: k, call: c, request: m, stream: kernel.NewStream(m, emit), emit: emit, sends: sends}
	if !author.IsOwner() && author.ID() != caller.ID() {
		if err := kernel.Reaching(ctx, kernel.ToOthers, "code of "+sp.author.String()); err != nil {
			return nil, err
		}
	}
	if err := k.Share(ctx, m.Data, nil, caller, sends.Principal()); err != nil {
		return nil, err
	}
	out, err := s.opts.Engine.Run(ctx, p, m.Data, h, v.Limits.within(c.Asked()).engine())
	if err != nil {
		return nil, outcome(err, caller.IsOwner() || caller.ID() == author.ID())
	}
	if err := checkOutput(v.definition.Type, v.definition.Output, out); err != nil {
		return nil, err
	}
	return out, k.Share(ctx, out, m.Data, sends.Principal(), caller)
}

// programOf returns the program of a version, which is read when it is first called.
func (s *Scripts) programOf(v *version) (*engine.Program, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.program == nil {
		code, err := s.code(v.definition.Type, v)
		if err != nil {
			return nil, err
		}
		v.program = s.opts.Engine.Load(engine.Source{Name: string(v.definition.Type), Code: code, Language: v.Language})
	}
	return v.program, nil
}

// outcome turns the error of a run into the one that the caller gets. An exception is a 500. The author of the code and
// the owner are shown its place in the code, and the line, which may hold what the code keeps to itself.
func outcome(err error, seesCode bool) error {
	if late, ok := errors.AsType[*engine.OvertimeError](err); ok {
		e := late.Public()
		if seesCode {
			e.Message = late.Error()
		}
		e.Message += " (limits.time of the code sets it; without that, a job takes its own timeout)"
		return e
	}
	if fault, ok := errors.AsType[*engine.CodeError](err); ok {
		e := message.Errorf(500, "%s", fault.Public())
		if seesCode {
			e.Message = fault.Error()
		}
		e.Cause = fault.Cause
		return e
	}
	return err
}

// checkOutput returns the error for output that its schema doesn't allow.
func checkOutput(t message.Type, s *schema.Schema, out json.RawMessage) error {
	if s == schema.Any {
		return nil
	}
	err := s.Validate(out)
	if err == nil {
		return nil
	}
	return kernel.InvalidOutput(err, "The code of %s returned what its outputSchema doesn't allow", t)
}

// A host is what the code of one call reaches of the kernel.
type host struct {
	k       *kernel.Kernel
	call    *kernel.Call
	request *message.Message
	stream  *kernel.Stream
	emit    kernel.Emit
	sends   kernel.Sender // of nested calls
}

// Call implements [engine.Host].
func (h *host) Call(ctx context.Context, typ string, data json.RawMessage) (json.RawMessage, error) {
	return kernel.InvokeAs(ctx, kernel.NewCall{Type: message.Type(typ), Data: data, Sender: &h.sends})
}

// Emit implements [engine.Host]. The items of a generator have the type of the syscall.
func (h *host) Emit(_ context.Context, typ string, data json.RawMessage) error {
	t, err := eventType(h.k, h.request.Type, typ)
	if err == nil {
		h.emit(h.request.Event(t, data))
	}
	return err
}

// eventType returns the type of an event that code emits.
func eventType(k *kernel.Kernel, own message.Type, typ string) (message.Type, error) {
	t := message.Type(typ)
	switch {
	case typ == "":
		return own, nil
	case !t.Valid() || t.Domain() == "":
		return "", message.Errorf(422, "kernos.emit: expected a type such as %s.Done, got %q", own.Domain(), message.Clip(typ, 64))
	}
	if e := k.CheckForeignEvent(t); e != nil {
		return "", e
	}
	return t, nil
}

// Progress implements [engine.Host].
func (h *host) Progress(_ context.Context, note string, fraction float64) error {
	h.stream.Progress(note, fraction)
	return nil
}

// Log implements [engine.Host]: it records what code has written to its console.
func (h *host) Log(level, text string) {
	data := struct {
		Level string `json:"level"`
		Text  string `json:"text"`
	}{level, text}
	h.call.Log(h.request.Event(kernel.Logged, jsonvalue.Marshal(data)))
}

var _ engine.Host = (*host)(nil)
