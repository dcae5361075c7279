package job_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
)

func TestSteps(t *testing.T) {
	test(t, "use results of others", func(t *testing.T, w *world) {
		id := w.start(`{"steps":[
			{"id":"last","name":"Test.Count","payload":{"key":{"$from":"first.key"}},"needs":["other"]},
			{"id":"first","name":"Test.Count","payload":{"key":"a"}},
			{"id":"other","name":"Test.Count","payload":{"key":"b","n":7}}]}`)
		w.wants("at once", id, "completed")
		if i := w.status(id); string(i.Result) != `{"last":{"key":"a","n":2},"first":{"key":"a","n":1},"other":{"key":"b","n":1}}` {
			t.Errorf("%s", i.Result)
		}
	})
	test(t, "fail", func(t *testing.T, w *world) {
		w.fail = func(key string) error {
			if key == "bad" {
				return message.Errorf(404, "no")
			}
			return nil
		}
		const steps = `{"id":"a","name":"Test.Count","payload":{"key":"bad"}%s},{"id":"b","name":"Test.Count","payload":{"key":"b"},"needs":["a"]}`
		id := w.start(`{"steps":[` + fmt.Sprintf(steps, "") + `]}`)
		w.wants("a step that fails", id, "failed 404")
		if w.counted("b") != 0 {
			t.Error("a step that needs it has run")
		}
		id = w.start(`{"steps":[` + fmt.Sprintf(steps, `,"onFailure":"continue"`) + `]}`)
		w.wants("a step that may fail", id, "completed")
		if i := w.status(id); string(i.Result) != `{"a":null,"b":{"key":"b","n":1}}` {
			t.Errorf("%s", i.Result)
		}
	})
	test(t, "are retried, and what is done stays done", func(t *testing.T, w *world) {
		n := 0
		w.fail = func(key string) error {
			if key == "b" {
				if n++; n < 4 {
					return message.Errorf(503, "not yet")
				}
			}
			return nil
		}
		id := w.start(`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":"a"}},{"id":"b","name":"Test.Count","payload":{"key":"b"},"needs":["a"],"retry":{"attempts":3,"backoff":"1m"}}]}`)
		w.wants("at once", id, "pending")
		time.Sleep(30 * time.Second)
		w.stop()
		w.open()
		time.Sleep(time.Hour)
		w.wants("after three attempts", id, "failed 503")
		w.must("Job.Retry", fmt.Sprintf(`{"jobId":%q}`, id), nil)
		w.wants("after Job.Retry", id, "completed")
		if w.counted("a") != 1 {
			t.Errorf("the first step was done %d times", w.counted("a"))
		}
	})
	test(t, "change one key in turn", func(t *testing.T, w *world) {
		const jobs = 32
		steps := make([]string, 8)
		for i := range steps {
			steps[i] = fmt.Sprintf(`{"id":"s%d","name":"Test.Count","payload":{"key":"hot"}}`, i)
		}
		var ids []string
		for range jobs {
			ids = append(ids, w.start(`{"delay":"1s","steps":[`+strings.Join(steps, ",")+`]}`))
		}
		time.Sleep(time.Second)
		for _, id := range ids {
			w.wants("at once", id, "completed")
		}
		if n := w.counted("hot"); n != jobs*len(steps) {
			t.Errorf("counted %d, want %d", n, jobs*len(steps))
		}
	})
	test(t, "that act outside are not repeated", func(t *testing.T, w *world) {
		id := w.start(`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":"a"}},{"id":"b","name":"Test.Outside","payload":{"key":"hang"},"needs":["a"]},{"id":"c","name":"Test.Count","payload":{"key":"c"},"needs":["b"]}]}`)
		w.wants("before", id, "running")
		if i := w.status(id); i.Steps["a"].Status != "completed" || i.Steps["b"].Status != "running" {
			t.Errorf("%+v", i.Steps)
		}
		w.stop()
		w.open()
		w.wants("afterwards", id, "failed 409")
		synctest.Wait()
		if len(w.seen) != 1 || w.counted("a") != 1 || w.counted("c") != 0 {
			t.Errorf("outside %q, a %d, c %d", w.seen, w.counted("a"), w.counted("c"))
		}
	})
	test(t, "are canceled together", func(t *testing.T, w *world) {
		id := w.start(`{"steps":[{"id":"a","name":"Test.Outside","payload":{"key":"hang"}},{"id":"b","name":"Test.Outside","payload":{"key":"hang"}}]}`)
		w.wants("before", id, "running")
		w.must("Job.Cancel", fmt.Sprintf(`{"jobId":%q}`, id), nil)
		w.wants("afterwards", id, "failed 499")
	})
}
