// Package handling serves a syscall with a plain program: one process per request, the data of
// the request as JSON on its standard input, the reply as JSON on its standard output.
//
// What a program prints is a sequence of JSON values. A value
//
//	{"kind":"event","type":"Text.Counted","data":{…}}
//
// is an event, and is sent as soon as it is whole. The one other value is the reply, or the error
// {"code":…,"message":…} if the program ends with a status other than 0.
package handling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/internal/backoff"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/transport/unix"
)

// A Handler is a syscall and the program that serves it.
type Handler struct {
	Type         message.Type
	Registration json.RawMessage // the data of Syscall.Register
	Command      []string        // the program and its arguments
	Parallel     int             // processes that run at once; requests above it wait
	Timeout      time.Duration   // of a request, from its arrival

	Stderr io.Writer         // gets what the processes print to standard error
	Report func(text string) // tells the operator that serving has begun, or was interrupted

	// Connect returns a connection to a daemon; nil if none is running, and Serve tries again.
	Connect func(context.Context) (*unix.Conn, error)

	// Deadline gives a request its timeout. Nil means [context.WithTimeoutCause]; tests set another one.
	Deadline func(context.Context, time.Duration, error) (context.Context, context.CancelFunc)
}

// Serve registers the syscall and answers requests. When the daemon closes the connection, Serve
// connects to the next one. After drain is closed, it takes no new requests, finishes those that
// it has, and returns nil. When ctx ends, running processes are killed.
func (h *Handler) Serve(ctx context.Context, drain <-chan struct{}) error {
	connecting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-drain:
			cancel()
		case <-connecting.Done():
		}
	}()
	slots := make(chan struct{}, h.Parallel)
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
	for {
		conn, err := h.Connect(connecting)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case connecting.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if conn != nil {
			s := &session{Handler: h, conn: conn, slots: slots, running: make(map[message.ID]context.CancelFunc)}
			err = s.serve(ctx, drain)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil || s.drained:
				return err
			case s.registered:
				h.Report("the daemon has closed the connection; waiting for the next one")
				pauses.Reset()
			}
		}
		if !pauses.Wait(connecting.Done()) {
			return ctx.Err()
		}
	}
}

// A session is the time of one connection.
type session struct {
	*Handler
	conn  *unix.Conn
	slots chan struct{}

	registering, leaving message.ID // ids of the requests that begin and end the service
	registered, drained  bool       // used by the reader only

	writing sync.Mutex
	mu      sync.Mutex
	running map[message.ID]context.CancelFunc
	runs    sync.WaitGroup
}

// serve serves until the connection ends. The error is for the operator: the daemon doesn't
// accept the registration.
func (s *session) serve(ctx context.Context, drain <-chan struct{}) error {
	s.registering, s.leaving = newID(), newID()
	if e := s.send(&message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: s.Registration, Metadata: message.Metadata{ID: s.registering}}); e != nil {
		return errors.Join(e, s.conn.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	over := make(chan struct{})
	var draining sync.WaitGroup
	draining.Go(func() {
		select {
		case <-drain:
			data, _ := json.Marshal(map[string]message.Type{"name": s.Type})
			s.send(&message.Message{Kind: message.KindCommand, Type: "Syscall.Unregister", Data: data, Metadata: message.Metadata{ID: s.leaving}})
		case <-over:
		}
	})
	err := s.read(ctx)
	close(over)
	draining.Wait()
	forget()
	cancel() // answers can't be delivered any more, so what still runs is killed
	s.runs.Wait()
	_ = s.conn.Close()
	return err
}

// read reads messages until the connection ends.
func (s *session) read(ctx context.Context) error {
	for lines := ndjson.NewReader(s.conn, nil); ; {
		line, err := lines.Next()
		if _, tooLong := err.(*ndjson.TooLong); tooLong {
			continue // no daemon sends such a line
		}
		if err != nil {
			return nil
		}
		m, err := message.Decode(line)
		if err != nil {
			continue
		}
		switch {
		case m.Kind.Asks() && m.Type == s.Type:
			s.begin(ctx, m.Clone())
		case m.Kind == message.KindEvent && m.Type == "Syscall.Cancelled":
			s.cancel(m.Data)
		case m.Kind.Answers() && m.Metadata.Causation == s.registering:
			if m.Kind == message.KindError {
				e, err := message.ParseError(m.Data)
				return errors.Join(fmt.Errorf("%s can't be served: %w", s.Type, e), err)
			}
			s.registered = true
			s.Report(fmt.Sprintf("%s is served; an interrupt ends it", s.Type))
		case m.Kind.Answers() && m.Metadata.Causation == s.leaving:
			// The daemon sends no request after this. Those that it has sent are answered before
			// this side of the connection is closed.
			s.drained = true
			go func() {
				s.runs.Wait()
				_ = s.conn.CloseWrite()
			}()
		}
	}
}

// begin starts to answer a request.
func (s *session) begin(ctx context.Context, m message.Message) {
	deadline := s.Deadline
	if deadline == nil {
		deadline = context.WithTimeoutCause
	}
	ctx, cancel := deadline(ctx, s.Timeout, errTimeout)
	s.mu.Lock()
	s.running[m.Metadata.ID] = cancel
	s.mu.Unlock()
	s.runs.Go(func() {
		outcome := s.answer(ctx, &m)
		s.mu.Lock()
		delete(s.running, m.Metadata.ID)
		s.mu.Unlock()
		cancel()
		if tooLong := s.send(&outcome); tooLong != nil {
			outcome = m.Fail(tooLong)
			s.send(&outcome)
		}
	})
}

// answer runs the program when there is room for it.
func (s *session) answer(ctx context.Context, m *message.Message) message.Message {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return s.run(ctx, m)
	case <-ctx.Done():
		return m.Fail(message.Errorf(503, "%s has %d requests to answer, and this one has waited until its end; ask again later", s.Type, cap(s.slots)))
	}
}

// cancel ends the request that the data of a Syscall.Cancelled names.
func (s *session) cancel(data json.RawMessage) {
	var cancelled struct{ ID message.ID }
	if json.Unmarshal(data, &cancelled) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.running[cancelled.ID]; cancel != nil {
		cancel()
	}
}

// send sends a message, with a time and an id, or returns a 413 if it doesn't fit into a line. A
// failed write isn't reported: the reader finds the end of the connection.
func (s *session) send(m *message.Message) *message.Error {
	if m.Metadata.ID == "" {
		m.Metadata.ID = newID()
	}
	m.Metadata.Timestamp = time.Now().UnixMilli()
	line := message.Append(nil, m)
	if len(line) > message.MaxLine {
		return message.Errorf(413, "The %s of %s takes %d bytes, and a message may have %d; answer with less, or with where the data is", m.Kind, s.Type, len(line), message.MaxLine)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.conn.Write(append(line, '\n'))
	return nil
}

func newID() message.ID { return message.ID(ulid.Make().String()) }
