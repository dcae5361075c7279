package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/internal/testkit"
)

func TestCall(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.ack(c.ID, "7")
		s.item("7", `{"service_hash":"h1","type":"progress","provenance":["m"],"message":"half","percentage":0.5}`)
		s.item("7", `{"service_hash":"h1","type":"novelty","provenance":["m"]}`)
		s.item("7", data(`null`))
		s.item("7", done)
	})
	c := s.dial()
	stream, err := c.Stream(testContext(t), "m_x", map[string]int{"a": 1}, "two")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for item, err := range stream.Items(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, string(item.Type))
		if item.Type == Progress && (item.Message != "half" || *item.Percentage != 0.5) {
			t.Errorf("progress is %+v", item)
		}
		if item.Type == Data && (string(item.Data) != "null" || item.ContentType != "m.x") {
			t.Errorf("data is %+v", item)
		}
	}
	equal(t, "items", types, []string{"progress", "novelty", "data", "done"})
	if _, err := stream.Next(testContext(t)); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
	if got := string(s.calls[0].Params); got != `[{"a":1},"two"]` {
		t.Errorf("parameters were %s", got)
	}
	if c.Hash() != "h1" {
		t.Errorf("the hash is %q", c.Hash())
	}
}

func TestFailureHasGuidance(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.ack(c.ID, `"a"`)
		s.item(`"a"`, `{"service_hash":"h","type":"guidance","provenance":["m"],"error_kind":"method_not_found","module":"m","method":"xx","available_methods":["x"],"action":"try_method","suggested_method":"x","example_params":{"a":1}}`)
		s.item(`"a"`, `{"service_hash":"h","type":"error","provenance":["m"],"error":"Method not found: xx","recoverable":false}`)
		s.item(`"a"`, done)
	})
	_, err := s.dial().Call(testContext(t), "m_xx")
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Text != "Method not found: xx" || f.Guidance == nil {
		t.Fatalf("got %#v", err)
	}
	if g := f.Guidance; g.ErrorKind != MethodNotFound || g.Action != TryMethod || g.SuggestedMethod != "x" || string(g.ExampleParams) != `{"a":1}` {
		t.Errorf("guidance is %+v", g)
	}
}

func TestRPCErrorAndBatchedAnswer(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.send(`[{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"no"}},{"jsonrpc":"2.0","method":"other","params":[1]}]`, c.ID)
	})
	_, err := s.dial().Call(testContext(t), "m_x")
	if e, ok := errors.AsType[*RPCError](err); !ok || e.Code != -32600 {
		t.Fatalf("got %v", err)
	}
}

func TestItemsBeforeTheAcknowledgement(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.item("1", data("1"))
		s.item("2", data("100")) // of no call
		s.item("1", done)
		s.ack(c.ID, "1")
	})
	got, err := s.dial().Call(testContext(t), "m_x")
	if err != nil || string(got) != "1" {
		t.Fatalf("got %s, %v", got, err)
	}
}

// Of items that come before the acknowledgement, only some are kept. A stream that has lost
// one says so, with numbers and without; others go on.
func TestTooManyItemsBeforeTheAcknowledgement(t *testing.T) {
	for name, item := range map[string]func(int) string{
		"with numbers": numbered,
		"without":      func(n int) string { return data(fmt.Sprint(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(s *session, c call) {
				if c.Method == "m_y" {
					s.ack(c.ID, "2")
					s.item("2", data("1"))
					s.item("2", done)
					return
				}
				for i := 1; i <= maxEarly+1; i++ {
					s.item("1", item(i))
				}
				s.ack(c.ID, "1")
				s.item("1", done)
			})
			c := s.dial()
			got, err := streamed(t, c)
			if _, ok := errors.AsType[*Broken](err); !ok || len(got) > 0 {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := c.Call(testContext(t), "m_y"); err != nil || string(got) != "1" {
				t.Errorf("another stream: %s, %v", got, err)
			}
		})
	}
}

// What is kept for streams that never come is forgotten.
func TestItemsOfTooManyStreamsBeforeTheAcknowledgement(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		for i := 1; i <= 2*maxEarly; i++ {
			s.item(fmt.Sprint(i), numbered(1))
		}
		s.ack(c.ID, "1")
		s.item("1", done)
	})
	c := s.dial()
	if _, err := c.Call(testContext(t), "m_x"); err == nil {
		t.Error("nothing is missing")
	} else if _, ok := errors.AsType[*Broken](err); !ok {
		t.Errorf("the error is %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.early) > 0 || c.missed {
		t.Errorf("%d items are kept for no call", len(c.early))
	}
}

func TestNoiseIsPassedOver(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.send(`{"jsonrpc":"2.0","method":"weather","params":"rain"}`)
		s.send(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`)
		s.send(`{"jsonrpc":"2.0","id":999,"result":1}`)
		s.ack(c.ID, "1")
		s.item("1", data("1"))
		s.item("1", done)
	})
	if got, err := s.dial().Call(testContext(t), "m_x"); err != nil || string(got) != "1" {
		t.Fatalf("got %s, %v", got, err)
	}
}

func TestSlowReaderLosesNothing(t *testing.T) {
	const many = 5 * maxUnread
	s := newServer(t, func(s *session, c call) {
		s.ack(c.ID, "1")
		for i := 1; i <= many; i++ {
			s.item("1", numbered(i))
		}
		s.item("1", strings.Replace(done, "}", fmt.Sprintf(`,"seq":%d}`, many+1), 1))
	})
	stream, err := s.dial().Stream(testContext(t), "m_x")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the stream is full", func() bool { return len(stream.items) == maxUnread })
	got, err := read(t, stream)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "data", got, count(1, many))
}

// resuming is a server that breaks the connection behind the third item, and resumes
// streams with an item that was sent before.
func resuming(last int) func(*session, call) {
	return func(s *session, c call) {
		if c.Method == methodResume {
			var params []int
			_ = json.Unmarshal(c.Params, &params)
			s.ack(c.ID, "5")
			for i := max(params[1], 1); i <= last; i++ { // the first one is a repetition
				s.item("5", numbered(i))
			}
			s.item("5", strings.Replace(done, "}", fmt.Sprintf(`,"seq":%d}`, last+1), 1))
			return
		}
		s.ack(c.ID, "5")
		for i := 1; i <= 3; i++ {
			s.item("5", numbered(i))
		}
		_ = s.conn.CloseNow()
	}
}

func TestResume(t *testing.T) {
	s := newServer(t, resuming(6))
	got, err := streamed(t, s.dial())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "data", got, count(1, 6))
	equal(t, "calls", s.asked(), []string{"m_x", methodResume})
	if got := string(s.calls[1].Params); got != `[5,3]` {
		t.Errorf("resumed with %s", got)
	}
}

// A server that has too much to do for a moment has not lost the stream.
func TestResumeAtABusyServer(t *testing.T) {
	s := newServer(t, resuming(6))
	c := s.dial()
	s.mu.Lock()
	s.busy = 2
	s.mu.Unlock()
	got, err := streamed(t, c)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "data", got, count(1, 6))
}

func TestResumeBeforeTheFirstItem(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		if c.Method != methodResume {
			s.ack(c.ID, "5")
			_ = s.conn.CloseNow()
			return
		}
		s.ack(c.ID, "true")
		s.item("5", numbered(1))
		s.item("5", `{"type":"done","seq":2}`)
	})
	if got, err := streamed(t, s.dial()); err != nil || !slices.Equal(got, count(1, 1)) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestStreamsThatCannotGoOn(t *testing.T) {
	for name, answer := range map[string]func(*session, call){
		"a server that takes resume for a call": func(s *session, c call) {
			if c.Method == methodResume {
				s.ack(c.ID, "6")
				s.item("6", done)
				return
			}
			resuming(3)(s, c)
		},
		"a server that has forgotten the stream": func(s *session, c call) {
			if c.Method == methodResume {
				s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"gone"}}`, c.ID)
				return
			}
			resuming(3)(s, c)
		},
		"items without numbers": func(s *session, c call) {
			s.ack(c.ID, "5")
			for i := 1; i <= 3; i++ {
				s.item("5", data(fmt.Sprint(i)))
			}
			_ = s.conn.CloseNow()
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := streamed(t, newServer(t, answer).dial())
			if _, ok := errors.AsType[*Lost](err); !ok {
				t.Errorf("the error is %v", err)
			}
			equal(t, "data", got, count(1, 3))
		})
	}
}

func TestGapIsAnError(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.ack(c.ID, "5")
		s.item("5", numbered(1))
		s.item("5", numbered(3))
	})
	got, err := streamed(t, s.dial())
	if _, ok := errors.AsType[*Broken](err); !ok {
		t.Errorf("the error is %v", err)
	}
	equal(t, "data", got, count(1, 1))
}

func TestStreamWithoutItsBeginningIsBroken(t *testing.T) {
	for name, answer := range map[string]func(*session, call){
		"at first": func(s *session, c call) {
			s.ack(c.ID, "5")
			s.item("5", numbered(3))
		},
		"after it was resumed": func(s *session, c call) {
			s.ack(c.ID, "5")
			if c.Method != methodResume {
				_ = s.conn.CloseNow()
				return
			}
			s.item("5", numbered(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := streamed(t, newServer(t, answer).dial())
			if _, ok := errors.AsType[*Broken](err); !ok || len(got) > 0 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestServerThatCountsFromZero(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		s.ack(c.ID, "5")
		for i := range 3 {
			s.item("5", numbered(i))
		}
		s.item("5", `{"type":"done","seq":3}`)
	})
	got, err := streamed(t, s.dial())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "data", got, count(0, 2))
}

func TestLostBeforeTheAcknowledgement(t *testing.T) {
	var calls atomic.Int32
	s := newServer(t, func(s *session, c call) {
		if calls.Add(1) == 1 {
			_ = s.conn.CloseNow()
			return
		}
		s.ack(c.ID, "1")
		s.item("1", data("1"))
		s.item("1", done)
	})
	c := s.dial()
	_, err := c.Call(testContext(t), "m_x")
	if _, ok := errors.AsType[*Lost](err); !ok {
		t.Fatalf("the error is %v", err)
	}
	// It was not sent again, and the next call has a new connection.
	if got, err := c.Call(testContext(t), "m_x"); err != nil || string(got) != "1" {
		t.Fatalf("got %s, %v", got, err)
	}
	equal(t, "calls", s.asked(), []string{"m_x", "m_x"})
}

func TestServerThatComesBack(t *testing.T) {
	path := socketPath(t)
	answer := func(s *session, c call) {
		s.ack(c.ID, "1")
		s.item("1", data("1"))
		s.item("1", done)
	}
	first := newSocketServer(t, path, answer)
	first.target.Patience = 1 // so it gives up at once
	c := first.dial()
	first.close()
	_ = os.Remove(path)
	testkit.Until(t, "the client has given up", func() bool {
		first.drop() // it may have come back before the socket was gone
		_, err := c.Call(testContext(t), "m_x")
		_, ok := errors.AsType[*Unreachable](err)
		return ok
	})
	newSocketServer(t, path, answer)
	testkit.Until(t, "a call is answered", func() bool {
		got, err := c.Call(testContext(t), "m_x")
		return err == nil && string(got) == "1"
	})
}

func TestDialErrors(t *testing.T) {
	s := newServer(t, nil)
	bad := s.target
	bad.Token = "wrong"
	_, err := Dial(testContext(t), bad)
	if r, ok := errors.AsType[*Refused](err); !ok || r.Status != 401 || !r.Forbidden() || !strings.Contains(r.Text, "not mine") {
		t.Errorf("a wrong token: %v", err)
	}
	_, err = Dial(testContext(t), Target{URL: "unix://" + socketPath(t)})
	if _, ok := errors.AsType[*Unreachable](err); !ok {
		t.Errorf("no socket: %v", err)
	}
	for _, url := range []string{"", "ftp://x", "ws://", "unix://", "::", "127.0.0.1:7420"} {
		if _, err := Dial(testContext(t), Target{URL: url}); err == nil || !strings.Contains(err.Error(), "ws://") && !strings.Contains(err.Error(), "unix://") {
			t.Errorf("%q: %v", url, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(cancelled, s.target); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestCloseOfAStreamCancelsIt(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		if c.Method == methodUnsubscribe {
			s.send(`{"jsonrpc":"2.0","id":%s,"result":true}`, c.ID)
			return
		}
		s.ack(c.ID, "1")
		s.item("1", numbered(1))
	})
	stream, err := s.dial().Stream(testContext(t), "m_x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(testContext(t)); err != nil {
		t.Fatal(err)
	}
	_ = stream.Close()
	_ = stream.Close()
	testkit.Until(t, "the server is told", func() bool { return slices.Contains(s.asked(), methodUnsubscribe) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := string(s.calls[1].Params); got != "[1]" {
		t.Errorf("it was told %s", got)
	}
	if _, err := stream.Next(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed stream: %v", err)
	}
}

func TestCancelledBeforeTheAcknowledgement(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(s *session, c call) {
		if c.Method == methodUnsubscribe {
			return
		}
		close(asked)
		<-goOn
		s.ack(c.ID, "1")
	})
	c := s.dial()
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := c.Stream(ctx, "m_x")
		failed <- err
	}()
	<-asked
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	close(goOn)
	testkit.Until(t, "the server is told", func() bool { return slices.Contains(s.asked(), methodUnsubscribe) })
}

func TestCloseEndsEverything(t *testing.T) {
	s := newServer(t, func(s *session, c call) {
		if c.Method == "m_silent" {
			return
		}
		s.ack(c.ID, "1")
	})
	c := s.dial()
	stream, err := c.Stream(testContext(t), "m_x")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := c.Stream(context.Background(), "m_silent")
		failed <- err
	}()
	testkit.Until(t, "it waits", func() bool { return slices.Contains(s.asked(), "m_silent") })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("a call that waits: %v", err)
	}
	if _, err := stream.Next(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream: %v", err)
	}
	if _, err := c.Call(testContext(t), "m_x"); !errors.Is(err, ErrClosed) {
		t.Errorf("a call: %v", err)
	}
}

func TestServerThatSpeaksSomethingElse(t *testing.T) {
	s := newServer(t, func(s *session, c call) { s.send("hello?") })
	c := s.dial()
	_, err := c.Call(testContext(t), "m_x")
	if err == nil || !strings.Contains(err.Error(), "not JSON-RPC") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":"sub_1"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		`{"method":"s","params":{"subscription":"a","result":{"type":"data","data":1,"seq":3}}}`, `[{"id":1,"result":true},{}]`, `[`, ``, `{"method":"m","params":[1]}`,
		`{"method":"s","params":{"subscription":"a","result":{"type":"guidance","available_methods":[1]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		frames, err := readFrames(text)
		if err != nil && len(frames) > 0 {
			t.Fatal("frames beside an error")
		}
		for i := range frames {
			if !frames[i].notifies() {
				continue
			}
			item, err := readItem(frames[i].about.Item)
			if err == nil && (item.Type == "" || item.Type == Guide && item.Guidance == nil) {
				t.Fatalf("the item is %+v", item)
			}
		}
	})
}
