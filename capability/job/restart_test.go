package job_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/job"
)

// die ends the process without a farewell, and starts another one.
func (w *world) die() {
	left := w.store.Crash(0)
	w.stop()
	w.store = left
	w.open()
}

func TestAKernelThatDies(t *testing.T) {
	test(t, "while a job waits", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"},"delay":"1h"}`)
		w.stop()
		time.Sleep(3 * time.Hour)
		w.open()
		w.wants("afterwards", id, "completed")
		if w.counted("a") != 1 {
			t.Errorf("it was done %d times", w.counted("a"))
		}
	})
	for _, repeat := range []bool{false, true} {
		test(t, fmt.Sprintf("while a job acts outside, repeat %t", repeat), func(t *testing.T, w *world) {
			id := w.start(fmt.Sprintf(`{"name":"Test.Outside","payload":{"key":"hang"},"repeat":%t}`, repeat))
			w.wants("before", id, "running")
			w.stop()
			w.open()
			synctest.Wait()
			if repeat {
				w.wants("afterwards", id, "running")
				if len(w.seen) != 2 {
					t.Errorf("done: %q", w.seen)
				}
				return
			}
			w.wants("afterwards", id, "failed 409")
			if len(w.seen) != 1 {
				t.Errorf("done: %q", w.seen)
			}
		})
	}
	test(t, "again and again", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Outside","payload":{"key":"hang"},"repeat":true}`)
		for range 8 {
			synctest.Wait()
			w.die()
		}
		w.wants("a poisoned job", id, "failed 500")
		if len(w.seen) != 5 {
			t.Errorf("done %d times", len(w.seen))
		}
	})
	test(t, "never, and is stopped again and again", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Outside","payload":{"key":"hang"},"repeat":true}`)
		for range 8 {
			synctest.Wait()
			w.stop()
			w.open()
		}
		w.wants("a job that was stopped in order", id, "running")
		if len(w.seen) != 9 {
			t.Errorf("done %d times", len(w.seen))
		}
	})
	test(t, "again and again, while the steps of a job end", func(t *testing.T, w *world) {
		steps := `{"id":"s0","name":"Test.Outside","payload":{"key":"slow"}}`
		for n := range 8 {
			steps += fmt.Sprintf(`,{"id":"s%d","name":"Test.Outside","payload":{"key":"slow"},"needs":["s%d"]}`, n+1, n)
		}
		id := w.start(`{"repeat":true,"steps":[` + steps + `]}`)
		for range 8 {
			time.Sleep(90 * time.Second) // a step ends, and another one begins
			w.die()
		}
		w.wants("in the last step", id, "running")
		time.Sleep(time.Minute)
		w.wants("at last", id, "completed")
		if len(w.seen) != 9+8 {
			t.Errorf("the steps were begun %d times", len(w.seen))
		}
		if i := w.status(id); i.Steps["s0"].Status != "completed" {
			t.Errorf("%+v", i.Steps)
		}
	})
}

func TestAfterARestore(t *testing.T) {
	test(t, "jobs wait", func(t *testing.T, w *world) {
		running := w.start(`{"name":"Test.Outside","payload":{"key":"hang"},"repeat":true}`)
		schedule := w.start(`{"name":"Test.Count","payload":{"key":"s"},"schedule":"@every 1h"}`)
		pending := w.start(`{"name":"Test.Count","payload":{"key":"p"},"delay":"1h"}`)
		synctest.Wait()
		w.stop()
		if unfinished, err := job.Restored(w.store); err != nil || !unfinished {
			t.Fatal(unfinished, err)
		}
		w.open()
		time.Sleep(5 * time.Hour)
		w.wants("what ran", running, "pending")
		w.wants("what waited", pending, "completed")
		if i := w.status(schedule); i.Paused == "" || w.counted("s") != 0 {
			t.Errorf("the schedule is %+v", i)
		}
		w.stop() // it stays so
		w.open()
		w.wants("what ran, once more", running, "pending")
		var out struct{ Resumed int }
		w.must("Job.Resume", `{}`, &out)
		if out.Resumed != 2 {
			t.Errorf("%d go on", out.Resumed)
		}
		w.wants("what ran", running, "running")
		time.Sleep(time.Hour)
		if w.counted("s") != 1 {
			t.Errorf("the schedule has run %d times", w.counted("s"))
		}
	})
}
