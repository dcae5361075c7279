package http

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
)

// A talk is a stream of messages.
type talk struct {
	t    testing.TB
	in   *io.PipeWriter
	out  *bufio.Reader
	body io.Closer
}

func (s *site) talk(headers ...string) *talk {
	s.t.Helper()
	r, w := io.Pipe()
	request, err := http.NewRequest("POST", s.url+"/v1/messages", r)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Errorf("%d, %v", response.StatusCode, response.Header)
	}
	k := &talk{t: s.t, in: w, out: bufio.NewReader(response.Body), body: response.Body}
	s.t.Cleanup(func() { _ = w.Close(); _ = response.Body.Close() })
	return k
}

func (k *talk) say(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, line); err != nil {
		k.t.Fatal(err)
	}
}

// hear returns the next line, "" at the end.
func (k *talk) hear() string {
	k.t.Helper()
	line, err := k.out.ReadString('\n')
	if err != nil && err != io.EOF {
		k.t.Fatal(err)
	}
	return line
}

// The answer to a message is there before the next one is sent.
func TestMessagesAreAnsweredWhileTheyCome(t *testing.T) {
	for about, s := range map[string]*site{
		"HTTP/1.1": open(t, siteOptions{}),
		"HTTP/2":   openTLS(t, siteOptions{}),
	} {
		k := s.talk()
		for _, id := range []string{"a", "b", "c"} {
			k.say(ask(id, "Ping", `{"payload":"`+id+`"}`))
			if line := k.hear(); !strings.Contains(line, `"data":{"payload":"`+id+`"}`) || !strings.Contains(line, `"causation":"`+id+`"`) {
				t.Errorf("%s: %s", about, line)
			}
		}
		k.say("nonsense\n")
		if line := k.hear(); !strings.Contains(line, `"code":400`) {
			t.Errorf("%s: %s", about, line)
		}
		k.say(`{"type":"query","name":"Ping","payload":{"payload":1},"metadata":{"id":"old","timestamp":1}}` + "\n")
		if line := k.hear(); !strings.Contains(line, `"payload":{"payload":1}`) {
			t.Errorf("%s, the older dialect: %s", about, line)
		}
		k.say(strings.TrimSuffix(ask("last", "Ping", `{"payload":2}`), "\n"))
		_ = k.in.Close()
		if line := k.hear(); !strings.Contains(line, `"causation":"last"`) {
			t.Errorf("%s: %s", about, line)
		}
		if line := k.hear(); line != "" {
			t.Errorf("%s, after the end: %s", about, line)
		}
	}
}

func TestAllOfABodyIsAnswered(t *testing.T) {
	s := open(t, siteOptions{})
	const n = 5000
	var in strings.Builder
	for range n {
		in.WriteString(ask("x", "Ping", `{"payload":1}`))
	}
	for _, expect := range []string{"", "100-continue"} {
		a := s.do("POST", "/v1/messages", in.String(), "Expect", expect)
		if got := strings.Count(a.body, `"kind":"reply"`); a.status != 200 || got != n {
			t.Errorf("Expect %q: %d, %d answers", expect, a.status, got)
		}
	}
	if a := s.do("POST", "/v1/messages", ""); a.status != 200 || a.body != "" {
		t.Errorf("nothing: %d %s", a.status, a.body)
	}
}

// running returns a syscall that says when it begins and when its context ends, and waits for
// one of both.
func running(what message.Type, kind message.Kind) (_ kernel.Syscall, begun chan struct{}, cancelled chan error, release chan struct{}) {
	begun, cancelled, release = make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	return raw(what, kind, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		begun <- struct{}{}
		select {
		case <-ctx.Done():
			cancelled <- context.Cause(ctx)
			emit(m.Fail(message.Errorf(499, "cancelled")))
		case <-release:
			cancelled <- nil
			emit(m.Reply([]byte(`"done"`)))
		}
	}), begun, cancelled, release
}

// Queries of a client that has left are cancelled, commands are completed.
func TestWhoLeavesAStream(t *testing.T) {
	query, asked, cancelled, _ := running("Test.Wait", message.KindQuery)
	command, begun, completed, release := running("Test.Change", message.KindCommand)
	for _, whole := range []bool{false, true} {
		s := open(t, siteOptions{syscalls: []kernel.Syscall{query, command}})
		k := s.talk()
		k.say(ask("q", "Test.Wait", "1") + strings.Replace(ask("c", "Test.Change", "1"), "query", "command", 1))
		soon(t, "the query begins", asked)
		soon(t, "the command begins", begun)
		if whole { // it has sent everything, and does not wait for the answers
			_ = k.in.Close()
		}
		_ = k.body.Close()
		if err := soon(t, "the query ends", cancelled); err == nil {
			t.Error("the query was not cancelled")
		}
		release <- struct{}{}
		if err := soon(t, "the command ends", completed); err != nil {
			t.Errorf("the command was cancelled: %v", err)
		}
		_ = k.in.Close()
	}
}

func TestASilentStreamIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syscall, begun, _, release := running("Test.Wait", message.KindQuery)
		s := open(t, siteOptions{memory: true, Options: Options{Idle: 2 * time.Second}, syscalls: []kernel.Syscall{syscall}})
		k := s.talk()
		k.say(ask("w", "Test.Wait", "1"))
		soon(t, "it begins", begun)
		time.AfterFunc(6*time.Second, func() { release <- struct{}{} }) // a client that waits for an answer isn't silent
		if line := k.hear(); !strings.Contains(line, `"kind":"reply"`) {
			t.Errorf("it says %s", line)
		}
		if line := k.hear(); !strings.Contains(line, `"type":"Syscall.Disconnected"`) || !strings.Contains(line, `"code":408`) {
			t.Errorf("it says %s", line)
		}
		if line := k.hear(); line != "" {
			t.Errorf("and then %s", line)
		}
	})
}

// A server that stops finishes what has come, and reads no more.
func TestStreamsAreDrained(t *testing.T) {
	syscall, begun, _, release := running("Test.Wait", message.KindQuery)
	s := open(t, siteOptions{Options: Options{Grace: testkit.Patience}, syscalls: []kernel.Syscall{syscall}})
	busy, idle := s.talk(), s.talk()
	busy.say(ask("w", "Test.Wait", "1"))
	soon(t, "it begins", begun)
	s.stop()
	if line := idle.hear(); line != "" {
		t.Errorf("one that has asked nothing: %s", line)
	}
	if a := s.requests.Stats(); a.Connections == 0 {
		t.Error("it did not wait")
	}
	release <- struct{}{}
	if line := busy.hear(); !strings.Contains(line, `"data":"done"`) {
		t.Errorf("one that waits: %s", line)
	}
	if line := busy.hear(); line != "" {
		t.Errorf("and then %s", line)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// What does not end in time is cut.
func TestGraceIsNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query, begun, cancelled, _ := running("Test.Wait", message.KindQuery)
		command, changing, cut, _ := running("Test.Change", message.KindCommand)
		s := open(t, siteOptions{memory: true, Options: Options{Grace: time.Second}, syscalls: []kernel.Syscall{query, command}})
		k := s.talk()
		k.say(ask("q", "Test.Wait", "1") + strings.Replace(ask("c", "Test.Change", "1"), "query", "command", 1))
		soon(t, "the query begins", begun)
		soon(t, "the command begins", changing)
		if err := s.end(); err != nil {
			t.Error(err)
		}
		if soon(t, "the query ends", cancelled) == nil || soon(t, "the command ends", cut) == nil {
			t.Error("they were not cut")
		}
	})
}

// Messages beyond the rate wait, and the peer is told so among its answers.
func TestAStreamHasAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, messages = 50, 150
		s := open(t, siteOptions{memory: true, Options: Options{FrameRate: rate}})
		begun := time.Now()
		a := s.do("POST", "/v1/messages", strings.Repeat(ask("x", "Ping", `{"payload":1}`), messages))
		if took := time.Since(begun).Round(100 * time.Millisecond); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if n := strings.Count(a.body, `"kind":"reply"`); n != messages {
			t.Errorf("%d answers", n)
		}
		if n := strings.Count(a.body, `"type":"Syscall.Throttled"`); n != 1 {
			t.Errorf("it was told %d times", n)
		}
	})
}
