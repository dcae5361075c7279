package session

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// path returns the messages from the root of a session to its leaf, or from the latest summary on,
// in order. Texts are in them.
func (x *Sessions) path(ctx context.Context, h *head) (all []Message, err error) {
	var covers uint64
	for at := h.Leaf; at > covers; {
		m, err := x.read(h, at)
		if err != nil {
			return nil, err
		}
		if err := x.grow(ctx, m); err != nil {
			return nil, err
		}
		if m.Type == typeSummary && covers == 0 {
			covers = m.Covers
		}
		all = append(all, *m)
		at = m.Parent
	}
	if covers > 0 { // the system message is never left out
		if m, err := x.read(h, 1); err == nil && m.Type == typeSystem && all[len(all)-1].Seq != 1 {
			if err := x.grow(ctx, m); err != nil {
				return nil, err
			}
			all = append(all, *m)
		}
	}
	slices.Reverse(all)
	return all, nil
}

// render makes the request for the next generation.
func (x *Sessions) render(ctx context.Context, k *kernel.Kernel, s *session, path []Message) *generation {
	g := &generation{Model: s.Model, Session: s.ID, Tools: x.offered(k, s, kernel.SenderIn(ctx))}
	g.System, g.Messages = arrange(path, func() string { return x.ids.Next(x.opts.Now()) })
	g.MaxTokens = tighter(left(s.Budget.Tokens, s.turn.Used.Tokens, 1), left(s.Total.Tokens, s.usedInAll().Tokens, 1))
	return g
}

// arrange makes of a path what a model is shown: system messages apart, a summary in the place of
// what it covers, and each group of calls followed by exactly one result for each of them (T2).
// What else was appended in between comes after the group. Each message has an id of its own: the results of a group have
// that of the first message that brought one of them, or a new one.
func arrange(path []Message, newID func() string) (system string, shown []Message) {
	type brought struct {
		Result
		by *Message
	}
	var texts []string
	results, taken := make(map[string]brought), make(map[string]bool)
	for i := range path {
		for _, r := range path[i].Results {
			if _, known := results[r.CallID]; !known && r.CallID != "" {
				results[r.CallID] = brought{r, &path[i]}
			}
		}
	}
	summary := -1
	for i, m := range path {
		if m.Type == typeSummary {
			summary = i
		}
	}
	if summary >= 0 {
		text := "Summary of the conversation so far:\n" + *path[summary].Text
		shown = append(shown, Message{ID: path[summary].ID, Timestamp: path[summary].Timestamp, Type: typeInput, Text: &text})
	}
	for _, m := range path {
		m.Seq, m.Parent, m.Turn = 0, 0, ""
		switch m.Type {
		case typeSystem:
			texts = append(texts, *m.Text)
		case typeInput, typeReply, typeThought:
			if m.Partial && m.Type == typeThought {
				continue // no model takes back a thought without its signature
			}
			shown = append(shown, m)
		case typeCalls:
			shown = append(shown, m)
			group := Message{Timestamp: m.Timestamp, Type: typeResults}
			for _, c := range m.Calls {
				r := failed(message.Errorf(499, "The call has no result: the conversation went on without it"))
				if came, ok := results[c.ID]; ok {
					if r = came.Result; group.ID == "" && !taken[came.by.ID] {
						group.ID, group.Timestamp = came.by.ID, came.by.Timestamp
					}
				}
				r.CallID, r.Name = c.ID, c.Name
				group.Results = append(group.Results, r)
			}
			if group.ID == "" {
				group.ID = newID()
			}
			taken[group.ID] = true
			shown = append(shown, group)
		}
	}
	return strings.Join(texts, "\n\n"), shown
}

type forkInput struct {
	sessionInput
	At uint64 `json:"at,omitzero" jsonschema_description:"The seq of the message after which the fork goes its own way. Default: the last one."`
}

var fork = kernel.DefineCommand[forkInput, createOutput](kernel.Definition{
	Type:    "Session.Fork",
	Summary: "Begin a session with the messages of another one up to a message. Nothing is copied, and neither changes the other. A fork of another caller's session acts with your rights, without its rules that allow.",
	Presentation: kernel.Presentation{
		Title: "Fork a session",
		Words: "branch, copy a conversation, try another direction in a chat, split a conversation, duplicate a chat, clone a session, " +
			"continue an earlier point in a new chat",
		Result:    "Began the session {session}",
		Arguments: []string{"session", "at"}, Errors: []kernel.ErrorDefinition{notFoundError, {Code: 422, When: "the session has no such message"}, {Code: 503, When: "this kernel runs no sessions"}},
	},
	Behavior: kernel.Behavior{Volatile: []string{"session"}},
})

func (x *Sessions) fork(ctx context.Context, in forkInput) (out createOutput, err error) {
	if _, err := x.running(); err != nil {
		return out, err
	}
	origin, err := x.visible(ctx, in.Session)
	if err != nil {
		return out, err
	}
	at := cmp.Or(in.At, origin.Leaf)
	m := new(Message)
	if at > 0 {
		if m, err = x.read(&origin.head, at); err != nil {
			return out, invalid("at", "the session has no message %d", at)
		}
	}
	from := kernel.SenderOf(ctx)
	now := x.opts.Now()
	policy := origin.Policy
	if from.Principal().ID() != origin.Principal {
		policy = withoutAllowing(policy)
	}
	h := head{
		ID: x.ids.Next(now), Title: origin.Title, Model: origin.Model, Agent: origin.Agent, Tools: origin.Tools, Policy: policy, Budget: origin.Budget, Total: origin.Total, Compact: origin.Compact,
		Principal: from.Principal().ID(), Token: from.Principal().Name(), Wire: from.Wire(), Created: now.UnixMilli(),
		Seq: at, Leaf: at, LastID: m.ID, Parent: origin.Parent, Fork: &forkedAt{origin.ID, at},
	}
	if err := x.adopt(&h, from); err != nil {
		return out, err
	}
	var b store.Batch
	b.Set(key(keyFork, origin.ID, h.ID), nil)
	b.IfRevision(key(keyHead, origin.ID), origin.revision) // fails if the session was changed or deleted meanwhile
	return createOutput{h.ID}, x.change(ctx, &session{head: h}, &b).stage()
}

type rewindInput struct {
	sessionInput
	To uint64 `json:"to" jsonschema_description:"The seq of the message that the next one follows; 0 is before the first."`
}

type rewindOutput struct {
	Session  string   `json:"session" jsonschema_description:"The session."`
	Leaf     uint64   `json:"leaf" jsonschema_description:"The message that the next one follows."`
	Commands []undone `json:"commands" jsonschema_description:"The commands that were run since, and that aren't undone."`
}

type undone struct {
	Seq  uint64         `json:"seq" jsonschema_description:"The message with the call."`
	Call string         `json:"call" jsonschema_description:"The call."`
	Name string         `json:"name" jsonschema_description:"The syscall."`
	Args jsontext.Value `json:"args,omitzero" jsonschema_description:"Its arguments."`
}

var rewind = kernel.DefineCommand[rewindInput, rewindOutput](kernel.Definition{
	Type:    "Session.Rewind",
	Summary: "Go back to an earlier message: the next one follows it. Nothing is deleted, and no command is undone; the reply lists them.",
	Presentation: kernel.Presentation{
		Title: "Go back in a session",
		Words: "undo, back, earlier message, remove the last messages, take back my last message, undo the last turn, delete the last answer, " +
			"go back a few messages, say it differently, edit an earlier message",
		Arguments: []string{"session", "to"}, Errors: []kernel.ErrorDefinition{notFoundError, {Code: 409, When: "a turn is open"}, {Code: 422, When: "the session has no such message"}},
	},
	Journaled: kernel.Journaled{Brief: brief},
})

func (x *Sessions) rewind(ctx context.Context, in rewindInput) (out rewindOutput, err error) {
	s, err := x.idle(ctx, in.Session)
	if err != nil {
		return out, err
	}
	out = rewindOutput{Session: s.ID, Leaf: in.To, Commands: []undone{}}
	if in.To > 0 {
		if _, err := x.read(&s.head, in.To); err != nil {
			return out, invalid("to", "the session has no message %d", in.To)
		}
	}
	k, _ := kernel.Of(ctx)
	denied := make(map[string]bool)
	for at := s.Leaf; at > in.To; { // decisions come before the calls that they are about
		m, err := x.read(&s.head, at)
		if err != nil {
			return out, err
		}
		if m.Approval != nil && m.Decision == deny {
			denied[m.CallID] = true
		}
		for _, c := range m.Calls {
			call := callOf(k, &c)
			final, _ := call.final()
			if known, ok := k.Registry().Lookup(final); !denied[c.ID] && (!ok || known.Kind == message.KindCommand) {
				out.Commands = append(out.Commands, undone{m.Seq, c.ID, c.Name, c.Args})
			}
		}
		at = m.Parent
	}
	slices.Reverse(out.Commands)
	var b store.Batch
	s.Leaf = in.To
	return out, x.change(ctx, s, &b).stage()
}

// idle returns a session of the caller without an open turn.
func (x *Sessions) idle(ctx context.Context, id string) (*session, error) {
	s, err := x.writable(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.turn != nil {
		return nil, message.Errorf(409, "The turn %s of the session is open; wait until it has ended, or use Session.Cancel", s.turn.ID)
	}
	return s, nil
}
