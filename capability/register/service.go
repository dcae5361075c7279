package register

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// A provider is a connection that serves something.
type provider struct {
	peer     *connection.Peer
	inFlight atomic.Int64 // requests of all types that wait for the program's answer

	types map[message.Type]message.Metadata // the request that registered each type; guarded by directory.mu
}

// A service is a type and the connections that serve it.
type service struct {
	definition
	holder  *principal.Principal // the principal that registered the syscall first
	begun   time.Time
	servers atomic.Pointer[[]*server] // changed with directory.mu held
	next    atomic.Uint64             // round-robin counter
}

// A server is a connection that serves a type. One that fails again and again cools down, while
// there are others.
type server struct {
	*provider
	failures    atomic.Int64 // answers in a row that did not come, or made no sense
	cooldownEnd atomic.Int64 // end of the cooldown, as time after the service's begun
	withdraw    func()       // ends the offer of the type to the kernel
}

const (
	maxFailures = 3
	cooldown    = 20 * time.Second // limits a failing program to three failed calls per minute
)

func newService(def *definition, begun time.Time) *service {
	s := &service{definition: *def, begun: begun}
	s.servers.Store(new([]*server))
	return s
}

func (s *service) all() []*server { return *s.servers.Load() }

func (s *service) servedBy(c *provider) bool {
	return slices.ContainsFunc(s.all(), func(one *server) bool { return one.provider == c })
}

func (s *service) join(c *provider) {
	one := &server{provider: c}
	one.withdraw = c.peer.Offer(s.Type, func() bool { return s.coolingDown(one, s.now()) })
	all := append(slices.Clone(s.all()), one)
	s.servers.Store(&all)
}

// leave takes a connection out and returns how many are left.
func (s *service) leave(c *provider) int {
	all := slices.DeleteFunc(slices.Clone(s.all()), func(one *server) bool {
		if one.provider != c {
			return false
		}
		one.withdraw()
		return true
	})
	s.servers.Store(&all)
	return len(all)
}

// now returns how long after begun it is.
func (s *service) now() int64 { return int64(time.Since(s.begun)) }

func (s *service) coolingDown(one *server, now int64) bool { return one.cooldownEnd.Load() > now }

// pick returns the server that gets the next request: of those that are not cooling down, the one
// with the fewest unanswered requests, in turn among equals. It returns nil if none is left.
func (s *service) pick() *server {
	all := s.all()
	if len(all) == 0 {
		return nil
	}
	now := s.now()
	first := int(s.next.Add(1) % uint64(len(all)))
	var best *server
	var least int64
	cooling := false
	for i := range all {
		one := all[(first+i)%len(all)]
		n, r := one.inFlight.Load(), s.coolingDown(one, now)
		if best == nil || cooling && !r || cooling == r && n < least {
			best, least, cooling = one, n, r
		}
	}
	return best
}

// handle is the handler of the type: it asks a connection.
func (s *service) handle(ctx context.Context, m message.Message, emit kernel.Emit) {
	one := s.pick()
	if one == nil {
		emit(m.Fail(message.Errorf(502, "The program that serves %s went away before it got the request; try again when it is back", s.Type)))
		return
	}
	e := &outgoing{service: s, ctx: ctx, one: one, m: m, emit: emit}
	k, _ := kernel.Of(ctx)
	if err := k.Share(ctx, m.Data, nil, kernel.PrincipalOf(ctx), s.holder); err != nil {
		kernel.Fail(ctx, m, emit, err)
		return
	}
	one.inFlight.Add(1)
	e.done(one.peer.Ask(ctx, s.Type, m.Data, e.event))
}

// outgoing is a request that was sent to a connection.
type outgoing struct {
	*service
	ctx  context.Context
	one  *server
	m    message.Message
	emit kernel.Emit
	over atomic.Bool // the call has failed before the outcome
}

// answer passes on what the program sends, with the blobs in it.
func (e *outgoing) answer(m message.Message) {
	k, _ := kernel.Of(e.ctx)
	if err := k.Share(e.ctx, m.Data, e.m.Data, e.holder, kernel.PrincipalOf(e.ctx)); err != nil {
		kernel.Fail(e.ctx, e.m, e.emit, err)
		return
	}
	e.emit(m)
}

// event passes on what comes before the outcome.
func (e *outgoing) event(m message.Message) {
	switch {
	case e.over.Load():
	case !kernel.Universal(m.Type) && e.reserved(m.Type):
		e.over.Store(true) // ends the context, and so cancels the request
		e.failed(e.one)
		e.emit(e.m.Fail(message.Errorf(502, "The program that serves %s sent the event %s, whose name is reserved", e.Type, m.Type)))
	default:
		e.answer(e.m.Event(m.Type, m.Data))
	}
}

// reserved reports whether events of a name are the kernel's own.
func (e *outgoing) reserved(t message.Type) bool {
	k, _ := kernel.Of(e.ctx)
	return k.CheckForeignEvent(t) != nil
}

// done passes on the outcome, or why there is none.
func (e *outgoing) done(outcome message.Message, err error) {
	e.one.inFlight.Add(-1)
	switch {
	case e.over.Load():
	case errors.Is(err, context.DeadlineExceeded):
		e.failed(e.one)
		e.emit(e.m.Fail(message.Errorf(504, "%s was not answered in time by the program that serves it", e.Type)))
	case err != nil:
		kernel.Fail(e.ctx, e.m, e.emit, err)
	case outcome.Kind == message.KindError:
		e.passError(&outcome)
	default:
		e.passReply(&outcome)
	}
}

// passReply passes a reply on if its schema allows it.
func (e *outgoing) passReply(outcome *message.Message) {
	if e.Output != schema.Any {
		if err := e.Output.Validate(outcome.Data); err != nil {
			e.failed(e.one)
			e.emit(e.m.Fail(kernel.InvalidOutput(err, "The program that serves %s sent a reply that its outputSchema does not allow", e.Type)))
			return
		}
	}
	e.one.failures.Store(0)
	e.answer(e.m.Reply(outcome.Data))
}

// passError passes an error on as it was meant.
func (e *outgoing) passError(outcome *message.Message) {
	cause := outcome.Err // the error belongs to the kernel
	switch {
	case cause != nil && cause.Code == 502: // an invalid answer, or none; a 503 is not the fault of the program
		e.failed(e.one)
	case cause == nil:
		var err error
		if cause, err = message.ParseError(outcome.Data); err != nil {
			e.failed(e.one)
			e.emit(e.m.Fail(message.Errorf(502, "The program that serves %s failed with something that is not an error: %v", e.Type, err)))
			return
		}
		e.one.failures.Store(0)
	}
	e.emit(e.m.Fail(cause))
}

// failed counts an answer that is missing or invalid.
func (s *service) failed(one *server) {
	if one.failures.Add(1) >= maxFailures {
		one.cooldownEnd.Store(s.now() + int64(cooldown))
	}
}
