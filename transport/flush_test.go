package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
)

// blocking answers when it is let go, after an event.
func blocking(release <-chan struct{}) kernel.Syscall {
	return raw("Test.Wait", func(_ context.Context, m message.Message, emit kernel.Emit) {
		if string(m.Data) == `"event"` {
			emit(m.Event("Test.Happened", json.RawMessage(`"before"`)))
		}
		<-release
		emit(m.Reply(m.Data))
	})
}

// conversation serves a pipe inside a bubble.
type conversation struct {
	in   *io.PipeWriter
	out  testkit.Notes
	done chan error
}

func converse(k *kernel.Kernel) *conversation {
	r, w := io.Pipe()
	c := &conversation{in: w, done: make(chan error, 1)}
	go func() {
		_, err := transport.Serve(context.Background(), k, r, &c.out, nil)
		c.done <- err
	}()
	return c
}

func (c *conversation) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		t.Error(err)
	}
}

func (c *conversation) end(t *testing.T) {
	t.Helper()
	_ = c.in.Close()
	if err := <-c.done; err != nil {
		t.Error(err)
	}
}

func TestStreamWritesBeforeItWaitsForInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := converse(kerneltest.Around(t, nil, introspect.Module))
		start := time.Now()
		for _, id := range []string{"1", "2"} {
			c.say(t, ping(id))
			synctest.Wait()
			if !strings.Contains(c.out.String(), `"causation":"`+id+`"`) {
				t.Errorf("%s is not answered: %q", id, c.out.String())
			}
		}
		c.say(t, ping("3")+`{"kind":`) // the next line has begun
		synctest.Wait()
		if !strings.Contains(c.out.String(), `"causation":"3"`) {
			t.Errorf("3 is not answered: %q", c.out.String())
		}
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
		c.end(t)
	})
}

func TestStreamWritesWithin2msWhileAHandlerBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := converse(kerneltest.Around(t, nil, introspect.Module, blocking(release)))
		c.say(t, ping("1")+ask("2", "Test.Wait", `2`)+ping("3"))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := testkit.Briefs(t, lines(t, c.out.String())); got != `1 {"payload":"1"}` {
			t.Errorf("after 2 ms: %s", got)
		}
		close(release)
		synctest.Wait()
		if got := testkit.Briefs(t, lines(t, c.out.String())); got != "1 {\"payload\":\"1\"}\n2 2\n3 {\"payload\":\"3\"}" {
			t.Errorf("in the end: %s", got)
		}
		c.end(t)
	})
}

func TestStreamWritesEventsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := converse(kerneltest.Around(t, nil, introspect.Module, blocking(release)))
		c.say(t, ask("1", "Test.Wait", `"event"`))
		synctest.Wait()
		if got := testkit.Briefs(t, lines(t, c.out.String())); got != `1 "before"` {
			t.Errorf("got %s", got)
		}
		close(release)
		c.end(t)
	})
}

func TestStreamAnswersSlowSyscallsWhenTheyAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := blocking(release)
		s.Runs = kernel.Slow
		c := converse(kerneltest.Around(t, nil, introspect.Module, s))
		c.say(t, ask("1", "Test.Wait", `1`)+ping("2"))
		synctest.Wait()
		if got := testkit.Briefs(t, lines(t, c.out.String())); got != `2 {"payload":"2"}` {
			t.Errorf("got %s", got)
		}
		close(release)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := testkit.Briefs(t, lines(t, c.out.String())); got != "2 {\"payload\":\"2\"}\n1 1" {
			t.Errorf("got %s", got)
		}
		c.end(t)
	})
}

// A handler that is left behind still has its data, although the stream has read on
// into the same buffer.
func TestStreamLeavesTheDataOfAStubbornHandlerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, seen := make(chan struct{}), make(chan string, 1)
		s := raw("Test.Stay", func(_ context.Context, m message.Message, _ kernel.Emit) {
			<-release
			seen <- string(m.Data)
		})
		s.Timeout = time.Second
		c := converse(kerneltest.Around(t, nil, introspect.Module, s))
		c.say(t, ask("1", "Test.Stay", `"mine"`)+ping("2"))
		time.Sleep(time.Second)
		synctest.Wait()
		for range 100 {
			c.say(t, ask("3", "Ping", `{"payload":"`+strings.Repeat("x", 1000)+`"}`))
		}
		synctest.Wait()
		close(release)
		if got := <-seen; got != `"mine"` {
			t.Errorf("its data has become %s", got)
		}
		out := lines(t, c.out.String())
		if got := testkit.Briefs(t, out[:2]); got != "1 504\n2 {\"payload\":\"2\"}" {
			t.Errorf("got %s", got)
		}
		if len(out) != 102 {
			t.Errorf("got %d lines", len(out))
		}
		c.end(t)
	})
}

// heldWriter does not return from Write until it is let go.
type heldWriter struct {
	blocked chan struct{} // gets a value when a write begins
	release chan struct{}
}

func (w *heldWriter) Write([]byte) (int, error) {
	select {
	case w.blocked <- struct{}{}:
	default:
	}
	<-w.release
	return 0, errors.New("it hung up")
}

func TestPeerThatDoesNotReadStopsItsOwnStreamOnly(t *testing.T) {
	k := kerneltest.Around(t, nil, introspect.Module)
	held := &heldWriter{blocked: make(chan struct{}, 1), release: make(chan struct{})}
	in := &repeat{line: []byte(ping("1")), left: 50_000}
	stuck := make(chan error, 1)
	go func() {
		_, err := transport.Serve(context.Background(), k, in, held, nil)
		stuck <- err
	}()
	<-held.blocked
	out, _ := talk(t, k, strings.NewReader(strings.Repeat(ping("2"), 1000)), nil)
	if len(out) != 1000 {
		t.Errorf("its neighbour got %d answers", len(out))
	}
	select {
	case err := <-stuck:
		t.Errorf("the stuck stream has ended: %v", err)
	default:
	}
	close(held.release)
	err := <-stuck
	if _, ok := errors.AsType[*transport.WriteError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// A peer that does not read holds up the goroutine that writes to it, however its lines come.
func TestStreamIsHeldUpByAPeerThatDoesNotRead(t *testing.T) {
	echo := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(m.Data)) }
	slow := raw("Test.Slow", echo)
	slow.Runs = kernel.Slow
	k := kerneltest.Around(t, nil, introspect.Module, slow, raw("Test.Echo", echo))
	in, say := io.Pipe() // each line comes alone
	out := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
	served := make(chan error, 1)
	go func() {
		_, err := transport.Serve(context.Background(), k, in, out, nil)
		served <- err
	}()
	_, _ = io.WriteString(say, ask("1", "Test.Slow", `1`))
	<-out.begun
	var taken atomic.Int64
	go func() {
		defer func() { _ = say.Close() }()
		large := `"` + strings.Repeat("x", 10_000) + `"`
		for i := range 1000 {
			if _, err := io.WriteString(say, ask(fmt.Sprint("e", i), "Test.Echo", large)); err != nil {
				return
			}
			taken.Add(1)
		}
	}()
	last, still := int64(-1), 0
	testkit.Until(t, "no more are taken", func() bool {
		if n := taken.Load(); n != last {
			last, still = n, 0
		}
		still++
		return still > 50
	})
	if last > 10 {
		t.Errorf("%d requests were taken while nothing was written", last)
	}
	close(out.release)
	if err := <-served; err != nil {
		t.Error(err)
	}
	if out.largest > 128<<10 {
		t.Errorf("%d bytes were written at once", out.largest)
	}
}

// stuck takes nothing until it is let go.
type stuck struct {
	begun   chan struct{} // closed by the first write
	release chan struct{}
	largest int
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.largest == 0 {
		close(s.begun)
	}
	<-s.release
	s.largest = max(s.largest, len(p))
	return len(p), nil
}
