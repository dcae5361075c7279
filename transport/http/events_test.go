package httpd

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/transport/rpc"
)

// openRPC is open with the RPC protocol.
func openRPC(t *testing.T, o siteOptions) *site {
	t.Helper()
	s := open(t, o)
	s.opts.RPC = rpc.New(s.k, nil)
	t.Cleanup(s.opts.RPC.Close)
	return s
}

// An event of a stream.
type event struct{ name, data string }

// parseEvents reads what came, as a browser does.
func parseEvents(t *testing.T, text string) (events []event) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			name, value, ok := strings.Cut(line, ": ")
			switch {
			case ok && name == "event":
				e.name = value
			case ok && name == "data":
				e.data += value
			default:
				t.Errorf("a line of an event is %q", line)
			}
		}
		if !json.Valid([]byte(e.data)) {
			t.Errorf("the data of an event is %q", e.data)
		}
		events = append(events, e)
	}
	return events
}

func names(events []event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.name)
	}
	return strings.Join(all, " ")
}

func TestEvents(t *testing.T) {
	s := openRPC(t, siteOptions{})
	for _, c := range []struct{ path, body, names, data string }{
		{"/v1/call/kernel/ping", "{\n\"payload\": [1,\n2]}", "data done", `"data":{"payload":[1,2]}`},
		{"/v1/call/kernel/echo", `{"massage":"hi"}`, "guidance error done", `"error_kind":"invalid_params"`},
		{"/v1/call/kernel/pign", ``, "guidance error done", `"suggested_method":"ping"`},
		{"/v1/call/service/hash", ``, "data done", `"hash":`},
	} {
		a := s.do("POST", c.path, c.body, "Accept", "text/event-stream")
		events := parseEvents(t, a.body)
		if a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" || names(events) != c.names || !strings.Contains(events[0].data, c.data) {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	if a := s.do("POST", "/v1/call/kernel/ping", `{`, "Accept", "text/event-stream;q=1, application/json"); a.status != 400 || a.name() != "body_not_json" {
		t.Errorf("what is no JSON: %d %s", a.status, a.body)
	}
	if a := open(t, siteOptions{}).do("POST", "/v1/call/kernel/ping", "", "Accept", "text/event-stream"); a.status != 406 || a.name() != "no_events" {
		t.Errorf("a server without them: %d %s", a.status, a.body)
	}
}

// An item is there before the next one is made; who leaves a query cancels it.
func TestEventsComeOneByOne(t *testing.T) {
	next, cancelled := make(chan struct{}), make(chan struct{})
	syscall := raw("Test.Watch", message.KindQuery, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		for {
			select {
			case <-next:
				emit(m.Event("Test.Happened", []byte(`{"n":1}`)))
			case <-ctx.Done():
				close(cancelled)
				emit(m.Fail(message.Errorf(499, "cancelled")))
				return
			}
		}
	})
	syscall.Emits = []kernel.EventDefinition{{Type: "Test.Happened", Summary: "It happened."}}
	s := openRPC(t, siteOptions{syscalls: []kernel.Syscall{syscall}})
	r, err := http.NewRequest("POST", s.url+"/v1/call/test/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(response.Body)
	for range 3 {
		next <- struct{}{}
		var block string
		for !strings.HasSuffix(block, "\n\n") {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			block += line
		}
		if events := parseEvents(t, block); names(events) != "data" || !strings.Contains(events[0].data, `"content_type":"test.happened"`) {
			t.Errorf("it is %s", block)
		}
	}
	_ = response.Body.Close()
	soon(t, "the query is cancelled", cancelled)
}

func TestAnEndlessStreamEndsWithTheServer(t *testing.T) {
	syscall, begun, _, _ := running("Test.Watch", message.KindQuery)
	syscall.Endless = true
	s := openRPC(t, siteOptions{Options: Options{Grace: enough}, syscalls: []kernel.Syscall{syscall}})
	answers := make(chan answer, 1)
	go func() { answers <- s.do("POST", "/v1/call/test/watch", "", "Accept", "text/event-stream") }()
	soon(t, "it begins", begun)
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if a := soon(t, "it is answered", answers); names(parseEvents(t, a.body)) != "error done" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestOpenRPC(t *testing.T) {
	s := openRPC(t, siteOptions{})
	a := s.do("GET", "/openrpc.json", "")
	if a.status != 200 || !strings.Contains(a.body, `"openrpc":"1.`) || !strings.Contains(a.body, `kernel_ping`) {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	if b := s.do("GET", "/openrpc.json", "", "If-None-Match", a.header.Get("ETag")); b.status != 304 || b.body != "" {
		t.Errorf("%d %.200s", b.status, b.body)
	}
}

// What the headers of a call say goes for events as for JSON.
func TestEventsHaveTheMetadataOfTheRequest(t *testing.T) {
	seen := make(chan message.Metadata, 1)
	syscall := raw("Test.Look", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		seen <- m.Metadata
		emit(m.Reply(nil))
	})
	s := openRPC(t, siteOptions{syscalls: []kernel.Syscall{syscall}})
	a := s.do("POST", "/v1/call/test/look", "", "Accept", "text/event-stream", "Idempotency-Key", "once", "X-Correlation-Id", "flow")
	if m := soon(t, "it runs", seen); m.IdempotencyKey != "once" || m.Correlation != "flow" || names(parseEvents(t, a.body)) != "data done" {
		t.Errorf("%+v, %s", m, a.body)
	}
	a = s.do("POST", "/v1/call/test/look", "", "Accept", "text/event-stream", "Idempotency-Key", strings.Repeat("x", 5000))
	if got := names(parseEvents(t, a.body)); got != "error done" {
		t.Errorf("a key that is too long: %s", a.body)
	}
}

// A command with events is completed when its peer leaves, and cut when the server is.
func TestEventsOfACommandAreCut(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	syscall := raw("Test.Work", message.KindCommand, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		close(begun)
		<-ctx.Done()
		close(ended)
		kernel.Fail(ctx, m, emit, ctx.Err())
	})
	syscall.Timeout = 10 * enough
	s := openRPC(t, siteOptions{Options: Options{Grace: 100 * time.Millisecond}, syscalls: []kernel.Syscall{syscall}})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/call/test/work", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "it begins", begun)
	until(t, "it counts", func() bool { return s.k.Stats().InFlight == 1 })
	leave()
	_ = response.Body.Close()
	select {
	case <-ended:
		t.Error("it was cancelled because its peer has left")
	case <-time.After(50 * time.Millisecond):
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
	soon(t, "it is told", ended)
}
