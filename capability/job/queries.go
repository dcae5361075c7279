package job

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/when"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store/cursor"
	"kernos/work"
)

type idInput struct {
	JobID string `json:"jobId" aliases:"job_id,id" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"The job, as Job.Start replied it, or its short form: its beginning and its end with … between them."`
}

// Info is what callers see of a job.
type Info struct {
	JobID  string         `json:"jobId" jsonschema_description:"The job."`
	Status Status         `json:"status" jsonschema:"enum=pending,enum=running,enum=completed,enum=failed" jsonschema_description:"pending: it waits; running; completed: it has a result; failed: it has an error. A canceled job is failed with the code 499. A schedule stays pending."`
	Result jsontext.Value `json:"result,omitzero" jsonschema_description:"What the syscall replied; of steps, an object with the result of each."`
	Error  jsontext.Value `json:"error,omitzero" jsonschema_description:"Why it has failed: {code, message, cause}. The errors of earlier attempts are causes."`

	Name     message.Type         `json:"name,omitzero" jsonschema_description:"The syscall that it runs."`
	Created  int64                `json:"created" jsonschema_description:"When it was started, in milliseconds since 1970."`
	Due      int64                `json:"due,omitzero" jsonschema_description:"When it begins, or began, or begins again after an attempt that has failed, in milliseconds since 1970."`
	Began    int64                `json:"began,omitzero" jsonschema_description:"When it began, in milliseconds since 1970."`
	Ended    int64                `json:"ended,omitzero" jsonschema_description:"When it ended, in milliseconds since 1970."`
	Attempt  int                  `json:"attempts,omitzero" jsonschema_description:"How many attempts have failed."`
	Progress *progress            `json:"progress,omitzero" jsonschema_description:"How far it is, if the syscall reports it."`
	Steps    map[string]stepState `json:"steps,omitzero" jsonschema_description:"How far its steps are."`

	Schedule       string `json:"schedule,omitzero" jsonschema_description:"Of a schedule: when it runs."`
	TimeZone       string `json:"timeZone,omitzero" jsonschema_description:"Of a schedule: its time zone."`
	Next           int64  `json:"next,omitzero" jsonschema_description:"Of a schedule: when it runs next, in milliseconds since 1970."`
	Last           int64  `json:"last,omitzero" jsonschema_description:"Of a schedule: when it was due last, in milliseconds since 1970."`
	Runs           int    `json:"runs,omitzero" jsonschema_description:"Of a schedule: how many runs it has started."`
	Missed         int    `json:"missed,omitzero" jsonschema_description:"Of a schedule: how many of its times passed without a run of their own."`
	MissedAt       int64  `json:"missedAt,omitzero" jsonschema_description:"Of a schedule: when it was found that the latest of those had passed, in milliseconds since 1970."`
	Paused         string `json:"paused,omitzero" jsonschema_description:"Why it is paused; Job.Resume resumes it."`
	Of             string `json:"scheduleId,omitzero" jsonschema_description:"The schedule that has started it."`
	WaitsFor       string `json:"waitsFor,omitzero" jsonschema_description:"The syscall that no program serves at the moment: the job begins when one does."`
	Why            string `json:"why,omitzero" jsonschema_description:"Why that syscall, or the one of a schedule, isn't served before the owner does something."`
	ConcurrencyKey string `json:"concurrencyKey,omitzero" jsonschema_description:"The key of the limit that it shares."`
	Correlation    string `json:"correlation" jsonschema_description:"The workflow that it belongs to: Message.Graph draws it."`
	Principal      string `json:"principal" jsonschema_description:"The principal that started it, and with whose rights it runs."`
}

func (Info) SchemaName() string { return "Job" }

// info returns what callers see of a job.
func (j *Jobs) info(r *record) Info {
	i := Info{
		JobID: r.ID, Status: r.current(), Result: r.Result, Error: r.Error, Name: r.Name, Created: r.Created,
		Began: r.Began, Ended: r.Ended, Attempt: r.Attempt, Progress: r.Progress, Steps: r.done,
		Schedule: r.Schedule, TimeZone: r.Zone, Last: r.Last, Runs: r.Runs, Missed: r.Missed, MissedAt: r.MissedAt, Paused: r.Paused, Of: r.Of,
		ConcurrencyKey: r.Group, Correlation: r.Correlation, Principal: r.Token,
	}
	if r.queued != work.Absent {
		i.Due = r.due.UnixMilli()
	}
	if r.Schedule != "" && r.Paused == "" && r.Status == "" {
		i.Next = i.Due
	}
	if r.Paused != "" {
		i.Due = 0
	}
	if i.Status == statusPending {
		i.WaitsFor = string(r.waitsFor())
		i.Why = j.why(r)
	}
	if r.queued == work.Held {
		i.Paused = restored
	}
	if r.Status == "" && r.Group != "" && r.Schedule == "" && r.queued == work.Waiting && j.queue.Paused(r.groupName()) {
		i.Paused = "its concurrencyKey is paused"
	}
	if l := j.find(r.ID); l != nil && r.Status == "" {
		if _, p, _ := l.next(); p != nil {
			i.Progress = p
		}
		if i.Status == statusRunning && i.Began == 0 {
			i.Began = l.begun.Load()
		}
	}
	return i
}

// why returns why a syscall of a job is away.
func (j *Jobs) why(r *record) string {
	if why := r.away(j, r.Name); why != "" {
		return why
	}
	for _, s := range r.spec.Steps {
		if why := r.away(j, s.Name); why != "" && !r.done[s.ID].ended() {
			return why
		}
	}
	return ""
}

// waitsFor returns the syscall that the job waits for, or the first of those that its steps wait
// for; "" means that it waits for none.
func (r *record) waitsFor() message.Type {
	if r.Absent != 0 {
		return r.Name
	}
	for _, s := range r.spec.Steps {
		if st := r.done[s.ID]; st.Absent != 0 && !st.ended() {
			return s.Name
		}
	}
	return ""
}

var status = kernel.DefineQuery[idInput, Info](kernel.Definition{
	Type:    "Job.Status",
	Summary: "Report how far a job is, and its result or its error.",
	Presentation: kernel.Presentation{
		Title: "Show how far a job is",
		Words: "progress of a job, is it done, is it finished, how long, why a job has not started, is the job still running, how far along is it, " +
			"what is the job doing, why did the job fail, is my task done, percentage done, is it stuck, what's up with the job, how is a task doing, " +
			"when does it run next",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 422, When: "the short id stands for several jobs"},
		},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (j *Jobs) status(ctx context.Context, in idInput) (Info, error) {
	r, err := j.visible(ctx, in.JobID)
	if err != nil {
		return Info{}, err
	}
	return j.info(r), nil
}

type resultOutput struct {
	JobID  string         `json:"jobId" jsonschema_description:"The job."`
	Result jsontext.Value `json:"result" jsonschema_description:"What the syscall replied. What was too large for a line is a reference."`
	Log    []line         `json:"log,omitzero" jsonschema_description:"The last 200 lines of its log."`
	Lost   int            `json:"dropped,omitzero" jsonschema_description:"How many earlier lines were dropped."`
}

type resultInput struct {
	JobID string `json:"jobId" aliases:"job_id,id" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"The job, as Job.Start replied it, or its short form: its beginning and its end with … between them."`
	Log   bool   `json:"log,omitzero" jsonschema_description:"Also return what the job has said; then it need not have ended."`
}

var result = kernel.DefineQuery[resultInput, resultOutput](kernel.Definition{
	Type:    "Job.Result",
	Summary: "Get the result of a completed job, or the error of a failed one, or what a job has said.",
	Presentation: kernel.Presentation{
		Title: "Get the result of a job",
		Words: "output, outcome, job log, what did the job return, what came out of the task, output of a task, what did the job say, " +
			"answer of the background task, what did the task produce, outcome of a job, error of a failed job",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 409, When: "the job has no result yet"},
			{Code: 422, When: "the short id stands for several jobs"},
		},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows, Answers: kernel.FromStore},
})

func (j *Jobs) result(ctx context.Context, in resultInput) (resultOutput, error) {
	r, err := j.visible(ctx, in.JobID)
	if err != nil {
		return resultOutput{}, err
	}
	out := resultOutput{JobID: r.ID, Result: r.Result}
	if in.Log {
		all, err := j.logOf(r.ID)
		out.Log, out.Lost = all.Lines, all.Dropped
		if len(out.Result) == 0 {
			out.Result = jsontext.Value("null")
		}
		return out, err
	}
	switch r.current() {
	case statusCompleted:
		return out, nil
	case statusFailed:
		return out, message.ReadError([]byte(r.Error))
	}
	return out, message.Errorf(409, "The job %s is %s and has no result yet; Job.Wait waits for it", r.ID, r.current())
}

type listInput struct {
	Status   Status       `json:"status,omitzero" jsonschema:"enum=pending,enum=running,enum=completed,enum=failed" jsonschema_description:"Only jobs of this status."`
	Name     message.Type `json:"name,omitzero" jsonschema:"maxLength=256" jsonschema_description:"Only jobs that run this syscall, or one of a domain (Http.*)."`
	Since    when.Back    `json:"since,omitzero" jsonschema_description:"Only jobs started at this time or later: milliseconds since 1970, a time such as 2026-01-31T12:00:00Z, today, yesterday 18:00, or how long ago, such as 1h or 3 days ago."`
	Schedule bool         `json:"schedule,omitzero" jsonschema_description:"Only schedules."`
	Of       string       `json:"scheduleId,omitzero" jsonschema:"maxLength=64" jsonschema_description:"Only the runs of this schedule."`
	Limit    int          `json:"limit,omitzero" jsonschema:"minimum=1,maximum=1000,default=100" jsonschema_description:"How many jobs at most."`
	Cursor   string       `json:"cursor,omitzero" jsonschema:"maxLength=140" jsonschema_description:"The cursor of the previous page, with all other parameters unchanged."`
}

type listOutput struct {
	Jobs   []Info `json:"jobs" jsonschema_description:"The jobs, newest first, without their results."`
	Cursor string `json:"cursor,omitzero" jsonschema_description:"The cursor of the next page; absent on the last page."`
	kernel.Narrowed
}

var list = kernel.DefineQuery[listInput, listOutput](kernel.Definition{
	Type:    "Job.List",
	Summary: "List jobs, newest first, by status, name, time or schedule, in pages.",
	Input:   schema.Input[listInput]().Example(`{"status":"failed","since":"24h"}`),
	Presentation: kernel.Presentation{
		Title: "List jobs",
		Words: "schedules, reminders, queue, running jobs, ps, which jobs are running, what is scheduled, which reminders do i have, which tasks failed, " +
			"what runs in the background, what is planned, upcoming tasks, show all schedules, what is waiting in the queue, failed jobs, " +
			"which timers are set, background tasks",
		Columns: []string{
			"ID {jobId:id}", "STATUS {status:state}", "NAME {name} | steps", "STARTED {created:clock}",
			"NOTE {error.code} {error.message} | paused: {paused} | {why} | next {next:clock} ({schedule}[ {timeZone}]) | " +
				"ended {ended:clock} | waits for a program that serves {waitsFor} | " +
				"{progress.percentage:percent} {progress.note} | due {due:clock}{?status=pending}",
		},
		Arguments: []string{"name"}, Errors: []kernel.ErrorDefinition{{Code: 422, When: "the cursor or a filter is invalid"}},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows, Answers: kernel.FromStore},
})

func (j *Jobs) list(ctx context.Context, in listInput) (listOutput, error) {
	out := listOutput{Jobs: []Info{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAll)}
	since := in.Since.Time(j.opts.Now().In(time.Local))
	page := cursor.Page{Listing: 'j', Prefix: key(keySpec), Longest: 64, Cursor: in.Cursor, Limit: cmp.Or(in.Limit, 100), Looked: maxLooked}
	switch {
	case in.Schedule:
		page.Prefix = key(keySchedule)
	case in.Status == statusFailed, in.Status == statusCompleted: // few among many: the others aren't read
		page.Prefix, page.Skip = key(keyState), func(state []byte) bool { return !in.Status.ends(state) }
	}
	p := kernel.PrincipalOf(ctx)
	var err error
	out.Cursor, err = page.Each(ctx, j.opts.Store, func(id string) (bool, error) {
		r, err := j.load(id)
		if err != nil {
			return false, nil // the job was forgotten meanwhile
		}
		if !since.IsZero() && r.Created < since.UnixMilli() {
			return false, cursor.ErrEnd // all further jobs are older
		}
		if !p.Sees(r.Principal) || !matches(&in, r) {
			return false, nil
		}
		i := j.info(r)
		i.Result = nil
		out.Jobs = append(out.Jobs, i)
		return true, nil
	})
	return out, err
}

func matches(in *listInput, r *record) bool {
	domain, whole := strings.CutSuffix(string(in.Name), ".*")
	names := []message.Type{r.Name}
	for _, s := range r.spec.Steps {
		names = append(names, s.Name)
	}
	return (in.Status == "" || r.current() == in.Status) && (in.Of == "" || r.Of == in.Of) &&
		(in.Name == "" || slices.ContainsFunc(names, func(t message.Type) bool {
			return t == in.Name || whole && t.Domain() == domain
		}))
}

type waitInput struct {
	JobID   string    `json:"jobId" aliases:"job_id,id" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"The job, as Job.Start replied it, or its short form: its beginning and its end with … between them."`
	Timeout when.Span `json:"timeout,omitzero" jsonschema_description:"How long to wait: milliseconds, or a text such as 30s. Then the reply reports how far the job is. Default: until it has ended."`
}

var wait = kernel.DefineQuery[waitInput, Info](kernel.Definition{
	Type:    "Job.Wait",
	Summary: "Wait until a job has ended: its progress, then its outcome. It can be asked again at any time.",
	Emits: []kernel.EventDefinition{
		{Type: askedEvent, Summary: "The job waits until Session.Decide has decided about a call of a session: {session, call, name, args, rule, reached}.", Unrecorded: true},
		{Type: decidedEvent, Summary: "The call no longer waits for a decision: {session, call}.", Unrecorded: true},
	},
	Presentation: kernel.Presentation{
		Title: "Wait for a job",
		Words: "await, join, until it is done, wait until a job is finished, block until the task ends, hold on until it is ready, " +
			"wait for the task to finish, wait for the result, follow a job to its end",
		Failure: "the job {jobId} has failed: {error.code} {error.message}{?status=failed} | " +
			"the job {jobId} is still {status}; kernos job wait {jobId} waits for it{!status=completed}",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 422, When: "the short id stands for several jobs"},
		},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Endless, Timeout: 24 * time.Hour},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (j *Jobs) wait(ctx context.Context, in waitInput, s *kernel.Stream) (Info, error) {
	var late <-chan time.Time
	if in.Timeout > 0 {
		timer := time.NewTimer(in.Timeout.Duration())
		defer timer.Stop()
		late = timer.C
	}
	found, err := j.visible(ctx, in.JobID)
	if err != nil {
		return Info{}, err
	}
	l := j.begin(found.ID)
	defer j.end(l)
	var reported *progress
	var asked map[string][]byte
	for {
		news, p, asks := l.next()
		r, err := j.visible(ctx, found.ID)
		if err != nil {
			return Info{}, err
		}
		if p != nil && p != reported {
			reported = p
			s.Progress(p.Note, p.Fraction)
		}
		for _, call := range slices.Sorted(maps.Keys(asked)) {
			if asks[call] == nil {
				s.EmitText(decidedEvent, asked[call])
			}
		}
		for _, call := range slices.Sorted(maps.Keys(asks)) {
			if asked[call] == nil {
				s.EmitText(askedEvent, asks[call])
			}
		}
		asked = asks
		if r.Status != "" {
			return j.info(r), nil
		}
		select {
		case <-news:
		case <-late:
			return j.info(r), nil
		case <-ctx.Done():
			return Info{}, context.Cause(ctx)
		}
	}
}
