package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// TestSessionsAreKilled kills a kernel in the middle of turns, each with three calls side by side:
// in the store, outside, and a query. No input that was acknowledged is lost, no effect happens
// twice, each call has one result, and each session goes on.
func TestSessionsAreKilled(t *testing.T) {
	const rounds = 4 // a turn that was begun more than five times fails
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			for range max(1, *crashes/rounds) {
				v := &killedSessions{effects: killedJobs{engine: e}, inputs: make(map[string][]string)}
				storetest.Victim{Work: v.work, Check: v.check, End: v.end}.Kill(t, rounds)
			}
		})
	}
}

const (
	sessionsPerRound = 12
	inputsPerSession = 4 // a conversation that still goes to the model in one line
)

// killedSessions is a workload of sessions, and what was acknowledged of it.
type killedSessions struct {
	effects killedJobs
	inputs  map[string][]string // by session
}

// turnMessage is what the test reads of a message of a session.
type turnMessage struct {
	Type, Text string
	Calls      []struct{ ID string }
	Results    []struct {
		CallID, Name string
		Error        *message.Error
	}
}

// thinking is a model: it answers each input with calls under the key that the input is, and their
// results with a reply.
var thinking = kernel.Command(kernel.Definition{Type: "Test.Generate", Summary: "Generate.", Behavior: kernel.Behavior{Runs: kernel.Slow, Repeat: kernel.Retried}},
	func(_ context.Context, in map[string]json.RawMessage) (any, error) {
		var messages []turnMessage
		if err := json.Unmarshal(in["messages"], &messages); err != nil {
			return nil, err
		}
		last := messages[len(messages)-1]
		said := map[string]any{"type": "reply", "text": "It is done."}
		if last.Type == "input" {
			data := map[string]any{"key": last.Text}
			said = map[string]any{"type": "tool-calls", "calls": []any{
				map[string]any{"id": "a", "name": "Test.Count", "args": data},
				map[string]any{"id": "b", "name": "Test.Outside", "args": data},
				map[string]any{"id": "c", "name": "Memory.List", "args": map[string]any{}},
			}}
		}
		return map[string]any{"messages": []any{said}}, nil
	})

func (v *killedSessions) work(dir string, report func(string)) error {
	w, err := v.effects.open(dir, thinking)
	if err != nil {
		return err
	}
	failed := make(chan error)
	go func() { failed <- w.Serve(context.Background()) }()
	round := fmt.Sprint(time.Now().UnixNano())
	for c := range sessionsPerRound {
		go func() {
			tell := func(t message.Type, format string, args ...any) (out struct{ Session string }) {
				m := w.command(t, format, args...)
				for failure(m) == 503 { // it isn't served yet
					m = w.command(t, format, args...)
				}
				if err := json.Unmarshal(m.Data, &out); err != nil || failure(m) != 0 {
					failed <- fmt.Errorf("%s: %s, %v", t, m.Data, err)
				}
				return out
			}
			tell("Memory.Set", `{"key":"models/default","value":{"dialect":"syscall","type":"Test.Generate"}}`)
			id := tell("Session.Create", `{"tools":["Test.Count","Test.Outside","Memory.List"],"policy":[{"match":"Test.*","decide":"allow"}]}`).Session
			for n := range inputsPerSession {
				key := fmt.Sprintf("%s-%d-%d", round, c, n)
				tell("Session.Send", `{"session":%q,"text":%q}`, id, key)
				report(id + " " + key)
			}
		}()
	}
	return <-failed
}

func (v *killedSessions) check(_ *testing.T, _ string, reported []string) {
	for _, line := range reported {
		id, key, _ := strings.Cut(line, " ")
		v.inputs[id] = append(v.inputs[id], key)
	}
}

// end lets all turns end, and checks their outcomes.
func (v *killedSessions) end(t *testing.T, dir string) {
	w, err := v.effects.open(dir, thinking)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer w.serve(t)()
	ends := make(map[string]int)
	for id, keys := range v.inputs {
		send := func() (out struct {
			Status string
			Error  *message.Error
		}) {
			m := w.command("Session.Send", `{"session":%q,"text":"last-%s","wait":true}`, id, id)
			for failure(m) == 503 && t.Context().Err() == nil { // it isn't served yet
				m = w.command("Session.Send", `{"session":%q,"text":"last-%s","wait":true}`, id, id)
			}
			if err := json.Unmarshal(m.Data, &out); err != nil {
				t.Fatalf("%s %v", m.Data, err)
			}
			return out
		}
		if out := send(); out.Status != "done" {
			t.Errorf("the session %s doesn't go on: it is %s, %v", id, out.Status, out.Error)
		}
		v.checkSession(t, w, id, keys, ends)
	}
	for e, err := range w.store.Scan(store.Prefix(countKey(""))) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Value); n != 1 {
			t.Errorf("%s has happened %d times", e.Key[1:], n)
		}
	}
	v.effects.checkOutside(t, dir)
	t.Logf("%d sessions, results %v", len(v.inputs), ends)
}

// checkSession looks at the messages of a session.
func (v *killedSessions) checkSession(t *testing.T, w *whole, id string, keys []string, ends map[string]int) {
	var all struct{ Messages []turnMessage }
	if m := w.query("Session.Export", `{"session":%q}`, id); failure(m) != 0 || json.Unmarshal(m.Data, &all) != nil {
		t.Fatalf("%s", m.Data)
	}
	var said []string
	results := make(map[string]int)
	for _, m := range all.Messages {
		if m.Type == "input" {
			said = append(said, m.Text)
		}
		for _, r := range m.Results {
			results[r.CallID]++
			switch {
			case r.Error == nil:
				ends[r.Name]++
			case r.Error.Code == 409 && r.Name == "Test.Outside": // a kill met it while it acted outside
				ends["unknown"]++
			default:
				t.Errorf("the session %s: the result of %s is %+v", id, r.Name, r.Error)
			}
		}
	}
	for _, m := range all.Messages {
		for _, c := range m.Calls {
			if results[c.ID] != 1 {
				t.Errorf("the session %s: the call %s has %d results", id, c.ID, results[c.ID])
			}
		}
	}
	for _, key := range keys {
		if !slices.Contains(said, key) {
			t.Errorf("the session %s: the input %s was acknowledged, and is lost", id, key)
		}
		if e, err := w.store.Get(countKey(key)); err != nil || len(e.Value) != 1 {
			t.Errorf("the session %s: %s has happened %d times, %v", id, key, len(e.Value), err)
		}
	}
}

// TestTheToolsOfANewSessionExist looks up each tool of a session that names none.
func TestTheToolsOfANewSessionExist(t *testing.T) {
	w := newWhole(t, t.TempDir(), around{engine: engines["pebble"]})
	defer w.serve(t)()
	m := w.command("Session.Create", `{}`)
	for failure(m) == 503 && t.Context().Err() == nil { // it isn't served yet
		m = w.command("Session.Create", `{}`)
	}
	var made struct{ Session string }
	var got struct{ Tools []struct{ Name message.Type } }
	if err := json.Unmarshal(m.Data, &made); err != nil {
		t.Fatalf("%s %v", m.Data, err)
	}
	if m := w.query("Session.Get", `{"session":%q}`, made.Session); json.Unmarshal(m.Data, &got) != nil || len(got.Tools) == 0 {
		t.Fatalf("%s", m.Data)
	}
	for _, tool := range got.Tools {
		if _, ok := w.kernel.Registry().Lookup(tool.Name); !ok {
			t.Errorf("a new session has the tool %s, which doesn't exist", tool.Name)
		}
	}
}
