package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kernos/capability/job"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a kernel with jobs over a store in memory.
type world struct {
	t     *testing.T
	store *storetest.Memory
	*job.Jobs
	kernel *kernel.Kernel
	stop   func()
	clock  testkit.Clock

	mu     sync.Mutex
	tokens map[principal.ID]*principal.Principal
	seen   []string               // what the syscalls of the tests have done outside of the store
	fail   func(key string) error // what Test.Count fails with
	times  map[string][]time.Time // when Test.When was called
	known  map[message.Type]bool  // what programs serve, whether or not they are connected
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: storetest.NewMemory(), tokens: map[principal.ID]*principal.Principal{principal.OwnerID: principal.TheOwner()}}
	w.open()
	return w
}

type countData struct {
	Key string `json:"key" jsonschema_description:"What to count."`
	N   int    `json:"n,omitzero" jsonschema_description:"Anything."`
}

// open starts a kernel over the store, as another process would.
func (w *world) open() {
	w.t.Helper()
	w.Jobs = job.New(&job.Options{Store: w.store, Find: w.find, Known: w.knows, Now: w.clock.Now})
	// In the store: counts a key.
	count := kernel.Command(kernel.Definition{Type: "Test.Count", Summary: "Count."}, func(ctx context.Context, in countData) (countData, error) {
		if w.fail != nil {
			if err := w.fail(in.Key); err != nil {
				return in, err
			}
		}
		key := []byte("m" + in.Key)
		e, err := w.store.Get(key)
		if err != nil {
			return in, err
		}
		runtime.Gosched() // other calls change what this one has read
		in.N = len(e.Value) + 1
		var b store.Batch
		b.IfRevision(key, e.Revision)
		b.Set(key, []byte(strings.Repeat("x", in.N)))
		return in, kernel.Stage(ctx, &b)
	})
	// Outside of the store: notes a key, after it was let go.
	outside := kernel.Command(kernel.Definition{Type: "Test.Outside", Summary: "Act.", Behavior: kernel.Behavior{Effect: kernel.External, Runs: kernel.Slow}}, func(ctx context.Context, in countData) (countData, error) {
		w.note("%s", in.Key)
		switch in.Key {
		case "hang":
			<-ctx.Done()
		case "slow":
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
		}
		return in, ctx.Err()
	})
	progress := kernel.DefineQuery[countData, countData](kernel.Definition{Type: "Test.Progress", Summary: "Tell.", Behavior: kernel.Behavior{Runs: kernel.Slow}}).BindStream(func(ctx context.Context, in countData, s *kernel.Stream) (countData, error) {
		for i := range 4 {
			s.Progress(fmt.Sprintf("part %d", i+1), float64(i)/4)
			time.Sleep(2 * time.Second)
		}
		return in, ctx.Err()
	})
	// Answers with what sounds like a credential, after an event with it.
	login := kernel.DefineCommand[countData, kernel.Raw](kernel.Definition{Type: "Test.Login", Summary: "Log in.", Input: schema.Any,
		Emits: []kernel.EventDefinition{{Type: "Session.Asked"}}, Behavior: kernel.Behavior{Runs: kernel.Slow}}).BindStream(func(_ context.Context, in countData, s *kernel.Stream) (kernel.Raw, error) {
		const said = `{"key":"password","value":"swordfish"}`
		s.EmitText("Session.Asked", []byte(`{"call":"c","args":`+said+`}`))
		if in.Key == "wait" {
			time.Sleep(time.Minute)
		}
		return kernel.Raw(said), nil
	})
	when := kernel.Query(kernel.Definition{Type: "Test.When", Summary: "Note the time."}, func(_ context.Context, in countData) (countData, error) {
		now := w.clock.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.times == nil {
			w.times = make(map[string][]time.Time)
		}
		w.times[in.Key] = append(w.times[in.Key], now)
		return in, nil
	})
	w.kernel = kerneltest.Of(w.t, &kernel.Options{Store: w.store}, w.Module(), kerneltest.Module("test", count, outside, progress, login, when))
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx, w.kernel); close(ended) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-ended })
	w.t.Cleanup(w.stop)
	synctest.Wait()
}

func (w *world) find(id principal.ID) (*principal.Principal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tokens[id], nil
}

func (w *world) knows(t message.Type) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[t], nil
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf(format, args...))
}

// call calls a syscall as a principal, and puts the reply into out.
func (w *world) callAs(p *principal.Principal, t message.Type, data string, out any) *message.Error {
	w.t.Helper()
	m := kerneltest.Command("", t, data)
	w.kernel.Stamp(&m)
	outcome := kerneltest.Outcome(kernel.ActFor(w.t.Context(), kernel.From(p, "test")), w.kernel, m)
	if outcome.Kind == message.KindError {
		e, err := message.ParseError(outcome.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		return e
	}
	if out != nil {
		if err := json.Unmarshal(outcome.Data, out); err != nil {
			w.t.Fatalf("%s replied %s: %v", t, outcome.Data, err)
		}
	}
	return nil
}

func (w *world) must(t message.Type, data string, out any) {
	w.t.Helper()
	if e := w.callAs(nil, t, data, out); e != nil {
		w.t.Fatalf("%s %s: %d %v", t, data, e.Code, e)
	}
}

// start starts a job and returns its id.
func (w *world) start(data string) string {
	w.t.Helper()
	var out struct{ JobID, Status string }
	w.must("Job.Start", data, &out)
	if out.JobID == "" {
		w.t.Fatalf("Job.Start %s has replied no id", data)
	}
	return out.JobID
}

type info struct {
	JobID, Status, Paused, ScheduleID, WaitsFor string
	Result                                      json.RawMessage
	Error                                       *struct {
		Code    int
		Message string
		Cause   json.RawMessage
	}
	Attempts, Runs, Missed int
	Next, Due, Last, Began int64
	Steps                  map[string]struct{ Status string }
	Progress               *struct {
		Note       string
		Percentage float64
	}
}

func (w *world) status(id string) (i info) {
	w.t.Helper()
	synctest.Wait()
	w.must("Job.Status", fmt.Sprintf(`{"jobId":%q}`, id), &i)
	return i
}

// wants checks the status of a job: "completed", "failed 404".
func (w *world) wants(when, id, want string) {
	w.t.Helper()
	i := w.status(id)
	got := i.Status
	if i.Error != nil && i.Status == "failed" {
		got += fmt.Sprintf(" %d", i.Error.Code)
	}
	if got != want {
		w.t.Errorf("%s: the job is %s, want %s (%+v)", when, got, want, i)
	}
}

// counted is how often Test.Count has counted a key.
func (w *world) counted(key string) int {
	w.t.Helper()
	synctest.Wait()
	e, err := w.store.Get([]byte("m" + key))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(e.Value)
}

func (w *world) token(name string, g principal.Grant) *principal.Principal {
	w.t.Helper()
	p := kerneltest.Principal(w.t, principal.ID(name), name, g)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[p.ID()] = p
	return p
}

func test(t *testing.T, name string, f func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			f(t, w)
			w.stop()
		})
	})
}

func TestAJobRunsOnce(t *testing.T) {
	test(t, "now", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		w.wants("at once", id, "completed")
		if i := w.status(id); string(i.Result) != `{"key":"a","n":1}` || w.counted("a") != 1 {
			t.Errorf("result %s, counted %d", i.Result, w.counted("a"))
		}
	})
	test(t, "later", func(t *testing.T, w *world) {
		begun := w.clock.Now().UnixMilli()
		for data, due := range map[string]time.Duration{
			`"delay":"60000"`:                       time.Minute, // as a shell writes it
			`"delay":"1m30s"`:                       90 * time.Second,
			`"at":"2m"`:                             2 * time.Minute,
			fmt.Sprintf(`"at":%d`, begun+180_000):   3 * time.Minute,
			fmt.Sprintf(`"at":"%d"`, begun+150_000): 150 * time.Second,
			`"at":"` + w.clock.Now().Add(4*time.Minute).Format(time.RFC3339Nano) + `"`: 4 * time.Minute,
		} {
			key := due.String()
			id := w.start(fmt.Sprintf(`{"name":"Test.Count","payload":{"key":%q},%s}`, key, data))
			if i := w.status(id); i.Status != "pending" || i.Due/1000 != begun/1000+int64(due.Seconds()) {
				t.Errorf("%s: %+v", data, i)
			}
		}
		for _, want := range []string{"1m0s", "1m30s", "2m0s", "2m30s", "3m0s", "4m0s"} {
			if w.counted(want) != 0 {
				t.Errorf("%s has run early", want)
			}
			d, _ := time.ParseDuration(want)
			time.Sleep(d - time.Duration(w.clock.Now().UnixMilli()-begun)*time.Millisecond + time.Second)
			if w.counted(want) != 1 {
				t.Errorf("%s has run %d times", want, w.counted(want))
			}
		}
	})
	test(t, "when people say", func(t *testing.T, w *world) {
		due := func(data string) time.Time {
			return time.UnixMilli(w.status(w.start(`{"name":"Test.Progress","payload":{"key":"x"},` + data + `}`)).Due)
		}
		for data, want := range map[string]time.Duration{
			`"at":"in 8 seconds"`: 8 * time.Second, `"delay":"2 minutes"`: 2 * time.Minute, `"every":"1m"`: time.Minute, `"every":90000`: 90 * time.Second,
		} {
			now := w.clock.Now()
			if got := due(data).Sub(now); got.Round(time.Second) != want {
				t.Errorf("%s: due in %v", data, got)
			}
		}
		// Today is Saturday, 1 January 2000.
		for data, want := range map[string]string{
			`"at":"tomorrow 09:00","timeZone":"Europe/Berlin"`: "2000-01-02T08:00:00Z", `"at":"2000-07-01T09:00","timeZone":"Europe/Berlin"`: "2000-07-01T07:00:00Z",
			`"at":"tuesday 8:00","timeZone":"America/New_York"`: "2000-01-04T13:00:00Z", `"at":"2000-07-01T09:00:00Z","timeZone":"Europe/Berlin"`: "2000-07-01T09:00:00Z",
			`"at":"2000-03-26 02:30","timeZone":"Europe/Berlin"`: "2000-03-26T01:00:00Z", `"at":"2000-10-29 02:30","timeZone":"Europe/Berlin"`: "2000-10-29T00:30:00Z",
		} {
			if got := due(data).UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s: due at %s, want %s", data, got, want)
			}
		}
	})
	test(t, "in its turn", func(t *testing.T, w *world) {
		var ids []string
		for range 3 {
			ids = append(ids, w.start(`{"name":"Test.Progress","payload":{"key":"x"},"concurrencyKey":"k","concurrencyLimit":1}`))
		}
		w.wants("the first", ids[0], "running")
		w.wants("the second", ids[1], "pending")
		time.Sleep(9 * time.Second)
		w.wants("later, the first", ids[0], "completed")
		w.wants("later, the second", ids[1], "running")
		w.must("Job.Pause", `{"concurrencyKey":"k"}`, nil)
		time.Sleep(time.Minute)
		w.wants("paused, the third", ids[2], "pending")
		if i := w.status(ids[2]); !strings.Contains(i.Paused, "concurrencyKey") {
			t.Errorf("it is paused because %q", i.Paused)
		}
		for _, want := range []int{1, 0} { // the second time there is nothing to resume
			var out struct{ Resumed int }
			if w.must("Job.Resume", `{"concurrencyKey":"k"}`, &out); out.Resumed != want {
				t.Errorf("%d keys go on, not %d", out.Resumed, want)
			}
		}
		w.wants("the third", ids[2], "running")
		if i := w.status(ids[2]); i.Began != time.Now().UnixMilli() {
			t.Errorf("while it runs, it began at %d, not %d", i.Began, time.Now().UnixMilli())
		}
		time.Sleep(time.Minute)
	})
	test(t, "under one key", func(t *testing.T, w *world) {
		a := w.start(`{"name":"Test.Progress","payload":{"key":"x"},"uniqueKey":"u"}`)
		if b := w.start(`{"name":"Test.Progress","payload":{"key":"x"},"uniqueKey":"u"}`); a != b {
			t.Errorf("two jobs, %s and %s", a, b)
		}
		time.Sleep(time.Minute)
		if b := w.start(`{"name":"Test.Progress","payload":{"key":"x"},"uniqueKey":"u"}`); a == b {
			t.Error("a finished job keeps its key")
		}
		time.Sleep(time.Minute)
	})
}

func TestAJobThatCannotRunIsRefused(t *testing.T) {
	test(t, "at the start", func(t *testing.T, w *world) {
		viewer := w.token("viewer", principal.Grant{Preset: principal.Agent, Deny: []string{"Test.*"}})
		for data, want := range map[string]int{
			`{"name":"Test.Nope"}`:                      404,
			`{"name":"Test.Count","payload":{}}`:        422,
			`{"name":"Test.Count","payload":{"key":1}}`: 422,
			`{}`: 422,
			`{"name":"Test.Count","payload":{"key":"a"},"delay":"soon"}`:                                 422,
			`{"name":"Test.Count","payload":{"key":"a"},"delay":1,"at":2}`:                               422,
			`{"name":"Test.Count","payload":{"key":"a"},"every":"1m","at":2}`:                            422,
			`{"name":"Test.Count","payload":{"key":"a"},"every":"1m","schedule":"@daily"}`:               422,
			`{"name":"Test.Count","payload":{"key":"a"},"every":"10ms"}`:                                 422,
			`{"name":"Test.Count","payload":{"key":"a"},"at":"soon"}`:                                    422,
			`{"name":"Test.Count","payload":{"key":"a"},"at":"9:00","timeZone":"Atlantis/X"}`:            422,
			`{"name":"Test.Count","payload":{"key":"a"},"delay":"1m","timeZone":"Europe/Berlin"}`:        422,
			`{"name":"Test.Count","payload":{"key":"a"},"schedule":"every day"}`:                         422,
			`{"name":"Test.Count","payload":{"key":"a"},"schedule":"0 0 31 2 *"}`:                        422,
			`{"name":"Test.Count","payload":{"key":"a"},"schedule":"@every 1ms"}`:                        422,
			`{"name":"Test.Count","payload":{"key":"a"},"schedule":"* * * * *","timeZone":"Atlantis/X"}`: 422,
			`{"name":"Job.Wait","payload":{"jobId":"x"}}`:                                                422,
			`{"name":"Test.Count","payload":{"key":"a"},"concurrencyLimit":2}`:                           422,
			`{"steps":[]}`: 422,
			`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":{"$from":"a.key"}}}]}`:                                                                    422,
			`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":"a"},"needs":["b"]}]}`:                                                                    422,
			`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":"a"}},{"id":"a","name":"Test.Count","payload":{"key":"a"}}]}`:                             422,
			`{"steps":[{"id":"a","name":"Test.Count","payload":{"key":{"$from":"b.key"}}},{"id":"b","name":"Test.Count","payload":{"key":{"$from":"a.key"}}}]}`: 422,
			`{"steps":[{"id":"a","name":"Test.Nope"}]}`:                                                                                                         404,
		} {
			if e := w.callAs(nil, "Job.Start", data, nil); e == nil || e.Code != want {
				t.Errorf("%s: %v, want %d", data, e, want)
			}
		}
		if e := w.callAs(viewer, "Job.Start", `{"name":"Test.Count","payload":{"key":"a"}}`, nil); e == nil || e.Code != 403 {
			t.Errorf("a token that may not: %v", e)
		}
	})
	test(t, "when it runs", func(t *testing.T, w *world) {
		p := w.token("ci", principal.Grant{Preset: principal.Agent})
		var out struct{ JobID string }
		for _, more := range []string{`"delay":"1h"`, `"schedule":"@every 30m"`} {
			if e := w.callAs(p, "Job.Start", `{"name":"Test.Count","payload":{"key":"a"},`+more+`}`, &out); e != nil {
				t.Fatal(e)
			}
		}
		schedule := out.JobID
		time.Sleep(31 * time.Minute)
		if n := w.counted("a"); n != 1 {
			t.Errorf("the schedule has run %d times", n)
		}
		w.mu.Lock()
		delete(w.tokens, "ci")
		w.mu.Unlock()
		p.End(principal.ErrRevoked)
		time.Sleep(2 * time.Hour)
		if n := w.counted("a"); n != 1 {
			t.Errorf("a revoked token has run %d times", n)
		}
		var all struct{ Jobs []info }
		w.must("Job.List", `{"status":"failed"}`, &all)
		if len(all.Jobs) != 1 || all.Jobs[0].Error.Code != 403 {
			t.Errorf("its job is %+v", all.Jobs)
		}
		if i := w.status(schedule); i.Paused == "" || i.Status != "pending" {
			t.Errorf("its schedule is %+v", i)
		}
	})
	test(t, "by another principal", func(t *testing.T, w *world) {
		p := w.token("ci", principal.Grant{Preset: principal.Agent})
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		for _, syscall := range []message.Type{"Job.Status", "Job.Cancel", "Job.Retry", "Job.Result", "Job.Wait", "Job.Pause"} {
			if e := w.callAs(p, syscall, fmt.Sprintf(`{"jobId":%q}`, id), nil); e == nil || e.Code != 404 {
				t.Errorf("%s: %v", syscall, e)
			}
		}
		var all struct{ Jobs []info }
		if e := w.callAs(p, "Job.List", `{}`, &all); e != nil || len(all.Jobs) != 0 {
			t.Errorf("it sees %v, %v", all.Jobs, e)
		}
	})
}

func TestRetries(t *testing.T) {
	test(t, "until it succeeds", func(t *testing.T, w *world) {
		n := 0
		w.fail = func(string) error {
			if n++; n < 3 {
				return message.Errorf(503, "attempt %d", n)
			}
			return nil
		}
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"},"retry":{"attempts":5,"backoff":"1m"}}`)
		w.wants("at once", id, "pending")
		time.Sleep(10 * time.Minute)
		w.wants("later", id, "completed")
		if i := w.status(id); i.Attempts != 2 {
			t.Errorf("%+v", i)
		}
	})
	test(t, "to the end", func(t *testing.T, w *world) {
		n := 0
		w.fail = func(string) error { n++; return message.Errorf(503, "attempt %d", n) }
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"},"retry":{"attempts":3,"backoff":10}}`)
		time.Sleep(time.Hour)
		w.wants("later", id, "failed 503")
		if i := w.status(id); i.Attempts != 3 || i.Error.Message != "attempt 3" || !strings.Contains(string(i.Error.Cause), "attempt 2") || !strings.Contains(string(i.Error.Cause), "attempt 1") {
			t.Errorf("%+v", i.Error)
		}
		w.fail = nil
		w.must("Job.Retry", fmt.Sprintf(`{"jobId":%q}`, id), nil)
		w.wants("after Job.Retry", id, "completed")
		if e := w.callAs(nil, "Job.Retry", fmt.Sprintf(`{"jobId":%q}`, id), nil); e == nil || e.Code != 409 {
			t.Errorf("a completed job is run again: %v", e)
		}
	})
	test(t, "not after other errors", func(t *testing.T, w *world) {
		w.fail = func(string) error { return message.Errorf(404, "no") }
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"},"retry":{"attempts":3}}`)
		w.wants("at once", id, "failed 404")
	})
}

func TestCancel(t *testing.T) {
	cancel := func(w *world, id string) (canceled bool) {
		var out struct{ Canceled bool }
		w.must("Job.Cancel", fmt.Sprintf(`{"jobId":%q}`, id), &out)
		return out.Canceled
	}
	test(t, "before it runs", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"},"delay":"1h"}`)
		if !cancel(w, id) {
			t.Error("not canceled")
		}
		time.Sleep(2 * time.Hour)
		w.wants("later", id, "failed 499")
		if w.counted("a") != 0 || cancel(w, id) {
			t.Error("it has run, or can be canceled twice")
		}
	})
	test(t, "while it runs", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Outside","payload":{"key":"hang"},"retry":{"attempts":9,"codes":[499,500]}}`)
		w.wants("at once", id, "running")
		if !cancel(w, id) {
			t.Error("not canceled")
		}
		w.wants("at once after that", id, "failed 499")
		time.Sleep(time.Hour)
		w.wants("later", id, "failed 499")
		if len(w.seen) != 1 {
			t.Errorf("done: %q", w.seen)
		}
	})
	test(t, "a schedule", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Count","payload":{"key":"a"},"schedule":"@every 1m"}`)
		time.Sleep(150 * time.Second)
		if !cancel(w, id) {
			t.Error("not canceled")
		}
		time.Sleep(time.Hour)
		if n := w.counted("a"); n != 2 {
			t.Errorf("it has run %d times", n)
		}
		var all struct{ Jobs []info }
		w.must("Job.List", `{"schedule":true}`, &all)
		if len(all.Jobs) != 0 {
			t.Errorf("there is %+v", all.Jobs)
		}
	})
}

func TestProgress(t *testing.T) {
	test(t, "is told and kept", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Progress","payload":{"key":"x"}}`)
		time.Sleep(3 * time.Second)
		if i := w.status(id); i.Progress == nil || i.Progress.Note != "part 2" || i.Progress.Percentage != 0.25 {
			t.Errorf("%+v", i.Progress)
		}
		var told []string
		m := kerneltest.Query("w", "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, id))
		w.kernel.Handle(t.Context(), m, func(m message.Message) {
			told = append(told, fmt.Sprintf("%s %s", m.Kind, m.Type))
		})
		if got := strings.Join(told, ", "); got != "event Syscall.Progressed, event Syscall.Progressed, event Syscall.Progressed, reply Job.Wait" {
			t.Errorf("told %s", got)
		}
		w.stop()
		w.open()
		var out struct{ Log []struct{ Text string } }
		w.must("Job.Result", fmt.Sprintf(`{"jobId":%q,"log":true}`, id), &out)
		if len(out.Log) != 4 || out.Log[3].Text != "part 4" {
			t.Errorf("its log is %v", out.Log)
		}
	})
	test(t, "is waited for so long", func(t *testing.T, w *world) {
		id := w.start(`{"name":"Test.Progress","payload":{"key":"x"}}`)
		var i info
		w.must("Job.Wait", fmt.Sprintf(`{"jobId":%q,"timeout":"1s"}`, id), &i)
		if i.Status != "running" {
			t.Errorf("%+v", i)
		}
		time.Sleep(time.Minute)
	})
}

func TestFinishedJobsAreForgotten(t *testing.T) {
	test(t, "after a while", func(t *testing.T, w *world) {
		short := w.start(`{"name":"Test.Count","payload":{"key":"a"},"keep":"1h"}`)
		long := w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		gone := w.start(`{"name":"Test.Count","payload":{"key":"a"},"keep":0}`)
		sweep := func() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if _, err := w.Sweep(t.Context(), w.clock.Now()); err != nil {
				t.Error(err)
			}
		}
		sweep()
		if e := w.callAs(nil, "Job.Status", fmt.Sprintf(`{"jobId":%q}`, gone), nil); e == nil || e.Code != 404 {
			t.Errorf("one that isn't kept: %v", e)
		}
		w.wants("at once", short, "completed")
		time.Sleep(time.Hour + time.Second)
		sweep()
		if e := w.callAs(nil, "Job.Status", fmt.Sprintf(`{"jobId":%q}`, short), nil); e == nil || e.Code != 404 {
			t.Errorf("after an hour: %v", e)
		}
		w.wants("after an hour", long, "completed")
		time.Sleep(8 * 24 * time.Hour)
		sweep()
		for e, err := range w.store.Scan(store.Prefix([]byte{store.SpaceJobs})) {
			t.Errorf("left: %q, %v", e.Key, err)
		}
	})
}

// What is cut off is done again, or its outcome is not known.
func TestStats(t *testing.T) {
	test(t, "say what runs and what waits", func(t *testing.T, w *world) {
		stats := func(when string, want job.Stats) {
			t.Helper()
			synctest.Wait()
			if got, err := w.Stats(); err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v", when, got, err, want)
			}
		}
		stats("at first", job.Stats{})
		hanging := w.start(`{"name":"Test.Outside","payload":{"key":"hang"},"repeat":true}`)
		w.start(`{"name":"Test.Count","payload":{"key":"a"},"schedule":"@every 1h"}`)
		w.start(`{"name":"Test.Count","payload":{"key":"a"},"delay":"2h"}`)
		w.start(`{"name":"Test.Count","payload":{"key":"b"}}`)
		stats("while one runs", job.Stats{Running: 1, Completed: 1, Schedules: 1})
		w.must("Job.Cancel", fmt.Sprintf(`{"jobId":%q}`, hanging), nil)
		stats("after it", job.Stats{Completed: 1, Failed: 1, Schedules: 1})
		w.stop()
		if _, err := job.Restored(w.store); err != nil {
			t.Fatal(err)
		}
		w.open()
		stats("after a restore", job.Stats{Schedules: 1, Held: true})
		w.must("Job.Resume", `{}`, nil)
		stats("when it goes on", job.Stats{Schedules: 1})
	})
	test(t, "say how long a job waits for its turn", func(t *testing.T, w *world) {
		for range 256 { // as many as run at once
			w.start(`{"name":"Test.Outside","payload":{"key":"hang"},"repeat":true}`)
		}
		w.start(`{"name":"Test.Count","payload":{"key":"a"}}`)
		time.Sleep(time.Minute)
		if s, err := w.Stats(); err != nil || s.Running != 256 || s.Oldest != time.Minute {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestAKernelInProcess(t *testing.T) {
	jobs := job.New(&job.Options{Store: storetest.NewMemory(), Find: func(principal.ID) (*principal.Principal, error) { return nil, errors.New("unused") }})
	k := kerneltest.Of(t, &kernel.Options{Store: storetest.NewMemory()}, jobs.Module())
	if code, text := kerneltest.Failure(t, k, kerneltest.Command("a", "Job.Start", `{"name":"Job.List"}`)); code != 503 || !strings.Contains(text, "kernos serve") {
		t.Errorf("%d %s", code, text)
	}
}
