package register

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// A connection is one that serves something.
type connection struct {
	peer     *kernel.Peer
	inFlight atomic.Int64 // requests of all types that it has to answer

	types map[message.Type]message.Metadata // with the request that registered each; guarded by directory.mu
}

// A service is a type and the connections that serve it.
type service struct {
	definition
	begun   time.Time
	servers atomic.Pointer[[]*server] // changed with directory.mu held
	turn    atomic.Uint64             // whose it is among equals
}

// A server is a connection that serves a type. One that fails again and again rests, while
// there are others.
type server struct {
	*connection
	failures atomic.Int64 // in a row: answers that did not come, or made no sense
	resting  atomic.Int64 // until so long after the service's begun
}

const (
	maxFailures = 3
	rest        = 20 * time.Second // so that it fails three times a minute at most
)

func newService(def *definition, begun time.Time) *service {
	s := &service{definition: *def, begun: begun}
	s.servers.Store(new([]*server))
	return s
}

func (s *service) all() []*server { return *s.servers.Load() }

func (s *service) servedBy(c *connection) bool {
	return slices.ContainsFunc(s.all(), func(one *server) bool { return one.connection == c })
}

func (s *service) join(c *connection) {
	all := append(slices.Clone(s.all()), &server{connection: c})
	s.servers.Store(&all)
}

// leave takes a connection out and returns how many are left.
func (s *service) leave(c *connection) int {
	all := slices.DeleteFunc(slices.Clone(s.all()), func(one *server) bool { return one.connection == c })
	s.servers.Store(&all)
	return len(all)
}

// pick returns who gets the next request: of those that do not rest, the one with the
// fewest to answer, in turn among equals. It returns nil if nobody is left.
func (s *service) pick() *server {
	all := s.all()
	if len(all) <= 1 {
		for _, one := range all {
			return one
		}
		return nil
	}
	now := int64(time.Since(s.begun))
	first := int(s.turn.Add(1) % uint64(len(all)))
	var best *server
	var least int64
	rests := false
	for i := range all {
		one := all[(first+i)%len(all)]
		n, r := one.inFlight.Load(), one.resting.Load() > now
		if best == nil || rests && !r || rests == r && n < least {
			best, least, rests = one, n, r
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
	one.inFlight.Add(1)
	defer one.inFlight.Add(-1)
	over := false
	outcome, err := one.peer.Ask(ctx, s.Type, m.Data, func(e message.Message) {
		if over {
			return
		}
		if reserved(e.Type) && e.Type != kernel.Progressed {
			over = true // with that the context ends, and the connection is told so
			s.failed(one)
			emit(m.Fail(message.Errorf(502, "The program that serves %s sent the event %s, whose name is reserved", s.Type, e.Type)))
			return
		}
		emit(m.Event(e.Type, e.Data))
	})
	if over {
		return
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			s.failed(one)
			err = message.Errorf(504, "%s was not answered in time by the program that serves it", s.Type)
		}
		kernel.Fail(ctx, m, emit, err)
		return
	}
	if outcome.Kind == message.KindError {
		s.passError(one, &m, &outcome, emit)
		return
	}
	if s.Output != schema.Any {
		if err := s.Output.Validate(outcome.Data); err != nil {
			s.failed(one)
			emit(m.Fail(s.broken(err)))
			return
		}
	}
	one.failures.Store(0)
	emit(m.Reply(outcome.Data))
}

// passError passes an error on as it was meant.
func (s *service) passError(one *server, m, outcome *message.Message, emit kernel.Emit) {
	e := outcome.Err // it is the kernel's
	if e == nil {
		var err error
		if e, err = message.ParseError(outcome.Data); err != nil {
			s.failed(one)
			emit(m.Fail(message.Errorf(502, "The program that serves %s failed with something that is no error: %v", s.Type, err)))
			return
		}
		one.failures.Store(0)
	}
	emit(m.Fail(e))
}

// broken is the error for a reply that breaks its schema.
func (s *service) broken(err error) *message.Error {
	e := message.Errorf(502, "The program that serves %s sent a reply that its outputSchema does not allow: %v", s.Type, err)
	if invalid, ok := errors.AsType[*schema.Invalid](err); ok {
		e.Field, e.Expected = invalid.Problems[0].Path, invalid.Problems[0].Expected
	}
	return e
}

// failed notes that an answer did not come, or made no sense.
func (s *service) failed(one *server) {
	if one.failures.Add(1) >= maxFailures {
		one.resting.Store(int64(time.Since(s.begun) + rest))
	}
}
