package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"kernos/cluster/door"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// slow is a slow syscall of any data.
func slow(t message.Type, kind message.Kind, h kernel.Handler) kernel.Syscall {
	return kernel.Syscall{Handler: h, Definition: kernel.Definition{
		Type: t, Kind: kind, Summary: "A syscall of a test.", Input: schema.Any, Output: schema.Any,
		Emits:    []kernel.EventDefinition{{Type: "Test.Happened", Summary: "It happened."}},
		Behavior: kernel.Behavior{Runs: kernel.Slow, Timeout: time.Hour},
	}}
}

// waits waits for the end of its context, after it has told that it runs, and then reports that.
func waits(kind message.Kind, t message.Type, runs chan<- message.ID, ended chan<- error, emits bool) kernel.Syscall {
	return slow(t, kind, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		if emits {
			emit(m.Event("Test.Happened", json.RawMessage(`1`)))
		}
		runs <- m.Metadata.ID
		<-ctx.Done()
		if ended != nil {
			ended <- ctx.Err()
		}
		emit(m.Fail(message.Errorf(499, "ended")))
	})
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(testkit.Patience):
		t.Fatal("nothing came")
	}
	return value
}

func answers(kind message.Kind, t message.Type) kernel.Syscall {
	return slow(t, kind, func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(json.RawMessage(`"here"`))) })
}

// Messages and answers pass in both directions, as fast as each side takes them, and half-closes do.
func TestLinesArePassedOn(t *testing.T) {
	n := startNode(t, startOwner(t), &door.Lines{})
	p := n.connect()
	const many = 3000
	go func() {
		for i := range many {
			_, _ = io.WriteString(p, request(message.KindQuery, fmt.Sprint(i), "Ping", ""))
		}
		_ = p.CloseWrite()
	}()
	for i := range many {
		p.want(message.KindReply, message.ID(fmt.Sprint(i)))
	}
	p.wantEnd()
}

// What isn't a message is answered by the owner, and a line that is too long too.
func TestWhatIsntAMessageIsPassedOn(t *testing.T) {
	n := startNode(t, startOwner(t), &door.Lines{})
	p := n.connect()
	p.say("nonsense\n")
	if m := p.hear(); m.Failure().Code != 400 {
		t.Errorf("got %s", m.Data)
	}
	p.say("%s\n", make([]byte, 100_000))
	if m := p.hear(); m.Failure().Code != 413 {
		t.Errorf("got %s", m.Data)
	}
	p.say("%s", request(message.KindQuery, "a", "Ping", ""))
	p.want(message.KindReply, "a")
}

// A client that hangs up cancels its call at the owner.
func TestHangingUpCancels(t *testing.T) {
	runs, ended := make(chan message.ID, 1), make(chan error, 1)
	n := startNode(t, startOwner(t, waits(message.KindQuery, "Test.Slow", runs, ended, false)), &door.Lines{})
	for _, half := range []bool{false, true} {
		p := n.connect()
		p.say("%s", request(message.KindQuery, "a", "Test.Slow", ""))
		receive(t, runs)
		if half { // and then as a whole
			_ = p.CloseWrite()
			select {
			case <-ended:
				t.Fatal("a half-close cancels")
			case <-time.After(20 * time.Millisecond):
			}
		}
		_ = p.Close()
		if err := receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// When the owner goes, what is safe is sent to the next one, and all else is answered. The connection stays.
func TestTheOwnerGoes(t *testing.T) {
	runs := make(chan message.ID, 10)
	first := startOwner(t,
		waits(message.KindQuery, "Test.Query", runs, nil, false), waits(message.KindQuery, "Test.Watch", runs, nil, true), waits(message.KindCommand, "Test.Command", runs, nil, false))
	next := startOwner(t, answers(message.KindQuery, "Test.Query"), answers(message.KindQuery, "Test.Watch"), answers(message.KindCommand, "Test.Command"))
	n := startNode(t, first, &door.Lines{})
	p := n.connect()
	p.say("%s", request(message.KindQuery, "query", "Test.Query", ""))
	p.say("%s", request(message.KindQuery, "watch", "Test.Watch", ""))
	p.say("%s", request(message.KindCommand, "bare", "Test.Command", ""))
	p.say("%s", request(message.KindCommand, "keyed", "Test.Command", `,"idempotencyKey":"k"`))
	p.want(message.KindEvent, "watch")
	for range 4 {
		receive(t, runs)
	}
	n.become(nil)
	first.stop()
	for range 2 {
		if m := p.hear(); m.Kind != message.KindError || m.Failure().Code != 503 || m.Metadata.Causation == "query" || m.Metadata.Causation == "keyed" {
			t.Errorf("got %s for %s: %s", m.Kind, m.Metadata.Causation, m.Data)
		}
	}
	p.say("%s", request(message.KindQuery, "later", "Ping", ""))
	n.become(next)
	got := make(map[message.ID]message.Kind)
	for range 3 {
		m := p.hear()
		got[m.Metadata.Causation] = m.Kind
	}
	for _, id := range []message.ID{"query", "keyed", "later"} {
		if got[id] != message.KindReply {
			t.Errorf("%s: %s", id, got[id])
		}
	}
}

// Without an owner a message waits for a while, and gets a 503. Later ones don't wait as long, and the connection stays.
func TestNoOwner(t *testing.T) {
	n := startNode(t, nil, &door.Lines{Waiting: 20 * time.Millisecond, Own: func(_ context.Context, m *message.Message) (message.Message, bool) {
		return m.Reply(json.RawMessage(`"own"`)), m.Type == "Kernel.Status"
	}})
	p := n.connect()
	for _, id := range []string{"a", "b", "c"} {
		p.say("%s", request(message.KindCommand, id, "Memory.Set", ""))
		if m := p.want(message.KindError, message.ID(id)); m.Failure().Code != 503 {
			t.Errorf("got %s", m.Data)
		}
	}
	p.say("%s", request(message.KindQuery, "mine", "Kernel.Status", ""))
	if m := p.want(message.KindReply, "mine"); string(m.Data) != `"own"` {
		t.Errorf("got %s", m.Data)
	}
	n.become(startOwner(t))
	testkit.Until(t, "the owner is found", func() bool {
		p.say("%s", request(message.KindQuery, "p", "Ping", ""))
		return p.hear().Kind == message.KindReply
	})
}

// A connection that serves others, or speaks what can't be told apart, ends with the owner, so that its program comes back.
func TestAConnectionThatServesEndsWithTheOwner(t *testing.T) {
	for name, line := range map[string]string{
		"serves": request(message.KindCommand, "r", "Syscall.Register", ""), "another dialect": `{"type":"query","name":"Ping","payload":{"payload":1}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			first := startOwner(t, answers(message.KindCommand, "Syscall.Register"))
			n := startNode(t, first, &door.Lines{})
			p := n.connect()
			p.say("%s", line)
			if text, err := p.in.ReadString('\n'); err != nil {
				t.Fatalf("%s, %v", text, err)
			}
			n.become(nil)
			first.stop()
			_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
			if _, err := io.Copy(io.Discard, p.in); err != nil {
				t.Error(err)
			}
		})
	}
}
