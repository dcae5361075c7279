package job_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel/kerneltest"
	"kernos/message"
)

// What sounds like a credential in a result is stored as it is, and goes whole into the payload of the next step and to a
// caller that waits for a decision. The log of the job has none of it.
func TestResultsStayWhole(t *testing.T) {
	const result = `{"key":"password","value":"swordfish"}`
	test(t, "in steps", func(t *testing.T, w *world) {
		id := w.start(`{"steps":[{"id":"a","name":"Test.Login","payload":{}},{"id":"b","name":"Test.Outside","payload":{"key":{"$from":"a.value"}}}]}`)
		w.wants("at once", id, "completed")
		if i := w.status(id); string(i.Result) != `{"a":`+result+`,"b":{"key":"swordfish"}}` {
			t.Errorf("%s", i.Result)
		}
	})
	test(t, "alone", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Login","payload":{}}`)
		synctest.Wait()
		var out struct {
			Result json.RawMessage
			Log    []struct{ Text string }
		}
		w.must("Job.Result", fmt.Sprintf(`{"jobId":%q,"log":true}`, id), &out)
		if string(out.Result) != result {
			t.Errorf("%s", out.Result)
		}
		if log := fmt.Sprint(out.Log); !strings.Contains(log, "args") || strings.Contains(log, "swordfish") {
			t.Errorf("the log is %s", log)
		}
	})
	test(t, "while a decision is waited for", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Login","payload":{"key":"wait"}}`)
		synctest.Wait()
		var asked string
		go w.kernel.Handle(t.Context(), kerneltest.Query("w", "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, id)), func(m message.Message) {
			if m.Kind == message.KindEvent {
				asked = string(m.Data)
			}
		})
		synctest.Wait()
		if !strings.Contains(asked, result) {
			t.Errorf("asked %s", asked)
		}
		time.Sleep(2 * time.Minute)
	})
}
