package session

import (
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// generateType is the one seam to models.
const generateType message.Type = "Model.Generate"

// generateTimeout is how long a generation may take.
const generateTimeout = 30 * time.Minute

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
		Part    int            `json:"part"` // the number that the part was streamed with
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

// reply returns the text of the model's reply.
func (g *generated) reply() (text string) {
	for _, m := range g.Messages {
		if m.Type == typeReply {
			text += m.Text
		}
	}
	return text
}

// used returns what the generation has used up of the budget.
func (g *generated) used() Usage {
	return Usage{Steps: 1, Tokens: g.Usage.Input + g.Usage.Output, Cost: g.Usage.Cost}
}

// think does one generation, or makes room for it. Its end, the messages and the next state, is one batch.
func (r *runner) think(s *session) {
	if why := s.exceeded(r.x.opts.Now()); why != nil {
		r.persist(func(c *change) error { return r.endTurn(c, statusLimited, why) })
		return
	}
	path, err := r.x.path(r.ctx, &s.head)
	if err != nil {
		e, known := message.ErrorOf(err)
		if !known {
			r.x.opts.Log.Error("the context of a session can't be read", "session", r.id, "error", err)
		}
		r.fail(e)
		return
	}
	r.live.discard() // parts that an earlier process has not finished come again
	request := r.x.render(r.ctx, r.k, s, path)
	if cut := r.x.excess(s, request, path); cut > 0 {
		r.compact(s, path, cut)
	} else if s.turn.Long {
		why := errTooLong
		if s.Compact == neverCompact {
			why = errCompact
		}
		r.persist(func(c *change) error { return r.endTurn(c, statusLimited, why) })
	} else {
		r.generate(s, request, r.live.event, r.answered)
	}
}

// generate asks the model, and stores what fill makes of the outcome.
func (r *runner) generate(s *session, g *generation, event kernel.Emit, fill func(*change, *message.Message) error) {
	w := &thought{runner: r, fill: fill}
	outcome, _ := r.k.Do(r.ctx, kernel.WorkCall{
		Type: generateType, Data: jsonvalue.Marshal(g), Metadata: message.Metadata{Causation: s.turn.Cause, Correlation: s.turn.Correlation},
		Sender: r.sender, Timeout: tighter(generateTimeout, s.timeLeft(r.x.opts.Now())), Work: w, Event: event, Brief: byReference,
	})
	known, applied := w.Known()
	if applied || r.lease.Held() != nil || r.stopped() {
		return
	}
	if known != nil {
		outcome = *known
	}
	r.persist(func(c *change) error { return fill(c, &outcome) })
}

// A thought is a generation that is being made and stored. It implements [kernel.Work].
type thought struct {
	*runner
	kernel.Settlement
	fill func(*change, *message.Message) error // adds to a change what it has come to
}

// Held implements [kernel.Work].
func (r *runner) Held() error { return r.lease.Held() }

// Settle implements [kernel.Work].
func (w *thought) Settle(b *store.Batch, outcome *message.Message) ([]message.Message, error) {
	if err := w.lease.Held(); err != nil {
		return nil, err
	}
	if w.stopped() && outcome.Kind == message.KindError {
		return nil, work.ErrQueueStopping
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
	w.Note(outcome)
	w.Then(func() { c.ended(nil) }) // a worker that continues adds no task
	return c.recordsOf(&cause), nil
}

// answered adds to a change what the model has answered.
func (r *runner) answered(c *change, outcome *message.Message) error {
	t := c.s.turn
	parts := r.live.parts()
	c.then(r.live.finish)
	if outcome.Kind == message.KindError {
		e := outcome.Failure()
		if e.Code == tooLong {
			t.Long = true // the conversation is shortened before the model is asked again
			return nil
		}
		if err := c.keepParts(parts); err != nil {
			return err
		}
		return r.failed(c, e)
	}
	g, err := r.readGenerated(outcome.Data)
	if err != nil {
		return err
	}
	t.Used.add(g.used())
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
			for n := range m.Calls { // ids that were never used, since they become idempotency keys (T1)
				m.Calls[n].ID = callPrefix + r.x.ids.Next(r.x.opts.Now())
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
				t.Calls = append(t.Calls, callOf(r.k, &call))
			}
		}
	}
	if calls == nil {
		var why *message.Error
		status := statusDone
		switch g.Finish {
		case "length":
			status, why = statusLimited, message.Errorf(413, "The model's answer has reached the token limit; Session.Continue resumes it")
		case "refused":
			status, why = statusFailed, message.Errorf(422, "The model has refused to answer")
		}
		return r.endTurn(c, status, why)
	}
	t.State, t.Cause = acting, message.ID(calls.ID)
	t.Used.Calls += len(t.Calls)
	return nil
}

// failed ends a turn whose generation has failed. If that is because the turn has used its time, or
// because its principal has ended, the ending names this cause.
func (r *runner) failed(c *change, e *message.Error) error {
	if r.sender.Principal().Life().Err() != nil {
		e = c.s.revoked()
	} else if why := c.s.exceeded(r.x.opts.Now()); why != nil && e.Code == 504 {
		return r.endTurn(c, statusLimited, why)
	}
	return r.endTurn(c, statusFailed, e)
}

// readGenerated reads the reply of Model.Generate, which may be by reference.
func (r *runner) readGenerated(data []byte) (g generated, err error) {
	if p, ok := kernel.ReferenceIn(data); ok && r.x.opts.Open != nil {
		if data, err = r.x.opts.Open(kernel.Inside(r.ctx), p); err != nil {
			return g, err
		}
	}
	if err := json.Unmarshal(data, &g); err != nil {
		return g, message.Errorf(502, "%s has replied with something else than messages: %v", generateType, err)
	}
	return g, nil
}

// keepParts appends the begun texts of messages that will not be completed.
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

// tooLong is the code of Model.Generate for a conversation that is longer than the model takes.
const tooLong = 413

var errTooLong = message.Errorf(tooLong, "The conversation is longer than the model takes, and no earlier messages are left to summarize; use a model with a larger context window, or Session.Rewind")

var errCompact = message.Errorf(tooLong, "The conversation is longer than the model takes; Session.Compact summarizes its earlier messages, and Session.Continue resumes it")

// A digest is recorded in place of a part of a conversation.
type digest struct {
	SHA256 string         `json:"sha256"`
	Count  *int           `json:"count,omitzero"` // of a list
	Last   jsontext.Value `json:"last,omitzero"`  // the id of its last element
}

// byReference returns what is recorded of a generation for a turn, whose session has the messages: recording the
// whole conversation at each step would grow with its square. What any other caller sends to a model is recorded
// whole, also if it names a session.
func byReference(data stdjson.RawMessage) stdjson.RawMessage {
	return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
		switch name {
		case "messages", "tools", "system", "messagesRef", "toolsRef":
		default:
			return ""
		}
		hash := sha256.Sum256(jsonscan.AppendCanonical(nil, value))
		known := digest{SHA256: hex.EncodeToString(hash[:])}
		if value[0] == '[' {
			known.Count = new(int)
			jsonscan.Elements(value, 0, func(one []byte) bool {
				*known.Count, known.Last = *known.Count+1, jsonscan.Member(one, "id")
				return true
			})
		}
		return string(jsonvalue.Marshal(known))
	})
}
