package http

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/rpc"
)

// An event of a stream.
type event struct{ id, name, data string }

// parseEvents reads what came, as a browser does.
func parseEvents(t *testing.T, text string) (events []event) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if e, ok := parseEvent(t, block); ok {
			events = append(events, e)
		}
	}
	return events
}

// parseEvent reads one event. One without data is none.
func parseEvent(t *testing.T, block string) (e event, ok bool) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case ok && name == "id":
			e.id = value
		case ok && name == "event":
			e.name = value
		case ok && name == "data":
			e.data += value
		case line != ":":
			t.Errorf("a line of an event is %q", line)
		}
	}
	if e.data == "" {
		return e, false
	}
	var item struct {
		Type string
		Seq  int64
	}
	if err := json.Unmarshal([]byte(e.data), &item); err != nil || item.Type != e.name || !strings.HasSuffix(e.id, fmt.Sprint(":", item.Seq)) {
		t.Errorf("an event is %+v, %v", e, err)
	}
	return e, true
}

func names(events []event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.name)
	}
	return strings.Join(all, " ")
}

// A follower reads events while they come.
type follower struct {
	t      *testing.T
	header http.Header
	lines  *bufio.Reader
	body   io.Closer
	last   string // id that came
}

// follow sends a request for events.
func (s *site) follow(t *testing.T, method, path, body string, headers ...string) *follower {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, header: response.Header, lines: bufio.NewReader(response.Body), body: response.Body}
	t.Cleanup(f.leave)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return f
}

func (f *follower) leave() { _ = f.body.Close() }

// next returns the next event; its name is "" at the end.
func (f *follower) next() event {
	f.t.Helper()
	for {
		var block string
		for !strings.HasSuffix(block, "\n\n") {
			line, err := f.lines.ReadString('\n')
			if err == io.EOF && block == "" {
				return event{}
			}
			if err != nil {
				f.t.Fatal(err)
			}
			block += line
		}
		e, ok := parseEvent(f.t, block)
		if e.id != "" {
			f.last = e.id
		}
		if ok {
			return e
		}
	}
}

func (f *follower) expect(want ...string) {
	f.t.Helper()
	for _, w := range want {
		e := f.next()
		_, seq, _ := strings.Cut(e.id, ":")
		if got := strings.TrimSpace(e.name + " " + seq); got != w {
			f.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func TestEvents(t *testing.T) {
	s := open(t, siteOptions{})
	for _, c := range []struct{ path, body, names, data string }{
		{"/v1/call/kernel/ping", "{\n\"payload\": [1,\n2]}", "data done", `"data":{"payload":[1,2]}`},
		{"/v1/call/kernel/ping", `[{"payload":1}]`, "data done", `"data":{"payload":1}`},
		{"/v1/call/kernel/ping", `["x"]`, "data done", `"data":{"payload":"x"}`},
		{"/v1/call/kernel/echo", `{"massage":"hi"}`, "guidance error done", `"error_kind":"invalid_params"`},
		{"/v1/call/kernel/pign", ``, "guidance error done", `"suggested_method":"ping"`},
		{"/v1/call/service/hash", ``, "data done", `"hash":`},
		{"/v1/call/service/unsubscribe", `["x-1"]`, "data done", `"data":false`},
	} {
		a := s.do("POST", c.path, c.body, "Accept", "text/event-stream")
		events := parseEvents(t, a.body)
		if a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" || names(events) != c.names || !strings.Contains(events[0].data, c.data) {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
		if id := a.header.Get("Kernos-Stream"); id == "" || !strings.HasPrefix(a.body, "id: "+id+":0\n\n") || events[0].id != id+":1" {
			t.Errorf("%s: the stream is %q: %s", c.path, id, a.body)
		}
		if called := a.header.Get("Kernos-Request") != ""; called != (strings.Contains(c.path, "kernel") && !strings.Contains(c.path, "pign")) {
			t.Errorf("%s: it is a call: %t", c.path, called)
		}
	}
	if a := s.do("POST", "/v1/call/kernel/ping", `{`, "Accept", "text/event-stream;q=1, application/json"); a.status != 400 || a.name() != "body_not_json" {
		t.Errorf("what is no JSON: %d %s", a.status, a.body)
	}
}

func TestWhoWantsEvents(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/event-stream": true, "Text/Event-Stream; charset=utf-8": true,
		"application/json, text/event-stream": true, "text/event-stream;q=0.5, application/json": false, "application/json;q=0.5, text/event-stream;q=0.5": true,
		"text/event-stream;q=0": false, "text/event-stream;q=x": false, "nonsense;;, text/event-stream": true, "text/html, */*;q=0.8": false,
	} {
		r := &http.Request{Header: http.Header{"Accept": {accept}}}
		if wantsEvents(r) != want {
			t.Errorf("%q: %t", accept, !want)
		}
	}
}

// An item is there before the next one is made. Who ends the stream cancels the call.
func TestEventsComeOneByOne(t *testing.T) {
	syscall, steps, cancelled := stepping("Test.Watch", message.KindQuery)
	for about, s := range map[string]*site{
		"HTTP/1.1": open(t, siteOptions{syscalls: []kernel.Syscall{syscall}}),
		"HTTP/2":   openTLS(t, siteOptions{syscalls: []kernel.Syscall{syscall}}),
	} {
		f := s.follow(t, "POST", "/v1/call/test/watch", "")
		for _, want := range []string{"data 1", "data 2", "data 3"} {
			steps <- "1"
			f.expect(want)
		}
		stream := "/v1/streams/" + f.header.Get("Kernos-Stream")
		if a := s.do("DELETE", stream, ""); a.status != 204 {
			t.Errorf("%s: %d %s", about, a.status, a.body)
		}
		f.expect("error 4", "done 5", "")
		soon(t, "the query is cancelled", cancelled)
		if a := s.do("DELETE", stream, ""); a.status != 410 || a.name() != "stream_not_kept" {
			t.Errorf("%s, again: %d %s", about, a.status, a.body)
		}
	}
}

// stepping returns a syscall that emits what a test says, and says why it was cancelled.
func stepping(what message.Type, kind message.Kind) (_ kernel.Syscall, steps chan string, cancelled chan error) {
	steps, cancelled = make(chan string), make(chan error, 1)
	syscall := raw(what, kind, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		for {
			select {
			case step, ok := <-steps:
				if !ok {
					emit(m.Reply([]byte(`"end"`)))
					return
				}
				emit(m.Event("Test.Happened", []byte(step)))
			case <-ctx.Done():
				cancelled <- context.Cause(ctx)
				kernel.Fail(ctx, m, emit, ctx.Err())
				return
			}
		}
	})
	syscall.Emits = []kernel.EventDefinition{{Type: "Test.Happened", Summary: "It happened."}}
	syscall.Timeout = 10 * testkit.Patience
	return syscall, steps, cancelled
}

func TestAnEndlessStreamEndsWithTheServer(t *testing.T) {
	syscall, begun, _, _ := running("Test.Watch", message.KindQuery)
	syscall.Runs = kernel.Endless
	s := open(t, siteOptions{Options: Options{Grace: testkit.Patience}, syscalls: []kernel.Syscall{syscall}})
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

// keepAlive is how often a stream that is silent gets a comment.
const keepAlive = 20 * time.Second

// While there is nothing to say, something is said now and then.
func TestSilentEventsAreKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syscall, steps, _ := stepping("Test.Watch", message.KindQuery)
		s := open(t, siteOptions{memory: true, syscalls: []kernel.Syscall{syscall}})
		f := s.follow(t, "POST", "/v1/call/test/watch", "")
		began := time.Now()
		comments := 0
		for line := ""; ; {
			line, _ = f.lines.ReadString('\n')
			if line == ":\n" {
				comments++
			}
			if comments == 3 {
				break
			}
		}
		if took := time.Since(began); took > 4*keepAlive || took < 3*keepAlive {
			t.Errorf("three came within %v", took)
		}
		close(steps)
		f.expect("data 1", "done 2", "")
	})
}

func TestOpenRPC(t *testing.T) {
	s := open(t, siteOptions{})
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
	s := open(t, siteOptions{syscalls: []kernel.Syscall{syscall}})
	a := s.do("POST", "/v1/call/test/look", "", "Accept", "text/event-stream", "Idempotency-Key", "once", "X-Correlation-Id", "flow")
	if m := soon(t, "it runs", seen); m.IdempotencyKey != "once" || m.Correlation != "flow" || names(parseEvents(t, a.body)) != "data done" {
		t.Errorf("%+v, %s", m, a.body)
	}
	a = s.do("POST", "/v1/call/test/look", "", "Accept", "text/event-stream", "Idempotency-Key", strings.Repeat("x", 5000))
	if a.status != 422 || a.name() != "invalid_request" {
		t.Errorf("a key that is too long: %d %s", a.status, a.body)
	}
}

// left begins a call with events, whose peer leaves after the first one.
func left(t *testing.T, kind message.Kind) (s *site, steps chan string, cancelled chan error) {
	t.Helper()
	syscall, steps, cancelled := stepping("Test.Step", kind)
	s = open(t, siteOptions{memory: true, Options: Options{Grace: time.Minute}, syscalls: []kernel.Syscall{syscall}})
	f := s.follow(t, "POST", "/v1/call/test/step", "")
	steps <- "1"
	f.expect("data 1")
	f.leave()
	return s, steps, cancelled
}

// A command with events is completed when its peer leaves, and cut when the server is.
func TestEventsOfACommandAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, cancelled := left(t, message.KindCommand)
		time.Sleep(rpc.DefaultKeepFor + time.Second)
		synctest.Wait()
		if s.requests.Stats().Connections != 0 || s.k.Stats().InFlight != 1 {
			t.Errorf("%+v, %+v", s.Stats(), s.k.Stats())
		}
		if len(cancelled) > 0 {
			t.Error("it was cancelled because its peer has left")
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
		<-cancelled
	})
}

// A command whose peer has left is waited for when the server stops.
func TestEventsOfACommandAreFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, steps, cancelled := left(t, message.KindCommand)
		s.stop()
		time.Sleep(59 * time.Second)
		close(steps)
		if err := s.end(); err != nil || len(cancelled) > 0 {
			t.Errorf("%v, and %d were cut", err, len(cancelled))
		}
	})
}

// A query whose peer has left is not: no peer can come back.
func TestEventsOfAQueryEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, cancelled := left(t, message.KindQuery)
		synctest.Wait()
		began := time.Now()
		if err := s.end(); err != nil || len(cancelled) != 1 || time.Since(began) >= time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
