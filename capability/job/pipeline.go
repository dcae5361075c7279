package job

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// A pipeline does the steps of a job. Its steps run on goroutines of their own; the state of the
// job is changed with mu held.
type pipeline struct {
	*run
	mu      sync.Mutex
	running int
	started []string // the steps that this lease has begun
	wake    chan struct{}
	broken  bool // a step could not be settled: the lease is left as it is
}

// doSteps does the steps that can begin, and those that these make possible. It returns when
// the job has ended, or when only pauses are left: then the queue wakes it.
func (a *run) doSteps() {
	p := &pipeline{run: a, wake: make(chan struct{}, 1)}
	for {
		p.mu.Lock()
		next, due, failed := p.ready()
		for _, s := range next {
			p.running++
			go func() {
				p.doStep(s)
				p.mu.Lock()
				p.running--
				p.mu.Unlock()
				select {
				case p.wake <- struct{}{}:
				default:
				}
			}()
		}
		running, broken := p.running, p.broken
		p.mu.Unlock()
		if running > 0 {
			p.await(due)
			continue
		}
		if !broken && a.lease.Held() == nil {
			p.settleSteps(failed, due)
		}
		return
	}
}

// await waits until a step has ended, or until a time, unless that is the zero time.
func (p *pipeline) await(due time.Time) {
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(due.Sub(p.j.opts.Now()))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-p.wake:
	case <-timer:
	}
}

// ready returns the steps that can begin now, when the first of those begins again that pause,
// and the error of a step that has failed. It marks the steps as started. mu is held.
func (p *pipeline) ready() (next []step, due time.Time, failed *message.Error) {
	now := p.j.opts.Now()
	if step, e := p.failedStep(); e != nil {
		failed = message.Errorf(e.Code, "The step %q has failed: %w", step, e)
	}
	if failed != nil || p.broken || p.ctx.Err() != nil || p.lease.Held() != nil {
		return nil, due, failed
	}
	for _, s := range p.spec.Steps {
		st := p.done[s.ID]
		if st.ended() || slices.Contains(p.started, s.ID) {
			continue
		}
		if slices.ContainsFunc(s.Needs, func(id string) bool { return !p.done[id].ended() }) {
			continue
		}
		if at := time.UnixMilli(st.Due); at.After(now) {
			if due.IsZero() || at.Before(due) {
				due = at
			}
			continue
		}
		p.started = append(p.started, s.ID)
		next = append(next, s)
	}
	return next, due, nil
}

// failedStep returns the step because of which the job fails, and its error; "" if there is none.
func (r *record) failedStep() (id string, e *message.Error) {
	for _, s := range r.spec.Steps {
		if st := r.done[s.ID]; st.Status == statusFailed && !s.Continue {
			id, e = s.ID, message.ReadError([]byte(st.Error))
		}
	}
	return id, e
}

// doStep does one step. If its outcome can't be stored, the lease is left as it is, and the
// job is begun again.
func (p *pipeline) doStep(s step) {
	w := &stepAttempt{pipeline: p, step: s}
	outcome, commit := p.callStep(w)
	known, applied := w.Known()
	if !applied {
		if p.leaveStep(s) {
			return
		}
		switch {
		case known != nil:
			outcome = *known
		case p.absent(s.Name): // the program has left at this moment
			w.unserved = true
		}
		commit = nil
		if known == nil || external(p.k, s.Name) { // otherwise nothing has happened
			commit = p.persist(false, func(b *store.Batch) error {
				_, err := w.Settle(b, &outcome)
				return err
			})
		}
		if commit == nil {
			p.mu.Lock()
			p.broken = true
			p.mu.Unlock()
			return
		}
		w.Applied()
	}
	p.wakeAfter(commit)
}

// leaveStep reports whether the outcome of a step isn't known because the kernel stops.
func (p *pipeline) leaveStep(s step) bool { return p.stopped() && external(p.k, s.Name) }

// callStep calls the syscall of a step. An effect outside of the store is noted first.
func (p *pipeline) callStep(w *stepAttempt) (message.Message, *store.Commit) {
	s := w.step
	fail := func(e *message.Error) (message.Message, *store.Commit) {
		m := message.Message{Type: s.Name}
		return m.Fail(e), nil
	}
	data, err := p.payload(s)
	if err != nil {
		w.final = true
		e, _ := message.ErrorOf(err)
		return fail(e)
	}
	p.mu.Lock()
	st := p.done[s.ID]
	p.mu.Unlock()
	begun := st.Status == statusRunning && !p.Repeat
	if w.unserved = p.absent(s.Name); w.unserved {
		return fail(notServed(s.Name, begun))
	}
	if external(p.k, s.Name) {
		if begun {
			w.final = true
			return fail(unknownOutcome(s.Name))
		}
		st.Status = statusRunning
		noted := p.persist(true, func(b *store.Batch) error {
			p.lease.Depend(b)
			b.Set(key(keyStep, p.ID, s.ID), jsonvalue.Marshal(&st))
			return nil
		})
		if noted == nil {
			return fail(message.Errorf(503, "The step %q can't begin: the job was stopped", s.ID))
		}
	}
	metadata := p.lineage()
	metadata.Keep(jsonvalue.Object{}.Set(message.Step, jsonvalue.Marshal(s.ID)).Text())
	return p.do(s.Name, data, metadata, w)
}

// A stepAttempt is a call that is a step of a job. It implements [kernel.Work].
type stepAttempt struct {
	*pipeline
	kernel.Settlement
	step     step
	final    bool      // the step isn't attempted again
	unserved bool      // no program serves its syscall now
	becomes  stepState // the step's state after the outcome; guarded by the mu of pipeline
}

var _ kernel.Work = (*stepAttempt)(nil)

// Settle implements [kernel.Work]. A step has a key of its own: steps that end at one moment
// don't overwrite each other.
func (w *stepAttempt) Settle(b *store.Batch, outcome *message.Message) ([]message.Message, error) {
	if err := w.lease.Held(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.j.opts.Now()
	st := w.done[w.step.ID]
	due, waits := now, false
	if w.unserved {
		due, waits = w.waitUntil(w.step.Name, &st.Absent, now)
	}
	switch {
	case waits:
		st.Status, st.Due = cmp.Or(st.Status, statusPending), due.UnixMilli() // running: a process had begun it and died
	case outcome.Kind == message.KindReply:
		st = stepState{Status: statusCompleted, Result: jsontext.Value(outcome.Data).Clone(), Attempt: st.Attempt}
	default:
		e := outcome.Failure()
		switch {
		case w.stopped() && external(w.k, w.step.Name):
			return nil, work.ErrQueueStopping
		case w.stopped():
			st.Status = statusPending
		case !w.final && w.mayRetry(w.step.Name, w.step.Retry, st.Attempt+1, e):
			st.Status, st.Error, st.Absent = statusPending, e.Append(nil), 0
			st.Attempt++
			st.Due = now.Add(pauseAfter(w.step.Retry, st.Attempt)).UnixMilli()
		default:
			st = stepState{Status: statusFailed, Error: e.Append(nil), Attempt: st.Attempt + 1}
		}
	}
	w.Note(outcome)
	w.becomes = st
	w.lease.Depend(b)
	at := key(keyStep, w.ID, w.step.ID)
	stored := storedStep{stepState: st}
	if st.ended() {
		stored.Fence = w.lease.Fence
	}
	b.Set(at, jsonvalue.Marshal(&stored))
	w.j.refer(b, st.Result, at)
	return nil, nil
}

// Applied implements [kernel.Work].
func (w *stepAttempt) Applied() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Settlement.Applied()
	w.done[w.step.ID] = w.becomes
	if !w.becomes.ended() {
		w.started = slices.DeleteFunc(w.started, func(id string) bool { return id == w.step.ID })
	}
}

// settleSteps ends a job none of whose steps runs, or gives it back until the next attempt of a
// step is due.
func (p *pipeline) settleSteps(failed *message.Error, due time.Time) {
	m := message.Message{Type: "Job.Start"}
	if failed == nil {
		var results []byte // an object with a member for each step, in their order
		for _, s := range p.spec.Steps {
			st := p.done[s.ID]
			if !st.ended() {
				p.giveBack(later(due, p.j.opts.Now()))
				return
			}
			value := st.Result
			if len(value) == 0 {
				value = jsontext.Value("null")
			}
			results = fmt.Appendf(results, ",%q:%s", s.ID, value)
		}
		m = m.Reply(fmt.Appendf(nil, "{%s}", results[1:]))
	} else {
		p.Retry = nil // each step has been retried
		m = m.Fail(failed)
	}
	p.settleAlone(&attempt{run: p.run}, &m)
}
