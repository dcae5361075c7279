package job

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/internal/when"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/work"
)

type startInput struct {
	Name    message.Type   `json:"name,omitzero" aliases:"type,syscall" jsonschema:"oneof_required=name,maxLength=256" jsonschema_description:"The syscall to run. Instead of it, steps can be given."`
	Payload jsontext.Value `json:"payload,omitzero" aliases:"data,args,arguments,input,params" jsonschema_description:"The data of the syscall; {} if it is left out."`
	Steps   []stepInput    `json:"steps,omitzero" jsonschema:"oneof_required=steps,maxItems=200" jsonschema_description:"Several syscalls, each of which runs once to its end. Those that don't need each other run side by side."`

	Timeout when.Span  `json:"timeout,omitzero" jsonschema_description:"How long an attempt may take: milliseconds, or a text such as 90s or 2h. Default: an hour, and for code its limits.time."`
	Delay   *when.Span `json:"delay,omitzero" jsonschema_description:"Begin after this time: milliseconds, or a text such as 1m30s."`
	At      when.Ahead `json:"at,omitzero" jsonschema_description:"Begin at this time: in 8 seconds, tomorrow 09:00, monday 8:00, 2026-01-31T12:00 in timeZone, 2026-01-31T12:00:00Z, or milliseconds since 1970. A time that has been begins at once."`

	Schedule string     `json:"schedule,omitzero" jsonschema:"maxLength=128" jsonschema_description:"Run again and again: a cron expression such as 0 9 * * 1-5 (minute, hour, day, month, weekday; seconds may come first), @hourly, @daily, or @every 10m."`
	Every    *when.Span `json:"every,omitzero" jsonschema:"minimum=1000" jsonschema_description:"Run again and again, with this time between: milliseconds, or a text such as 10m. The same as the schedule @every 10m."`
	TimeZone string     `json:"timeZone,omitzero" jsonschema:"maxLength=64" jsonschema_description:"The time zone of at or of the schedule, such as Europe/Berlin. Default: that of the machine."`
	CatchUp  bool       `json:"catchUp,omitzero" jsonschema_description:"Run once for each time that was missed while the kernel did not run, at most 1,000. Default: once for all of them."`

	Retry    *retryInput `json:"retry,omitzero" jsonschema_description:"What to do about an attempt that fails. Default: nothing, the job has failed."`
	Repeat   bool        `json:"repeat,omitzero" jsonschema_description:"The syscall may be repeated where it isn't known whether it was done, as after a power cut. Default: what acts outside of the kernel is not repeated then, and the job fails with 409."`
	Priority *int        `json:"priority,omitzero" jsonschema:"minimum=0,maximum=9,default=5" jsonschema_description:"Of the jobs that are due, those of a higher priority begin first."`

	ConcurrencyKey   string `json:"concurrencyKey,omitzero" jsonschema:"maxLength=128" jsonschema_description:"Jobs with the same key share a limit of how many of them run at once."`
	ConcurrencyLimit int    `json:"concurrencyLimit,omitzero" jsonschema:"minimum=1,maximum=1000,default=1" jsonschema_description:"That limit. The one that was given last counts for all of them."`
	UniqueKey        string `json:"uniqueKey,omitzero" jsonschema:"maxLength=128" jsonschema_description:"If there is an unfinished job with this key, that one is the answer, and no other is started."`

	Correlation string     `json:"correlation,omitzero" jsonschema:"maxLength=256" jsonschema_description:"The workflow that the job belongs to. Default: that of the request."`
	Keep        *when.Span `json:"keep,omitzero" jsonschema_description:"How long the finished job is kept: milliseconds, or a text such as 30d. Default: 7d."`
}

type startOutput struct {
	JobID  string `json:"jobId" jsonschema_description:"The job. Job.Status and Job.Wait take it."`
	Status Status `json:"status" jsonschema:"enum=pending,enum=running" jsonschema_description:"pending: it is durable, and begins when its time and its turn have come."`
	Unique bool   `json:"existing,omitzero" jsonschema_description:"True if the job was there already, under the same uniqueKey."`
}

var start = kernel.DefineCommand[startInput, startOutput](kernel.Definition{
	Type:    "Job.Start",
	Summary: "Run a syscall in the background, now, later or on a schedule; a reminder runs Notify.Send. The reply comes when the job is durable, before it runs.",
	Input:   schema.Input[startInput]().Example(`{"name":"Notify.Send","payload":{"text":"Stretch"},"at":"in 10 minutes"}`),
	Emits:   events,
	Presentation: kernel.Presentation{
		Title: "Start or schedule a job",
		Words: "remind, reminder, alarm, every day, schedule, scheduler, timer, cron, at, delay, sleep, timeout, wait, later, interval, task, queue, " +
			"worker, background, batch, workflow, job, run it in the background, do this later, do it every morning, every hour, every monday, " +
			"tomorrow at nine, wake me up, once a week, run it tonight, kick off a job, start a job, in ten minutes, schedule a task, set a timer, " +
			"set an alarm, do it automatically, start a long task, repeat it every night",
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
	if in.Every != nil && in.Schedule == "" {
		in.Schedule, in.Every = "@every "+in.Every.Duration().String(), nil
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
	s.Timeout = int64(in.Timeout)
	if in.Keep != nil {
		s.Keep = max(int64(*in.Keep), 1) // 0 is stored where none is given
	}
	if in.ConcurrencyLimit > 0 && in.ConcurrencyKey == "" {
		return nil, due, invalid("concurrencyLimit", "it belongs to a concurrencyKey, and there is none")
	}
	s.Retry = in.Retry.read()
	if due, err = readDue(in, now); err != nil {
		return nil, due, err
	}
	s.Payload, _ = k.Meant(s.Name, s.Payload)
	if err := j.readSteps(k, call, in, s); err != nil {
		return nil, due, err
	}
	return s, due, s.foresee(ctx, k)
}

// readDue returns when a job begins for the first time.
func readDue(in *startInput, now time.Time) (due time.Time, err error) {
	given := 0
	for _, set := range []bool{in.Delay != nil, !in.At.IsZero(), in.Schedule != "", in.Every != nil} {
		if set {
			given++
		}
	}
	if given > 1 {
		return due, invalid("schedule", "give one of delay, at, schedule and every")
	}
	if in.Schedule == "" && in.CatchUp {
		return due, invalid("schedule", "catchUp belongs to a schedule, and there is none")
	}
	if in.Schedule == "" && in.At.IsZero() && in.TimeZone != "" {
		return due, invalid("timeZone", "it belongs to at or to a schedule, and there is neither")
	}
	switch {
	case in.Delay != nil:
		return now.Add(in.Delay.Duration()), nil
	case !in.At.IsZero():
		zone, err := readZone(in.TimeZone)
		if err != nil {
			return due, err
		}
		return later(in.At.Time(now.In(zone)), now), nil
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
	Name      message.Type   `json:"name" aliases:"type,syscall" jsonschema:"maxLength=256" jsonschema_description:"The syscall to run."`
	Payload   jsontext.Value `json:"payload,omitzero" aliases:"data,args,arguments,input,params" jsonschema_description:"Its data. {\"$from\": \"fetch.body\"} stands for a part of the result of the step fetch, which is then needed."`
	Needs     []string       `json:"needs,omitzero" jsonschema:"maxItems=200" jsonschema_description:"The steps that have to be done before."`
	Retry     *retryInput    `json:"retry,omitzero" jsonschema_description:"What to do about an attempt that fails. Default: that of the job."`
	OnFailure string         `json:"onFailure,omitzero" jsonschema:"enum=fail,enum=continue,default=fail" jsonschema_description:"fail: the job has failed, and no other step begins. continue: the job continues; the result of the step is null."`
}
