package unix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
	"kernos/schema"
)

func query(t message.Type, data string) message.Message {
	return message.Message{Kind: message.KindQuery, Type: t, Data: json.RawMessage(data)}
}

func TestClientMakesManyCallsAtATime(t *testing.T) {
	const callers, calls = 16, 200
	client := start(t, newKernel(t, nil), nil).client()
	var calling sync.WaitGroup
	for i := range callers {
		calling.Go(func() {
			for j := range calls {
				want := fmt.Sprintf(`{"payload":"%d-%d"}`, i, j)
				got, err := client.Call(t.Context(), query("Ping", want), nil)
				if err != nil || got.Kind != message.KindReply || string(got.Data) != want {
					t.Errorf("got %s %s, %v", got.Kind, got.Data, err)
					return
				}
			}
		})
	}
	calling.Wait()
	if got, err := client.Call(t.Context(), query("No.Body", `1`), nil); err != nil || got.Kind != message.KindError {
		t.Errorf("an error message: got %s, %v", got.Kind, err)
	}
}

func TestClientHandsOutEventsInOrder(t *testing.T) {
	const events = 2000 // more than wait in one call
	k := newKernel(t, nil, slow("Test.Tell", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		for i := range events {
			emit(m.Event("Test.Happened", json.RawMessage(fmt.Sprint(i))))
		}
		emit(m.Reply([]byte(`"told"`)))
	}))
	client := start(t, k, nil).client()
	next := 0
	got, err := client.Call(t.Context(), query("Test.Tell", `1`), func(m message.Message) {
		if string(m.Data) != fmt.Sprint(next) {
			t.Errorf("event %d is %s", next, m.Data)
		}
		next++
	})
	if err != nil || string(got.Data) != `"told"` || next != events {
		t.Errorf("got %s, %v after %d events", got.Data, err, next)
	}
	if got, err := client.Call(t.Context(), query("Test.Tell", `1`), nil); err != nil || string(got.Data) != `"told"` {
		t.Errorf("with nobody to tell: got %s, %v", got.Data, err)
	}
}

// canceller is a Syscall.Cancel as the daemon has it.
func canceller() kernel.Syscall {
	return kernel.Syscall{
		Definition: kernel.Definition{Type: "Syscall.Cancel", Kind: message.KindCommand, Summary: "Cancel.", Input: schema.Any, Output: schema.Any},
		Handler: func(ctx context.Context, m message.Message, emit kernel.Emit) {
			var in struct{ ID message.ID }
			if err := json.Unmarshal(m.Data, &in); err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			peer, _ := connection.PeerOf(ctx)
			emit(m.Reply(json.RawMessage(fmt.Sprint(peer.Cancel(in.ID)))))
		},
	}
}

func TestClientCancelsACallWhoseContextEnds(t *testing.T) {
	begun, ended, syscalls := waiting(nil)
	client := start(t, newKernel(t, nil, append(syscalls, canceller())...), nil).client()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		request := query("Test.Look", `1`)
		request.Metadata.ID = "look"
		_, err := client.Call(ctx, request, nil)
		failed <- err
	}()
	arrives(t, "it runs", begun)
	cancel()
	if err := arrives(t, "the call ends", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := arrives(t, "the daemon cancels it", ended); got != "look cancelled" {
		t.Errorf("got %s", got)
	}
	// The answers to both are dropped, and the connection goes on.
	if got, err := client.Call(t.Context(), query("Ping", `{"payload":1}`), nil); err != nil || string(got.Data) != `{"payload":1}` {
		t.Errorf("got %s, %v", got.Data, err)
	}
}

func TestClientSaysThatItsConnectionHasEnded(t *testing.T) {
	begun, _, syscalls := waiting(nil)
	d := start(t, newKernel(t, nil, syscalls...), &Options{Grace: time.Millisecond})
	client := d.client()
	type result struct {
		m   message.Message
		err error
	}
	ended := make(chan result, 1)
	go func() {
		m, err := client.Call(t.Context(), query("Test.Look", `1`), nil)
		ended <- result{m, err}
	}()
	arrives(t, "it runs", begun)
	d.stop()
	// What is cut is answered for.
	if got := arrives(t, "the call ends", ended); got.err != nil || got.m.Kind != message.KindError {
		t.Errorf("got %s, %v", got.m.Data, got.err)
	}
	testkit.Until(t, "the connection has ended", func() bool { return client.reason() != nil })
	if _, ok := errors.AsType[*Lost](client.reason()); !ok {
		t.Errorf("got %v", client.reason())
	}
	if _, err := client.Call(t.Context(), query("Ping", `1`), nil); err == nil {
		t.Error("a call after the end succeeds")
	}
	if err := client.Send(t.Context(), message.Message{Kind: message.KindEvent, Type: "Test.Happened"}); err == nil {
		t.Error("an event after the end succeeds")
	}
}

func TestClientTellsTheReasonThatTheDaemonGives(t *testing.T) {
	d := start(t, newKernel(t, nil), &Options{MaxConnections: 1})
	first := d.client()
	if _, err := first.Call(t.Context(), query("Ping", `{"payload":1}`), nil); err != nil {
		t.Fatal(err)
	}
	_, err := d.client().Call(t.Context(), query("Ping", `{"payload":1}`), nil)
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 429 || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("got %v", err)
	}
}

func TestClientThatIsClosedEndsItsCalls(t *testing.T) {
	begun, ended, syscalls := waiting(nil)
	client := start(t, newKernel(t, nil, syscalls...), nil).client()
	failed := make(chan error, 1)
	go func() {
		request := query("Test.Look", `1`)
		request.Metadata.ID = "look"
		_, err := client.Call(t.Context(), request, nil)
		failed <- err
	}()
	arrives(t, "it runs", begun)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := arrives(t, "the call ends", failed); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if got := arrives(t, "the daemon cancels it", ended); got != "look cancelled" {
		t.Errorf("got %s", got)
	}
	if err := client.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// What was sent before Close has arrived.
func TestClientSendsEverythingBeforeItCloses(t *testing.T) {
	const events = 5000
	kept := new(counter)
	client := start(t, newKernel(t, &kernel.Options{Recorder: kept}), nil).client()
	for range events {
		if err := client.Send(t.Context(), message.Message{Kind: message.KindEvent, Type: "Test.Happened"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	testkit.Until(t, "all events have come", func() bool { return kept.count() == events })
}

// A counter counts what comes in.
type counter struct {
	kernel.Recorder
	mu sync.Mutex
	n  int
}

func (c *counter) Record(r kernel.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Way == kernel.In {
		c.n++
	}
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func TestClientRefusesWhatCantBeSent(t *testing.T) {
	begun, _, syscalls := waiting(nil)
	client := start(t, newKernel(t, nil, syscalls...), nil).client()
	for want, m := range map[string]message.Message{
		"use Send for events": {Kind: message.KindEvent, Type: "Test.Happened"},
		"Domain.Action":       query("nonsense", `1`),
		"a line may have":     query("Ping", `{"payload":"`+strings.Repeat("x", message.MaxLine)+`"}`),
	} {
		if _, err := client.Call(t.Context(), m, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
	}
	twice := query("Test.Look", `1`)
	twice.Metadata.ID = "twice"
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := client.Call(ctx, twice, nil)
		failed <- err
	}()
	arrives(t, "it runs", begun)
	if _, err := client.Call(t.Context(), twice, nil); err == nil || !strings.Contains(err.Error(), "ids must differ") {
		t.Errorf("got %v", err)
	}
	cancel()
	arrives(t, "it ends", failed)
}

// A daemon that does not read makes callers wait, for as long as they like and no longer.
func TestClientDoesNotWaitForADaemonThatDoesNotRead(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := new(Dialer).open(t.Context(), path) // it is no daemon, and would not answer a Ping
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(c)
	event := message.Message{Kind: message.KindEvent, Type: "Test.Happened", Data: json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	full := make(chan struct{})
	stuck := make(chan error, 1)
	go func() {
		for {
			client.mu.Lock()
			waits := len(client.queue) >= maxQueued
			client.mu.Unlock()
			if waits {
				close(full)
				stuck <- client.Send(ctx, event)
				return
			}
			if err := client.Send(ctx, event); err != nil {
				stuck <- err
				return
			}
		}
	}()
	arrives(t, "the queue is full", full)
	cancel()
	if err := arrives(t, "sending ends", stuck); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_ = accepted.Close()
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// A daemon of another kind may say anything.
func TestClientPassesOverWhatIsNotForIt(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := new(Dialer).open(t.Context(), path) // it is no daemon, and would not answer a Ping
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Close() }()
	client := NewClient(c)
	defer func() { _ = client.Close() }()
	lines := "nonsense\n" + strings.Repeat("x", 3*message.MaxLine) + "\n" + ping("mine") +
		`{"kind":"reply","type":"Ping","data":1,"metadata":{"id":"1","timestamp":1,"causation":"other"}}` + "\n" +
		`{"kind":"reply","type":"Ping","data":2,"metadata":{"id":"2","timestamp":1,"causation":"mine"}}` + "\n"
	request := query("Ping", `1`)
	request.Metadata.ID = "mine"
	go func() {
		_, _ = daemon.Read(make([]byte, 1024))
		_, _ = io.WriteString(daemon, lines)
	}()
	if got, err := client.Call(t.Context(), request, nil); err != nil || string(got.Data) != "2" {
		t.Errorf("got %s, %v", got.Data, err)
	}
}
