package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/work"
)

type turnOutput struct {
	Session string         `json:"session" jsonschema_description:"The session."`
	Turn    string         `json:"turn,omitzero" jsonschema_description:"The turn."`
	Status  string         `json:"status,omitzero" jsonschema:"enum=done,enum=limited,enum=canceled,enum=failed,enum=running,enum=waiting,enum=queued" jsonschema_description:"How the turn has ended, or how far it is. limited: a budget is used up; Session.Continue resumes it. waiting: a call needs Session.Decide or a result."`
	Text    string         `json:"text,omitzero" jsonschema_description:"With wait: the last reply of the turn."`
	Error   jsontext.Value `json:"error,omitzero" jsonschema_description:"With wait: why the turn has failed, or which budget is used up."`
	Seq     uint64         `json:"seq,omitzero" jsonschema_description:"The last message of the session. Session.Watch takes it as after."`
}

type sendInput struct {
	sessionInput
	Text  string `json:"text,omitzero" aliases:"content" jsonschema_description:"What to say."`
	Files []File `json:"files,omitzero" jsonschema:"maxItems=64" jsonschema_description:"Files to go with it."`
	Model string `json:"model,omitzero" jsonschema:"maxLength=128" jsonschema_description:"The model of the session from now on, as Model.List names it. Default: it stays the same."`
	Wait  bool   `json:"wait,omitzero" jsonschema_description:"Stream the turn until it has ended, and reply with its status and text. Default: reply once the input is durable."`
}

var send = kernel.DefineCommand[sendInput, turnOutput](kernel.Definition{
	Type:    "Session.Send",
	Summary: "Say something in a session, which begins a turn. During a turn the input is queued, and begins the next one.",
	Input:   schema.Input[sendInput]().Example(`{"session":"01JFV0Y1G0Q3W8Z4X6Y2N1M9KA","text":"What is in my notes?"}`),
	Emits:   events,
	Presentation: kernel.Presentation{
		Title: "Say something in a session",
		Words: "chat, talk, message a model, tell, prompt, ask the assistant, reply in a chat, write to the assistant, send a prompt, " +
			"ask something in the chat, next message in a conversation, send a chat message, tell the assistant to do it",
		Stdin:     "text",
		Arguments: []string{"session", "text"},
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no session that the caller sees has this id, or the model isn't configured"},
			{Code: 422, When: "there is neither a text nor a file"},
			{Code: 503, When: "this kernel runs no sessions"},
		},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Endless, Timeout: 24 * time.Hour},
	Journaled: kernel.Journaled{Brief: brief},
})

func (x *Sessions) send(ctx context.Context, in sendInput, stream *kernel.Stream) (out turnOutput, err error) {
	if _, err := x.running(); err != nil {
		return out, err
	}
	if in.Wait {
		return x.sendAndWait(ctx, in, stream)
	}
	if in.Text == "" && len(in.Files) == 0 {
		return out, invalid("text", "give a text, files, or both")
	}
	s, err := x.writable(ctx, in.Session)
	if err == nil {
		err = x.bring(ctx, in.Files)
	}
	if err != nil {
		return out, err
	}
	if in.Model != "" {
		if err := x.checkModel(in.Model); err != nil {
			return out, err
		}
		s.Model = in.Model
	}
	request := kernel.RequestOf(ctx)
	m := Message{Type: typeInput, Files: in.Files}
	if in.Text != "" {
		m.Text = &in.Text
	}
	id := x.ids.Next(x.opts.Now())
	out = turnOutput{Session: s.ID, Turn: id, Status: statusRunning}
	var b store.Batch
	c := x.change(ctx, s, &b)
	if s.turn != nil {
		m.Turn, m.ID = id, ""
		if err := x.shrink(ctx, &m); err != nil {
			return out, err
		}
		at, text := key(keyQueued, s.ID, id), jsonvalue.Marshal(queued{m, request.Metadata.ID, request.Caused().Correlation, blobs.RemoteOf(ctx) != nil})
		b.Set(at, text)
		x.refer(&b, text, at)
		out.Status, out.Seq = "queued", s.Seq
		return out, c.stage() // the head changes too: the turn can't end without seeing the input
	}
	if err := x.announce(ctx, c); err != nil {
		return out, err
	}
	if err := c.begin(id, &m, request.Metadata.ID, request.Caused().Correlation); err != nil {
		return out, err
	}
	out.Seq = s.Seq
	return out, c.stage()
}

// writable returns a session that the caller sees and may act in: a session acts with the rights of its
// principal.
func (x *Sessions) writable(ctx context.Context, id string) (*session, error) {
	s, err := x.visible(ctx, id)
	if err != nil {
		return nil, err
	}
	p := kernel.PrincipalOf(ctx)
	if p.ID() == s.Principal {
		return s, nil
	}
	if p.IsOwner() {
		return s, kernel.Reaching(ctx, kernel.ToOthers, fmt.Sprintf("the session %s of %s", s.ID, s.Token))
	}
	whose := "the owner, who alone can change it"
	if s.Principal != principal.OwnerID {
		whose = fmt.Sprintf("the token %q; only that token and the owner can change it", s.Token)
	}
	return nil, message.Errorf(403, "The session %s belongs to %s; Session.Fork makes one of your own", s.ID, whose)
}

// sendAndWait sends, and streams the turn until it has ended.
func (x *Sessions) sendAndWait(ctx context.Context, in sendInput, stream *kernel.Stream) (out turnOutput, err error) {
	if kernel.RequestOf(ctx).Metadata.IdempotencyKey != "" {
		return out, invalid("wait", "an idempotency key is for the sending; leave wait out, and use Session.Watch")
	}
	before, err := x.visible(ctx, in.Session)
	if err != nil {
		return out, err
	}
	in.Wait = false
	reply, err := kernel.Invoke(ctx, send.Type, jsonvalue.Marshal(in))
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(reply, &out); err != nil {
		return out, err
	}
	f := follower{x: x, id: out.Session, seq: before.Seq, until: out.Turn, stream: stream}
	err = f.follow(ctx)
	if out.Seq = f.seq; err != nil {
		if context.Cause(ctx) == kernel.ErrStopping {
			return out, nil // the next kernel continues it
		}
		return out, err
	}
	return x.outcome(ctx, out)
}

// outcome fills in how a turn has ended.
func (x *Sessions) outcome(ctx context.Context, out turnOutput) (turnOutput, error) {
	s, err := x.load(out.Session)
	if err != nil {
		return out, err
	}
	out.Status = statusDone
	for _, e := range s.Ended {
		if e.Turn != out.Turn {
			continue
		}
		out.Status, out.Error = e.Status, e.Error
		if e.Reply == 0 {
			continue
		}
		m, err := x.read(&s.head, e.Reply)
		if err == nil {
			err = x.grow(ctx, m)
		}
		if err != nil {
			return out, err
		}
		if m.Text != nil {
			out.Text = *m.Text
		}
	}
	return out, nil
}

var cancel = kernel.DefineCommand[sessionInput, turnOutput](kernel.Definition{
	Type:    "Session.Cancel",
	Summary: "End the open turn of a session. What the model has said so far is kept, and calls that run are stopped.",
	Emits:   events[:1],
	Presentation: kernel.Presentation{
		Title: "End a session's turn",
		Words: "stop a model, interrupt, abort, stop the assistant, make it stop talking, shut up, stop the answer, stop generating, halt the reply, " +
			"stop thinking",
		Errors: []kernel.ErrorDefinition{notFoundError},
	},
})

var errCanceled = &message.Error{Code: 499, Message: "The turn was canceled; a call that acts outside of the kernel may have happened"}

func (x *Sessions) cancel(ctx context.Context, in sessionInput) (out turnOutput, err error) {
	s, err := x.writable(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if s.turn == nil {
		return turnOutput{Session: s.ID, Status: statusDone}, nil
	}
	out = turnOutput{Session: s.ID, Turn: s.turn.ID, Status: statusCanceled}
	var b store.Batch
	c := x.change(ctx, s, &b)
	if l := x.find(s.ID); l != nil && s.turn.State == thinking {
		if err := c.keepParts(l.parts()); err != nil {
			return out, err
		}
	}
	if err := x.abort(c, statusCanceled, errCanceled); err != nil {
		return out, err
	}
	return out, c.stage()
}

// abort ends the open turn of a session, whether it runs or waits.
func (x *Sessions) abort(c *change, status string, why *message.Error) error {
	s := c.s
	if err := c.closeCalls(why); err != nil {
		return err
	}
	next, err := c.end(status, why)
	if err != nil {
		return err
	}
	stop := x.queue.Remove
	if next {
		stop = x.queue.Restart
	}
	stopped, err := stop(c.b, s.ID)
	if err != nil {
		return err
	}
	if stopped != nil {
		c.then(func() { stopped(errCanceled) })
	} else if next {
		return c.wake()
	}
	return nil
}

type continueInput struct {
	sessionInput
	Total *Total `json:"total,omitzero" jsonschema_description:"What all turns of the session may use together from now on, with what they have used. Default: it stays the same."`
}

var resume = kernel.DefineCommand[continueInput, turnOutput](kernel.Definition{
	Type:    "Session.Continue",
	Summary: "Go on after a turn that was limited, canceled or failed, or with one that waits since a backup was restored.",
	Emits:   events[:1],
	Presentation: kernel.Presentation{
		Title:  "Continue a turn",
		Words:  "go on, resume a conversation, keep going, carry on, pick up where it stopped, finish the reply, let the assistant go on, continue the answer",
		Errors: []kernel.ErrorDefinition{{Code: 403, When: "the session would raise its own total"}, notFoundError, {Code: 409, When: "a turn runs"}, {Code: 503, When: "this kernel runs no sessions"}},
	},
})

func (x *Sessions) resume(ctx context.Context, in continueInput) (out turnOutput, err error) {
	if _, err := x.running(); err != nil {
		return out, err
	}
	s, err := x.writable(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if in.Total != nil {
		if slices.Contains(kernel.SenderOf(ctx).Sessions(), s.ID) {
			return out, message.Errorf(403, "The session %s can't raise its own total; a person can: Session.Continue", s.ID)
		}
		s.Total = *in.Total
	}
	var b store.Batch
	c := x.change(ctx, s, &b)
	if s.turn != nil {
		_, state, err := x.queue.Find(s.ID)
		if err != nil {
			return out, err
		}
		if state != work.Absent {
			return out, message.Errorf(409, "The turn %s of the session runs; Session.Watch shows it", s.turn.ID)
		}
		out = turnOutput{Session: s.ID, Turn: s.turn.ID, Status: statusRunning, Seq: s.Seq}
		if err := c.wake(); err != nil {
			return out, err
		}
		return out, c.stage()
	}
	if s.Seq == 0 {
		return out, message.Errorf(409, "The session has no messages to continue from; use Session.Send")
	}
	request := kernel.RequestOf(ctx)
	id := x.ids.Next(x.opts.Now())
	if err := c.begin(id, nil, request.Metadata.ID, request.Caused().Correlation); err != nil {
		return out, err
	}
	return turnOutput{Session: s.ID, Turn: id, Status: statusRunning, Seq: s.Seq}, c.stage()
}

type appendInput struct {
	sessionInput
	Message jsontext.Value `json:"message" jsonschema:"type=object" jsonschema_description:"The message: type, and what its type asks for. id, seq and timestamp are given by the kernel."`
}

type appendOutput struct {
	Session string `json:"session" jsonschema_description:"The session."`
	ID      string `json:"id" jsonschema_description:"The id of the message."`
	Seq     uint64 `json:"seq" jsonschema_description:"Its number in the session."`
}

var appendTo = kernel.DefineCommand[appendInput, appendOutput](kernel.Definition{
	Type:    "Session.Append",
	Summary: "Add a message to a session without a turn, or the result of a tool that runs elsewhere.",
	Input:   schema.Input[appendInput]().Example(`{"session":"01JFV0Y1G0Q3W8Z4X6Y2N1M9KA","message":{"type":"log","text":"The user has left"}}`),
	Emits:   events[:1],
	Presentation: kernel.Presentation{
		Title: "Add a message to a session",
		Words: "insert a message, tool result, put a message into a chat, add to a conversation without an answer, hand in a tool result, inject context, " +
			"give background information to a chat",
		Result: "Added the message {seq} to {session}",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "only the kernel makes messages of this type, or results of this call"}, notFoundError, {Code: 422, When: "the message doesn't fit its type"},
		},
	},
	Journaled: kernel.Journaled{Brief: brief},
})

func (x *Sessions) append(ctx context.Context, in appendInput) (out appendOutput, err error) {
	s, err := x.writable(ctx, in.Session)
	if err != nil {
		return out, err
	}
	m, err := x.readMessage(in.Message)
	if err == nil {
		err = x.bring(ctx, m.Files)
	}
	if err != nil {
		return out, err
	}
	var b store.Batch
	c := x.change(ctx, s, &b)
	wakes := false
	for _, call := range m.Calls {
		if isKernelCall(call.ID) {
			return out, message.Errorf(403, "Ids of calls that begin with call_ are the kernel's; choose another id than %s", message.Clip(call.ID, 64))
		}
	}
	for _, r := range m.Results {
		if !isKernelCall(r.CallID) {
			continue
		}
		var call *callState
		if s.turn != nil {
			call = s.turn.call(r.CallID)
		}
		// A caller that is fast has the result before the runner has looked at the call.
		if call == nil || call.State != callElsewhere && (call.State != callNew || !s.runsElsewhere(call.Name)) {
			return out, message.Errorf(403, "The kernel runs the call %s, or it has its result; only a tool that runs elsewhere is given one", message.Clip(r.CallID, 64))
		}
		call.State, wakes = callDone, true
	}
	stored, err := c.append(*m)
	if err != nil {
		return out, err
	}
	if wakes {
		if err := c.wake(); err != nil {
			return out, err
		}
	}
	return appendOutput{s.ID, stored.ID, stored.Seq}, c.stage()
}

// readMessage checks a message that a caller appends.
func (x *Sessions) readMessage(text []byte) (*Message, error) {
	t := jsonscan.Unquote(jsonscan.Member(text, "type"))
	switch t {
	case "":
		return nil, invalid("message/type", "missing: give the type of the message")
	case typeSystem, typeRequest, typeResponse, typeSummary:
		return nil, message.Errorf(403, "Messages of the type %s are the kernel's: Session.Create, Session.Decide and Session.Compact make them", t)
	}
	form, err := x.schemaOf(t)
	if err != nil {
		return nil, err
	}
	if err := form.Validate(text); err != nil {
		problem, ok := errors.AsType[*schema.Invalid](err)
		if !ok {
			return nil, invalid("message", "%v", err)
		}
		return nil, invalid("message", "%s", problem.Error())
	}
	m := new(Message)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, invalid("message", "it can't be read as a message of the type %s: %v", t, err)
	}
	given := *m
	*m = Message{Type: given.Type, Text: given.Text, Files: given.Files, Title: given.Title, Summary: given.Summary, Extra: given.Extra}
	switch t { // calls and results elsewhere would be paired with those of the model
	case typeCalls:
		m.Calls = given.Calls
	case typeResults:
		m.Results = given.Results
		for i := range m.Results {
			if err := m.Results[i].check(i); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}
