package pipe

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

// job calls a syscall of jobs. It waits until the daemon runs jobs.
func (w *world) job(what message.Type, data string, out any) {
	w.t.Helper()
	var m message.Message
	testkit.Until(w.t, fmt.Sprintf("%s is answered", what), func() (ok bool) {
		var err error
		if m, err = w.daemon.Call(w.t.Context(), message.Message{Kind: message.KindCommand, Type: what, Data: json.RawMessage(data)}, nil); err != nil {
			w.t.Fatal(err)
		}
		return m.Kind == message.KindReply || m.Failure().Code != 503
	})
	if err := json.Unmarshal(m.Data, out); err != nil || m.Kind == message.KindError {
		w.t.Fatalf("%s %s: %s, %v", what, data, m.Data, err)
	}
}

type jobStatus struct {
	JobID, Status, WaitsFor string
	Result                  json.RawMessage
}

// start starts a job that calls Test.Run, and returns the data that names it.
func (w *world) start() string {
	w.t.Helper()
	var j jobStatus
	w.job("Job.Start", `{"name":"Test.Run","payload":7}`, &j)
	return fmt.Sprintf(`{"jobId":%q}`, j.JobID)
}

// The processes of a job die with it.
func TestACanceledJobKillsTheProcessGroup(t *testing.T) {
	w := newWorld(t)
	path := pipe(t)
	w.handle(`exec 5>`+path+`; sleep 1000 & sleep 1000`, nil)
	id := w.start()
	opened, err := os.Open(path) // when the process has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	w.job("Job.Cancel", id, new(any))
	gone(t, opened)
}

// A job waits for a handler that isn't there, also when the daemon is restarted meanwhile.
func TestAJobWaitsForItsHandler(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			w := newWorld(t)
			kill := w.handle(`cat`, nil)
			kill()
			err := <-w.finished
			w.finished <- err // for the cleanup
			testkit.Until(t, "Test.Run isn't served", func() bool { _, ok := w.daemon.Kernel().Registry().Lookup("Test.Run"); return !ok })
			id := w.start()
			if restart {
				w.daemon.Stop()
				w.open()
			}
			var j jobStatus
			testkit.Until(t, "the job waits", func() bool {
				w.job("Job.Status", id, &j)
				return j.WaitsFor == "Test.Run"
			})
			if j.Status != "pending" {
				t.Errorf("it waits, and is %s", j.Status)
			}
			w.said.Reset()
			w.handle(`cat`, nil)
			w.job("Job.Wait", id, &j)
			if j.Status != "completed" || string(j.Result) != "7" {
				t.Errorf("it is %+v", j)
			}
		})
	}
}
