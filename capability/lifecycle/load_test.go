package lifecycle_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"kernos/capability/lifecycle"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
)

// A talk is a conversation with a kernel.
type talk struct {
	t       *testing.T
	in      io.WriteCloser
	answers *bufio.Scanner
	served  chan error
}

func converse(t *testing.T, k *kernel.Kernel) *talk {
	t.Helper()
	fromUs, toKernel := io.Pipe()
	fromKernel, toUs := io.Pipe()
	c := &talk{t, toKernel, bufio.NewScanner(fromKernel), make(chan error, 1)}
	go func() {
		_, err := transport.Serve(context.Background(), k, fromUs, toUs, nil)
		_ = toUs.Close()
		c.served <- err
	}()
	return c
}

func (c *talk) say(kind, what, data, id string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, `{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1}}`+"\n", kind, what, data, id); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns what the next line answers, its kind and its data.
func (c *talk) hear() string {
	c.t.Helper()
	var m struct {
		Kind     string
		Data     json.RawMessage
		Metadata struct{ Causation string }
	}
	if !c.answers.Scan() {
		c.t.Fatal("there is no answer")
	}
	if err := json.Unmarshal(c.answers.Bytes(), &m); err != nil {
		c.t.Fatal(err)
	}
	return m.Metadata.Causation + " " + m.Kind + " " + string(m.Data)
}

// cancelled is how a request is answered that was called off.
const cancelled = `error {"code":499,"message":"Cancelled before it was done"}`

// expect checks that the next lines are these, in any order.
func (c *talk) expect(want ...string) {
	c.t.Helper()
	var got []string
	for range want {
		got = append(got, c.hear())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("the answers are %q, want %q", got, want)
	}
}

func (c *talk) end() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Error(err)
	}
	for c.answers.Scan() {
		c.t.Errorf("another line: %s", c.answers.Text())
	}
	if err := <-c.served; err != nil {
		c.t.Error(err)
	}
}

func statusOf(t *testing.T, k *kernel.Kernel) (s lifecycle.Status) {
	t.Helper()
	got := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Kernel.Status", `{}`))
	fits(t, k, "Kernel.Status", got.Data)
	if err := json.Unmarshal(got.Data, &s); err != nil {
		t.Fatalf("%v: %s", err, got.Data)
	}
	return s
}

// What calls off, and what ends the kernel, does not wait behind what it is to end.
func TestCancelAndShutdownGoAhead(t *testing.T) {
	begun, ends := make(chan struct{}), make(chan struct{}, 1)
	k := withModule(t, &kernel.Options{InFlight: 1}, lifecycle.Options{Shutdown: func() { ends <- struct{}{} }}, waiting(begun))
	c := converse(t, k)
	c.say("query", "Test.Wait", "{}", "runs")
	<-begun
	for i := range 5 {
		c.say("query", "Test.Wait", "{}", fmt.Sprint("waits", i))
	}
	c.say("command", "Syscall.Shutdown", "{}", "end")
	c.expect(`end reply {"success":true}`)
	<-ends
	if s := statusOf(t, k); s.Held != 1 || s.Queued != 5 {
		t.Errorf("it says %+v", s)
	}
	for i := range 5 {
		c.say("command", "Syscall.Cancel", fmt.Sprintf(`{"id":"waits%d"}`, i), "c")
		c.expect(`c reply {"cancelled":true}`, fmt.Sprintf("waits%d %s", i, cancelled))
	}
	c.say("command", "Syscall.Cancel", `{"id":"runs"}`, "c")
	c.expect(`c reply {"cancelled":true}`, "runs "+cancelled)
	c.end()
}

// The status says how busy those are that serve something, the busiest first.
func TestStatusSaysWhoServes(t *testing.T) {
	const types = 60
	asked := make(chan string, types)
	peers := make(chan *connection.Peer, 1)
	long := strings.Repeat("x", 100)
	offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		peer, _ := connection.PeerOf(ctx)
		for i := range types {
			peer.Offer(message.Type(fmt.Sprintf("Test.Type%s%02d", long, i)), func() bool { return i == 7 })
		}
		peers <- peer
		emit(m.Reply(m.Data))
	})
	var peer *connection.Peer
	busy := kerneltest.Slow(kerneltest.Raw(message.Type("Test.Type"+long+"42"), func(ctx context.Context, m message.Message, emit kernel.Emit) {
		asked <- "asked"
		_, err := peer.Ask(ctx, m.Type, m.Data, nil)
		kernel.Fail(ctx, m, emit, err)
	}))
	k := withModule(t, nil, lifecycle.Options{}, kerneltest.Module("offers", offer, busy))
	if s := statusOf(t, k); len(s.Handlers) != 0 || s.Served.Registered != 0 {
		t.Errorf("it says %+v", s)
	}
	server, caller := converse(t, k), converse(t, k)
	server.say("query", "Test.Offer", "1", "o")
	if got := server.hear(); got != "o reply 1" {
		t.Fatal(got)
	}
	peer = <-peers
	caller.say("query", string(busy.Type), "1", "q")
	<-asked
	server.hear() // the request
	s := statusOf(t, k)
	if len(s.Handlers) != 50 || s.Served.Registered != types {
		t.Fatalf("it says %+v", s)
	}
	for i, want := range []lifecycle.Handler{
		{Type: busy.Type, Connections: 1, Waiting: 1},
		{Type: message.Type("Test.Type" + long + "07"), Connections: 1, Resting: 1},
		{Type: message.Type("Test.Type" + long + "00"), Connections: 1},
	} {
		if s.Handlers[i] != want {
			t.Errorf("place %d: %+v", i, s.Handlers[i])
		}
	}
	m := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Kernel.Status", `{}`))
	if n := len(message.Append(nil, &m)); n > message.MaxLine {
		t.Errorf("it has %d bytes", n)
	}
	caller.say("command", "Syscall.Cancel", `{"id":"q"}`, "c")
	caller.hear()
	server.hear() // that it is cancelled
	caller.hear()
	caller.end()
	server.end()
}
