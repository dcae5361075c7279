package job

import (
	"context"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

type cancelOutput struct {
	JobID    string `json:"jobId" jsonschema_description:"The job."`
	Canceled bool   `json:"canceled" jsonschema_description:"True if the job was waiting or running, and is failed with the code 499 now; false if it had ended."`
}

var cancel = kernel.DefineCommand[idInput, cancelOutput](kernel.Definition{
	Type:    "Job.Cancel",
	Summary: "Cancel a job that waits or runs, or a schedule. A running job is stopped, with everything that it has called.",
	Emits:   events[4:5],
	Presentation: kernel.Presentation{
		Title: "Cancel a job",
		Words: "stop, kill, abort, delete a job, remove a schedule, call off a task, stop a running job, cancel a reminder, delete a schedule, " +
			"get rid of a schedule, kill a task, drop a job, stop reminding me, turn off a reminder, cancel an alarm, stop doing it every day, " +
			"don't run it any more, abort background work",
		Result: "Canceled {jobId}{?canceled} | {jobId} had ended",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 422, When: "the short id stands for several jobs"},
		},
	},
	Behavior: kernel.Behavior{Destroys: true, Repeat: kernel.Idempotent},
})

func (j *Jobs) cancel(ctx context.Context, in idInput) (cancelOutput, error) {
	r, err := j.controlled(ctx, in.JobID)
	if err != nil {
		return cancelOutput{}, err
	}
	out := cancelOutput{JobID: r.ID}
	if r.Status != "" {
		return out, nil
	}
	var b store.Batch
	aborted, err := j.abort(&b, r, errCanceled)
	if err != nil || aborted == nil {
		return out, err
	}
	if r.Schedule != "" {
		b.Delete(key(keySchedule, r.ID))
	}
	if err := kernel.Stage(ctx, &b); err != nil {
		return out, err
	}
	kernel.WhenApplied(ctx, func(*store.Commit) {
		if k := j.kernel.Load(); k != nil {
			r.event(k, kernel.SenderOf(ctx), canceledEvent, nil)
		}
		aborted()
	})
	out.Canceled = true
	return out, nil
}

// abort adds to a batch that an unfinished job has failed, whether it runs or waits. It returns
// nil if the job has left the queue. The caller calls aborted when the batch has been applied:
// a running job is stopped then.
func (j *Jobs) abort(b *store.Batch, r *record, why *message.Error) (aborted func(), err error) {
	removed, err := j.queue.Remove(b, r.ID)
	if err != nil || removed == nil {
		return nil, err
	}
	b.IfRevision(key(keyState, r.ID), r.revision)
	r.Error = chain(why, r.Failures)
	if l := j.find(r.ID); l != nil {
		l.keep(b, r)
	}
	j.finish(b, r, statusFailed, j.opts.Now())
	return func() {
		removed(why)
		j.count(statusFailed)
		if l := j.find(r.ID); l != nil {
			l.stop()
		}
	}, nil
}

var retry = kernel.DefineCommand[idInput, startOutput](kernel.Definition{
	Type:    "Job.Retry",
	Summary: "Run a failed job again. Steps that have succeeded are not repeated. The job of another caller runs with the rights that both have.",
	Emits:   events,
	Presentation: kernel.Presentation{
		Title: "Run a failed job again",
		Words: "repeat, rerun, restart, try a job again, give it another try, another attempt, redo a task, retry what failed, start a failed task over, " +
			"run a job once more",
		Result: "{jobId} runs again",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 409, When: "the job hasn't failed, or another one has its uniqueKey"},
			{Code: 422, When: "the short id stands for several jobs"},
			{Code: 503, When: "this kernel runs no jobs"},
		},
	},
})

func (j *Jobs) retry(ctx context.Context, in idInput) (startOutput, error) {
	k, err := j.running()
	if err != nil {
		return startOutput{}, err
	}
	r, err := j.controlled(ctx, in.JobID)
	if err != nil {
		return startOutput{}, err
	}
	if r.current() != statusFailed {
		return startOutput{}, message.Errorf(409, "The job %s is %s; only a failed one can be run again", r.ID, r.current())
	}
	if r.Schedule != "" {
		return startOutput{}, message.Errorf(409, "The schedule %s was canceled; start another", r.ID)
	}
	if r.Name != "" {
		if err := j.checkCall(k, kernel.SenderOf(ctx), "payload", r.Name, r.Payload); err != nil {
			return startOutput{}, err
		}
	}
	starter, err := j.opts.Find(r.Principal)
	if err != nil {
		return startOutput{}, err
	}
	r.RetriedBy = ""
	if by := kernel.PrincipalOf(ctx); starter != nil && !starter.Narrower(by) {
		r.RetriedBy = by.ID()
	}
	var b store.Batch
	b.IfRevision(key(keyState, r.ID), r.revision)
	j.unfinish(&b, r)
	r.Error, r.Began, r.Attempt, r.Failures, r.TakenOver = nil, 0, 0, nil, false
	for id, s := range r.done {
		if s.Status != statusCompleted {
			b.Delete(key(keyStep, r.ID, id))
		}
	}
	if r.Unique != "" {
		existing, err := j.unique(&b, &r.spec)
		if err != nil {
			return startOutput{}, err
		}
		if existing != nil {
			return startOutput{}, message.Errorf(409, "There is another unfinished job with the uniqueKey %q: %s", r.Unique, existing.ID)
		}
	}
	r.store(&b)
	added := j.queue.Add(&b, r.task(j.opts.Now()))
	if err := kernel.Stage(ctx, &b); err != nil {
		return startOutput{}, err
	}
	kernel.WhenApplied(ctx, added)
	return startOutput{JobID: r.ID, Status: statusPending}, nil
}

type pauseInput struct {
	JobID          string `json:"jobId,omitzero" aliases:"job_id,id" jsonschema:"maxLength=64" jsonschema_description:"A schedule."`
	ConcurrencyKey string `json:"concurrencyKey,omitzero" jsonschema:"maxLength=128" jsonschema_description:"The jobs with this concurrencyKey."`
}

type pauseOutput struct {
	Paused bool `json:"paused" jsonschema_description:"Whether it is paused now."`
}

var pause = kernel.DefineCommand[pauseInput, pauseOutput](kernel.Definition{
	Type:    "Job.Pause",
	Summary: "Pause a schedule, or the jobs with a concurrencyKey. Running jobs continue.",
	Input:   schema.Input[pauseInput]().Example(`{"concurrencyKey":"mail"}`),
	Presentation: kernel.Presentation{
		Title: "Pause a schedule or a queue",
		Words: "suspend, hold, stop a schedule, put a schedule on hold, stop it for now, freeze a schedule, temporarily disable a schedule, hold a queue, " +
			"no jobs for a while, suspend a reminder, hold jobs back",
		Result:    "Paused {request.jobId} | Paused the jobs with the key {request.concurrencyKey}",
		Arguments: []string{"jobId"},
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 409, When: "the job isn't a schedule"},
			{Code: 422, When: "neither or both of jobId and concurrencyKey are given"},
			{Code: 503, When: "the schedule is starting a run"},
		},
	},
})

func (j *Jobs) pause(ctx context.Context, in pauseInput) (pauseOutput, error) {
	if (in.JobID == "") == (in.ConcurrencyKey == "") {
		return pauseOutput{}, invalid("jobId", "give either the jobId of a schedule, or a concurrencyKey")
	}
	var b store.Batch
	if in.ConcurrencyKey != "" {
		s := spec{Principal: kernel.SenderOf(ctx).Principal().ID(), Group: in.ConcurrencyKey}
		paused := j.queue.Pause(&b, s.groupName())
		kernel.WhenApplied(ctx, func(*store.Commit) { paused() })
		return pauseOutput{true}, kernel.Stage(ctx, &b)
	}
	_, err := j.stagePause(ctx, &b, in.JobID, "paused by Job.Pause")
	return pauseOutput{true}, err
}

// stagePause pauses a schedule, or resumes it if why is "". It returns 0 if it wasn't paused and
// continues as before, otherwise 1.
func (j *Jobs) stagePause(ctx context.Context, b *store.Batch, id, why string) (changed int, err error) {
	r, err := j.controlled(ctx, id)
	if err != nil {
		return 0, err
	}
	if r.Schedule == "" || r.Status != "" {
		return 0, message.Errorf(409, "%s isn't a schedule; a job can be canceled (Job.Cancel), and the jobs with a concurrencyKey can be paused", r.ID)
	}
	if why == r.Paused && why == "" {
		return 0, nil // the schedule's next time stays
	}
	due := never
	if why == "" {
		s, err := j.scheduleOf(&r.spec)
		if err != nil {
			return 0, err
		}
		due = s.next(j.opts.Now())
	}
	moved, err := j.setPaused(b, r, why, due)
	if err != nil {
		return 0, err
	}
	if moved == nil {
		return 0, message.Errorf(503, "The schedule %s is starting a run; try again", r.ID)
	}
	kernel.WhenApplied(ctx, func(*store.Commit) { moved() })
	return 1, kernel.Stage(ctx, b)
}

type resumeOutput struct {
	Resumed int `json:"resumed" jsonschema_description:"How many schedules, keys or jobs were paused, and continue now."`
}

var resume = kernel.DefineCommand[pauseInput, resumeOutput](kernel.Definition{
	Type:    "Job.Resume",
	Summary: "Resume a schedule or the jobs with a concurrencyKey; without either, what has waited since the store was restored from a backup.",
	Input:   schema.Input[pauseInput]().Example(`{"concurrencyKey":"mail"}`),
	Presentation: kernel.Presentation{
		Title: "Resume a schedule or a queue",
		Words: "unpause, continue, go on, start a paused schedule, let a schedule run again, take a schedule off hold, unfreeze, enable a schedule again, " +
			"continue a paused queue, switch a schedule back on",
		Result:    "Resumed {request.jobId} | Resumed {resumed}",
		Arguments: []string{"jobId"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "what waits since a restore is for the owner"},
			{Code: 404, When: "no job that the caller sees has this id"},
			{Code: 409, When: "the job isn't a schedule"},
			{Code: 422, When: "both of jobId and concurrencyKey are given"},
			{Code: 503, When: "this kernel runs no jobs"},
		},
	},
})

func (j *Jobs) resume(ctx context.Context, in pauseInput) (resumeOutput, error) {
	if _, err := j.running(); err != nil {
		return resumeOutput{}, err
	}
	var b store.Batch
	switch {
	case in.JobID != "" && in.ConcurrencyKey != "":
		return resumeOutput{}, invalid("jobId", "give either the jobId of a schedule, or a concurrencyKey")
	case in.ConcurrencyKey != "":
		s := spec{Principal: kernel.SenderOf(ctx).Principal().ID(), Group: in.ConcurrencyKey}
		var n int
		if j.queue.Paused(s.groupName()) {
			n = 1
		}
		unpaused := j.queue.Unpause(&b, s.groupName()) // not only if it is paused: a Job.Pause may be about to be applied
		kernel.WhenApplied(ctx, func(*store.Commit) { unpaused() })
		return resumeOutput{n}, kernel.Stage(ctx, &b)
	case in.JobID != "":
		n, err := j.stagePause(ctx, &b, in.JobID, "")
		return resumeOutput{n}, err
	}
	if p := kernel.SenderOf(ctx).Principal(); !p.IsOwner() {
		return resumeOutput{}, message.Errorf(403, "The token %q may resume its own schedules and keys; only the owner may resume what has waited since a restore: kernos job resume", p.Name())
	}
	n, resumed, err := j.queue.Resume(&b)
	if err != nil {
		return resumeOutput{}, err
	}
	all := []func(){resumed}
	err = j.eachSchedule(func(r *record) error {
		if r.Paused != restored {
			return nil
		}
		s, err := j.scheduleOf(&r.spec)
		if err != nil {
			return err
		}
		moved, err := j.setPaused(&b, r, "", s.next(j.opts.Now()))
		if err != nil || moved == nil {
			return err
		}
		n++
		all = append(all, moved)
		return nil
	})
	if err != nil {
		return resumeOutput{}, err
	}
	b.Delete(key(keyHeld))
	if err := kernel.Stage(ctx, &b); err != nil {
		return resumeOutput{}, err
	}
	kernel.WhenApplied(ctx, func(*store.Commit) {
		for _, f := range all {
			f()
		}
	})
	return resumeOutput{n}, nil
}
