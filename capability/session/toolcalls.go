package session

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/backoff"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/work"
)

// callTimeout is how long a call of a turn may take.
const callTimeout = time.Hour

// act takes the calls of a step further: rules decide about new ones, allowed ones run side by side,
// and results go into the stream as they come. It returns when there is news, or when the turn has
// to wait for a caller.
func (r *runner) act() {
	if !r.persist(r.advance) {
		r.pauseUnread()
		return
	}
	s, err := r.x.load(r.id)
	if err != nil || s.turn == nil || s.turn.State != acting {
		return
	}
	r.mu.Lock()
	for _, c := range s.turn.Calls {
		if c.State == callReady && !r.started[c.ID] {
			r.started[c.ID] = true
			r.active++
			r.running.Go(func() { r.call(s, c) })
		}
	}
	active := r.active
	r.mu.Unlock()
	if active == 0 {
		r.suspend()
		return
	}
	select {
	case <-r.wake:
	case <-r.ctx.Done():
	}
}

// pauseUnread waits a moment before a session that could not be read is read again. There is nothing to
// wait for if the lease is lost: the turn is no longer this runner's.
func (r *runner) pauseUnread() {
	if r.lease.Held() == nil {
		pause := backoff.Backoff{First: 100 * time.Millisecond}
		pause.Wait(r.ctx.Done())
	}
}

// nudge makes the runner look again.
func (r *runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// advance decides about new calls, and moves results that have come into the stream. When every
// call has its result, the model thinks again.
func (r *runner) advance(c *change) error {
	t := c.s.turn
	if t.State != acting {
		return errNothing
	}
	changed, left := false, 0
	for i := range t.Calls {
		call := &t.Calls[i]
		was := call.State
		if call.State == callNew {
			if err := r.judge(c, call); err != nil {
				return err
			}
		}
		if call.State != callDone {
			if err := c.collect(call); err != nil {
				return err
			}
		}
		if call.State == callAsked && was != callAsked {
			r.begunAgain(call.ID)
		}
		if call.State != callDone {
			left++
		}
		changed = changed || call.State != was
	}
	if left == 0 {
		t.State, t.Calls = thinking, nil
		changed = true
	}
	if !changed {
		return errNothing
	}
	return nil
}

// runsElsewhere reports whether a tool is one that the caller of the session runs.
func (s *session) runsElsewhere(name message.Type) bool {
	return slices.ContainsFunc(s.Tools, func(offered tool) bool { return offered.elsewhere() && offered.Name == string(name) })
}

// judge decides about a call that the model has just made.
func (r *runner) judge(c *change, call *callState) error {
	if c.s.runsElsewhere(call.Name) {
		call.State = callElsewhere
		return nil
	}
	refuse := func(e *message.Error) error { return c.result(call, failed(e)) }
	if !c.s.offers(call.Name) {
		return refuse(message.Errorf(403, "%s isn't one of the tools of this session; Syscall.Search finds those that Syscall.Call may call", call.Name))
	}
	name, args := call.final()
	if !r.x.reaches(&c.s.head, name) {
		return refuse(message.Errorf(403, "%s isn't one of the tools of the session that has asked this one", name))
	}
	s, err := r.k.Check(name, args, r.sender)
	if err != nil {
		e, _ := message.ErrorOf(err)
		return refuse(e)
	}
	if s.Runs == kernel.Endless || s.Effect == kernel.Transient {
		return refuse(message.Errorf(422, "%s belongs to a connection, and can't be called in a session", name))
	}
	verdict, why, err := r.x.verdict(&c.s.head, s, args)
	if err != nil {
		return err
	}
	switch verdict {
	case allow:
		call.State = callReady
	case deny:
		return refuse(message.Errorf(403, "The rules of the session deny %s (%s)", name, why))
	default:
		err = c.ask(call, why)
	}
	return err
}

// ask makes a call wait for a decision.
func (c *change) ask(call *callState, why string) error {
	name, args := call.final()
	call.State, call.Hash, call.Rule = callAsked, hash(name, args), why
	_, err := c.append(Message{Type: typeRequest, Approval: &Approval{CallID: call.ID, Name: name, Args: jsontext.Value(args), Hash: call.Hash, Rule: why, Reached: call.Reached}})
	return err
}

// listReached returns what a call reaches, in words.
func listReached(reached []kernel.Reached) string {
	texts := make([]string, len(reached))
	for i, to := range reached {
		texts[i] = message.Clip(to.String(), 300)
	}
	return strings.Join(texts, ", ")
}

// begunAgain notes that a call is to be made again when it was allowed.
func (r *runner) begunAgain(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.started, id)
}

// callOf returns the state of a call that a model has just made, with the arguments as the kernel reads them: rules and
// people decide about those.
func callOf(k *kernel.Kernel, c *Call) callState {
	args, _ := k.Meant(message.Type(c.Name), c.Args)
	return callState{ID: c.ID, Name: message.Type(c.Name), Args: args}
}

// final returns the syscall that a call finally runs, and its data.
func (c *callState) final() (message.Type, []byte) {
	args := []byte(c.Args)
	if len(args) == 0 {
		args = []byte(`{}`)
	}
	inner := jsonscan.Unquote(jsonscan.Member(args, "type"))
	if c.Name != kernel.ThroughType || inner == "" {
		return c.Name, args
	}
	data := jsonscan.Member(args, "data")
	if data == nil {
		data = []byte(`{}`)
	}
	return message.Type(inner), data
}

// collect moves the result of a call that has come into the stream. A call that has failed since what it
// reaches needs an approval waits for that instead.
func (c *change) collect(call *callState) error {
	at := key(keyResult, c.s.ID, call.ID)
	e, err := c.x.opts.Store.Get(at)
	if err != nil || e.Revision == 0 {
		return err
	}
	var kept keptResult
	if err := json.Unmarshal(e.Value, &kept); err != nil {
		return err
	}
	c.b.IfRevision(at, e.Revision)
	c.b.Delete(at)
	c.x.unrefer(c.b, e.Value, at)
	if len(kept.Reached) > 0 {
		call.Reached, call.Given = kept.Reached, false
		return c.ask(call, "it reaches "+listReached(kept.Reached)+"; "+kept.Rule)
	}
	c.s.turn.Used.add(kept.Used)
	return c.result(call, kept.Result)
}

// result appends the result of a call, which is done then.
func (c *change) result(call *callState, r Result) error {
	call.State = callDone
	r.CallID, r.Name = call.ID, string(call.Name)
	_, err := c.append(Message{Type: typeResults, Results: []Result{r}})
	return err
}

// closeCalls gives every call that has no result an error for one: e, or one that says that the
// call was not made.
func (c *change) closeCalls(e *message.Error) error {
	for i := range c.s.turn.Calls {
		call := &c.s.turn.Calls[i]
		if call.State == callDone {
			continue
		}
		running := call.State != callAsked
		if err := c.collect(call); err != nil {
			return err
		}
		if call.State == callDone {
			continue
		}
		why := e
		if call.State == callAsked {
			running = false
			why = message.Errorf(e.Code, "The call was not made: its turn ended before Session.Decide allowed it")
		}
		if running {
			c.b.IfAbsent(key(keyResult, c.s.ID, call.ID)) // fails if the result has come meanwhile
		}
		if err := c.result(call, failed(why)); err != nil {
			return err
		}
	}
	return nil
}

// suspend ends the lease of a turn whose calls all wait for a caller.
func (r *runner) suspend() {
	r.persist(func(c *change) error {
		waits := false
		for _, call := range c.s.turn.Calls {
			if call.State == callReady || call.State == callNew {
				return errNothing // the call was allowed meanwhile
			}
			waits = waits || call.State != callDone
		}
		if !waits || c.s.turn.State != acting {
			return errNothing // the last one was denied meanwhile, or has its result
		}
		c.s.turn.Waiting = true
		c.ending = append(c.ending, r.lease.Done(c.b))
		return nil
	})
}

// call runs one call, and stores what it comes to.
func (r *runner) call(s *session, call callState) {
	name, args := call.final()
	w := &attempt{runner: r, id: call.ID, name: name}
	var granted []kernel.Reached
	if call.Given {
		granted = call.Reached
	}
	ctx := r.ctx
	if s.turn.Remote {
		ctx = blobs.WithRemote(ctx, new(blobs.Remote))
	}
	var outcome message.Message
	if sender, err := r.senderOf(&call); err != nil {
		e, _ := message.ErrorOf(err)
		outcome = (&message.Message{Type: name}).Fail(e)
	} else {
		outcome, _ = r.k.Do(ctx, kernel.WorkCall{
			Type: name, Data: args, Sender: sender, Timeout: tighter(callTimeout, s.timeLeft(r.x.opts.Now())), Work: w, Event: w.event, Granted: granted,
			Metadata: message.Metadata{Causation: s.turn.Cause, Correlation: s.turn.Correlation, IdempotencyKey: call.key(r.id)},
		})
	}
	r.live.forget(call.ID)
	known, applied := w.Known()
	if !applied && r.lease.Held() == nil && !(r.stopped() && known == nil && outcome.Kind == message.KindError) {
		if known != nil {
			outcome = *known
		}
		r.storeResult(w, &outcome)
	}
	r.mu.Lock()
	r.active--
	r.mu.Unlock()
	r.nudge()
}

// storeResult stores the outcome of what never became a call, or could not be settled with it.
func (r *runner) storeResult(w *attempt, outcome *message.Message) {
	pause := time.Duration(0)
	for r.lease.Held() == nil && r.ctx.Err() == nil {
		var b store.Batch
		_, err := w.Settle(&b, outcome)
		if err == nil {
			_, err = r.x.opts.Store.Apply(&b)
		}
		if err == nil {
			return
		}
		r.x.opts.Log.Warn("the result of a call can't be stored", "session", r.id, "call", w.id, "error", err)
		pause = min(pause+100*time.Millisecond, 5*time.Second)
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
		}
	}
}

// A keptResult is a result that isn't in the stream yet.
type keptResult struct {
	Result Result `json:"result"`
	Used   Usage  `json:"used,omitzero"` // usage of a child session

	// The call has failed, since what it reaches needs an approval. It has no result yet.
	Reached []kernel.Reached `json:"reached,omitzero"`
	Rule    string           `json:"rule,omitzero"` // the rule that asks
}

// An attempt is a call in flight. Its result is stored in one batch with its effect, under a key of
// its own, so that calls that end at one moment don't meet (T1, T2). It implements [kernel.Work].
type attempt struct {
	*runner
	kernel.Settlement
	id   string
	name message.Type

	asking  sync.Mutex // guards the fields below
	reached []kernel.Reached
	rule    string
	query   bool
}

// ask notes that a call of a syscall needs an approval for what it reaches.
func (w *attempt) ask(s *kernel.Syscall, to kernel.Reached, why string) {
	w.asking.Lock()
	defer w.asking.Unlock()
	if !slices.Contains(w.reached, to) {
		w.reached, w.rule, w.query = append(w.reached, to), why, s.Kind == message.KindQuery && s.Effect != kernel.Delegated
	}
}

// waits returns what the call needs an approval for, and the rule that asks. A command that has succeeded
// all the same isn't made again.
func (w *attempt) waits(outcome *message.Message) (reached []kernel.Reached, why string) {
	w.asking.Lock()
	defer w.asking.Unlock()
	if outcome.Kind == message.KindReply && !w.query {
		return nil, ""
	}
	return slices.Clone(w.reached), w.rule
}

// event takes an event of the call.
func (w *attempt) event(m message.Message) { w.live.relay(w.id, m) }

// Settle implements [kernel.Work].
func (w *attempt) Settle(b *store.Batch, outcome *message.Message) ([]message.Message, error) {
	if err := w.lease.Held(); err != nil {
		return nil, err
	}
	var kept keptResult
	if kept.Reached, kept.Rule = w.waits(outcome); len(kept.Reached) > 0 {
		kept.Result.Output = jsontext.Value("null")
	} else if outcome.Kind == message.KindReply {
		kept.Result.Output = jsontext.Value(outcome.Data).Clone()
		if len(kept.Result.Output) == 0 {
			kept.Result.Output = jsontext.Value("null")
		}
		w.convert(&kept)
		kept.Result.Output, _ = w.k.Excerpt(w.ctx, kept.Result.Output, maxBeginning)
	} else {
		if w.stopped() {
			return nil, work.ErrQueueStopping // the next process finds out its outcome
		}
		kept.Result = failed(outcome.Failure())
	}
	w.Note(outcome)
	w.lease.Depend(b)
	at, text := key(keyResult, w.runner.id, w.id), jsonvalue.Marshal(kept)
	b.Set(at, text)
	w.x.refer(b, text, at)
	return nil, nil
}

// convert gives the results of some syscalls the form that the specification has for them: a job is
// a process container.
func (w *attempt) convert(kept *keptResult) {
	switch w.name {
	case "Job.Start":
		var job struct {
			JobID  string `json:"jobId"`
			Status string `json:"status"`
		}
		if json.Unmarshal(kept.Result.Output, &job) == nil && job.JobID != "" {
			kept.Result.Output = processOf(job.JobID, job.Status)
		}
	case ask.Type:
		var asked askOutput
		if json.Unmarshal(kept.Result.Output, &asked) == nil {
			kept.Used = asked.Used
		}
	}
}

// processOf returns the process container of a job.
func processOf(id, status string) []byte {
	type state struct {
		JobID string `json:"jobId"`
	}
	type process struct {
		ID     string `json:"id"`
		Type   string `json:"type"`
		Status string `json:"status"`
		State  state  `json:"state"`
	}
	text, _ := json.Marshal(map[string]process{"process": {id, "job", status, state{id}}}) // never fails
	return text
}
