package kernel

import (
	"context"
	"io"
	"testing"
	"time"

	"kernos/message"
)

// controlled is a source that has a say in its slow calls.
type controlled struct {
	requests chan message.Message
	answers  chan message.Message
	cancel   func(message.ID) bool
}

func (c *controlled) Serving(cancel func(message.ID) bool) int {
	c.cancel = cancel
	return 100
}

func (c *controlled) Next() (message.Message, Emit, error) {
	m, ok := <-c.requests
	if !ok {
		return m, nil, io.EOF
	}
	return m, func(m message.Message) { c.answers <- m }, nil
}

func (c *controlled) Detach() {}

// A source may have more slow calls at once than others, cancels each of them, and has no
// peer that could be asked.
func TestControllerHasASay(t *testing.T) {
	peers := make(chan bool, 100)
	wait := plain("Test.Wait")
	wait.Runs, wait.Timeout = Slow, time.Hour
	wait.Handler = func(ctx context.Context, m message.Message, emit Emit) {
		_, ok := PeerOf(ctx)
		peers <- ok
		<-ctx.Done()
		Fail(ctx, m, emit, ctx.Err())
	}
	r, err := NewRegistry(Module{Name: "test", Version: "1.0.0", Summary: "A test.", Syscalls: []Syscall{wait}})
	if err != nil {
		t.Fatal(err)
	}
	c := &controlled{requests: make(chan message.Message), answers: make(chan message.Message, 100)}
	served := make(chan error, 1)
	go func() { served <- New(r, &Options{InFlight: 1}).Serve(t.Context(), c) }()
	for i := range 100 {
		c.requests <- message.Message{Kind: message.KindQuery, Type: "Test.Wait", Data: []byte("null"), Metadata: message.Metadata{ID: message.ID(rune('a' + i)), Timestamp: 1}}
	}
	for range 100 {
		if <-peers {
			t.Error("there is a peer")
		}
	}
	if c.cancel("nobody") {
		t.Error("a call that is not there was cancelled")
	}
	for i := range 100 {
		if !c.cancel(message.ID(rune('a' + i))) {
			t.Errorf("call %d is not there", i)
		}
		if got := <-c.answers; got.Metadata.Causation != message.ID(rune('a'+i)) || got.Kind != message.KindError {
			t.Errorf("got %+v", got)
		}
	}
	close(c.requests)
	if err := <-served; err != nil {
		t.Error(err)
	}
}
