package job_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/kernel/principal"
	"kernos/store"
)

// What a revoked token has started ends at once, and not when it is due.
func TestATokenEnds(t *testing.T) {
	test(t, "while jobs wait and run", func(t *testing.T, w *world) {
		p := w.token("ada", principal.Grant{Allow: []string{"*"}})
		other := w.token("bob", principal.Grant{Allow: []string{"*"}})
		start := func(p *principal.Principal, data string) string {
			t.Helper()
			var out struct{ JobID string }
			if e := w.callAs(p, "Job.Start", data, &out); e != nil {
				t.Fatal(e)
			}
			return out.JobID
		}
		const later = `{"name":"Test.Count","payload":{"key":"later"},"delay":"24h"}`
		pending, others := start(p, later), start(other, later)
		schedule := start(p, `{"name":"Test.Count","payload":{"key":"s"},"schedule":"@hourly"}`)
		done := start(p, `{"name":"Test.Count","payload":{"key":"done"}}`)
		running := start(p, `{"name":"Test.Outside","payload":{"key":"hang"},"retry":{"attempts":9,"codes":[403,499,500]}}`)
		w.wants("before", running, "running")
		p.End(principal.ErrRevoked)
		w.Ended(p.ID())
		w.wants("what waits", pending, "failed 403")
		w.wants("what runs", running, "failed 403")
		w.wants("what has ended", done, "completed")
		w.wants("another's", others, "pending")
		if i := w.status(schedule); i.Status != "pending" || !strings.Contains(i.Paused, "revoked") {
			t.Errorf("the schedule is %+v", i)
		}
		time.Sleep(48 * time.Hour)
		if w.counted("s") != 0 || w.counted("later") != 1 || len(w.seen) != 1 {
			t.Errorf("the schedule ran %d times, %d jobs ran later, done outside: %q", w.counted("s"), w.counted("later"), w.seen)
		}
	})
}

// A job that is canceled while it runs and begun again before its worker has returned isn't
// overlooked.
func TestRetryAfterCancel(t *testing.T) {
	test(t, "while the worker goes on", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Progress","payload":{"key":"deaf"}}`) // it doesn't look at its context
		w.wants("before", id, "running")
		w.must("Job.Cancel", fmt.Sprintf(`{"jobId":%q}`, id), nil)
		w.must("Job.Retry", fmt.Sprintf(`{"jobId":%q}`, id), nil)
		time.Sleep(time.Minute)
		w.wants("afterwards", id, "completed")
	})
}

// A store that can't write for a while loses no job, and fails none.
func TestTheStoreFails(t *testing.T) {
	for _, call := range []string{"apply", "commit", "scan"} {
		test(t, call, func(t *testing.T, w *world) {
			var ids []string
			for i := range 20 {
				ids = append(ids,
					w.start(fmt.Sprintf(`{"name":"Test.Count","payload":{"key":"in%d"},"delay":%d}`, i, 1000*i)),
					w.start(fmt.Sprintf(`{"name":"Test.Outside","payload":{"key":"out%d"},"delay":%d}`, i, 1000*i)),
					w.start(fmt.Sprintf(`{"delay":%d,"steps":[{"id":"a","name":"Test.Count","payload":{"key":"a%d"}},{"id":"b","name":"Test.Outside","payload":{"key":"b%d"},"needs":["a"]},{"id":"c","name":"Test.Count","payload":{"key":"c%d"},"needs":["b"]}]}`, 1000*i, i, i, i)))
			}
			schedule := w.schedule("s", "@every 1s", "", "")
			begin := w.clock.Now()
			random := rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex
			for range 30 { // it fails and heals again and again
				w.store.Fail(func(c string) error {
					mu.Lock()
					defer mu.Unlock()
					if c == call && random.IntN(3) > 0 {
						return &store.Error{Code: 507, Text: "The disk is full"}
					}
					return nil
				})
				time.Sleep(time.Second)
				w.store.Fail(nil)
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			for _, id := range ids {
				w.wants("when it has healed", id, "completed")
			}
			for i := range 20 {
				for _, key := range []string{"in", "a", "c"} {
					if n := w.counted(fmt.Sprint(key, i)); n != 1 {
						t.Errorf("%s%d was done %d times", key, i, n)
					}
				}
			}
			if n := len(w.seen); n != 40 {
				t.Errorf("%d were done outside, want 40", n)
			}
			if i := w.status(schedule); i.Paused != "" || i.Runs+i.Missed != int(time.UnixMilli(i.Last).Sub(begin)/time.Second) || w.clock.Now().UnixMilli()-i.Last > 1000 {
				t.Errorf("the schedule: %+v", i)
			}
		})
	}
}
