// Package kernel routes messages to the syscalls that answer them.
//
// A syscall is data beside a function: a [Definition] and a [Handler]. Typed
// functions become syscalls through [Query] and [Command]; a [Module] is a list of
// syscalls; a [Registry] holds the modules; a [Kernel] answers messages with them:
//
//	registry, err := kernel.NewRegistry(weather.Module(), dice.Module())
//	k := kernel.New(registry, nil)
//	k.Handle(ctx, request, func(m message.Message) { … })
//
// The kernel validates what comes in, gives every answer its lineage, keeps
// deadlines, contains panics, and makes sure that each command and each query gets
// exactly one outcome. It does no input or output of its own.
//
// A connection hands its messages to package connection, which keeps their order and
// lets slow syscalls run beside the others.
package kernel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"kernos/internal/nearest"
	"kernos/kernel/idempotency"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// DefaultTimeout is how long a call may take if neither its definition nor the
// kernel's options say otherwise.
const DefaultTimeout = 30 * time.Second

// Options are the settings of a Kernel. The zero value is usable.
type Options struct {
	// Timeout is how long a call may take if its definition does not say. 0 means
	// DefaultTimeout.
	Timeout time.Duration

	// Middleware wraps every handler; the first is the outermost.
	Middleware []Middleware

	// Blobs takes what is too large for a line. Nil means that such a reply is an
	// error.
	Blobs Blobs

	// Store keeps what syscalls change. Nil means that those that change something
	// durable fail, and commands with an idempotency key too.
	Store store.Store

	// Recorder keeps every message that passes. Nil means that nobody does.
	Recorder Recorder

	// IdempotencyTTL is how long the outcome of a command with an idempotency key is
	// kept. 0 means DefaultIdempotencyTTL.
	IdempotencyTTL time.Duration

	// InFlight is how many slow calls of one connection run at once, and InFlightAll those
	// of all connections. 0 means DefaultInFlight and DefaultInFlightAll.
	InFlight, InFlightAll int

	// Log is for the operator: what callers must not see. Nil means silence.
	Log *slog.Logger
}

// A Kernel answers messages. It is safe for concurrent use.
type Kernel struct {
	registry *Registry
	opts     Options
	ids      *idSource
	begun    time.Time
	wrapped  atomic.Pointer[wrapping]
	runs     *idempotency.Runs // nil without a store
	limits   atomic.Pointer[Limits]

	connections Connections

	life context.Context // ends when the kernel stops
	stop context.CancelFunc

	own atomic.Pointer[ownEvents]
}

// wrapping is the handlers of one catalog with the middleware around them.
type wrapping struct {
	of       *catalog
	handlers map[*Syscall]Handler
}

// New returns a kernel that serves what is in the registry, now and later. Nil
// options mean defaults.
func New(r *Registry, opts *Options) *Kernel {
	k := &Kernel{registry: r, ids: newIDSource(), begun: time.Now()}
	if opts != nil {
		k.opts = *opts
	}
	if k.opts.Store != nil {
		k.runs = idempotency.New(k.opts.Store, cmp.Or(k.opts.IdempotencyTTL, DefaultIdempotencyTTL))
	}
	k.SetLimits(Limits{Timeout: k.opts.Timeout, InFlight: k.opts.InFlight, InFlightAll: k.opts.InFlightAll})
	k.life, k.stop = context.WithCancel(context.Background())
	if k.opts.Log == nil {
		k.opts.Log = slog.New(slog.DiscardHandler)
	}
	return k
}

// Registry returns the registry that the kernel serves.
func (k *Kernel) Registry() *Registry { return k.registry }

// Stamp gives a message that is about to be sent an id and a time, where it has
// none.
func (k *Kernel) Stamp(m *message.Message) {
	now := time.Now()
	if m.Metadata.ID == "" {
		m.Metadata.ID = k.ids.next(now)
	}
	if m.Metadata.Timestamp == 0 {
		m.Metadata.Timestamp = now.UnixMilli()
	}
}

// Handle answers one message: events, then one outcome. It returns when the handler
// has returned, or at the call's deadline; either way the outcome is emitted by then.
// Events, replies and errors are answered with nothing. It has the shape of a
// [Handler].
func (k *Kernel) Handle(ctx context.Context, m message.Message, emit Emit) {
	if err := m.Validate(); err != nil {
		if m.Kind != message.KindError {
			k.Refuse(&m, emit, new(handled), err)
		}
		return
	}
	m = m.Clone() // the handler may outlive the call
	if len(m.Data) == 0 {
		m.Data = json.RawMessage("null")
	}
	o := new(handled)
	if c := k.admit(ctx, &m, emit, o, nil); c != nil {
		c.RunWithin()
		o.finish(k)
	}
}

// handled is the origin of a call of [Kernel.Handle]. The call posts one message at a time.
type handled struct{ pending []pendingAnswer }

// pendingAnswer is an answer that waits for a commit, or for those before it.
type pendingAnswer struct {
	send   Emit
	m      message.Message
	commit *store.Commit
}

// maxCommit is how long an answer waits for its commit.
const maxCommit = 30 * time.Second

// Post implements [Origin].
func (h *handled) Post(send Emit, m message.Message, commit *store.Commit) {
	if commit == nil && len(h.pending) == 0 {
		send(m)
		return
	}
	m.Data = bytes.Clone(m.Data)
	h.pending = append(h.pending, pendingAnswer{send, m, commit})
	for len(h.pending) > 0 && h.pending[0].durable() {
		h.pending[0].send(h.pending[0].m)
		h.pending = h.pending[1:]
	}
}

// durable reports whether there is nothing to wait for.
func (a *pendingAnswer) durable() bool {
	if a.commit == nil {
		return true
	}
	decided, err := a.commit.Resolved()
	return decided && err == nil
}

// finish sends what waits. The call is settled.
func (h *handled) finish(k *Kernel) {
	for _, a := range h.pending {
		if a.commit != nil {
			ctx, cancel := context.WithTimeout(context.Background(), maxCommit)
			err := a.commit.Wait(ctx)
			cancel()
			if err != nil && !a.m.Kind.Answers() {
				continue
			}
			if err != nil {
				a.m = k.Undone(&a.m, err)
			}
		}
		a.send(a.m)
	}
}

// Undone is the error that is sent instead of an outcome whose commit has failed.
func (k *Kernel) Undone(m *message.Message, err error) message.Message {
	k.opts.Log.Error("a commit failed", "type", m.Type, "causation", m.Metadata.Causation, "error", err)
	e, _ := message.ErrorOf(err)
	e = message.Errorf(e.Code, "%s is not known to have happened: it could not be made durable: %w", m.Type, e)
	failed := message.Message{Kind: message.KindError, Type: m.Type, Data: e.Append(nil), Err: e,
		Metadata: message.Metadata{Causation: m.Metadata.Causation, Correlation: m.Metadata.Correlation}}
	k.Stamp(&failed)
	k.Record(failed, Out)
	return failed
}

// Refuse answers what never becomes a call: a line that is not a message, a message that
// breaks a rule. m is what could be read of it; if that is enough for a record, it gets one.
func (k *Kernel) Refuse(m *message.Message, emit Emit, origin Origin, err error) {
	k.recordRefused(m)
	k.Reject(m, emit, origin, err)
}

// Reject answers a message that is recorded already, or must not be, and does not become a
// call.
func (k *Kernel) Reject(m *message.Message, emit Emit, origin Origin, err error) {
	e, _ := message.ErrorOf(err)
	answer := m.Fail(e)
	k.Stamp(&answer)
	way := Within
	if origin != nil {
		way = Out
	}
	k.recordCopy(answer, Record{Way: way, Refused: true})
	if origin == nil {
		emit(answer)
		return
	}
	origin.Post(emit, answer, nil)
}

// Admit finds the syscall of a message from a connection, which is valid, and makes a call.
// What can't be called is answered; then, and for what asks nothing, it returns nil. The
// message's data must stay as it is until the handler has returned, or until Call.Detach.
func (k *Kernel) Admit(ctx context.Context, m *message.Message, send Emit, origin Origin) *Call {
	return k.admit(ctx, m, send, origin, nil)
}

// admit is Admit for calls from outside, which have an origin, and nested ones, which have a
// caller.
func (k *Kernel) admit(ctx context.Context, m *message.Message, emit Emit, origin Origin, caller *Call) (c *Call) {
	way := In
	if caller != nil {
		way = Within
	}
	if !m.Kind.Asks() {
		if k.opts.Recorder != nil {
			s, _ := k.registry.Lookup(m.Type)
			if s != nil && s.Answers == FromJournal {
				s = nil // it does not come from it
			}
			k.recordCopy(*m, Record{Way: way, Syscall: s})
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
		k.Refuse(m, emit, origin, message.Errorf(500, "Internal error in %s; the kernel's log has the details", m.Type))
	}()
	s, handler, err := k.resolve(m)
	if err == nil && s.Input != schema.Any {
		if invalid := s.Input.Validate(m.Data); invalid != nil {
			err = invalidInput(invalid)
		}
	}
	if err == nil && caller != nil && s.Kind == message.KindCommand && !caller.mayCommand() {
		err = message.Errorf(403, "%s is a query and may not call the command %s", caller.request.Type, m.Type)
	}
	checked = true
	if err != nil {
		k.recordCopy(*m, Record{Way: way, Syscall: s, Refused: true})
		k.Reject(m, emit, origin, err)
		return nil
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = k.limits.Load().Timeout
	}
	c = &Call{k: k, parent: ctx, syscall: s, handler: handler, request: *m, send: emit, origin: origin, caller: caller, timeout: timeout}
	c.Begin()
	if k.opts.Recorder != nil {
		k.opts.Recorder.Record(Record{Message: &c.request, Way: way, Syscall: s, call: c})
	}
	return c
}

// resolve finds the syscall that a message asks for.
func (k *Kernel) resolve(m *message.Message) (*Syscall, Handler, error) {
	c := k.registry.state.Load()
	s, ok := c.byType[m.Type]
	if !ok {
		return nil, nil, unknown(m.Type, c)
	}
	if m.Kind == message.KindQuery && s.Kind == message.KindCommand {
		e := message.Errorf(422, "%s is a command and was sent as a query, which may not change anything; send it with kind command", m.Type)
		e.Reason = message.ErrEnvelope
		return nil, nil, e
	}
	if len(k.opts.Middleware) == 0 {
		return s, s.Handler, nil
	}
	w := k.wrapped.Load()
	if w == nil || w.of != c {
		w = k.wrap(c)
		k.wrapped.Store(w)
	}
	return s, w.handlers[s], nil
}

func (k *Kernel) wrap(c *catalog) *wrapping {
	w := &wrapping{of: c, handlers: make(map[*Syscall]Handler, len(c.byType))}
	for _, s := range c.byType {
		if w.handlers[s] != nil {
			continue // under another name
		}
		h := s.Handler
		for i := len(k.opts.Middleware) - 1; i >= 0; i-- {
			h = k.opts.Middleware[i](h)
		}
		w.handlers[s] = h
	}
	return w
}

// unknown is the error for a type that nobody serves. It says what was probably
// meant, and what to do if it was not.
func unknown(t message.Type, c *catalog) error {
	text := fmt.Sprintf("No handler for %s", t)
	names := make([]string, len(c.types))
	for i, known := range c.types {
		names[i] = string(known)
	}
	if hint := nearest.Hint(string(t), names); hint != "" {
		text += ": " + hint
	}
	text += fmt.Sprintf(" (Syscall.List names what there is; a handler for %s ", t)
	if _, ok := c.byType["Syscall.Register"]; ok {
		text += "can be added with Syscall.Register)"
	} else {
		text += "has to be registered in the program that runs the kernel)"
	}
	return &message.Error{Code: 404, Message: text}
}

func invalidInput(err error) error {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		return &message.Error{Code: 422, Message: "Schema validation failed: " + err.Error()}
	}
	// The value as a whole has a name in a message.
	named := schema.Invalid{Problems: slices.Clone(invalid.Problems)}
	for i, p := range named.Problems {
		rest, whole := strings.CutPrefix(p.Text, "the value")
		if whole && p.Path == "" && (strings.HasPrefix(rest, ": ") || strings.HasPrefix(rest, " fits ")) {
			named.Problems[i].Text = "data" + rest
		}
	}
	first := named.Problems[0]
	return &message.Error{Code: 422, Message: "Schema validation failed: " + named.Error(), Field: first.Path, Expected: first.Expected}
}

// ErrStopping is the cause of the context of an endless call that ends because the kernel
// does.
var ErrStopping = errors.New("the kernel is shutting down")

// Stop ends what would go on for ever: the calls of syscalls that are endless. Everything
// else is finished; it is for the connections to take nothing new.
func (k *Kernel) Stop() { k.stop() }

// UntilStop returns the context of an endless call: it ends when the kernel stops.
func (k *Kernel) UntilStop(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := context.AfterFunc(k.life, func() { cancel(ErrStopping) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
