package conformance

import (
	"encoding/json"
	"slices"
	"testing"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
)

// TestAReplayFindsNoDifferenceWhereThereIsNone runs examples of all syscalls as a workflow, and runs
// the workflow again, twice: what differs from one reply to the next although nothing has changed,
// times and random names, is marked in the definitions as volatile.
//
// Clauses: M24-4.2.2-2
func TestAReplayFindsNoDifferenceWhereThereIsNone(t *testing.T) {
	w := newWhole(t, t.TempDir(), around{engine: engines["pebble"], files: t.TempDir()})
	job := fill(t, w)[0]
	defer w.serve(t)()
	testkit.Until(t, "jobs run", func() bool { return failure(w.command("Job.Resume", `{}`)) == 0 })
	requests := map[message.Type]string{
		"Job.Status": `{"jobId":` + job + `}`, "Job.Result": `{"jobId":` + job + `}`, "Job.Wait": `{"jobId":` + job + `}`,
		"Memory.Get": `{"key":"notes/large"}`, "Memory.History": `{"key":"notes/large"}`,
		"VFS.Write": `{"uri":"os://notes.txt","content":"milk"}`, "VFS.Read": `{"uri":"os://notes.txt"}`, "VFS.List": `{"uri":"os://"}`,
		"Message.Get": `{"id":"known"}`, "Message.List": `{"correlation":"flow"}`, "Message.Graph": `{"correlation":"flow"}`,
		"Message.Search": `{"query":"note","until":1}`,
		"Token.Revoke":   `{"name":"absent"}`, "Token.Rotate": `{"name":"absent"}`, "Notify.Remove": `{"name":"absent"}`, // which would change what the others see
	}
	ran := 0
	first := []message.Type{"VFS.Write", "Token.Create", "Token.Update", "Vector.Upsert"} // before others see what they change
	types := slices.DeleteFunc(w.kernel.Registry().All().Types(), func(t message.Type) bool { return slices.Contains(first, t) })
	for _, typ := range append(first, types...) {
		s, _ := w.kernel.Registry().Lookup(typ)
		if s.Effect == kernel.Transient || s.Runs == kernel.Endless || typ == "Message.Replay" || typ == "Http.Fetch" {
			continue
		}
		data := requests[typ]
		if data == "" {
			var d struct{ Example json.RawMessage }
			if err := json.Unmarshal(w.query("Syscall.Describe", `{"name":%q}`, typ).Data, &d); err != nil {
				t.Fatal(err)
			}
			data = string(d.Example)
		}
		m := w.ask(message.Message{Kind: message.KindCommand, Type: typ, Data: []byte(data),
			Metadata: message.Metadata{ID: message.ID("again-" + typ), Timestamp: 1, Correlation: "again"}})
		if failure(m) == 0 {
			ran++
		}
	}
	var report struct {
		Same      int
		Different []struct {
			Type     message.Type
			Was, Now struct {
				Kind message.Kind
				Data json.RawMessage
			}
		}
	}
	for range 2 {
		m := w.command("Message.Replay", `{"correlation":"again","execute":true,"queries":true}`)
		if err := json.Unmarshal(m.Data, &report); err != nil || failure(m) != 0 {
			t.Fatalf("%s, %v", m.Data, err)
		}
	}
	for _, d := range report.Different {
		if slices.Contains([]message.Type{"Kernel.Attention", "Memory.Increment", "Notify.List", "Notify.Seen", "Syscall.List"}, d.Type) {
			continue // what it tells has changed: a value, what waits for a person, code that was registered meanwhile
		}
		t.Errorf("%s differs:\n  was %s\n  now %s", d.Type, d.Was.Data, d.Now.Data)
	}
	if ran < 35 || report.Same < 30 {
		t.Errorf("%d requests succeeded, and %d had the same outcome again", ran, report.Same)
	}
}
