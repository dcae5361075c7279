// Package kernos calls and serves syscalls of a Kernos daemon. One file, standard library only: copy it.
//
//	client, err := kernos.Connect()
//	reply, err := client.Query(ctx, "Memory.Get", map[string]any{"key": "notes/1"})
//
// A client reaches the daemon of this user through kernos pipe, which starts it, or, if KERNOS_CONTEXT names one, a server
// elsewhere; or a socket that the variable KERNOS_SOCKET names. It may be used by several goroutines.
//
// A program that serves syscalls registers functions, again whenever it is connected again:
//
//	kernos.Serve(func(client *kernos.Client) error {
//		return client.Handle("Text.Upper", kernos.Definition{Kind: "query", Summary: "Write a text in capitals."},
//			func(ctx context.Context, data json.RawMessage, request *kernos.Request) (any, error) { … })
//	})
//
// # Goroutines
//
//   - Reading what comes, one per client: it ends with the connection.
//   - A request that the program serves, one each: it ends with its handler.
package kernos

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// MaxLine is how many bytes a message may have.
const MaxLine = 16384

// A Message is what is sent and received.
type Message struct {
	Kind     string          `json:"kind"`
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Metadata Metadata        `json:"metadata"`
}

// Metadata is where a message stands among others.
type Metadata struct {
	ID             string `json:"id"`
	Timestamp      int64  `json:"timestamp"`
	Correlation    string `json:"correlation,omitempty"`
	Causation      string `json:"causation,omitempty"`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// An Error is the data of an error message. The code is like a status of HTTP; 502 also means that the connection has ended.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Cause   *Error `json:"cause,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// A Definition is what Syscall.Register is told of a syscall.
type Definition struct {
	Kind    string // "query", or "command", which is the default
	Summary string
	Input   any // JSON Schemas; nil means any
	Output  any
	Timeout time.Duration // how long an answer may take
}

// A Handler answers requests. An *[Error] goes to the caller; any other error becomes a 500, and is logged. The context
// ends when no caller waits any more.
type Handler func(ctx context.Context, data json.RawMessage, request *Request) (any, error)

// A Client is a connection to a daemon.
type Client struct {
	wire  io.ReadWriteCloser
	ended chan struct{} // closed with the connection
	why   *Error        // why it has ended; set before

	writing  sync.Mutex
	mu       sync.Mutex
	waiting  map[string]*call // by the id of the request
	handlers map[string]Handler
	running  map[string]context.CancelFunc // requests that are served, by their ids
}

// A call is a request that isn't answered.
type call struct {
	came chan Message
	gone chan struct{} // closed when no caller waits any more
}

// mayPass are the codes of what may be mended by waiting.
var mayPass = []int{408, 425, 429, 500, 502, 503, 504, 507}

// Serve serves until the program is ended. It calls register, which registers handlers, and does so again when the
// connection has ended and there is another one. What waiting can't mend, such as a refused token or a wrong definition,
// ends the program with status 1 and one line that says why.
func Serve(register func(*Client) error) {
	var more []string
	for pause, told := 10*time.Millisecond, false; ; pause = min(2*pause, time.Second) {
		client, err := connect(more...)
		if err == nil {
			if err = register(client); err == nil {
				pause, told = 10*time.Millisecond, false
				more = []string{"--no-start"} // kernos stop isn't undone
				<-client.ended
				err = client.why
			}
			client.Close()
		}
		if e, ok := errors.AsType[*Error](err); !ok || !slices.Contains(mayPass, e.Code) {
			fmt.Fprintln(os.Stderr, "kernos:", err)
			os.Exit(1)
		}
		if !told {
			fmt.Fprintf(os.Stderr, "kernos: %v; waiting for the daemon\n", err)
		}
		told = true
		time.Sleep(pause)
	}
}

// Connect connects to the daemon of this user, to a server, or to a socket.
func Connect() (*Client, error) { return connect() }

func connect(more ...string) (*Client, error) {
	var wire io.ReadWriteCloser
	var err error
	if socket := os.Getenv("KERNOS_SOCKET"); socket != "" {
		if wire, err = net.Dial("unix", socket); err != nil {
			return nil, &Error{Code: 502, Message: fmt.Sprintf("no daemon serves the socket: %v; kernos serve starts one", err)}
		}
	} else if wire, err = newPipe(more); err != nil {
		return nil, &Error{Code: 501, Message: fmt.Sprintf("kernos can't be run: %v; install it, or set KERNOS_SOCKET", err)}
	}
	c := &Client{wire: wire, ended: make(chan struct{}), waiting: make(map[string]*call), handlers: make(map[string]Handler), running: make(map[string]context.CancelFunc)}
	go c.read()
	return c, nil
}

// A pipe is kernos pipe, which finds the daemon, starts it, and signs where that is wanted.
type pipe struct {
	io.WriteCloser
	io.Reader
	command *exec.Cmd
}

func newPipe(more []string) (*pipe, error) {
	c := exec.Command("kernos", append([]string{"pipe"}, more...)...)
	if more == nil { // later, that there is no daemon yet is no news
		c.Stderr = os.Stderr
	}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &pipe{in, out, c}, c.Start()
}

// Close ends the process, whose end the reader waits for.
func (p *pipe) Close() error {
	_ = p.WriteCloser.Close()
	return p.command.Process.Kill()
}

// Close closes the connection, and waits until it has ended.
func (c *Client) Close() {
	_ = c.wire.Close()
	<-c.ended
}

// Query asks, and returns the data of the reply.
func (c *Client) Query(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	return c.Call(ctx, Message{Kind: "query", Type: typ}, data, nil)
}

// Command does, and returns the data of the reply.
func (c *Client) Command(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	return c.Call(ctx, Message{Kind: "command", Type: typ}, data, nil)
}

// Call sends a request with some data, gives the events that come back to a function, which may be nil, and returns the data
// of the reply. If ctx ends, the request is cancelled.
func (c *Client) Call(ctx context.Context, m Message, data any, event func(Message)) (json.RawMessage, error) {
	m.Metadata.ID = rand.Text()
	waits := &call{make(chan Message), make(chan struct{})}
	c.mu.Lock()
	c.waiting[m.Metadata.ID] = waits
	c.mu.Unlock()
	defer func() {
		close(waits.gone)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, m.Metadata.ID)
	}()
	if err := c.send(m, data); err != nil {
		return nil, err
	}
	for {
		select {
		case answer := <-waits.came:
			switch {
			case answer.Kind == "reply":
				return answer.Data, nil
			case answer.Kind == "error":
				return nil, readError(answer.Data)
			case event != nil:
				event(answer)
			}
		case <-ctx.Done():
			_ = c.send(Message{Kind: "command", Type: "Syscall.Cancel"}, map[string]string{"id": m.Metadata.ID})
			return nil, context.Cause(ctx)
		case <-c.ended:
			return nil, c.why
		}
	}
}

// Handle serves a syscall.
func (c *Client) Handle(typ string, d Definition, h Handler) error {
	c.mu.Lock()
	c.handlers[typ] = h
	c.mu.Unlock()
	data := map[string]any{"name": typ, "kind": "command", "description": typ, "inputSchema": map[string]any{}, "outputSchema": map[string]any{}, "handler": "connection"}
	if d.Kind != "" {
		data["kind"] = d.Kind
	}
	if d.Summary != "" {
		data["description"] = d.Summary
	}
	if d.Input != nil {
		data["inputSchema"] = d.Input
	}
	if d.Output != nil {
		data["outputSchema"] = d.Output
	}
	if d.Timeout > 0 {
		data["timeout"] = d.Timeout.Milliseconds()
	}
	_, err := c.Command(context.Background(), "Syscall.Register", data)
	select {
	case <-c.ended:
		return err
	default:
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{e.Code, typ + " can't be served: " + e.Message, e.Cause}
	}
	return err
}

// send sends a message with some data. A failed write isn't reported: the reader finds the end of the connection.
func (c *Client) send(m Message, data any) (err error) {
	if m.Data, err = json.Marshal(data); err != nil {
		return err
	}
	if m.Metadata.ID == "" {
		m.Metadata.ID = rand.Text()
	}
	m.Metadata.Timestamp = time.Now().UnixMilli()
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(line) > MaxLine {
		return &Error{Code: 413, Message: fmt.Sprintf("%s would take %d bytes, and a message may have %d; large data goes by reference", m.Type, len(line), MaxLine)}
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.wire.Write(append(line, '\n'))
	return nil
}

// read reads messages until the connection ends.
func (c *Client) read() {
	why := &Error{Code: 502, Message: "the connection to the daemon has ended"}
	lines := bufio.NewScanner(c.wire)
	lines.Buffer(nil, 2*MaxLine)
	for lines.Scan() {
		var m Message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if m.Kind == "error" && m.Type == "Syscall.Disconnected" { // the last message; kernos pipe would wait for the next daemon
			why = readError(m.Data)
			break
		}
		c.take(m)
	}
	_ = c.wire.Close()
	if p, ok := c.wire.(*pipe); ok {
		var exit *exec.ExitError
		if err := p.command.Wait(); errors.As(err, &exit) && (exit.ExitCode() == 2 || exit.ExitCode() == 3) { // it doesn't know a flag, or isn't allowed
			why = &Error{Code: 403, Message: "kernos pipe can't connect; kernos doctor says why"}
		}
	}
	c.why = why
	close(c.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.running {
		cancel()
	}
}

// take takes a message: a request, the end of one, or an answer.
func (c *Client) take(m Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	handler := c.handlers[m.Type]
	switch {
	case (m.Kind == "query" || m.Kind == "command") && handler != nil:
		ctx, cancel := context.WithCancel(context.Background())
		c.running[m.Metadata.ID] = cancel
		go func() {
			c.answer(ctx, m, handler)
			c.mu.Lock()
			delete(c.running, m.Metadata.ID)
			c.mu.Unlock()
			cancel()
		}()
	case m.Kind == "event" && m.Type == "Syscall.Cancelled":
		var cancelled struct{ ID string }
		if json.Unmarshal(m.Data, &cancelled) == nil && c.running[cancelled.ID] != nil {
			c.running[cancelled.ID]()
		}
	case c.waiting[m.Metadata.Causation] != nil:
		waits := c.waiting[m.Metadata.Causation]
		c.mu.Unlock()
		defer c.mu.Lock() // for the deferred Unlock
		select {
		case waits.came <- m:
		case <-waits.gone:
		}
	}
}

// answer lets a handler answer a request.
func (c *Client) answer(ctx context.Context, m Message, h Handler) {
	request := &Request{Message: m, client: c}
	reply, err := h(ctx, m.Data, request)
	if err == nil {
		err = request.send("reply", m.Type, reply)
	}
	if err == nil {
		return
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: %v\n", m.Type, err)
		e = &Error{Code: 500, Message: m.Type + " has failed; its log says why"}
	}
	_ = request.send("error", m.Type, e)
}

// A Request is one that a handler answers.
type Request struct {
	Message
	client *Client
}

// Event sends an event to the caller.
func (r *Request) Event(typ string, data any) error { return r.send("event", typ, data) }

// Progress tells the caller how far it is, from 0 to 1.
func (r *Request) Progress(text string, fraction float64) {
	_ = r.Event("Syscall.Progressed", map[string]any{"message": text, "percentage": fraction})
}

func (r *Request) send(kind, typ string, data any) error {
	return r.client.send(Message{Kind: kind, Type: typ, Metadata: r.lineage()}, data)
}

func (r *Request) lineage() Metadata {
	return Metadata{Causation: r.Metadata.ID, Correlation: r.Metadata.Correlation}
}

// Query asks on behalf of the request.
func (r *Request) Query(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	return r.client.Call(ctx, Message{Kind: "query", Type: typ, Metadata: r.lineage()}, data, nil)
}

// Command does something on behalf of the request.
func (r *Request) Command(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	return r.client.Call(ctx, Message{Kind: "command", Type: typ, Metadata: r.lineage()}, data, nil)
}

func readError(data json.RawMessage) *Error {
	e := new(Error)
	if json.Unmarshal(data, e) != nil {
		e = &Error{Code: 500, Message: "an error that can't be read"}
	}
	return e
}
