package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// TestWhatIsSentToAModelIsRecorded: a caller can't keep what it sends to a model out of the record by naming a session,
// whether that is its own, another's or made up. Only the turn of a session is recorded by reference to its messages.
func TestWhatIsSentToAModelIsRecorded(t *testing.T) {
	w := open(t)
	agent := w.token("agent", "")
	w.must("Memory.Set", `{"key":"models/tiny","value":{"dialect":"demo","contextWindow":512}}`, nil)
	requests := func() string {
		o := w.owner("Message.List", `{"type":"Model.Generate","kind":"command","limit":100}`)
		if o.code != 0 {
			t.Fatal(o)
		}
		return string(o.data)
	}
	var own, owners struct{ Session string }
	w.must("Session.Create", `{"tools":[],"model":"tiny"}`, &owners)
	w.callsInto(agent, "Session.Create", `{"tools":[],"model":"tiny"}`, &own)
	const data = `{"model":"tiny","maxTokens":1,"session":%q,"messages":[{"type":"input","text":%q}]}`
	for what, session := range map[string]string{"its own": own.Session, "the owner's": owners.Session, "made up": "invented"} {
		canary := "CANARY in a session that is " + what
		w.callsInto(agent, "Model.Generate", fmt.Sprintf(data, session, canary), nil)
		if !strings.Contains(requests(), canary) {
			t.Errorf("a request that names a session that is %s hides what it sends", what)
		}
	}
	var job struct{ JobID string }
	w.callsInto(agent, "Job.Start", fmt.Sprintf(`{"name":"Model.Generate","payload":`+data+`}`, own.Session, "CANARY of a job"), &job)
	w.callsInto(agent, "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, job.JobID), nil)
	if !strings.Contains(requests(), "CANARY of a job") {
		t.Error("the request of a job that names a session hides what it sends")
	}
	w.callsInto(agent, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"CANARY of a turn","wait":true}`, own.Session), nil)
	if seen := requests(); strings.Contains(seen, "CANARY of a turn") || !strings.Contains(seen, "sha256") {
		t.Error("the turn of a session isn't recorded by reference")
	}
}

// callsInto calls a syscall that succeeds; its reply is read into out, unless that is nil.
func (w *world) callsInto(secret string, what message.Type, data string, out any) {
	w.t.Helper()
	o := w.call(secret, what, data)
	if o.code != 0 {
		w.t.Fatalf("%s %s: %v", what, data, o)
	}
	if out != nil {
		if err := json.Unmarshal(o.data, out); err != nil {
			w.t.Fatal(err)
		}
	}
}
