package job

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/work"
)

type startInput struct {
	Name    message.Type   `json:"name,omitzero" jsonschema:"oneof_required=name,maxLength=256" jsonschema_description:"The syscall to run. Instead of it, steps can be given."`
	Payload jsontext.Value `json:"payload,omitzero" jsonschema_description:"The data of the syscall; {} if it is left out."`
	Steps   []stepInput    `json:"steps,omitzero" jsonschema:"oneof_required=steps,maxItems=200" jsonschema_description:"Several syscalls, each of which runs once to its end. Those that don't need each other run side by side."`

	Timeout jsontext.Value `json:"timeout,omitzero" jsonschema:"oneof_type=number;string" jsonschema_description:"How long an attempt may take: milliseconds, or a text such as 90s or 2h. Default: an hour, and for code its limits.time."`
	Delay   jsontext.Value `json:"delay,omitzero" jsonschema:"oneof_type=number;string" jsonschema_description:"Begin after this time: milliseconds, or a text such as 1m30s."`
	At      jsontext.Value `json:"at,omitzero" jsonschema:"oneof_type=number;string" jsonschema_description:"Begin at this time: 2026-01-31T12:00:00Z, or milliseconds since 1970."`

	Schedule string `json:"schedule,omitzero" jsonschema:"maxLength=128" jsonschema_description:"Run again and again: a cron expression such as 0 9 * * 1-5 (minute, hour, day, month, weekday; seconds may come first), @hourly, @daily, or @every 10m."`
	TimeZone string `json:"timeZone,omitzero" jsonschema:"maxLength=64" jsonschema_description:"The time zone of the schedule, such as Europe/Berlin. Default: that of the machine."`
	CatchUp  bool   `json:"catchUp,omitzero" jsonschema_description:"Run once for each time that was missed while the kernel did not run, at most 1,000. Default: once for all of them."`

	Retry    *retryInput `json:"retry,omitzero" jsonschema_description:"What to do about an attempt that fails. Default: nothing, the job has failed."`
	Repeat   bool        `json:"repeat,omitzero" jsonschema_description:"The syscall may be repeated where it isn't known whether it was done, as after a power cut. Default: what acts outside of the kernel is not repeated then, and the job fails with 409."`
	Priority *int        `json:"priority,omitzero" jsonschema:"minimum=0,maximum=9,default=5" jsonschema_description:"Of the jobs that are due, those of a higher priority begin first."`

	ConcurrencyKey   string `json:"concurrencyKey,omitzero" jsonschema:"maxLength=128" jsonschema_description:"Jobs with the same key share a limit of how many of them run at once."`
	ConcurrencyLimit int    `json:"concurrencyLimit,omitzero" jsonschema:"minimum=1,maximum=1000,default=1" jsonschema_description:"That limit. The one that was given last counts for all of them."`
	UniqueKey        string `json:"uniqueKey,omitzero" jsonschema:"maxLength=128" jsonschema_description:"If there is an unfinished job with this key, that one is the answer, and no other is started."`

	Correlation string         `json:"correlation,omitzero" jsonschema:"maxLength=256" jsonschema_description:"The workflow that the job belongs to. Default: that of the request."`
	Keep        jsontext.Value `json:"keep,omitzero" jsonschema:"oneof_type=number;string" jsonschema_description:"How long the finished job is kept: milliseconds, or a text such as 30d. Default: 7d."`
}

type startOutput struct {
	JobID  string `json:"jobId" jsonschema_description:"The job. Job.Status and Job.Wait take it."`
	Status Status `json:"status" jsonschema:"enum=pending,enum=running" jsonschema_description:"pending: it is durable, and begins when its time and its turn have come."`
	Unique bool   `json:"existing,omitzero" jsonschema_description:"True if the job was there already, under the same uniqueKey."`
}

var start = kernel.DefineCommand[startInput, startOutput](kernel.Definition{
	Type:    "Job.Start",
	Summary: "Run a syscall in the background, now, later or on a schedule. The reply comes when the job is durable, before it runs.",
	Input:   schema.Input[startInput]().Example(`{"name":"Echo","payload":{"message":"later"},"delay":"10m"}`),
	Emits:   events,
	Presentation: kernel.Presentation{
		Title:     "Start or schedule a job",
		Words:     "remind, reminder, alarm, every day, schedule, scheduler, timer, cron, at, delay, sleep, timeout, wait, later, interval, task, queue, worker, background, batch, workflow, job",
		Result:    "Started {jobId} ({status})",
		Arguments: []string{"name"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the caller may not call the syscall"},
			{Code: 404, When: "no syscall has this name"},
			{Code: 422, When: "a time, a schedule or a step is invalid, or the payload breaks the schema"},
			{Code: 503, When: "this kernel runs no jobs"},
		},
	},
	Behavior: kernel.Behavior{Volatile: []string{"jobId"}},
})

func (j *Jobs) start(ctx context.Context, in startInput) (startOutput, error) {
	k, err := j.running()
	if err != nil {
		return startOutput{}, err
	}
	now := j.opts.Now()
	s, due, err := j.read(ctx, k, &in, now)
	if err != nil {
		return startOutput{}, err
	}
	var b store.Batch
	if s.Unique != "" {
		existing, err := j.unique(&b, s)
		if err != nil {
			return startOutput{}, err
		}
		if existing != nil {
			return startOutput{existing.ID, existing.current(), true}, nil
		}
	}
	added := j.add(&b, s, due)
	if err := kernel.Stage(ctx, &b); err != nil {
		return startOutput{}, err
	}
	kernel.WhenApplied(ctx, added)
	return startOutput{JobID: s.ID, Status: statusPending}, nil
}

// add adds a job to a batch. The caller calls added when the batch has been applied, with its
// commit.
func (j *Jobs) add(b *store.Batch, s *spec, due time.Time) (added func(*store.Commit)) {
	text := jsonvalue.Marshal(s)
	b.Set(key(keySpec, s.ID), text)
	j.refer(b, text, key(keySpec, s.ID))
	if s.Schedule != "" {
		b.Set(key(keySchedule, s.ID), nil)
	}
	t := s.task(due)
	t.Value = s
	return j.queue.Add(b, t)
}

func (s *spec) task(due time.Time) work.Task {
	t := work.Task{ID: s.ID, Due: due, Priority: s.Priority, Clock: s.Schedule != ""}
	if s.Schedule == "" && s.Group != "" {
		t.Group, t.Limit = s.groupName(), s.Limit
	}
	return t
}

// groupName returns the name of the job's concurrencyKey in the queue. Keys belong to a principal.
func (s *spec) groupName() string { return string(s.Principal) + "/" + s.Group }

// read checks what a job is started with.
func (j *Jobs) read(ctx context.Context, k *kernel.Kernel, in *startInput, now time.Time) (s *spec, due time.Time, err error) {
	request, call := kernel.RequestOf(ctx), kernel.SenderOf(ctx)
	s = &spec{
		ID: j.ids.Next(now), Name: in.Name, Payload: in.Payload, Repeat: in.Repeat,
		Priority: work.DefaultPriority, Group: in.ConcurrencyKey, Limit: max(in.ConcurrencyLimit, 1), Unique: in.UniqueKey,
		Schedule: in.Schedule, Zone: in.TimeZone, CatchUp: in.CatchUp,
		Principal: call.Principal().ID(), Token: call.Principal().Name(), Wire: call.Wire(), Session: call.Scope(),
		Remote:  blobs.RemoteOf(ctx) != nil,
		Starter: request.Metadata.ID, Created: now.UnixMilli(),
		Correlation: cmp.Or(in.Correlation, request.Caused().Correlation),
	}
	if in.Priority != nil {
		s.Priority = *in.Priority
	}
	if strings.ContainsRune(s.Group, 0) || strings.ContainsRune(s.Unique, 0) {
		return nil, due, invalid("concurrencyKey", "a key has no zero byte")
	}
	timeout, err := readSpan("timeout", in.Timeout)
	if err != nil {
		return nil, due, err
	}
	keep, err := readSpan("keep", in.Keep)
	if err != nil {
		return nil, due, err
	}
	s.Timeout, s.Keep = timeout.Milliseconds(), keep.Milliseconds()
	if len(in.Keep) > 0 {
		s.Keep = max(s.Keep, 1) // 0 is stored where none is given
	}
	if in.ConcurrencyLimit > 0 && in.ConcurrencyKey == "" {
		return nil, due, invalid("concurrencyLimit", "it belongs to a concurrencyKey, and there is none")
	}
	if s.Retry, err = in.Retry.read("retry"); err != nil {
		return nil, due, err
	}
	if due, err = readDue(in, now); err != nil {
		return nil, due, err
	}
	if err := j.readSteps(k, call, in, s); err != nil {
		return nil, due, err
	}
	return s, due, s.foresee(ctx, k)
}

// readDue returns when a job begins for the first time.
func readDue(in *startInput, now time.Time) (due time.Time, err error) {
	given := 0
	for _, set := range []bool{len(in.Delay) > 0, len(in.At) > 0, in.Schedule != ""} {
		if set {
			given++
		}
	}
	if given > 1 {
		return due, invalid("schedule", "give one of delay, at and schedule")
	}
	if in.Schedule == "" && (in.TimeZone != "" || in.CatchUp) {
		return due, invalid("schedule", "timeZone and catchUp belong to a schedule, and there is none")
	}
	switch {
	case len(in.Delay) > 0:
		delay, err := readSpan("delay", in.Delay)
		return now.Add(delay), err
	case len(in.At) > 0:
		at, err := readTime("at", in.At, now.Add)
		return later(at, now), err
	case in.Schedule != "":
		s, err := readSchedule(in.Schedule, in.TimeZone)
		if err != nil {
			return due, err
		}
		return s.next(now), nil
	}
	return now, nil
}

// unique returns the unfinished job with the uniqueKey of s, or takes the key in a batch.
func (j *Jobs) unique(b *store.Batch, s *spec) (*record, error) {
	e, err := j.opts.Store.Get(s.uniqueName())
	if err != nil {
		return nil, err
	}
	if e.Revision != 0 {
		r, err := j.load(string(e.Value))
		if err != nil {
			return nil, err
		}
		if r.Status == "" {
			return r, nil
		}
	}
	b.IfRevision(s.uniqueName(), e.Revision)
	b.Set(s.uniqueName(), []byte(s.ID))
	return nil, nil
}

type stepInput struct {
	ID        string         `json:"id" jsonschema:"minLength=1,maxLength=64,pattern=^[A-Za-z0-9_-]+$" jsonschema_description:"The name of the step: letters, digits, _ and -."`
	Name      message.Type   `json:"name" jsonschema:"maxLength=256" jsonschema_description:"The syscall to run."`
	Payload   jsontext.Value `json:"payload,omitzero" jsonschema_description:"Its data. {\"$from\": \"fetch.body\"} stands for a part of the result of the step fetch, which is then needed."`
	Needs     []string       `json:"needs,omitzero" jsonschema:"maxItems=200" jsonschema_description:"The steps that have to be done before."`
	Retry     *retryInput    `json:"retry,omitzero" jsonschema_description:"What to do about an attempt that fails. Default: that of the job."`
	OnFailure string         `json:"onFailure,omitzero" jsonschema:"enum=fail,enum=continue,default=fail" jsonschema_description:"fail: the job has failed, and no other step begins. continue: the job continues; the result of the step is null."`
}
