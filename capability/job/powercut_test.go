package job_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kernos/store"
)

// A store that loses what wasn't synced, again and again, loses no job that was acknowledged: each
// reaches one outcome. What jobs change in the store happens once, what they do outside at most
// once, and a schedule has one run for each of its times that it doesn't count as missed.
// Invariants: J1, J2, J3, J4.
func TestThePowerIsCut(t *testing.T) {
	const cuts, each = 100, 12
	test(t, "again and again", func(t *testing.T, w *world) {
		random := rand.New(rand.NewPCG(3, 4))
		w.store.Manual()
		var acknowledged []string
		schedule, begin := "", w.clock.Now()
		for cut := range cuts {
			var mu sync.Mutex // guards acknowledged and the schedule
			var starting sync.WaitGroup
			for i := range each {
				data := powerJob(fmt.Sprintf("%d-%d", cut, i), i)
				if cut == 0 && i == 0 {
					data = `{"name":"Test.Count","payload":{"key":"s"},"schedule":"@every 1s"}`
				}
				later := time.Duration(random.IntN(1000)) * time.Millisecond
				if cut == 0 && i == 0 {
					later = 0
				}
				starting.Go(func() {
					time.Sleep(later)
					var out struct{ JobID string }
					if e := w.callAs(nil, "Job.Start", data, &out); e != nil {
						return // it wasn't acknowledged
					}
					mu.Lock()
					defer mu.Unlock()
					if cut == 0 && i == 0 {
						schedule = out.JobID
						return
					}
					acknowledged = append(acknowledged, out.JobID)
				})
			}
			for range 1 + random.IntN(40) { // the disk is synced now and then
				time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				if err := w.store.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
			left := w.store.Crash(random.IntN(20))
			starting.Wait()
			w.stop()
			w.store = left
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
			w.open()
		}
		stop := make(chan struct{})
		var syncing sync.WaitGroup
		syncing.Go(func() { // from now on the power stays
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					_ = w.store.Sync()
				}
			}
		})
		defer syncing.Wait()
		defer close(stop)
		w.must("Job.Pause", fmt.Sprintf(`{"jobId":%q}`, schedule), nil)
		time.Sleep(10 * time.Minute)
		w.powerChecks(t, acknowledged)
		i := w.status(schedule)
		if i.Runs+i.Missed != int(time.UnixMilli(i.Last).Sub(begin)/time.Second) || i.Runs < cuts/4 || w.counted("s") != i.Runs {
			t.Errorf("the schedule has run %d times, of which %d have happened: %+v", i.Runs, w.counted("s"), i)
		}
		t.Logf("%d cuts, %d jobs were acknowledged, %d runs of the schedule and %d missed", cuts, len(acknowledged), i.Runs, i.Missed)
	})
}

// powerJob is the data of the nth Job.Start with a key.
func powerJob(key string, n int) string {
	switch n % 4 {
	case 0:
		return fmt.Sprintf(`{"name":"Test.Count","payload":{"key":"in-%s"},"delay":%d}`, key, 50*n)
	case 1:
		return fmt.Sprintf(`{"name":"Test.Outside","payload":{"key":"out-%s"},"delay":%d}`, key, 50*n)
	case 2:
		return fmt.Sprintf(`{"name":"Test.Count","payload":{"key":"in-%s"},"concurrencyKey":"k","retry":{"attempts":3}}`, key)
	}
	return fmt.Sprintf(`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":"in-%[1]s-a"}},{"id":"b","name":"Test.Outside","payload":{"key":"out-%[1]s-b"},"needs":["a"]},{"id":"c","name":"Test.Count","payload":{"key":"in-%[1]s-c"},"needs":["b"]}]}`, key)
}

// powerChecks looks at the outcomes of jobs.
func (w *world) powerChecks(t *testing.T, acknowledged []string) {
	ends := make(map[string]int)
	for _, id := range acknowledged {
		i := w.status(id)
		end := i.Status
		if i.Error != nil {
			end += fmt.Sprintf(" %d", i.Error.Code)
		}
		if ends[end]++; end != "completed" && end != "failed 409" { // a cut met it while it acted outside
			t.Errorf("the job %s was acknowledged, and is %s: %+v", id, end, i.Error)
		}
	}
	for e, err := range w.store.Scan(store.Prefix([]byte("min-"))) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Value) != 1 {
			t.Errorf("%s has happened %d times", e.Key[1:], len(e.Value))
		}
	}
	done := make(map[string]bool)
	for _, key := range w.seen {
		if done[key] {
			t.Errorf("%s was done outside twice", key)
		}
		done[key] = true
	}
	var all struct{ Jobs []json.RawMessage }
	w.must("Job.List", `{"status":"running"}`, &all)
	if len(all.Jobs) > 0 {
		t.Errorf("%s still run", all.Jobs)
	}
	t.Logf("the jobs are %v, and %d were done outside", ends, len(done))
}
