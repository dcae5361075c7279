package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipe is a wire in memory.
type pipe struct {
	frames chan []byte
	out    chan string
	once   sync.Once
	gone   chan struct{}
	err    error         // of Read, when gone is closed
	stop   chan struct{} // takes a value when nothing more is to be read
}

func newPipe() *pipe {
	return &pipe{frames: make(chan []byte, 4096), out: make(chan string, 1<<16), gone: make(chan struct{}), stop: make(chan struct{})}
}

func (p *pipe) Read() ([]byte, error) {
	select {
	case f := <-p.frames:
		return f, nil
	default:
	}
	select {
	case f := <-p.frames:
		return f, nil
	case <-p.stop:
		return nil, ErrStopped
	case <-p.gone:
		return nil, p.err
	}
}

func (p *pipe) Write(frame []byte, _ bool) {
	select {
	case <-p.gone:
	case p.out <- string(frame):
	}
}

func (p *pipe) Flush() {}

func (p *pipe) Left(finished <-chan struct{}) bool {
	select {
	case <-p.gone:
		return true
	case <-finished:
		return false
	}
}

// end ends the wire with an error.
func (p *pipe) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.gone)
	})
}

// talk is a connection of a test.
type talk struct {
	*pipe
	t      *testing.T
	served chan error
}

// dial connects to a service.
func dial(t *testing.T, s *Service) *talk {
	t.Helper()
	c := &talk{pipe: newPipe(), t: t, served: make(chan error, 1)}
	go func() { c.served <- s.Serve(context.Background(), c.pipe) }()
	t.Cleanup(func() {
		c.end(io.EOF)
		s.Close()
		c.wait()
	})
	return c
}

// wait waits until the connection is served no more.
func (c *talk) wait() {
	c.t.Helper()
	select {
	case err := <-c.served:
		c.served <- err
	case <-time.After(testkit.Patience):
		c.t.Fatal("the connection is still being served")
	}
}

// lose ends the connection without a goodbye.
func (c *talk) lose() { c.end(errors.New("reset")) }

func (c *talk) send(format string, args ...any) {
	c.frames <- fmt.Appendf(nil, format, args...)
}

func (c *talk) next() string {
	c.t.Helper()
	select {
	case line := <-c.out:
		return line
	case <-time.After(testkit.Patience):
		c.t.Fatal("nothing came")
		return ""
	}
}

// response is a frame that comes back, whatever it is.
type response struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	Method string
	Params struct {
		Subscription string
		Result       item
	}
}

type item struct {
	Hash        string `json:"service_hash"`
	Type        string
	Provenance  []string
	Seq         int64
	ContentType string `json:"content_type"`
	Data        json.RawMessage
	Message     string
	Percentage  *float64
	Error       string
	Code        int
	ErrorKind   string `json:"error_kind"`
	Action      string
	Suggested   string          `json:"suggested_method"`
	Example     json.RawMessage `json:"example_params"`
	Schema      json.RawMessage `json:"method_schema"`
	Available   []string        `json:"available_methods"`
}

func (c *talk) read() response {
	c.t.Helper()
	line := c.next()
	var r response
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		c.t.Fatalf("%v: %s", err, line)
	}
	return r
}

// call makes a call and returns the id of its stream.
func (c *talk) call(method, params string) string {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	r := c.read()
	var id string
	if err := json.Unmarshal(r.Result, &id); err != nil || string(r.ID) != "7" {
		c.t.Fatalf("no acknowledgement of %s: %+v", method, r)
	}
	return id
}

// items reads the items of a stream until it is done, and checks their numbers.
func (c *talk) items(id string) (all []item) {
	c.t.Helper()
	for {
		i := c.item(id)
		if i.Seq != int64(len(all)+1) {
			c.t.Fatalf("item %d has the number %d", len(all)+1, i.Seq)
		}
		all = append(all, i)
		if i.Type == "done" {
			return all
		}
	}
}

func (c *talk) item(id string) item {
	c.t.Helper()
	r := c.read()
	if r.Method != notification || r.Params.Subscription != id {
		c.t.Fatalf("not an item of %s: %+v", id, r)
	}
	return r.Params.Result
}

// kinds is the types of items, in a row.
func kinds(items []item) string {
	names := make([]string, len(items))
	for i, one := range items {
		names[i] = one.Type
	}
	return strings.Join(names, " ")
}

// gate lets a test decide when a handler goes on.
type gate struct {
	steps     chan string // emitted as Test.Stepped, one by one; the handler ends when it is closed
	cancelled chan error  // gets the cause, when the handler's context ends first
}

func newGate() *gate { return &gate{steps: make(chan string), cancelled: make(chan error, 1)} }

func (g *gate) handle(ctx context.Context, m message.Message, emit kernel.Emit) {
	for {
		select {
		case step, ok := <-g.steps:
			if !ok {
				emit(m.Reply([]byte(`"end"`)))
				return
			}
			emit(m.Event("Test.Stepped", []byte(step)))
		case <-ctx.Done():
			g.cancelled <- context.Cause(ctx)
			kernel.Fail(ctx, m, emit, ctx.Err())
			return
		}
	}
}

func (g *gate) syscall(t message.Type, kind message.Kind) kernel.Syscall {
	return kernel.Syscall{
		Definition: kernel.Definition{
			Type:     t,
			Kind:     kind,
			Summary:  "Do as the test says.",
			Input:    schema.Any,
			Output:   schema.Any,
			Emits:    []kernel.EventDefinition{{Type: "Test.Stepped", Summary: "A step."}},
			Behavior: kernel.Behavior{Runs: kernel.Slow, Timeout: time.Hour},
		},
		Handler: g.handle,
	}
}

type noteInput struct {
	Key  string   `json:"key" jsonschema:"minLength=1" jsonschema_description:"Where the note lies."`
	Text string   `json:"text,omitempty" jsonschema_description:"What it says."`
	Tags []string `json:"tags,omitempty" jsonschema_description:"Words to find it by."`
}

// newService returns a service of some syscalls.
func newService(t *testing.T, opts *Options, more ...kernel.Syscall) *Service {
	t.Helper()
	return New(kerneltest.Of(t, nil, kernel.Module{Name: "note", Version: "1.2.3", Summary: "Notes.", Syscalls: append([]kernel.Syscall{
		kernel.Command(kernel.Definition{Type: "Note.Set", Summary: "Keep a note."}, func(_ context.Context, in noteInput) (noteInput, error) { return in, nil }),
		kernel.Query(kernel.Definition{Type: "Note.GetAll", Summary: "Give all notes.", Presentation: kernel.Presentation{Aliases: []message.Type{"Memo.GetAll"}}}, func(context.Context, struct{}) ([]string, error) { return []string{"a"}, nil }),
	}, more...)}), opts)
}

// whole is what the owner sees of a service.
func whole(s *Service) kernel.View { return s.view(principal.TheOwner()) }

// discovered is the OpenRPC document for the owner.
func discovered(s *Service) []byte {
	document, _ := s.OpenRPC(principal.TheOwner())
	return document
}
