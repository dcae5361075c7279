package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

// notRun are syscalls whose examples are valid and name what isn't there, and what that is.
var notRun = map[message.Type]string{
	"Agent.Ask": "a file of an agent", "Blob.Read": "a blob",
	"Mcp.Add": "a server", "Model.Add": "a server of models", "Mcp.Allow": "a mounted server", "Mcp.Ask": "a client of the Model Context Protocol",
	"Token.Revoke": "a token that no later example names",
}

// TestExamplesRun runs the examples that schemas of parameters show as a whole.
func TestExamplesRun(t *testing.T) {
	w := newWhole(t, t.TempDir(), around{engine: engines["pebble"], files: t.TempDir()})
	defer w.serve(t)()
	testkit.Until(t, "jobs run", func() bool { return failure(w.command("Job.Resume", `{}`)) == 0 })
	w.ask(message.Message{Kind: message.KindCommand, Type: "Echo", Data: []byte(`{"message":"a workflow"}`),
		Metadata: message.Metadata{ID: "req-7-1", Timestamp: 1, Correlation: "req-7"}}) // the one that examples name
	var created struct{ Session string }
	if m := w.command("Session.Create", `{}`); failure(m) != 0 || json.Unmarshal(m.Data, &created) != nil {
		t.Fatalf("%s", m.Data)
	}
	if m := w.command("Vector.Upsert", `{"collection":"docs","items":[{"id":"reset","text":"How to reset a password"}]}`); failure(m) != 0 {
		t.Fatalf("%s", m.Data)
	}
	const session = "01JFV0Y1G0Q3W8Z4X6Y2N1M9KA" // the one that examples name
	connection := w.connect()
	defer func() { _ = connection.in.Close() }()
	found := 0
	for _, typ := range w.kernel.Registry().All().Types() {
		s, _ := w.kernel.Registry().Lookup(typ)
		var shown struct{ Examples []json.RawMessage }
		if err := json.Unmarshal(s.Input.JSON(), &shown); err != nil {
			t.Fatal(err)
		}
		for _, example := range shown.Examples {
			if err := s.Input.Validate(example); err != nil {
				t.Errorf("%s: %s: %v", typ, example, err)
			}
			if found++; notRun[typ] != "" {
				continue
			}
			m := message.Message{Kind: s.Kind, Type: typ, Data: bytes.ReplaceAll(example, []byte(session), []byte(created.Session)), Metadata: message.Metadata{ID: "e", Timestamp: 1}}
			if typ == "Syscall.Register" { // for a program behind the connection
				if answer, err := connection.ask(string(message.Append(nil, &m))); err != nil || !strings.HasPrefix(answer, `{"kind":"reply"`) {
					t.Errorf("%s: %s: %s %v", typ, example, answer, err)
				}
				continue
			}
			w.kernel.Handle(context.Background(), m, func(m message.Message) {
				if m.Kind == message.KindError {
					t.Errorf("%s: %s: %s", typ, example, m.Data)
				}
			})
		}
	}
	if found < 3 {
		t.Errorf("%d examples were found", found)
	}
}
