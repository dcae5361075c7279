package transport_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/introspect"
	"kernos/kernel/kerneltest"
	"kernos/transport"
)

// member is a connection that notes what happens to it.
type member struct {
	s         *transport.Server
	serves    bool
	stays     bool // although it was told to stop
	throttled bool
	stopped   chan struct{}
	cut       chan struct{}
}

func newMember(s *transport.Server) *member {
	return &member{s: s, stopped: make(chan struct{}, 10), cut: make(chan struct{}, 10)}
}

func (m *member) Stop() {
	m.stopped <- struct{}{}
	if !m.stays {
		go m.leave()
	}
}

func (m *member) leave() {
	if m.s.Leave(m) {
		m.s.Done()
	}
}

func (m *member) Cut()            { m.cut <- struct{}{} }
func (m *member) Serves() bool    { return m.serves }
func (m *member) Throttled() bool { return m.throttled }

func newServer(t *testing.T, limits transport.Limits) *transport.Server {
	return transport.NewServer(kerneltest.Around(t, nil, introspect.Module), limits, []transport.Reason{transport.TooMany}, []transport.Reason{transport.Idle}, nil)
}

func TestServerAdmitsUpToItsLimits(t *testing.T) {
	s := newServer(t, transport.Limits{Connections: 2, Extra: 1})
	var members []*member
	for i, want := range []struct {
		extra  bool
		reason transport.Reason
	}{{false, ""}, {false, ""}, {true, ""}, {false, transport.TooMany}} {
		m := newMember(s)
		if extra, reason := s.Admit(m); extra != want.extra || reason != want.reason {
			t.Fatalf("connection %d: %v %q", i, extra, reason)
		}
		members = append(members, m)
	}
	members[0].throttled = true
	s.Accept()
	if now := s.Stats(); now.Connections != 3 || now.Throttled != 1 || now.Accepted != 1 || now.Refused[transport.TooMany] != 1 || now.Rejected() != 1 {
		t.Errorf("%+v", now)
	}
	// A connection in an extra place does not count against the limit.
	s.Close(members[1], transport.Idle)
	s.Close(members[1], transport.Idle) // it has left
	s.Done()
	if extra, reason := s.Admit(newMember(s)); extra || reason != "" {
		t.Errorf("%v %q although one has left", extra, reason)
	}
	if now := s.Stats(); now.Connections != 3 || now.Closed[transport.Idle] != 1 {
		t.Errorf("%+v", now)
	}
	s.SetMaxConnections(1)
	if _, reason := s.Admit(newMember(s)); reason != transport.TooMany || s.MaxConnections() != 1 {
		t.Errorf("%q with the limit %d", reason, s.MaxConnections())
	}
}

// Connections that serve others stop last.
func TestServerDrainsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, transport.Limits{Connections: 10})
		caller, server := newMember(s), newMember(s)
		caller.stays, server.serves = true, true
		s.Admit(caller)
		s.Admit(server)
		drained := make(chan error, 1)
		go func() { drained <- s.Drain(t.Context()) }()
		synctest.Wait()
		if len(caller.stopped) == 0 || len(server.stopped) != 0 || s.Stopping().Err() == nil || s.Work().Err() != nil {
			t.Errorf("the caller was stopped %d times, the one that serves %d times", len(caller.stopped), len(server.stopped))
		}
		if _, reason := s.Admit(newMember(s)); reason != transport.Stopping {
			t.Errorf("admitted: %q", reason)
		}
		caller.leave()
		if err := <-drained; err != nil || len(server.stopped) != 1 || len(caller.cut)+len(server.cut) != 0 {
			t.Errorf("%v, stopped %d times", err, len(server.stopped))
		}
	})
}

// A connection that does not end is cut off after the grace, and not waited for then.
func TestServerCutsOffAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, transport.Limits{Connections: 10})
		m := newMember(s)
		m.stays = true
		s.Admit(m)
		begun := time.Now()
		grace, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cutAt := make(chan time.Duration, 1)
		context.AfterFunc(s.Work(), func() { cutAt <- time.Since(begun) })
		err := s.Drain(grace)
		if err == nil || !strings.Contains(err.Error(), "1 connections have handlers that still run") || len(m.cut) != 1 {
			t.Errorf("%v, cut %d times", err, len(m.cut))
		}
		// The calls have a second to end, and then the connections have another.
		if at, took := <-cutAt, time.Since(begun); at != time.Minute || took != time.Minute+2*time.Second {
			t.Errorf("the calls were cut off after %v, and it took %v", at, took)
		}
		m.leave()
	})
}
