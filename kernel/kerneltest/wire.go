package kerneltest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// A Wire is the source of a connection that a test feeds. Like a real one it reuses the memory
// of a message's data for the next one, unless Detach was called.
type Wire struct {
	In    chan message.Message
	Stuck chan struct{}              // unless nil, no answer is taken before Stuck is closed
	Away  func(<-chan struct{}) bool // unless nil, Left calls it

	ended chan error
	start time.Time
	buf   []byte // only the reading goroutine uses buf

	mu       sync.Mutex
	answers  []message.Message
	times    []time.Duration // when the answers came
	detached int
	flushed  int
}

// Connect serves a new wire.
func Connect(k *kernel.Kernel) *Wire { return ConnectWith(context.Background(), k) }

// ConnectWith is Connect with a context.
func ConnectWith(ctx context.Context, k *kernel.Kernel) *Wire {
	w := NewWire(1000, 1024)
	w.ServeWith(ctx, k, nil)
	return w
}

// NewWire returns a wire on which the given number of messages may wait, with size bytes of data each.
func NewWire(messages, size int) *Wire {
	return &Wire{In: make(chan message.Message, messages), ended: make(chan error, 1), start: time.Now(), buf: make([]byte, size)}
}

// Serve serves the wire.
func (w *Wire) Serve(k *kernel.Kernel) *connection.Connection {
	return w.ServeWith(context.Background(), k, nil)
}

// ServeWith serves the wire with options.
func (w *Wire) ServeWith(ctx context.Context, k *kernel.Kernel, opts *connection.Options) *connection.Connection {
	c := connection.New(k, w, opts)
	c.Start(ctx, func(err error) { w.ended <- err })
	return c
}

// Next implements [connection.Source].
func (w *Wire) Next() (*message.Message, kernel.Emit, error) {
	m, ok := <-w.In
	if !ok {
		return nil, nil, io.EOF
	}
	clear(w.buf)
	n := copy(w.buf, m.Data)
	m.Data = w.buf[:n:n]
	return &m, w.Emit, nil
}

// Detach implements [connection.Source].
func (w *Wire) Detach() {
	w.buf = make([]byte, len(w.buf))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.detached++
}

// Flush implements [connection.Source].
func (w *Wire) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = len(w.answers)
}

// Writable implements [connection.Source].
func (w *Wire) Writable(wait bool) bool { return wait || w.Stuck == nil }

// Left implements [connection.Source].
func (w *Wire) Left(finished <-chan struct{}) bool { return w.Away != nil && w.Away(finished) }

// Emit takes an answer.
func (w *Wire) Emit(m message.Message) {
	if w.Stuck != nil {
		<-w.Stuck
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, m.Clone())
	w.times = append(w.times, time.Since(w.start))
}

// SoFar lists the answers as "id code" or "id data".
func (w *Wire) SoFar(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, m := range w.Messages() {
		if m.Kind == message.KindError {
			code, _ := ReadError(t, m)
			all = append(all, fmt.Sprintf("%s %d", m.Metadata.Causation, code))
			continue
		}
		all = append(all, fmt.Sprintf("%s %s", m.Metadata.Causation, m.Data))
	}
	return all
}

// End closes the connection and returns the error of Serve.
func (w *Wire) End() error {
	close(w.In)
	return w.Wait()
}

// Wait waits for the end of the connection and returns the error of Serve.
func (w *Wire) Wait() error { return <-w.ended }

// Ended reports whether the connection has ended, and Wait would not wait.
func (w *Wire) Ended() bool { return len(w.ended) > 0 }

// Messages returns what has come so far.
func (w *Wire) Messages() []message.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.answers)
}

// Times returns when the answers came, after the wire was made.
func (w *Wire) Times() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.times)
}

// Detached returns how often the data of a message was left alone.
func (w *Wire) Detached() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.detached
}

// Flushed returns how many of the answers were written.
func (w *Wire) Flushed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushed
}
