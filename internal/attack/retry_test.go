package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A job that another caller runs again has the rights of both, the one who started it and the other, and records
// name both. The owner gives it nothing that its starter doesn't have.
func TestAJobThatAnotherRetriesHasTheRightsOfBoth(t *testing.T) {
	w := open(t)
	starter, agent := w.token("starter", `"preset":"agent"`), w.token("agent", `"preset":"agent"`)
	ended := func(o outcome) (id string) {
		t.Helper()
		var job struct{ JobID string }
		if err := json.Unmarshal(o.data, &job); err != nil || job.JobID == "" {
			t.Fatal(o)
		}
		w.must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, job.JobID), nil)
		return job.JobID
	}
	status := func(id string) string {
		t.Helper()
		return w.owner("Job.Status", fmt.Sprintf(`{"jobId":%q}`, id)).String()
	}
	// The first steps fail, since their key doesn't exist yet. Then each job does what its starter may.
	absent := `{"id":"a","name":"Memory.Get","payload":{"key":"absent"}}`
	theirs := ended(w.call(starter, "Job.Start", fmt.Sprintf(`{"steps":[%s,{"id":"b","name":"Memory.Set","payload":{"key":"notes/theirs","value":1},"needs":["a"]}]}`, absent)))
	owners := map[string]string{
		"a syscall that is the owner's": ended(w.owner("Job.Start", fmt.Sprintf(`{"steps":[%s,{"id":"b","name":"Token.Create","payload":{"name":"forged","preset":"console"},"needs":["a"]}]}`, absent))),
		"a setting that is the owner's": ended(w.owner("Job.Start", fmt.Sprintf(`{"steps":[%s,{"id":"b","name":"Memory.Set","payload":{"key":"models/default","value":{"$from":"a"}},"needs":["a"]}]}`, absent))),
	}
	console := w.token("browser", `"preset":"console"`)
	if o := w.call(console, "Memory.Set", `{"key":"absent","value":{"dialect":"demo"}}`); o.code != 0 {
		t.Fatal(o)
	}
	retry := func(secret, id string) outcome { return w.call(secret, "Job.Retry", fmt.Sprintf(`{"jobId":%q}`, id)) }
	for what, id := range owners {
		if o := retry(agent, id); o.code != 404 {
			t.Errorf("an agent, %s: %v", what, o)
		}
		ended(retry(console, id))
		if s := status(id); !strings.Contains(s, `"failed"`) || !strings.Contains(s, "403") {
			t.Errorf("a console, %s: %s", what, s)
		}
	}
	if o := w.owner("Memory.Get", `{"key":"models/default"}`); o.code != 404 {
		t.Errorf("models/default is %v", o)
	}
	if list := w.owner("Token.List", `{}`).String(); strings.Contains(list, "forged") {
		t.Errorf("the tokens are %s", list)
	}

	ended(retry(console, theirs)) // which both may
	if s := status(theirs); !strings.Contains(s, `"completed"`) {
		t.Errorf("what both may: %s", s)
	}
	var list struct {
		Records []struct{ Principal string }
	}
	w.must("Message.List", `{"type":"Memory.Set","kind":"command","principal":"starter","records":true}`, &list)
	if len(list.Records) != 1 || list.Records[0].Principal != "starter/browser" {
		t.Errorf("the records are %+v", list.Records)
	}
	for what, id := range owners {
		ended(w.owner("Job.Retry", fmt.Sprintf(`{"jobId":%q}`, id)))
		if s := status(id); !strings.Contains(s, `"completed"`) {
			t.Errorf("the owner, %s: %s", what, s)
		}
	}
}
