package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/work"
)

// hydrated is what Content.Hydrate replies.
type hydrated struct {
	Content    *string              `json:"content"`
	ContentRef *message.BlobPointer `json:"contentRef"`
	Metadata   struct {
		URI          string `json:"uri"`
		Checksum     string `json:"checksum"`
		Dependencies struct {
			Skills []struct {
				URI         string `json:"uri"`
				Name        string `json:"name"`
				Description string `json:"description"`
			} `json:"skills"`
			Tools []struct {
				URI string `json:"uri"`
			} `json:"tools"`
		} `json:"dependencies"`
	} `json:"metadata"`
}

// hydrate reads an agent file for a sender; nil means the caller's.
func hydrate(ctx context.Context, uri string, sender *kernel.Sender) (h hydrated, err error) {
	data, err := kernel.InvokeAs(ctx, kernel.NewCall{
		Type: "Content.Hydrate", Data: jsonvalue.Marshal(map[string]any{"uri": uri, "checksums": true}), Sender: sender,
	})
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(data, &h)
}

// hire makes an agent file the agent of a session, and returns its system message: the text of the
// file, and its skills by name, which the model reads when it needs them.
func (x *Sessions) hire(ctx context.Context, h *head, uri string) (text string, err error) {
	if inMemory(uri) { // a model may have written it
		ctx = kernel.Inside(ctx)
	}
	file, err := hydrate(ctx, uri, nil)
	if err != nil {
		return "", err
	}
	switch {
	case file.Content != nil:
		text = *file.Content
	case file.ContentRef != nil && x.opts.Open != nil:
		data, err := x.opts.Open(kernel.Inside(ctx), *file.ContentRef)
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	if file.Metadata.Checksum == "" { // the URI gives the reason
		return "", message.Errorf(404, "The agent %s can't be read: %s; name a file that exists", message.Clip(uri, 200), message.Clip(file.Metadata.URI, 200))
	}
	h.Agent = &agentPin{URI: file.Metadata.URI, Hash: file.Metadata.Checksum}
	k, _ := kernel.Of(ctx)
	if h.Tools == nil {
		for _, t := range file.Metadata.Dependencies.Tools {
			if _, ok := k.Registry().Lookup(message.Type(t.URI)); ok {
				h.Tools = append(h.Tools, tool{Name: t.URI})
			}
		}
	}
	var skills []string
	for _, s := range file.Metadata.Dependencies.Skills {
		if strings.Contains(s.URI, "://") {
			skills = append(skills, fmt.Sprintf("- %s: %s (%s)", s.Name, s.Description, s.URI))
		}
	}
	if len(skills) > 0 {
		text = strings.TrimRight(text, "\n") + "\n\nSkills. Read one with Content.Hydrate and its URI when you need it:\n" + strings.Join(skills, "\n") + "\n"
		if len(h.Tools) > 0 && !h.offers("Content.Hydrate") {
			h.Tools = append(h.Tools, tool{Name: "Content.Hydrate"})
		}
	}
	return text, nil
}

// inMemory reports whether a URI means a value of the memory, as a file.
func inMemory(uri string) bool {
	if scheme, rest, ok := strings.Cut(uri, "://"); ok && strings.EqualFold(scheme, "os") {
		uri = rest
	}
	return strings.HasPrefix(path.Clean("/"+uri), "/memory/")
}

// announce adds a message if the agent file is another one than before. The session may have written the
// file, or those that it names, so it is read for the session, with its rights and under its rules.
func (x *Sessions) announce(ctx context.Context, c *change) error {
	pin := c.s.Agent
	if pin == nil {
		return nil
	}
	call, _ := kernel.CallOf(ctx)
	who, err := x.opts.Find(c.s.Principal)
	if err != nil || who == nil {
		return err
	}
	sender := call.Serving(who, c.s.Wire, c.s.ID)
	file, err := hydrate(ctx, pin.URI, &sender)
	now := file.Metadata.Checksum
	if err != nil || now == "" || now == pin.Now || pin.Now == "" && now == pin.Hash {
		return nil // the session has what it needs
	}
	changed := *pin
	changed.Now = now
	c.s.Agent = &changed
	text := fmt.Sprintf("The agent file %s has changed since this session was created (%s, now %s). The session keeps the earlier one; begin another session for the new one.", pin.URI, pin.Hash, now)
	_, err = c.append(Message{Type: typeLog, Text: &text})
	return err
}

// maxDepth is how deep sessions may ask others.
const maxDepth = 8

// adopt makes a session the child of the one that has caused it, if there is one, whose rules and budget hold for
// it too: a session that a session creates never has more rights. It has one parent, so code that came from one
// session begins no sessions in another one.
func (x *Sessions) adopt(h *head, from kernel.Sender) error {
	above := from.Sessions()
	switch len(above) {
	case 0:
		return nil
	case 1:
	default:
		return message.Errorf(403, "Code that came from the session %s can't begin a session in the session %s, since a session is under the rules of one other; the owner can adopt the code: kernos register --adopt TYPE", above[1], above[0])
	}
	parent := above[0]
	p, err := x.load(parent)
	if err != nil {
		return err
	}
	depth := 1
	if p.Parent != nil {
		depth = p.Parent.Depth + 1
	}
	if depth > maxDepth {
		return message.Errorf(508, "Sessions ask each other more than %d deep", maxDepth)
	}
	h.Parent = &parentOf{parent, depth}
	h.Total = h.Total.within(p)
	if p.turn == nil {
		return nil
	}
	h.Budget = h.Budget.within(p, x.opts.Now())
	return nil
}

type askInput struct {
	Agent  string `json:"agent,omitzero" jsonschema:"maxLength=1024" jsonschema_description:"The agent file to ask. Default: none."`
	Model  string `json:"model,omitzero" jsonschema:"maxLength=128" jsonschema_description:"The model. Default: the default model."`
	System string `json:"system,omitzero" jsonschema_description:"The system message."`
	Text   string `json:"text" aliases:"content" jsonschema:"minLength=1" jsonschema_description:"What to ask."`

	Tools  []jsontext.Value `json:"tools,omitzero" jsonschema:"maxItems=256" jsonschema_description:"The syscalls that the model is offered, as names or patterns. Default: those of the agent, or a small set with Syscall.Search and Syscall.Call for the rest. [] is none."`
	Budget *Budget          `json:"budget,omitzero" jsonschema_description:"What the answer may use."`
}

type askOutput struct {
	Session string         `json:"session" jsonschema_description:"The session in which it was answered."`
	Status  string         `json:"status" jsonschema:"enum=done,enum=limited,enum=canceled,enum=failed" jsonschema_description:"How its turn has ended."`
	Text    string         `json:"text,omitzero" jsonschema_description:"The answer."`
	Error   jsontext.Value `json:"error,omitzero" jsonschema_description:"Why there is none."`
	Used    Usage          `json:"used" jsonschema_description:"What the turn has used."`
}

var ask = kernel.DefineCommand[askInput, askOutput](kernel.Definition{
	Type:    "Agent.Ask",
	Summary: "Ask an agent in a session of its own, and wait for its answer. Asked in a session, it shares that session's rules and budget.",
	Input: schema.Input[askInput]().Example(`{"agent":"os://agents/writer.md","text":"Write a title for my notes."}`).
		Items("tools", `{"type":"string","description":"A syscall, or a pattern: Memory.*."}`),
	Emits: approvals,
	Presentation: kernel.Presentation{
		Title: "Ask an agent",
		Words: "delegate, subagent, consult, second opinion, another model, hand over to an agent, let an expert answer, ask a specialist, " +
			"pass a question to another agent, get help from an agent, hand a task to an assistant, have an agent do it",
		Stdin: "text", Result: "{text}",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the agent file doesn't exist"},
			{Code: 503, When: "this kernel runs no sessions"},
			{Code: 508, When: "sessions ask each other too deep"},
		},
	},
	Behavior: kernel.Behavior{
		Effect:  kernel.External,
		Repeat:  kernel.Retried, // a repeated call finds the session that the first one has begun
		Runs:    kernel.Slow,
		Timeout: 24 * time.Hour,
	},
	Journaled: kernel.Journaled{Brief: brief},
})

func (x *Sessions) ask(ctx context.Context, in askInput, stream *kernel.Stream) (out askOutput, err error) {
	k, err := x.running()
	if err != nil {
		return out, err
	}
	child, err := x.askOnce(ctx, k, in)
	if err != nil {
		return out, err
	}
	f := follower{x: x, id: child.Session, until: child.Turn, quiet: true, stream: stream}
	if err := f.follow(ctx); err != nil {
		if context.Cause(ctx) != work.ErrQueueStopping {
			err = errors.Join(err, x.stop(ctx, k, child.Session))
		}
		return out, err
	}
	ended, err := x.outcome(ctx, child)
	if err != nil {
		return out, err
	}
	s, err := x.load(child.Session)
	if err != nil {
		return out, err
	}
	return askOutput{child.Session, ended.Status, ended.Text, ended.Error, s.Used}, nil
}

// askOnce begins the session of a question, or finds the one that an earlier call with the same
// idempotency key has begun.
func (x *Sessions) askOnce(ctx context.Context, k *kernel.Kernel, in askInput) (child turnOutput, err error) {
	request := kernel.RequestOf(ctx)
	at := key(keyChild, string(kernel.PrincipalOf(ctx).ID()), "\x00", request.Metadata.IdempotencyKey)
	if request.Metadata.IdempotencyKey != "" {
		e, err := x.opts.Store.Get(at)
		if err != nil {
			return child, err
		}
		if e.Revision != 0 {
			return child, json.Unmarshal(e.Value, &child)
		}
	}
	c, err := x.newSession(ctx, createInput{Agent: in.Agent, Model: in.Model, System: in.System, Tools: in.Tools, Budget: in.Budget, Title: message.Clip(in.Text, 80)})
	if err != nil {
		return child, err
	}
	child = turnOutput{Session: c.s.ID, Turn: x.ids.Next(x.opts.Now())}
	cause := request.Caused()
	if err := c.begin(child.Turn, &Message{Type: typeInput, Text: &in.Text}, request.Metadata.ID, cause.Correlation); err != nil {
		return child, err
	}
	if request.Metadata.IdempotencyKey != "" {
		c.b.IfAbsent(at)
		c.b.Set(at, jsonvalue.Marshal(child))
	}
	c.done()
	commit, err := x.opts.Store.Apply(c.b)
	if err != nil {
		return child, err
	}
	c.finish(k, kernel.SenderOf(ctx), c.s.turn, commit)
	return child, nil
}

// stop ends the open turn of a child whose parent no longer waits for it.
func (x *Sessions) stop(ctx context.Context, k *kernel.Kernel, id string) error {
	ctx = context.WithoutCancel(ctx)
	var c *change
	commit, err := k.Update(ctx, func(b *store.Batch) error {
		s, err := x.load(id)
		if err != nil {
			return err
		}
		if s.turn == nil {
			return errNothing
		}
		c = x.change(ctx, s, b)
		if err := x.abort(c, statusCanceled, errCanceled); err != nil {
			return err
		}
		c.done()
		return nil
	})
	switch err {
	case nil:
		c.ended(commit)
	case errNothing:
		err = nil
	}
	return err
}
