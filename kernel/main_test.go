package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/message"
	"kernos/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw is a query of any data with a handler of its own.
func raw(t message.Type, h Handler) Syscall {
	return Syscall{Handler: h, Definition: Definition{
		Type: t, Kind: message.KindQuery, Summary: "A syscall of a test.", Input: schema.Any, Output: schema.Any,
	}}
}

// echo answers with what it was given.
func echo(t message.Type) Syscall {
	return raw(t, func(_ context.Context, m message.Message, emit Emit) { emit(m.Reply(m.Data)) })
}

// slow makes a syscall slow.
func slow(s Syscall) Syscall {
	s.Runs = Slow
	return s
}

// within gives a syscall a deadline.
func within(d time.Duration, s Syscall) Syscall {
	s.Timeout = d
	return s
}

func module(name string, syscalls ...Syscall) Module {
	return Module{Name: name, Version: "1.0.0", Summary: "A module of a test.", Syscalls: syscalls}
}

func newKernel(t testing.TB, opts *Options, syscalls ...Syscall) *Kernel {
	t.Helper()
	r, err := NewRegistry(module("test", syscalls...))
	if err != nil {
		t.Fatal(err)
	}
	return New(r, opts)
}

func query(id message.ID, t message.Type, data string) message.Message {
	return message.Message{Kind: message.KindQuery, Type: t, Data: json.RawMessage(data), Metadata: message.Metadata{ID: id, Timestamp: 1735000000000}}
}

func command(id message.ID, t message.Type, data string) message.Message {
	m := query(id, t, data)
	m.Kind = message.KindCommand
	return m
}

// ask returns everything that a message is answered with.
func ask(k *Kernel, m message.Message) []message.Message {
	var mu sync.Mutex
	var all []message.Message
	k.Handle(context.Background(), m, func(m message.Message) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m)
	})
	mu.Lock()
	defer mu.Unlock()
	return all
}

// answer returns the one answer to a message, and checks its form.
func answer(t *testing.T, k *Kernel, m message.Message) message.Message {
	t.Helper()
	all := ask(k, m)
	if len(all) != 1 {
		t.Fatalf("%s got %d answers: %s", m.Type, len(all), texts(all))
	}
	a := all[0]
	if err := a.Validate(); err != nil {
		t.Errorf("the answer is no message: %v", err)
	}
	if !a.Kind.Answers() || a.Type != m.Type || a.Metadata.Causation != m.Metadata.ID || a.Metadata.Correlation != m.Metadata.Correlation {
		t.Errorf("the answer is not one to %s %s: %s", m.Type, m.Metadata.ID, texts(all))
	}
	return a
}

// failure returns the code and the text of the one answer, which must be an error.
func failure(t *testing.T, k *Kernel, m message.Message) (int, string) {
	t.Helper()
	a := answer(t, k, m)
	if a.Kind != message.KindError {
		t.Fatalf("%s succeeded: %s", m.Type, a.Data)
	}
	return read(t, a)
}

// read parses the data of an error, as its receiver would.
func read(t *testing.T, a message.Message) (int, string) {
	t.Helper()
	if a.Kind != message.KindError {
		t.Errorf("%s is no error", texts([]message.Message{a}))
		return 0, ""
	}
	e, err := message.ParseError(a.Data)
	if err != nil {
		t.Fatal(err)
	}
	return e.Code, e.Error()
}

func texts(all []message.Message) string {
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, "\n\t%s", message.Append(nil, &all[i]))
	}
	return b.String()
}

// A connection is a Source that a test feeds. Like a real one it reuses the memory
// of a message's data for the next one, unless it is told to leave it alone.
type connection struct {
	in    chan message.Message
	ended chan error
	start time.Time

	buf []byte // guarded by the turn

	stuck chan struct{} // nothing is taken before it is closed, if there is one

	mu       sync.Mutex
	answers  []message.Message
	times    []time.Duration // when the answers came
	detached int
}

func connect(k *Kernel) *connection { return connectWith(context.Background(), k) }

func connectWith(ctx context.Context, k *Kernel) *connection {
	c := newConnection(1000, 1024)
	go func() { c.ended <- k.Serve(ctx, c) }()
	return c
}

// newConnection returns a connection that so many messages with so much data may wait on.
func newConnection(messages, size int) *connection {
	return &connection{in: make(chan message.Message, messages), ended: make(chan error, 1), start: time.Now(), buf: make([]byte, size)}
}

func (c *connection) serve(k *Kernel) {
	go func() { c.ended <- k.Serve(context.Background(), c) }()
}

func (c *connection) Next() (message.Message, Emit, error) {
	m, ok := <-c.in
	if !ok {
		return message.Message{}, nil, io.EOF
	}
	clear(c.buf)
	n := copy(c.buf, m.Data)
	m.Data = c.buf[:n:n]
	return m, c.emit, nil
}

func (c *connection) Detach() {
	c.buf = make([]byte, len(c.buf))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detached++
}

func (c *connection) emit(m message.Message) {
	if c.stuck != nil {
		<-c.stuck
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, m.Clone())
	c.times = append(c.times, time.Since(c.start))
}

// soFar lists the answers as "id code" or "id data".
func (c *connection) soFar(t *testing.T) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, m := range c.answers {
		if m.Kind == message.KindError {
			code, _ := read(t, m)
			all = append(all, fmt.Sprintf("%s %d", m.Metadata.Causation, code))
			continue
		}
		all = append(all, fmt.Sprintf("%s %s", m.Metadata.Causation, m.Data))
	}
	return all
}

// end closes the connection and returns the error of Serve.
func (c *connection) end() error {
	close(c.in)
	return <-c.ended
}

// messages returns what has come so far.
func (c *connection) messages() []message.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers)
}
