package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/rpc"
	"kernos/transport/ws"
)

// A cutter passes connections on to a server, and cuts them all when it is told to.
type cutter struct {
	net.Listener
	to string

	mu   sync.Mutex
	open []net.Conn
	busy sync.WaitGroup
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to}
	c.busy.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.busy.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, in, out)
		c.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			c.busy.Go(func() {
				_, _ = io.Copy(pair[0], pair[1]) // until it is cut
				_ = pair[0].Close()
				_ = pair[1].Close()
			})
		}
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	c.open = nil
}

// serveCounting serves a kernel with one syscall that counts, and returns its address.
func serveCounting(t *testing.T, next <-chan int) string {
	t.Helper()
	count := kernel.Syscall{
		Definition: kernel.Definition{
			Type:     "Test.Count",
			Kind:     message.KindQuery,
			Summary:  "Count.",
			Input:    schema.Any,
			Output:   schema.Any,
			Emits:    []kernel.EventDefinition{{Type: "Test.Counted", Summary: "A number."}},
			Behavior: kernel.Behavior{Runs: kernel.Slow},
		},
		Handler: func(ctx context.Context, m message.Message, emit kernel.Emit) {
			for n := range next {
				emit(m.Event("Test.Counted", json.RawMessage(strconv.Itoa(n))))
			}
			emit(m.Reply(json.RawMessage(`"all"`)))
		},
	}
	service := rpc.New(kerneltest.New(t, nil, count), nil)
	handler := ws.New(service, nil)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		_ = handler.Shutdown(testContext(t))
		service.Close()
		server.Close()
	})
	return server.Listener.Addr().String()
}

// TestResumeOfTheKernel cuts the connection to a real server again and again while a
// stream goes on, and wants every item once.
func TestResumeOfTheKernel(t *testing.T) {
	const cuts, each = 5, 20
	next := make(chan int)
	proxy := newCutter(t, serveCounting(t, next))
	c, err := Dial(testContext(t), Target{URL: "ws://" + proxy.Addr().String() + "/", Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	stream, err := c.Stream(testContext(t), "test_count", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(next)
		for i := 1; i <= cuts*each; i++ {
			next <- i
			if i%each == 0 {
				proxy.cut()
			}
		}
	}()
	var all []Item
	for item, err := range stream.Items(testContext(t)) {
		if err != nil {
			t.Fatalf("after %d items: %v", len(all), err)
		}
		all = append(all, item)
	}
	if err := CheckSequence(all); err != nil {
		t.Error(err)
	}
	var got []string
	for _, i := range all {
		if i.ContentType == "test.counted" {
			got = append(got, string(i.Data))
		}
	}
	equal(t, "numbers", got, count(1, cuts*each))
}

func TestKernelThatIsDiscovered(t *testing.T) {
	next := make(chan int)
	close(next)
	address := serveCounting(t, next)
	c, err := Dial(testContext(t), Target{URL: "ws://" + address + "/ws"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	catalog, err := Discover(testContext(t), c, OpenCache(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	module, name, ok := catalog.Find("Test.Count")
	if !ok {
		t.Fatalf("the catalog is %+v", catalog.Modules)
	}
	m, err := catalog.Method(testContext(t), module, name)
	if err != nil || m.Description != "Count." {
		t.Fatalf("got %+v, %v", m, err)
	}
	if got, err := c.Call(testContext(t), m.Call(), struct{}{}); err != nil || string(got) != `"all"` {
		t.Errorf("got %s, %v", got, err)
	}
	_, err = c.Call(testContext(t), "test_cuont", struct{}{})
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Guidance == nil || !strings.Contains(f.Guidance.SuggestedMethod, "count") || f.Code != 404 {
		t.Errorf("got %+v, %v", f, err)
	}
}
