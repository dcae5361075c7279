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
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func query(t message.Type, data string) message.Message {
	return message.Message{Kind: message.KindQuery, Type: t, Data: json.RawMessage(data)}
}

// Events come before an outcome, and an error message is an outcome too.
func TestAskReturnsTheOutcome(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module, slow("Test.Tell", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		for i := range 2000 {
			emit(m.Event("Test.Happened", json.RawMessage(fmt.Sprint(i))))
		}
		emit(m.Reply([]byte(`"told"`)))
	})), nil)
	if got, err := d.connect().Ask(t.Context(), query("Test.Tell", `1`)); err != nil || string(got.Data) != `"told"` {
		t.Errorf("got %s, %v", got.Data, err)
	}
	if got, err := d.connect().Ask(t.Context(), query("No.Body", `1`)); err != nil || got.Kind != message.KindError {
		t.Errorf("an error message: got %s, %v", got.Kind, err)
	}
	c := d.connect()
	if _, err := c.Ask(t.Context(), query("Ping", `{"payload":1}`)); err != nil {
		t.Error(err)
	}
	if _, err := c.Ask(t.Context(), query("Ping", `{"payload":1}`)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second request over the same connection: %v", err)
	}
}

func TestAskGivesUpWithItsContext(t *testing.T) {
	begun, ended, syscalls := waiting(nil)
	c := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), nil).connect()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		request := query("Test.Look", `1`)
		request.Metadata.ID = "look"
		_, err := c.Ask(ctx, request)
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
}

func TestAskTellsTheReasonThatTheDaemonGives(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{MaxConnections: 1})
	first := d.dial()
	first.say(ping("1"))
	first.want(pong("1"))
	_, err := d.connect().Ask(t.Context(), query("Ping", `{"payload":1}`))
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 429 || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*Lost](err); !ok {
		t.Errorf("got %v", err)
	}
}

func TestAskRefusesWhatCantBeSent(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil)
	for want, m := range map[string]message.Message{
		"Domain.Action":   query("nonsense", `1`),
		"a line may have": query("Ping", `{"payload":"`+strings.Repeat("x", message.MaxLine)+`"}`),
	} {
		if _, err := d.connect().Ask(t.Context(), m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
	}
}

// A daemon of another kind may send anything.
func TestAskPassesOverWhatIsNotForIt(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := new(Dialer).open(t.Context(), path) // it is no daemon, and has no lock
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Close() }()
	lines := "nonsense\n" + strings.Repeat("x", 3*message.MaxLine) + "\n" + ping("mine") +
		`{"kind":"reply","type":"Ping","data":1,"metadata":{"id":"1","timestamp":1,"causation":"other"}}` + "\n" +
		`{"kind":"reply","type":"Ping","data":2,"metadata":{"id":"2","timestamp":1,"causation":"mine"}}` + "\n"
	request := query("Ping", `1`)
	request.Metadata.ID = "mine"
	go func() {
		_, _ = daemon.Read(make([]byte, 1024))
		_, _ = io.WriteString(daemon, lines)
	}()
	if got, err := c.Ask(t.Context(), request); err != nil || string(got.Data) != "2" {
		t.Errorf("got %s, %v", got.Data, err)
	}
}
