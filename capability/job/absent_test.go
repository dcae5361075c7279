package job_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// serve makes a program serve a syscall, until leave is called.
func (w *world) serve(t message.Type, kind message.Kind) (leave func()) {
	w.t.Helper()
	d := kernel.Definition{Type: t, Summary: "Act.", Behavior: kernel.Behavior{Effect: kernel.External, Runs: kernel.Slow}}
	f := func(ctx context.Context, in countData) (countData, error) {
		w.note("%s", in.Key)
		if in.Key == "hang" {
			<-ctx.Done()
		}
		return in, ctx.Err()
	}
	s := kernel.Command(d, f)
	if kind == message.KindQuery {
		d.Effect = kernel.InStore
		s = kernel.Query(d, f)
	}
	if err := w.kernel.Registry().AddSyscall(kernel.Module{Name: "program", Version: "1.0.0", Summary: "A program."}, s); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.known = map[message.Type]bool{t: true}
	w.mu.Unlock()
	return func() { w.kernel.Registry().RemoveSyscall(t) }
}

// A job whose syscall is served by a program that isn't connected waits for it, and fails when it
// has waited as long as a call may take.
func TestAJobWaitsForItsProgram(t *testing.T) {
	const name = "Text.Send"
	jobs := map[string]string{
		"a call":   `{"name":"Text.Send","payload":{"key":%q},"timeout":"10m"}`,
		"steps":    `{"steps":[{"id":"a","name":"Test.Count","payload":{"key":"first"}},{"id":"b","name":"Text.Send","payload":{"key":%q},"needs":["a"]}],"timeout":"10m"}`,
		"a repeat": `{"name":"Text.Send","payload":{"key":%q},"timeout":"10m","retry":{"attempts":2}}`,
	}
	for what, data := range jobs {
		test(t, what+" until it comes", func(t *testing.T, w *world) {
			w.serve(name, message.KindCommand)()
			id := w.start(fmt.Sprintf(data, "once"))
			time.Sleep(9 * time.Minute)
			w.wants("meanwhile", id, "pending")
			if i := w.status(id); i.WaitsFor != name || i.Attempts != 0 {
				t.Errorf("it is %+v", i)
			}
			w.serve(name, message.KindCommand)
			time.Sleep(time.Minute)
			w.wants("with the program", id, "completed")
			if len(w.seen) != 1 {
				t.Errorf("done: %q", w.seen)
			}
		})
		test(t, what+" as long as a call may take", func(t *testing.T, w *world) {
			w.serve(name, message.KindCommand)()
			id := w.start(fmt.Sprintf(data, "never"))
			time.Sleep(11 * time.Minute)
			if what == "a repeat" {
				w.wants("before its second attempt", id, "pending")
				time.Sleep(11 * time.Minute)
			}
			w.wants("when it has waited", id, "failed 503")
		})
		for _, kind := range []message.Kind{message.KindCommand, message.KindQuery} {
			test(t, fmt.Sprintf("%s that a kernel had begun, a %s", what, kind), func(t *testing.T, w *world) {
				w.serve(name, kind)
				id := w.start(fmt.Sprintf(data, "hang"))
				w.wants("before", id, "running")
				w.stop()
				w.open()
				time.Sleep(time.Minute)
				if i := w.status(id); i.Status != "pending" {
					t.Errorf("without the program it is %+v", i)
				}
				w.serve(name, kind)
				time.Sleep(time.Minute)
				want, done := "failed 409", 1
				if kind == message.KindQuery {
					want, done = "running", 2
				}
				w.wants("with the program", id, want)
				if len(w.seen) != done {
					t.Errorf("done: %q", w.seen)
				}
			})
		}
	}
	test(t, "that has given its name back", func(t *testing.T, w *world) {
		w.serve(name, message.KindCommand)()
		id := w.start(fmt.Sprintf(jobs["a call"], "x"))
		w.mu.Lock()
		w.known = nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.wants("then", id, "pending")
		if e := w.callAs(nil, "Job.Start", fmt.Sprintf(jobs["a call"], "x"), nil); e == nil || e.Code != 404 {
			t.Errorf("a name that isn't known: %v", e)
		}
	})
	test(t, "if its caller may call it", func(t *testing.T, w *world) {
		w.serve(name, message.KindCommand)()
		p := w.token("ci", principal.Grant{Preset: principal.Agent, Deny: []string{"Text.*"}})
		if e := w.callAs(p, "Job.Start", fmt.Sprintf(jobs["a call"], "x"), nil); e == nil || e.Code != 403 {
			t.Errorf("a token that may not: %v", e)
		}
		if e := w.callAs(nil, "Job.Start", `{"name":"Text.Send","payload":{"password":"correct horse"}}`, nil); e == nil || e.Code != 422 {
			t.Errorf("a secret: %v", e)
		}
	})
}
