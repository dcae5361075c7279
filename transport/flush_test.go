package transport

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
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
		_, err := Serve(context.Background(), k, r, &c.out, nil)
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
		c := converse(newKernel(t, nil))
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
		c := converse(newKernel(t, nil, blocking(release)))
		c.say(t, ping("1")+ask("2", "Test.Wait", `2`)+ping("3"))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := briefs(t, lines(t, c.out.String())); got != `1 {"payload":"1"}` {
			t.Errorf("after 2 ms: %s", got)
		}
		close(release)
		synctest.Wait()
		if got := briefs(t, lines(t, c.out.String())); got != "1 {\"payload\":\"1\"}\n2 2\n3 {\"payload\":\"3\"}" {
			t.Errorf("in the end: %s", got)
		}
		c.end(t)
	})
}

func TestStreamWritesEventsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := converse(newKernel(t, nil, blocking(release)))
		c.say(t, ask("1", "Test.Wait", `"event"`))
		synctest.Wait()
		if got := briefs(t, lines(t, c.out.String())); got != `1 "before"` {
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
		s.Slow = true
		c := converse(newKernel(t, nil, s))
		c.say(t, ask("1", "Test.Wait", `1`)+ping("2"))
		synctest.Wait()
		if got := briefs(t, lines(t, c.out.String())); got != `2 {"payload":"2"}` {
			t.Errorf("got %s", got)
		}
		close(release)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := briefs(t, lines(t, c.out.String())); got != "2 {\"payload\":\"2\"}\n1 1" {
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
		c := converse(newKernel(t, nil, s))
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
		if got := briefs(t, out[:2]); got != "1 504\n2 {\"payload\":\"2\"}" {
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
	k := newKernel(t, nil)
	held := &heldWriter{blocked: make(chan struct{}, 1), release: make(chan struct{})}
	in := &repeat{line: []byte(ping("1")), left: 50_000}
	stuck := make(chan error, 1)
	go func() {
		_, err := Serve(context.Background(), k, in, held, nil)
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
	if _, ok := errors.AsType[*WriteError](err); !ok {
		t.Errorf("got %v", err)
	}
}
