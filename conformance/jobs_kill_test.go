package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// TestJobsAreKilled kills a kernel that runs jobs of all kinds. Every job that was acknowledged
// reaches one outcome, what it changes in the store happens once, what it does outside at most
// once, and a schedule has one run for each of its times that it doesn't count as missed.
func TestJobsAreKilled(t *testing.T) {
	rounds := 5 // and 500 jobs; make crash has 100 and 10,000
	if *crashes > rounds*2 {
		rounds = *crashes
	}
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			v := &killedJobs{engine: e, met: make(map[string]map[int64]bool)}
			storetest.Victim{Work: v.work, Check: v.check, End: v.end, Reports: (jobsPerRound + schedulesPerRound) * rounds}.Kill(t, rounds)
			if jobs := len(v.jobs); jobs < jobsPerRound*rounds {
				t.Errorf("%d jobs were acknowledged", jobs)
			}
		})
	}
}

const (
	jobsPerRound      = 100 // on average
	schedulesPerRound = 2   // at most
	jobStarters       = 8
	poisonous         = 5 // the number of processes that die with a job after which it fails
)

// killedJobs is a workload of jobs, and what was acknowledged of it.
type killedJobs struct {
	engine    storetest.Engine
	jobs      []string
	schedules []string
	met       map[string]map[int64]bool // by job: the processes that were killed while they had a lease of it
}

type counted struct {
	Key   string `json:"key" jsonschema_description:"What to count."`
	Flaky bool   `json:"flaky,omitzero" jsonschema_description:"Whether it fails now and then."`
	From  any    `json:"from,omitzero" jsonschema_description:"A part of an earlier result."`
}

// countKey is where the count of a key is, in a keyspace of the tests' own.
func countKey(key string) []byte { return []byte("~" + key) }

func (v *killedJobs) open(dir string, more ...kernel.Syscall) (*whole, error) {
	var w *whole
	count := kernel.Command(kernel.Definition{Type: "Test.Count", Summary: "Count."}, func(ctx context.Context, in counted) (counted, error) {
		if in.Flaky && rand.IntN(3) == 0 {
			return in, message.Errorf(503, "Not now")
		}
		at := countKey(in.Key)
		e, err := w.store.Get(at)
		if err != nil {
			return in, err
		}
		var b store.Batch
		b.IfRevision(at, e.Revision)
		b.Set(at, append([]byte("x"), e.Value...))
		return in, kernel.Stage(ctx, &b)
	})
	outside := kernel.Command(kernel.Definition{Type: "Test.Outside", Summary: "Act.", Behavior: kernel.Behavior{Effect: kernel.External, Runs: kernel.Slow}}, func(_ context.Context, in counted) (counted, error) {
		f, err := os.OpenFile(filepath.Join(dir, "outside"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return in, err
		}
		_, err = f.WriteString(in.Key + "\n")
		return in, errors.Join(err, f.Close())
	})
	module := kernel.Module{Name: "test", Version: "1.0.0", Summary: "For the test.", Syscalls: append(more, count, outside)}
	w, err := openWhole(dir, around{engine: v.engine, more: []kernel.Module{module}})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// startJob is the data of the nth Job.Start of a round.
func startJob(key string, n int) string {
	switch n % 6 {
	case 0:
		return fmt.Sprintf(`{"name":"Test.Count","payload":{"key":%q}}`, key)
	case 1:
		return fmt.Sprintf(`{"name":"Test.Count","payload":{"key":%q,"flaky":true},"retry":{"attempts":100,"backoff":1}}`, key)
	case 2:
		return fmt.Sprintf(`{"retry":{"attempts":100,"backoff":1},"steps":[{"id":"a","name":"Test.Count","payload":{"key":"%[1]s-a"}},
			{"id":"b","name":"Test.Count","payload":{"key":"%[1]s-b","flaky":true,"from":{"$from":"a.key"}}},
			{"id":"c","name":"Test.Count","payload":{"key":"%[1]s-c"},"needs":["a"]},
			{"id":"d","name":"Test.Count","payload":{"key":"%[1]s-d","from":[{"$from":"b.key"},{"$from":"c.key"}]}}]}`, key)
	case 3:
		return fmt.Sprintf(`{"name":"Test.Count","payload":{"key":%q},"delay":%d}`, key, 50+5*(n%160))
	case 4:
		return fmt.Sprintf(`{"name":"Test.Outside","payload":{"key":%q}}`, key)
	default:
		return fmt.Sprintf(`{"name":"Test.Count","payload":{"key":%q},"concurrencyKey":"k%d","concurrencyLimit":2}`, key, n%4)
	}
}

func (v *killedJobs) work(dir string, report func(string)) error {
	w, err := v.open(dir)
	if err != nil {
		return err
	}
	failed := make(chan error)
	go func() { failed <- w.Serve(context.Background()) }()
	round := fmt.Sprint(time.Now().UnixNano())
	for c := range jobStarters {
		go func() {
			conn := w.connect()
			start := func(what, data string) {
				id := fmt.Sprintf("start-%s-%d-%d", round, c, rand.Int64())
				request := message.Message{Kind: message.KindCommand, Type: "Job.Start", Data: []byte(strings.ReplaceAll(data, "\n", " ")), Metadata: message.Metadata{ID: message.ID(id), Timestamp: time.Now().UnixMilli()}}
				line := string(message.Append(nil, &request))
				answer, err := conn.ask(line)
				for strings.Contains(answer, `"code":503`) { // it isn't served yet
					answer, err = conn.ask(line)
				}
				var reply struct{ Data struct{ JobID string } }
				if err == nil {
					err = json.Unmarshal([]byte(answer), &reply)
				}
				if err != nil || reply.Data.JobID == "" {
					failed <- fmt.Errorf("Job.Start: %s, %v", answer, err)
					return
				}
				report(what + " " + reply.Data.JobID)
			}
			if c < schedulesPerRound {
				start("schedule", fmt.Sprintf(`{"name":"Test.Count","payload":{"key":"s-%s-%d"},"schedule":"@every 1s"}`, round, c))
			}
			for n := c; ; n += jobStarters {
				start("job", startJob(fmt.Sprintf("%s-%d", round, n), n))
			}
		}()
	}
	return <-failed
}

func (v *killedJobs) check(t *testing.T, dir string, reported []string) {
	for _, line := range reported {
		switch what, id, _ := strings.Cut(line, " "); what {
		case "job":
			v.jobs = append(v.jobs, id)
		case "schedule":
			v.schedules = append(v.schedules, id)
		default:
			t.Errorf("the victim reports %q", line)
		}
	}
	w, err := v.open(dir)
	if err != nil {
		t.Errorf("after a kill: %v", err)
		return
	}
	defer w.Close()
	for e, err := range w.store.Scan(store.Prefix([]byte{store.SpaceWork, 'j'})) {
		var task struct{ Process int64 }
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(e.Value, &task) != nil || task.Process == 0 {
			continue // it has no lease, or names the place of one that has
		}
		id := string(e.Key[len(e.Key)-26:])
		if v.met[id] == nil {
			v.met[id] = make(map[int64]bool)
		}
		v.met[id][task.Process] = true
	}
}

type killedJob struct {
	JobID, Status, Name, ScheduleID string
	Error                           *message.Error
	Created, Last                   int64
	Runs, Missed                    int
}

// end lets all jobs end, and checks their outcomes.
func (v *killedJobs) end(t *testing.T, dir string) {
	w, err := v.open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer w.serve(t)()
	ask := func(m message.Message, out any) {
		t.Helper()
		if err := json.Unmarshal(m.Data, out); err != nil || failure(m) != 0 {
			t.Fatalf("%s %v", m.Data, err)
		}
	}
	for _, id := range v.schedules {
		for w.command("Job.Pause", `{"jobId":%q}`, id).Kind != message.KindReply {
			if t.Context().Err() != nil {
				return
			}
		}
	}
	ends := map[string]int{}
	for _, id := range v.jobs {
		var j killedJob
		ask(w.query("Job.Wait", `{"jobId":%q,"timeout":"2m"}`, id), &j)
		if j.Status == "failed" && j.Name == "Test.Outside" && j.Error.Code == 409 {
			j.Status = "unknown" // a kill met it while it acted outside
		}
		if v.poisoned(&j) {
			j.Status = "poisoned"
		}
		if ends[j.Status]++; j.Status != "completed" && j.Status != "unknown" && j.Status != "poisoned" {
			t.Errorf("the job %s was acknowledged, and is %s: %+v", id, j.Status, j.Error)
		}
	}
	v.checkEffects(t, w, dir, v.checkSchedules(t, w, ask))
	most := 0
	for _, processes := range v.met {
		most = max(most, len(processes))
	}
	t.Logf("%d jobs, %v, at most %d kills met one, and %d schedules", len(v.jobs), ends, most, len(v.schedules))
}

// poisoned reports whether kills have met a job again and again, as they may on a slow machine.
func (v *killedJobs) poisoned(j *killedJob) bool {
	return j.Status == "failed" && j.Error.Code == 500 && strings.HasPrefix(j.Error.Message, "The kernel ended ") && len(v.met[j.JobID]) >= poisonous
}

// checkSchedules looks at each time of each schedule, and returns how many runs of each were poisoned.
func (v *killedJobs) checkSchedules(t *testing.T, w *whole, ask func(message.Message, any)) (poisoned map[string]int) {
	runs, poisoned := make(map[string]int), make(map[string]int)
	for cursor, more := "", true; more; {
		var page struct {
			Jobs   []killedJob
			Cursor string
		}
		ask(w.query("Job.List", `{"limit":1000,"cursor":%q}`, cursor), &page)
		for _, j := range page.Jobs {
			if j.ScheduleID == "" {
				continue
			}
			ask(w.query("Job.Wait", `{"jobId":%q,"timeout":"2m"}`, j.JobID), &j)
			if v.poisoned(&j) {
				poisoned[j.ScheduleID]++
			} else if j.Status != "completed" {
				t.Errorf("the run %s of a schedule is %s: %+v", j.JobID, j.Status, j.Error)
			}
			runs[j.ScheduleID]++
		}
		cursor, more = page.Cursor, page.Cursor != ""
	}
	for _, id := range v.schedules {
		var s killedJob
		ask(w.query("Job.Status", `{"jobId":%q}`, id), &s)
		if times := int(s.Last-s.Created) / 1000; s.Last != 0 && s.Runs+s.Missed != times || s.Last == 0 && s.Runs != 0 {
			t.Errorf("the schedule %s: %d times have passed, %d runs, %d missed", id, times, s.Runs, s.Missed)
		}
		if runs[id] != s.Runs {
			t.Errorf("the schedule %s has started %d runs, and there are %d", id, s.Runs, runs[id])
		}
	}
	return poisoned
}

// checkEffects looks for what has happened twice, or half. Of the runs of some schedules, some were poisoned.
func (v *killedJobs) checkEffects(t *testing.T, w *whole, dir string, poisoned map[string]int) {
	for e, err := range w.store.Scan(store.Prefix(countKey(""))) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Value); n != 1 && !strings.HasPrefix(string(e.Key), "~s-") {
			t.Errorf("%s has happened %d times", e.Key[1:], n)
		}
	}
	for _, id := range v.schedules {
		var s struct {
			Runs int
			Name string
		}
		m := w.query("Job.Status", `{"jobId":%q}`, id)
		if err := json.Unmarshal(m.Data, &s); err != nil {
			t.Fatal(err)
		}
		spec, err := w.store.Get([]byte(string(rune(store.SpaceJobs)) + "s" + id))
		if err != nil {
			t.Fatal(err)
		}
		var stored struct{ Payload counted }
		if err := json.Unmarshal(spec.Value, &stored); err != nil {
			t.Fatal(err)
		}
		e, err := w.store.Get(countKey(stored.Payload.Key))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Value); n > s.Runs || n < s.Runs-poisoned[id] {
			t.Errorf("%d runs of the schedule %s have happened %d times", s.Runs, id, len(e.Value))
		}
	}
	v.checkOutside(t, dir)
}

// checkOutside looks for what was done outside twice.
func (v *killedJobs) checkOutside(t *testing.T, dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "outside"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if seen[line] {
			t.Errorf("%s was done outside twice", strings.TrimSpace(line))
		}
		seen[line] = true
	}
}
