package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// The ways in which a turn ends, and how far an open one is.
const (
	statusDone     = "done"
	statusLimited  = "limited"
	statusCanceled = "canceled"
	statusFailed   = "failed"
	statusRunning  = "running"
	statusWaiting  = "waiting"
)

// maxTakeovers is how often a turn is begun again after the process died while it ran.
const maxTakeovers = 5

// generateType is the one seam to models.
const generateType message.Type = "Model.Generate"

// generateTimeout is how long a generation may take.
const generateTimeout = 30 * time.Minute

// A runner does a turn while it has a lease.
type runner struct {
	x       *Sessions
	k       *kernel.Kernel
	id      string
	lease   *work.Lease
	ctx     context.Context // acts for the principal of the session
	live    *live
	sender  kernel.Sender
	running sync.WaitGroup

	mu      sync.Mutex
	started map[string]bool // calls that this lease has begun
	active  int
	wake    chan struct{}
}

// work runs the turn of a session. It is called by the queue.
func (x *Sessions) work(ctx context.Context, l *work.Lease) {
	k := x.kernel.Load()
	if k == nil {
		return // it is begun again
	}
	s, err := x.load(l.ID)
	if err != nil || s.turn == nil {
		x.drop(l, err)
		return
	}
	who, err := x.opts.Find(s.Principal)
	if err != nil {
		x.opts.Log.Error("the caller of a session can't be read", "session", l.ID, "error", err)
		return
	}
	sender := kernel.From(who, s.Wire)
	r := &runner{
		x: x, k: k, id: l.ID, lease: l, sender: sender, ctx: kernel.ActFor(ctx, sender), live: x.begin(l.ID),
		started: make(map[string]bool), wake: make(chan struct{}, 1),
	}
	defer x.end(r.live)
	defer r.running.Wait()
	r.live.run(r)
	defer r.live.run(nil)
	switch {
	case who == nil || who.Life().Err() != nil:
		r.fail(message.Errorf(403, "The token %q, which has created the session, was revoked or has expired", s.Token))
	case l.Attempt > maxTakeovers:
		r.fail(message.Errorf(500, "The kernel ended %d times during the turn; Session.Continue tries again", l.Attempt-1))
	default:
		r.loop()
	}
}

// drop takes a task out of the queue whose session has no open turn.
func (x *Sessions) drop(l *work.Lease, err error) {
	if e, ok := errors.AsType[*message.Error](err); err != nil && (!ok || e.Code != 404) {
		x.opts.Log.Error("a session can't be read", "session", l.ID, "error", err)
		return
	}
	var b store.Batch
	ended := l.Done(&b)
	if _, err := x.opts.Store.Apply(&b); err == nil {
		ended()
	}
}

// loop does one step after another, until the turn has ended, or waits for a caller.
func (r *runner) loop() {
	for r.lease.Held() == nil && r.ctx.Err() == nil {
		s, err := r.x.load(r.id)
		if err != nil || s.turn == nil {
			r.x.drop(r.lease, err)
			return
		}
		if s.turn.State == thinking {
			r.think(s)
		} else {
			r.act(s)
		}
	}
}

// persist applies a change of the session, again and again while the session changes meanwhile or
// the store can't write. It reports whether it could: if not, the turn isn't this worker's any
// more, or is stopped. fill may leave the change as it is by returning errNothing.
func (r *runner) persist(fill func(*change) error) bool {
	pause := backoff.Backoff{First: 100 * time.Millisecond, Longest: 10 * time.Second, Jitter: true}
	for r.lease.Held() == nil {
		s, err := r.x.load(r.id)
		if err != nil || s.turn == nil {
			return false
		}
		var b store.Batch
		var commit *store.Commit
		c := r.x.change(r.ctx, s, &b)
		cause := *s.turn
		if err = fill(c); err == errNothing {
			return true
		}
		if err == nil {
			if len(c.ending) == 0 {
				r.lease.Depend(&b)
			}
			c.done()
			commit, err = r.x.opts.Store.Apply(&b)
		}
		if err == nil {
			c.finish(r.k, r.sender, &cause, commit)
			return true
		}
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		r.x.opts.Log.Warn("what became of a turn can't be stored", "session", r.id, "error", err)
		if !pause.Wait(r.ctx.Done()) {
			break
		}
	}
	return false
}

// errNothing says that nothing is to be changed.
var errNothing = errors.New("nothing to change")

// finish does what follows when the change has been applied by the kernel itself.
func (c *change) finish(k *kernel.Kernel, from kernel.Sender, cause *turn, commit *store.Commit) {
	for _, m := range c.recordsOf(cause) {
		k.Stamp(&m)
		k.Record(m, kernel.Within, from)
	}
	c.ended(commit)
}

// ended does what follows when the change has been applied.
func (c *change) ended(commit *store.Commit) {
	for _, f := range c.ending {
		f()
	}
	for _, f := range c.applied {
		f(commit)
	}
}

// endTurn ends the turn in a change of its worker: the task is done, unless another turn waits.
func (r *runner) endTurn(c *change, status string, why *message.Error) error {
	next, err := c.end(status, why)
	if err != nil {
		return err
	}
	if !next {
		c.ending = append(c.ending, r.lease.Done(c.b))
	}
	return nil
}

// fail ends the turn with an error. Calls without a result get one.
func (r *runner) fail(e *message.Error) {
	r.persist(func(c *change) error {
		if err := c.closeCalls(e); err != nil {
			return err
		}
		return r.endTurn(c, statusFailed, e)
	})
}

// A generation is what Model.Generate is asked for.
type generation struct {
	Model     string      `json:"model,omitzero"`
	System    string      `json:"system,omitzero"`
	Messages  []Message   `json:"messages"`
	Tools     []toolOffer `json:"tools,omitzero"`
	MaxTokens int64       `json:"maxTokens,omitzero"`
	Session   string      `json:"session"`
}

// generated is what it replies.
type generated struct {
	Model    string `json:"model"`
	Finish   string `json:"finish"`
	Messages []struct {
		Part    int            `json:"part"` // that it was streamed as
		Type    string         `json:"type"`
		Text    string         `json:"text"`
		Title   string         `json:"title"`
		Summary string         `json:"summary"`
		Opaque  jsontext.Value `json:"opaque"`
		Calls   []Call         `json:"calls"`
	} `json:"messages"`
	Usage struct {
		Input  int64   `json:"input"`
		Output int64   `json:"output"`
		Cost   float64 `json:"cost"`
	} `json:"usage"`
}

// think does one generation. Its end, the messages and the next state, is one batch.
func (r *runner) think(s *session) {
	if why := s.exceeded(r.x.opts.Now()); why != nil {
		r.persist(func(c *change) error { return r.endTurn(c, statusLimited, why) })
		return
	}
	request, err := r.x.render(r.ctx, r.k, s)
	if err != nil {
		e, known := message.ErrorOf(err)
		if !known {
			r.x.opts.Log.Error("the context of a session can't be read", "session", r.id, "error", err)
		}
		r.fail(e)
		return
	}
	r.live.discard() // what an earlier process has not finished comes again
	timeout := generateTimeout
	if left := s.timeLeft(r.x.opts.Now()); left > 0 {
		timeout = min(timeout, left)
	}
	w := &thought{runner: r}
	outcome, _ := r.k.Do(r.ctx, kernel.WorkCall{
		Type: generateType, Data: encode(request), Metadata: message.Metadata{Causation: s.turn.Cause, Correlation: s.turn.Correlation},
		Sender: r.sender, Timeout: timeout, Work: w, Event: r.live.event,
	})
	w.mu.Lock()
	known, applied := w.outcome, w.applied
	w.mu.Unlock()
	if applied || r.lease.Held() != nil || r.stopped() {
		return
	}
	if known != nil {
		outcome = *known
	}
	r.persist(func(c *change) error { return w.fill(c, &outcome) })
}

// stopped reports whether the kernel stops: the next one goes on with the turn.
func (r *runner) stopped() bool { return errors.Is(context.Cause(r.ctx), work.ErrStopping) }

// A thought is a generation on its way into the store. It implements [kernel.Work].
type thought struct {
	*runner
	mu      sync.Mutex
	outcome *message.Message
	applied bool
	then    func()
}

// Held implements [kernel.Work].
func (w *thought) Held() error { return w.lease.Held() }

// Settle implements [kernel.Work].
func (w *thought) Settle(b *store.Batch, outcome *message.Message) ([]message.Message, error) {
	if err := w.lease.Held(); err != nil {
		return nil, err
	}
	if w.stopped() && outcome.Kind == message.KindError {
		return nil, work.ErrStopping
	}
	s, err := w.x.load(w.id)
	if err != nil {
		return nil, err
	}
	if s.turn == nil {
		return nil, message.Errorf(409, "The turn has ended")
	}
	c := w.x.change(w.ctx, s, b)
	cause := *s.turn
	if err := w.fill(c, outcome); err != nil {
		return nil, err
	}
	if len(c.ending) == 0 {
		w.lease.Depend(b)
	}
	c.done()
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := outcome.Clone()
	w.outcome = &kept
	w.then = func() { c.ended(nil) } // a worker that goes on adds no task
	return c.recordsOf(&cause), nil
}

// Applied implements [kernel.Work].
func (w *thought) Applied() {
	w.mu.Lock()
	w.applied = true
	then := w.then
	w.mu.Unlock()
	then()
}

// fill adds to a change what a generation has come to.
func (w *thought) fill(c *change, outcome *message.Message) error {
	t := c.s.turn
	parts := w.live.parts()
	if outcome.Kind == message.KindError {
		e, err := outcome.Failure()
		if err != nil {
			return err
		}
		if err := c.keepParts(parts); err != nil {
			return err
		}
		return w.endTurn(c, statusFailed, e)
	}
	g, err := w.readGenerated(outcome.Data)
	if err != nil {
		return err
	}
	t.Used.add(Usage{Steps: 1, Tokens: g.Usage.Input + g.Usage.Output, Cost: g.Usage.Cost})
	var calls *Message
	for _, part := range g.Messages {
		m := Message{Type: part.Type, Model: g.Model, Opaque: part.Opaque, Calls: part.Calls}
		if i := part.Part; i >= 0 && i < len(parts) && parts[i].Type == part.Type {
			m.ID = parts[i].ID
		}
		switch part.Type {
		case typeThought:
			text := part.Summary + part.Text
			title := part.Title
			if title == "" {
				title, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
				title = message.Clip(title, 80)
			}
			m.Title, m.Summary = &title, &text
		case typeCalls:
			for n := range m.Calls { // a program may give ids that were there before
				if id := &m.Calls[n].ID; !isKernelCall(*id) || len(*id) != 31 || (*id)[5:] <= c.s.LastID || t.call(*id) != nil {
					*id = callPrefix + w.x.ids.next(w.x.opts.Now())
				}
			}
		default:
			m.Text = &part.Text
		}
		whole := m.Calls
		stored, err := c.append(m)
		if err != nil {
			return err
		}
		switch part.Type {
		case typeReply:
			t.Reply = stored.Seq
		case typeCalls:
			calls = stored
			for _, call := range whole {
				t.Calls = append(t.Calls, callState{ID: call.ID, Name: message.Type(call.Name), Args: call.Args})
			}
		}
	}
	if calls == nil {
		var why *message.Error
		status := statusDone
		switch g.Finish {
		case "length":
			status, why = statusLimited, message.Errorf(413, "The model's answer has reached its greatest length; Session.Continue goes on")
		case "refused":
			status, why = statusFailed, message.Errorf(422, "The model has refused to answer")
		}
		return w.endTurn(c, status, why)
	}
	t.State, t.Cause = acting, message.ID(calls.ID)
	t.Used.Calls += len(t.Calls)
	return nil
}

// readGenerated reads the reply of Model.Generate, which may be by reference.
func (w *thought) readGenerated(data []byte) (g generated, err error) {
	var by struct {
		DataRef *message.BlobPointer `json:"dataRef"`
	}
	if json.Unmarshal(data, &by) == nil && by.DataRef != nil && w.x.opts.Open != nil {
		if data, err = w.x.opts.Open(w.ctx, *by.DataRef); err != nil {
			return g, err
		}
	}
	if err := json.Unmarshal(data, &g); err != nil {
		return g, message.Errorf(502, "%s has replied with something else than messages: %v", generateType, err)
	}
	return g, nil
}

// keepParts appends what was said of messages that will not be completed.
func (c *change) keepParts(parts []part) error {
	for _, p := range parts {
		text := string(p.text)
		m := Message{ID: p.ID, Type: p.Type, Partial: true, Text: &text}
		switch {
		case text == "" || p.Type == typeCalls: // half a call can't be run
			continue
		case p.Type == typeThought:
			title := "Interrupted"
			m.Title, m.Summary, m.Text = &title, &text, nil
		}
		stored, err := c.append(m)
		if err != nil {
			return err
		}
		if p.Type == typeReply && c.s.turn != nil {
			c.s.turn.Reply = stored.Seq
		}
	}
	return nil
}
