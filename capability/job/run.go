package job

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/backoff"
	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/work"
)

const (
	// defaultTimeout is how long an attempt may take if the job doesn't set it.
	defaultTimeout = time.Hour

	// maxTakeovers is how many processes may die while a job runs, without the end of a step
	// between them. A job that kills its process each time ends as failed.
	maxTakeovers = 5

	// maxFailures is how many errors of earlier attempts are kept.
	maxFailures = 10
)

// A run is one lease of a job.
type run struct {
	j     *Jobs
	k     *kernel.Kernel
	lease *work.Lease
	ctx   context.Context
	*record
	who  *principal.Principal
	by   *principal.Principal // who has run it again, as RetriedBy; nil if that is "", or has ended
	live *liveJob
}

// work does a job, or starts the next run of a schedule. It is called by the queue.
func (j *Jobs) work(ctx context.Context, l *work.Lease) {
	k := j.kernel.Load()
	if k == nil {
		return // the job is begun again
	}
	r, err := j.loadLeased(l)
	if err == nil && r.Status != "" || l.Held() != nil {
		return // the job was canceled while it was leased
	}
	if err != nil {
		j.opts.Log.Error("a job can't be read", "job", l.ID, "error", err)
		if errors.Is(err, errForgotten) {
			var b store.Batch
			ended := l.Done(&b)
			if _, err := j.opts.Store.Apply(&b); err == nil {
				ended()
			}
		}
		return
	}
	who, err := j.opts.Find(r.Principal)
	if err != nil {
		j.opts.Log.Error("the caller of a job can't be read", "job", l.ID, "error", err)
		return
	}
	a := &run{j: j, k: k, lease: l, record: r, who: who}
	if r.RetriedBy != "" {
		if a.by, err = j.opts.Find(r.RetriedBy); err != nil {
			j.opts.Log.Error("the caller that has run a job again can't be read", "job", l.ID, "error", err)
			return
		}
	}
	a.ctx = kernel.ActFor(ctx, a.sender())
	if r.Remote {
		a.ctx = blobs.WithRemote(a.ctx, new(blobs.Remote))
	}
	if r.Schedule != "" { // a version before 0.8.0 has stored it
		a.lease.Clock = true
		a.giveBack(a.lease.Due)
		return
	}
	a.live = j.begin(r.ID)
	defer j.end(a.live)
	if e := a.refused(); e != nil {
		a.fail(e)
		return
	}
	if len(a.spec.Steps) == 0 && a.absent(a.Name) {
		a.wait()
		return
	}
	if a.Began == 0 {
		a.Began = j.opts.Now().UnixMilli()
	}
	a.live.begun.Store(a.Began)
	a.live.run(&a.spec, a.sender())
	a.record.event(k, a.sender(), startedEvent, strconv.AppendInt([]byte(`,"attempt":`), int64(a.Attempt)+1, 10))
	if len(a.spec.Steps) > 0 {
		a.doSteps()
		return
	}
	a.doOne()
}

// giveBack ends the lease until a time.
func (a *run) giveBack(due time.Time) {
	var ended func()
	commit := a.persist(false, func(b *store.Batch) error {
		ended = a.lease.Again(b, due)
		a.record.store(b)
		return nil
	})
	if commit != nil {
		ended()
	}
}

// refused returns why a job must not run.
func (a *run) refused() *message.Error {
	switch {
	case a.who == nil || a.who.Life().Err() != nil:
		return tokenEnded(a.Token)
	case a.RetriedBy != "" && (a.by == nil || a.by.Life().Err() != nil):
		return message.Errorf(403, "The token that has run the job again was revoked or has expired; Job.Retry runs it once more")
	case a.takeovers() >= maxTakeovers:
		return message.Errorf(500, "The kernel ended %d times while %s ran; it isn't begun again (Job.Retry does that)", a.takeovers(), a.what())
	}
	return nil
}

// takeovers returns how many processes have died while the job ran, since one of its steps ended.
func (a *run) takeovers() int {
	return min(a.lease.Attempt-1, int(a.lease.Fence-a.advanced))
}

func (s *spec) what() string { return cmp.Or(string(s.Name), "the job") }

// sender returns the sender of the job's calls.
func (a *run) sender() kernel.Sender {
	from := kernel.From(a.who, a.Wire)
	if a.by != nil {
		from = from.With(a.by)
	}
	return from.In(a.Session)
}

// lineage returns the lineage of what the job sends.
func (s *spec) lineage() message.Metadata {
	return message.Metadata{Causation: s.Starter, Correlation: s.Correlation}
}

// event records an event of a job. more holds the members of its data beside the job's id and name.
func (r *record) event(k *kernel.Kernel, from kernel.Sender, t message.Type, more []byte) {
	k.Record(r.newEvent(k, t, more), kernel.Within, from)
}

func (r *record) newEvent(k *kernel.Kernel, t message.Type, more []byte) message.Message {
	data := append(make([]byte, 0, 96+len(more)), `{"jobId":`...)
	data = append(jsonscan.AppendQuoted(data, r.ID), `,"name":`...)
	data = append(append(jsonscan.AppendQuoted(data, string(r.Name)), more...), '}')
	m := message.Message{Kind: message.KindEvent, Type: t, Data: data, Metadata: r.lineage()}
	k.Stamp(&m)
	return m
}

// external reports whether a syscall acts outside of the store, so that the
// outcome of a call that was cut off isn't known.
func external(k *kernel.Kernel, t message.Type) bool {
	s, ok := k.Registry().Lookup(t)
	return ok && s.Kind == message.KindCommand && s.Effect != kernel.InStore
}

// doOne does a job that is one syscall.
func (a *run) doOne() {
	if external(a.k, a.Name) {
		if a.begun() {
			a.fail(unknownOutcome(a.Name))
			return
		}
		if err := a.lease.Durable(a.ctx); err != nil {
			return
		}
	}
	w := &attempt{run: a}
	outcome, commit := a.do(a.Name, a.Payload, a.lineage(), w)
	known, applied := w.Known()
	switch {
	case known == nil && a.absent(a.Name): // the program has left at this moment
		a.wait()
		return
	case applied:
		a.wakeAfter(commit)
		return
	case known != nil && !external(a.k, a.Name):
		return // the store could not take it, and nothing has happened: it is begun again
	case known != nil:
		outcome = *known
	}
	a.settleAlone(w, &outcome)
}

// begun reports whether an earlier process has begun the call, and it must not be repeated if it
// acts outside of the store.
func (a *run) begun() bool { return (a.lease.TakenOver || a.TakenOver) && !a.Repeat }

// do calls a syscall for the job.
func (a *run) do(t message.Type, data jsontext.Value, metadata message.Metadata, w kernel.Work) (message.Message, *store.Commit) {
	if len(data) == 0 {
		data = jsontext.Value("{}")
	}
	return a.k.Do(a.ctx, kernel.WorkCall{
		Type: t, Data: data, Metadata: metadata, Sender: a.sender(), Timeout: a.timeout(), Asked: a.Timeout > 0, Work: w, Event: a.live.event, Granted: a.Granted,
	})
}

// timeout returns how long a call of the job may take.
func (s *spec) timeout() time.Duration {
	return cmp.Or(time.Duration(s.Timeout)*time.Millisecond, defaultTimeout)
}

// An attempt is a call that is a job. It implements [kernel.Work].
type attempt struct {
	*run
	kernel.Settlement
	unserved bool // no program serves its syscall now
}

var _ kernel.Work = (*attempt)(nil)

// Held implements [kernel.Work].
func (a *run) Held() error { return a.lease.Held() }

// Settle implements [kernel.Work]. It changes a copy of the job: what it adds to the batch may
// never be applied.
func (w *attempt) Settle(b *store.Batch, outcome *message.Message) ([]message.Message, error) {
	if err := w.lease.Held(); err != nil {
		return nil, err
	}
	r := *w.record
	now := w.j.opts.Now()
	w.live.keep(b, &r)
	if w.unserved {
		if due, ok := w.waitUntil(w.Name, &r.Absent, now); ok {
			r.TakenOver = r.TakenOver || w.lease.TakenOver
			w.Then(w.lease.Again(b, due))
			r.store(b)
			return nil, nil
		}
	}
	r.Absent = 0
	if outcome.Kind == message.KindReply {
		w.Note(outcome)
		r.Result = jsontext.Value(outcome.Data)
		return w.complete(b, &r, now), nil
	}
	e := outcome.Failure()
	if w.stopped() {
		if external(w.k, w.Name) {
			return nil, work.ErrQueueStopping // the outcome isn't known, which the next process reports
		}
		w.Then(w.lease.Again(b, now))
		r.store(b)
		return nil, nil
	}
	w.Note(outcome)
	if refused := w.refused(); refused != nil { // the job's token has ended meanwhile
		e = refused
	}
	if w.mayRetry(w.Name, w.Retry, r.Attempt+1, e) {
		r.Attempt++
		r.note(e)
		w.Then(w.lease.Again(b, now.Add(pauseAfter(w.Retry, r.Attempt))))
		r.store(b)
		return nil, nil
	}
	r.Attempt++
	return w.failed(b, &r, e, now), nil
}

// stopped reports whether the kernel has stopped the job, and may continue it later.
func (a *run) stopped() bool { return errors.Is(context.Cause(a.ctx), work.ErrQueueStopping) }

// mayRetry reports whether a call is attempted again.
func (a *run) mayRetry(t message.Type, rule *retryRule, failed int, e *message.Error) bool {
	if e.Code == 504 && external(a.k, t) && !a.Repeat {
		return false // the call may have been done
	}
	return rule.again(failed, e.Code)
}

// note keeps the error of an attempt.
func (r *record) note(e *message.Error) {
	r.Failures = append([]jsontext.Value{e.Append(nil)}, r.Failures...)
	r.Failures = r.Failures[:min(len(r.Failures), maxFailures)]
}

// complete adds to a batch that the job has succeeded.
func (w *attempt) complete(b *store.Batch, r *record, now time.Time) []message.Message {
	w.end(b, r, statusCompleted, now)
	return []message.Message{r.newEvent(w.k, completedEvent, nil)}
}

// failed adds to a batch that the job has failed. The errors of earlier attempts are the causes
// of the last one.
func (w *attempt) failed(b *store.Batch, r *record, e *message.Error, now time.Time) []message.Message {
	r.Error = chain(e, r.Failures)
	w.end(b, r, statusFailed, now)
	var more []byte
	if step, _ := r.failedStep(); step != "" {
		more = jsonscan.AppendQuoted([]byte(`,"step":`), step)
	}
	return []message.Message{r.newEvent(w.k, failedEvent, append(append(more, `,"error":`...), r.Error...))}
}

// end adds to a batch that the job has its outcome.
func (w *attempt) end(b *store.Batch, r *record, s Status, now time.Time) {
	ended := w.lease.Done(b)
	w.j.finish(b, r, s, now)
	w.Then(func() {
		ended()
		w.j.count(s)
	})
}

// chain makes the errors of earlier attempts the causes of an error that has none.
func chain(e *message.Error, earlier []jsontext.Value) jsontext.Value {
	top := *e
	last := &top
	for last.Cause != nil {
		copied := *last.Cause
		last.Cause = &copied
		last = &copied
	}
	for _, text := range earlier {
		cause, err := message.ParseError([]byte(text))
		if err != nil {
			break
		}
		next := *cause
		next.Cause = nil
		last.Cause = &next
		last = &next
	}
	return top.Append(nil)
}

// settleAlone settles a job whose outcome did not come from a call: it was refused, or the
// outcome could not be settled.
func (a *run) settleAlone(w *attempt, outcome *message.Message) {
	var events []message.Message
	commit := a.persist(false, func(b *store.Batch) (err error) {
		events, err = w.Settle(b, outcome)
		return err
	})
	if commit == nil {
		return
	}
	w.Applied()
	for _, m := range events {
		a.k.Record(m, kernel.Within, a.sender())
	}
	a.wakeAfter(commit)
}

// persist applies a batch, again and again while the store can't write, since what has happened
// must not be forgotten. If durable is set it also waits until the batch survives a power cut. It
// returns nil if the job is no longer this worker's, or is stopped.
func (a *run) persist(durable bool, fill func(*store.Batch) error) *store.Commit {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Longest: 10 * time.Second, Jitter: true}
	for a.lease.Held() == nil {
		var b store.Batch
		var commit *store.Commit
		err := fill(&b)
		if err == nil {
			commit, err = a.j.opts.Store.Apply(&b)
		}
		if err == nil && durable {
			err = commit.Wait(a.ctx)
		}
		if err == nil {
			return commit
		}
		a.j.opts.Log.Warn("the outcome of a job can't be stored", "job", a.ID, "error", err)
		if errors.Is(err, store.ErrConflict) || !pause.Wait(a.ctx.Done()) {
			break
		}
	}
	return nil
}

// wait gives a job back whose syscall isn't served.
func (a *run) wait() {
	request := message.Message{Type: a.Name}
	outcome := request.Fail(notServed(a.Name, a.begun()))
	a.settleAlone(&attempt{run: a, unserved: true}, &outcome)
}

// fail ends a job with an error before it has called anything.
func (a *run) fail(e *message.Error) {
	request := message.Message{Type: a.Name}
	outcome := request.Fail(e)
	w := &attempt{run: a}
	a.Retry = nil // another attempt would end the same way
	a.settleAlone(w, &outcome)
}

// wakeAfter wakes callers that wait for a change of the job, when a commit is durable.
func (a *run) wakeAfter(commit *store.Commit) {
	if commit == nil {
		a.live.changed()
		return
	}
	commit.Then(func(error) { a.live.changed() })
}

func (j *Jobs) count(s Status) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s == statusCompleted {
		j.finished.completed++
	} else {
		j.finished.failed++
	}
}
