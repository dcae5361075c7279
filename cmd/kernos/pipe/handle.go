package pipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/cmd/kernos/server"
	"kernos/internal/backoff"
	"kernos/message"
	"kernos/message/ndjson"
)

// A handler is a syscall and the program that serves it.
type handler struct {
	Type         message.Type
	Registration json.RawMessage // the data of Syscall.Register
	Command      []string        // the program and its arguments
	Parallel     int             // processes that run at once; requests above it wait
	Timeout      time.Duration   // how long a request may take, from its arrival

	Stderr io.Writer         // gets what the processes print to standard error
	Report func(text string) // informs the operator that serving has begun, or was interrupted

	// Connect returns a connection to a daemon; nil if none is running, and serve tries again.
	Connect func(context.Context) (server.Lines, error)
}

// serve registers the syscall and answers requests. When the daemon closes the connection, serve
// connects to the next one. After drain is closed, it takes no new requests, finishes those that
// it has, and returns nil. When ctx ends, running processes are killed.
func (h *handler) serve(ctx context.Context, drain <-chan struct{}) error {
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
	said := false
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
			c := &connection{handler: h, conn: conn, slots: slots, running: make(map[message.ID]context.CancelFunc)}
			err = c.serve(ctx, drain)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil || c.drained:
				return err
			case c.registered:
				h.Report("the daemon has closed the connection; waiting for the next one")
				pauses.Reset()
				said = false
			case c.away != nil && !said:
				h.Report(fmt.Sprintf("%s can't be served at the moment; trying again: %v", h.Type, c.away))
				said = true
			}
		}
		if !pauses.Wait(connecting.Done()) {
			return ctx.Err()
		}
	}
}

// A connection serves requests of one daemon, until the daemon closes it.
type connection struct {
	*handler
	conn  server.Lines
	slots chan struct{}

	registering, leaving message.ID     // ids of the requests that begin and end the service
	registered, drained  bool           // used by the reader only
	away                 *message.Error // why the daemon doesn't take the registration at the moment; used by the reader only

	writing sync.Mutex
	mu      sync.Mutex
	running map[message.ID]context.CancelFunc
	runs    sync.WaitGroup
}

// serve serves until the connection ends. The error is for the operator: the daemon doesn't
// accept the registration.
func (c *connection) serve(ctx context.Context, drain <-chan struct{}) error {
	c.registering, c.leaving = newID(), newID()
	if e := c.send(&message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: c.Registration, Metadata: message.Metadata{ID: c.registering}}); e != nil {
		return errors.Join(e, c.conn.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	over := make(chan struct{})
	var draining sync.WaitGroup
	draining.Go(func() {
		select {
		case <-drain:
			data, _ := json.Marshal(map[string]message.Type{"name": c.Type})
			c.send(&message.Message{Kind: message.KindCommand, Type: "Syscall.Unregister", Data: data, Metadata: message.Metadata{ID: c.leaving}})
		case <-over:
		}
	})
	err := c.read(ctx)
	close(over)
	draining.Wait()
	forget()
	cancel() // answers can no longer be delivered, so what still runs is killed
	c.runs.Wait()
	_ = c.conn.Close()
	return err
}

// read reads messages until the connection ends.
func (c *connection) read(ctx context.Context) error {
	for lines := ndjson.NewReader(c.conn, nil); ; {
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
		case m.Kind.Asks() && m.Type == c.Type:
			c.begin(ctx, m.Clone())
		case m.Kind == message.KindEvent && m.Type == "Syscall.Cancelled":
			c.cancel(m.Data)
		case m.Kind.Answers() && m.Metadata.Causation == c.registering:
			if no := m.Failure(); m.Kind == message.KindError && no.Code == 503 { // no node of a cluster owns the kernel, for a while
				c.away = no
				return nil
			} else if m.Kind == message.KindError {
				return fmt.Errorf("%s can't be served: %w", c.Type, no)
			}
			c.registered = true
			c.Report(fmt.Sprintf("%s is served; an interrupt ends it", c.Type))
		case m.Kind.Answers() && m.Metadata.Causation == c.leaving:
			// The daemon sends no request after this. Those that it has sent are answered before
			// this side of the connection is closed.
			c.drained = true
			go func() {
				c.runs.Wait()
				_ = c.conn.CloseWrite()
			}()
		}
	}
}

// begin starts to answer a request.
func (c *connection) begin(ctx context.Context, m message.Message) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	c.mu.Lock()
	c.running[m.Metadata.ID] = cancel
	c.mu.Unlock()
	c.runs.Go(func() {
		outcome := c.answer(ctx, &m)
		c.mu.Lock()
		delete(c.running, m.Metadata.ID)
		c.mu.Unlock()
		cancel()
		if tooLong := c.send(&outcome); tooLong != nil {
			outcome = m.Fail(tooLong)
			c.send(&outcome)
		}
	})
}

// answer runs the program when there is room for it.
func (c *connection) answer(ctx context.Context, m *message.Message) message.Message {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
		return c.run(ctx, m)
	case <-ctx.Done():
		return m.Fail(message.Errorf(503, "%s has %d requests to answer, and this one has waited until its end; ask again later", c.Type, cap(c.slots)))
	}
}

// cancel ends the request that the data of a Syscall.Cancelled names.
func (c *connection) cancel(data json.RawMessage) {
	var cancelled struct{ ID message.ID }
	if json.Unmarshal(data, &cancelled) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.running[cancelled.ID]; cancel != nil {
		cancel()
	}
}

// send sends a message, with a time and an id, or returns a 413 if it doesn't fit into a line. A
// failed write isn't reported: the reader finds the end of the connection.
func (c *connection) send(m *message.Message) *message.Error {
	if m.Metadata.ID == "" {
		m.Metadata.ID = newID()
	}
	m.Metadata.Timestamp = time.Now().UnixMilli()
	line := message.Append(nil, m)
	if len(line) > message.MaxLine {
		return message.Errorf(413, "The %s of %s takes %d bytes, and a message may have %d; answer with less, or with where the data is", m.Kind, c.Type, len(line), message.MaxLine)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.conn.Write(append(line, '\n'))
	return nil
}

func newID() message.ID { return message.ID(ulid.Make().String()) }
