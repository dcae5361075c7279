package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
)

// jobForms are the forms in which a call can be a job. NAME and PAYLOAD stand for the call.
var jobForms = []string{
	`{"name":NAME,"payload":PAYLOAD}`,
	`{"payload":{"data":PAYLOAD,"type":NAME},"name":"Syscall.Call"}`,
	`{"payload":{"payload":PAYLOAD,"name":NAME},"n\u0061me":"Job.Start"}`,
	`{"name":NAME,"payload":PAYLOAD,"retry":{"attempts":2,"backoff":1,"codes":[400,404,422,500,502]}}`,
	`{"name":NAME,"payload":PAYLOAD,"schedule":"@every 1s"}`,
	`{"name":NAME,"payload":PAYLOAD,"delay":1,"uniqueKey":"xyzzy-is-recorded","keep":"1h"}`,
	`{"steps":[{"id":"a","name":NAME,"payload":PAYLOAD,"onFailure":"continue"},{"id":"b","name":"Echo","payload":{"message":{"$from":"a"}}}]}`,
	`{"steps":[{"id":"a","name":"Echo","payload":{"message":"x"}},{"id":"b","name":NAME,"payload":PAYLOAD,"needs":["a"]}]}`,
}

// leaky is a module whose syscalls open what is sealed, and say what they have found: in progress,
// in events, in errors and in replies, in fields and texts that are known to be secret.
func leaky() kernel.Module {
	type sealed struct {
		Ciphertext string `json:"ciphertext" jsonschema_description:"What to open."`
		Fails      bool   `json:"fails,omitzero" jsonschema_description:"Whether it fails."`
	}
	type account struct {
		Password string `json:"password" jsonschema:"writeOnly=true" jsonschema_description:"A secret."`
	}
	leak := kernel.DefineCommand[sealed, account](kernel.Definition{
		Type:     "Leak.Open",
		Summary:  "A test.",
		Emits:    []kernel.EventDefinition{{Type: "Leak.Opened", Summary: "A test."}},
		Behavior: kernel.Behavior{Effect: kernel.External, Runs: kernel.Slow},
	}).BindStream(func(ctx context.Context, in sealed, s *kernel.Stream) (out account, err error) {
		data, err := kernel.Invoke(ctx, "Crypto.Open", fmt.Appendf(nil, `{"ciphertext":%q}`, in.Ciphertext))
		if err != nil {
			return out, err
		}
		if err := json.Unmarshal(data, &out.Password); err != nil {
			return out, err
		}
		s.Progress("curl -H 'Authorization: Bearer "+out.Password+"'", 0.5)
		if err := s.Emit("Leak.Opened", map[string]string{"password": out.Password, "said": "Cookie: session=" + out.Password}); err != nil {
			return out, err
		}
		if in.Fails {
			return out, message.Errorf(502, "refused with Authorization: Bearer %s", out.Password)
		}
		return out, nil
	})
	return kernel.Module{Name: "leak", Version: "1.0.0", Summary: "A test.", Syscalls: []kernel.Syscall{leak}}
}

// TestSecretsOfJobs starts every call that holds a secret as a job, in every form, and then looks
// for the secrets in all that is kept, and in what is told of the jobs.
func TestSecretsOfJobs(t *testing.T) {
	w, dir := openLogged(t, serveAgent(t), leaky())
	stop := w.serve(t)
	testkit.Until(t, "jobs run", func() bool { return failure(w.command("Job.Resume", `{}`)) == 0 })
	server := echoes(t)
	paths := append([]string{
		`{"kind":"command","type":"Leak.Open","data":{"ciphertext":"SEALED"},"metadata":{"id":"a","timestamp":1}}`,
		`{"kind":"command","type":"Leak.Open","data":{"ciphertext":"SEALED","fails":true},"metadata":{"id":"a","timestamp":1}}`,
		`{"kind":"command","type":"Echo","data":{"message":"xyzzy-is-recorded"},"metadata":{"id":"a","timestamp":1}}`,
	}, secretPaths...)
	// told looks for secrets in an answer.
	told := func(m message.Message) message.Message {
		t.Helper()
		if found := secrets.Find(m.Data); found != nil {
			t.Errorf("%s tells %s: %s", m.Type, found, m.Data)
		}
		return m
	}
	var ids []string
	for i, path := range paths {
		m, err := message.Decode([]byte(strings.ReplaceAll(path, "NUMBER", strconv.Itoa(i))))
		if err != nil || !m.Kind.Asks() {
			continue // it isn't a call
		}
		if strings.Contains(path, "SERVER/set") {
			continue // a job keeps its whole result, in which nothing marks the cookie
		}
		box := w.command("Crypto.Seal", `{"plaintext":%q}`, secret(i))
		var sealed string
		if err := json.Unmarshal(box.Data, &sealed); err != nil {
			t.Fatal(err)
		}
		payload := strings.NewReplacer("SECRET", secret(i), "SEALED", sealed, "SERVER", server).Replace(string(m.Data))
		for _, form := range jobForms {
			data := strings.NewReplacer("NAME", strconv.Quote(string(m.Type)), "PAYLOAD", payload).Replace(form)
			var started struct{ JobID string }
			if reply := told(w.ask(message.Message{Kind: message.KindCommand, Type: "Job.Start", Data: []byte(data)})); reply.Kind == message.KindReply {
				if err := json.Unmarshal(reply.Data, &started); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, started.JobID)
			}
		}
	}
	ended := 0
	for _, id := range ids {
		id := fmt.Sprintf(`{"jobId":%q}`, id)
		var job struct {
			Schedule string
			Runs     int
		}
		status := told(w.query("Job.Status", "%s", id))
		if err := json.Unmarshal(status.Data, &job); err != nil {
			t.Fatal(err)
		}
		if job.Schedule != "" {
			testkit.Until(t, "the schedule has run", func() bool {
				_ = json.Unmarshal(told(w.query("Job.Status", "%s", id)).Data, &job)
				return job.Runs > 0
			})
			told(w.command("Job.Cancel", "%s", id))
			continue
		}
		outcome, _ := w.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Job.Wait", Data: []byte(id)}, func(m message.Message) { told(m) })
		told(outcome)
		told(w.query("Job.Result", "%s", id))
		told(w.query("Job.Result", "%s", id[:len(id)-1]+`,"log":true}`))
		told(w.command("Job.Retry", "%s", id))
		ended++
	}
	told(w.query("Job.List", `{"limit":1000}`))
	if ended < 30 {
		t.Errorf("%d jobs were started, and %d have ended", len(ids), ended)
	}
	t.Logf("%d jobs, of which %d have ended", len(ids), ended)
	stop()
	searchKept(t, w, dir)
}
