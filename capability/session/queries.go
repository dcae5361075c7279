package session

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/cursor"
)

// Info is a session as callers see it.
type Info struct {
	Session string    `json:"session" jsonschema_description:"The session."`
	Title   string    `json:"title,omitzero" jsonschema_description:"Its title."`
	Agent   *agentPin `json:"agent,omitzero" jsonschema_description:"Its agent, as it was when the session was created."`
	Model   string    `json:"model,omitzero" jsonschema_description:"Its model; none means the default model."`
	Tools   []tool    `json:"tools" jsonschema_description:"Its tools."`
	Policy  []rule    `json:"policy,omitzero" jsonschema_description:"Its rules."`
	Allowed []string  `json:"allowed,omitzero" jsonschema_description:"Syscalls that Session.Decide has allowed for the session."`
	Budget  Budget    `json:"budget" jsonschema_description:"What a turn may use."`
	Total   *Total    `json:"total,omitzero" jsonschema_description:"What all of its turns may use together; used is what they have used. None means any number."`
	Compact string    `json:"compact,omitzero" jsonschema:"enum=auto,enum=never" jsonschema_description:"Whether earlier messages are summarized by themselves; none means auto."`
	Used    Usage     `json:"used" jsonschema_description:"What its turns have used, the open one included."`
	Turns   int       `json:"turns" jsonschema_description:"How many turns have ended."`
	Created int64     `json:"created" jsonschema_description:"When it was created, in milliseconds since 1970."`
	Updated int64     `json:"updated" jsonschema_description:"When it changed last."`
	Seq     uint64    `json:"seq" jsonschema_description:"Its last message."`
	Leaf    uint64    `json:"leaf" jsonschema_description:"The message that the next one follows."`
	Parent  string    `json:"parent,omitzero" jsonschema_description:"The session that has asked this one."`
	Fork    *forkedAt `json:"fork,omitzero" jsonschema_description:"The session whose messages up to a seq are the first of this one."`
	Turn    string    `json:"turn,omitzero" jsonschema_description:"The open turn."`
	Status  string    `json:"status" jsonschema:"enum=idle,enum=running,enum=waiting" jsonschema_description:"Whether a turn runs, or waits for Session.Decide, a result or Session.Continue."`
	Pending []string  `json:"pending,omitzero" jsonschema_description:"Calls that wait for a decision or for a result."`
	Queued  int       `json:"queued,omitzero" jsonschema_description:"Inputs that wait for their turn."`
	Last    *ending   `json:"last,omitzero" jsonschema_description:"How the last turn has ended."`
}

func (x *Sessions) info(s *session) (i Info, err error) {
	i = Info{
		Session: s.ID, Title: s.Title, Agent: s.Agent, Model: s.Model, Tools: s.Tools, Policy: s.Policy, Allowed: s.Allowed,
		Budget: s.Budget, Compact: s.Compact, Used: s.Used, Turns: max(s.Turns, len(s.Ended)), Created: s.Created, Updated: s.Updated, Seq: s.Seq, Leaf: s.Leaf, Fork: s.Fork, Status: "idle",
	}
	if s.Total != (Total{}) {
		i.Total = &s.Total
	}
	if s.Parent != nil {
		i.Parent = s.Parent.Session
	}
	if n := len(s.Ended); n > 0 {
		i.Last = &s.Ended[n-1]
	}
	if s.turn == nil {
		return i, nil
	}
	i.Used.add(s.turn.Used)
	i.Turn, i.Status = s.turn.ID, statusRunning
	if s.turn.Waiting {
		i.Status = statusWaiting
	}
	for _, c := range s.turn.Calls {
		if c.State == callAsked || c.State == callElsewhere {
			i.Pending = append(i.Pending, c.ID)
		}
	}
	for _, err := range x.opts.Store.Scan(store.Prefix(key(keyQueued, s.ID))) {
		if err != nil {
			return i, err
		}
		i.Queued++
	}
	return i, nil
}

var get = kernel.DefineQuery[sessionInput, Info](kernel.Definition{
	Type:    "Session.Get",
	Summary: "Describe a session: its settings, its open turn, and what waits for a decision.",
	Presentation: kernel.Presentation{
		Title: "Show a session",
		Words: "settings of a conversation, which model does this chat use, status of a conversation, is the assistant still answering, " +
			"what does the chat wait for, how much did the chat cost, tokens used by a conversation, rules of a session",
		Errors: []kernel.ErrorDefinition{notFoundError},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (x *Sessions) get(ctx context.Context, in sessionInput) (Info, error) {
	s, err := x.visible(ctx, in.Session)
	if err != nil {
		return Info{}, err
	}
	return x.info(s)
}

type listInput struct {
	Status string `json:"status,omitzero" jsonschema:"enum=idle,enum=running,enum=waiting" jsonschema_description:"Only sessions with this status. Default: all."`
	Limit  int    `json:"limit,omitzero" jsonschema:"minimum=1,maximum=1000,default=50" jsonschema_description:"How many sessions to list at most."`
	Cursor string `json:"cursor,omitzero" jsonschema:"maxLength=256" jsonschema_description:"Continue an earlier list: its cursor."`
}

type listed struct {
	Session string `json:"session" jsonschema_description:"The session."`
	Title   string `json:"title,omitzero" jsonschema_description:"Its title."`
	Model   string `json:"model,omitzero" jsonschema_description:"Its model; none means the default model."`
	Status  string `json:"status" jsonschema:"enum=idle,enum=running,enum=waiting" jsonschema_description:"Whether a turn runs or waits."`
	Turns   int    `json:"turns" jsonschema_description:"How many turns have ended."`
	Created int64  `json:"created" jsonschema_description:"When it was created, in milliseconds since 1970."`
	Updated int64  `json:"updated" jsonschema_description:"When it changed last."`
	Seq     uint64 `json:"seq" jsonschema_description:"Its last message."`
	Parent  string `json:"parent,omitzero" jsonschema_description:"The session that has asked this one."`
	Asks    []asks `json:"asks,omitzero" jsonschema_description:"Its calls that wait for Session.Decide."`
}

type asks struct {
	Call string       `json:"call" jsonschema_description:"The call."`
	Name message.Type `json:"name" jsonschema_description:"The syscall that it calls."`
}

// asking returns the calls of the open turn that wait for a decision.
func (s *session) asking() (all []asks) {
	if s.turn == nil {
		return nil
	}
	for _, c := range s.turn.Calls {
		if c.State == callAsked {
			name, _ := c.final()
			all = append(all, asks{c.ID, name})
		}
	}
	return all
}

type listOutput struct {
	Sessions []listed `json:"sessions" jsonschema_description:"The sessions that the caller sees, the latest first."`
	Cursor   string   `json:"cursor,omitzero" jsonschema_description:"Pass it to continue the list. Absent at its end."`
	kernel.Narrowed
}

var list = kernel.DefineQuery[listInput, listOutput](kernel.Definition{
	Type:    "Session.List",
	Summary: "List sessions, the latest first.",
	Presentation: kernel.Presentation{
		Title: "List sessions",
		Words: "chats, conversations, ls, which chats do i have, my conversations, recent chats, which chats are open, show all conversations, old chats",
		Columns: []string{
			"ID {session:id}", "STATUS {status:state}", "AGE {updated:age}", "TURNS {turns}", "MODEL {model} | default",
			"TITLE {title}",
		},
		Errors: []kernel.ErrorDefinition{{Code: 422, When: "the cursor is invalid"}},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

// maxLooked bounds how many sessions one list looks at.
const maxLooked = 10_000

func (x *Sessions) list(ctx context.Context, in listInput) (listOutput, error) {
	out := listOutput{Sessions: []listed{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAll)}
	page := cursor.Page{Listing: 'S', Prefix: key(keyHead), Longest: 26, Cursor: in.Cursor, Limit: cmp.Or(in.Limit, 50), Looked: maxLooked}
	p := kernel.PrincipalOf(ctx)
	var err error
	out.Cursor, err = page.Each(ctx, x.opts.Store, func(id string) (bool, error) {
		s, err := x.load(id)
		if err != nil || !p.Sees(s.Principal) {
			return false, nil
		}
		i, err := x.info(s)
		if err != nil || in.Status != "" && in.Status != i.Status {
			return false, err
		}
		out.Sessions = append(out.Sessions, listed{s.ID, s.Title, s.Model, i.Status, i.Turns, s.Created, s.Updated, s.Seq, i.Parent, s.asking()})
		return true, nil
	})
	return out, err
}

type messagesInput struct {
	sessionInput
	After uint64 `json:"after,omitzero" jsonschema_description:"Begin after the message with this seq. Default: with the first."`
	Limit int    `json:"limit,omitzero" jsonschema:"minimum=1,maximum=1000,default=100" jsonschema_description:"How many messages to return at most; fewer if they would not fit into a line."`
}

type messagesOutput struct {
	Messages []jsontext.Value `json:"messages" jsonschema_description:"The messages in the order of their seq."`
	More     bool             `json:"more,omitzero" jsonschema_description:"True if there are more; the last seq as after continues."`
}

var messages = kernel.DefineQuery[messagesInput, messagesOutput](kernel.Definition{
	Type:    "Session.Messages",
	Summary: "Return the messages of a session in order.",
	Presentation: kernel.Presentation{
		Title: "Read the messages of a session",
		Words: "transcript, what was said, read a conversation, chat history, what did the assistant say, show the chat, read the chat, " +
			"what did we talk about, last messages of a chat, what did i ask, look at a conversation",
		Errors: []kernel.ErrorDefinition{notFoundError},
	},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Recording: kernel.InWorkflows},
})

func (x *Sessions) messages(ctx context.Context, in messagesInput) (messagesOutput, error) {
	out := messagesOutput{Messages: []jsontext.Value{}}
	s, err := x.visible(ctx, in.Session)
	if err != nil {
		return out, err
	}
	bytes := 0
	err = x.each(&s.head, in.After, func(seq uint64, text []byte) bool {
		if bytes += len(text) + 1; len(out.Messages) > 0 && bytes > maxMessage || len(out.Messages) == cmp.Or(in.Limit, 100) {
			out.More = true
			return false
		}
		out.Messages = append(out.Messages, append(jsontext.Value(nil), text...))
		return true
	})
	return out, err
}

var export = kernel.DefineQuery[sessionInput, exportOutput](kernel.Definition{
	Type:    "Session.Export",
	Summary: "Return a session whole: what it is, and all its messages.",
	Presentation: kernel.Presentation{
		Title: "Export a session",
		Words: "save a conversation, transcript, download a chat, download a conversation, save a chat as a file, keep a copy of a chat, " +
			"whole chat as json, archive a conversation",
		Errors: []kernel.ErrorDefinition{notFoundError},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow},
	Journaled: kernel.Journaled{Answers: kernel.FromStore, Recording: kernel.InWorkflows, Brief: brief},
})

type exportOutput struct {
	Info     Info             `json:"info" jsonschema_description:"What the session is."`
	Messages []jsontext.Value `json:"messages" jsonschema_description:"All its messages in the order of their seq; parent names the one that each follows."`
}

func (x *Sessions) export(ctx context.Context, in sessionInput) (out exportOutput, err error) {
	s, err := x.visible(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if out.Info, err = x.info(s); err != nil {
		return out, err
	}
	out.Messages = []jsontext.Value{}
	return out, x.each(&s.head, 0, func(_ uint64, text []byte) bool {
		out.Messages = append(out.Messages, append(jsontext.Value(nil), text...))
		return ctx.Err() == nil
	})
}
