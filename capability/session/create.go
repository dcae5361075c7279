package session

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/schema"
	"kernos/store"
)

type createInput struct {
	Agent   string           `json:"agent,omitzero" jsonschema:"maxLength=1024" jsonschema_description:"An agent file, such as os://agents/writer.md: its text is the system message, its tools are the session's."`
	Model   string           `json:"model,omitzero" jsonschema:"maxLength=128" jsonschema_description:"The model, as Model.List names it. Default: the default model."`
	System  string           `json:"system,omitzero" jsonschema_description:"The system message. With agent, it comes after the agent's text."`
	Tools   []jsontext.Value `json:"tools,omitzero" jsonschema:"maxItems=256" jsonschema_description:"The syscalls that the model is offered, as names or patterns, and tools that run elsewhere, with a description and an inputSchema. Default: those of the agent, or a small set with Syscall.Search and Syscall.Call for the rest. [] is none."`
	Policy  []rule           `json:"policy,omitzero" jsonschema:"maxItems=256" jsonschema_description:"Rules about calls; the first that matches decides. After them: queries are allowed, and effects outside of the kernel ask."`
	Budget  *Budget          `json:"budget,omitzero" jsonschema_description:"What a turn may use."`
	Total   *Total           `json:"total,omitzero" jsonschema_description:"What all turns of the session may use together. Session.Continue raises it."`
	Title   string           `json:"title,omitzero" jsonschema:"maxLength=256" jsonschema_description:"A title, for lists."`
	Compact string           `json:"compact,omitzero" jsonschema:"enum=auto,enum=never,default=auto" jsonschema_description:"auto: when the conversation gets longer than the model takes, the model summarizes its earlier messages. never: the turn ends, and Session.Compact does it."`
}

type createOutput struct {
	Session string `json:"session" jsonschema_description:"The session. Session.Send takes it."`
}

var create = kernel.DefineCommand[createInput, createOutput](kernel.Definition{
	Type:    "Session.Create",
	Summary: "Begin a session: a conversation with a model that can call syscalls. It acts with the rights of the caller.",
	Input: schema.Input[createInput]().Example(`{"system":"You are a careful assistant.","title":"Notes"}`).
		Items("tools", `{"anyOf":[{"type":"string","description":"A syscall, or a pattern: Memory.*."},{"type":"object","description":"A tool that runs elsewhere.",`+
			`"properties":{"name":{"type":"string","description":"What the model calls the tool."},"description":{"type":"string","description":"What the tool does, for the model."},"inputSchema":{"type":"object","description":"The JSON Schema of its arguments."}},"required":["name"]}]}`),
	Emits: events[:1],
	Presentation: kernel.Presentation{
		Title: "Begin a session",
		Words: "chat, conversation, new session, talk, assistant, new chat, open a chat, start talking, start a conversation, begin a chat, new assistant, " +
			"start over with a fresh chat, chat with a bot, create a session",
		Result: "Began the session {session}",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the agent file doesn't exist, or the model isn't configured"},
			{Code: 422, When: "a rule or a tool is invalid"},
			{Code: 503, When: "this kernel runs no sessions"},
		},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow, Volatile: []string{"session"}},
	Journaled: kernel.Journaled{Brief: brief},
})

func (x *Sessions) create(ctx context.Context, in createInput) (out createOutput, err error) {
	if _, err := x.running(); err != nil {
		return out, err
	}
	c, err := x.newSession(ctx, in)
	if err != nil {
		return out, err
	}
	return createOutput{c.s.ID}, c.stage()
}

// newSession checks what a session is created with, and returns the change that creates it, with its system message.
func (x *Sessions) newSession(ctx context.Context, in createInput) (*change, error) {
	from := kernel.SenderOf(ctx)
	now := x.opts.Now()
	if err := x.checkModel(in.Model); err != nil {
		return nil, err
	}
	tools, err := x.readTools(ctx, in.Tools)
	if err != nil {
		return nil, err
	}
	h := head{
		ID: x.ids.Next(now), Title: in.Title, Model: in.Model, Tools: tools, Policy: in.Policy, Compact: in.Compact,
		Principal: from.Principal().ID(), Token: from.Principal().Name(), Wire: from.Wire(), Created: now.UnixMilli(),
	}
	if in.Budget != nil {
		h.Budget = *in.Budget
	}
	if in.Total != nil {
		h.Total = *in.Total
	}
	for i, r := range in.Policy {
		if err := checkPattern(ctx, fmt.Sprintf("policy/%d/match", i), r.Match); err != nil {
			return nil, err
		}
		if len(r.When) > 0 {
			if _, err := x.parsed(r.When); err != nil {
				return nil, invalid(fmt.Sprintf("policy/%d/when", i), "%v", err)
			}
		}
	}
	if err := x.adopt(&h, from); err != nil {
		return nil, err
	}
	if in.Agent != "" {
		text, err := x.hire(ctx, &h, in.Agent)
		if err != nil {
			return nil, err
		}
		if in.System != "" {
			text += "\n\n" + in.System
		}
		in.System = text
	}
	if h.Tools == nil {
		h.Tools = defaultTools
	}
	c := x.change(ctx, &session{head: h}, new(store.Batch))
	if in.System != "" {
		if _, err := c.append(Message{Type: typeSystem, Text: &in.System}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkModel returns the error for a model that isn't configured. "" is the default model, whichever
// that will be.
func (x *Sessions) checkModel(name string) error {
	if name == "" || x.opts.ContextTokens == nil {
		return nil
	}
	_, err := x.opts.ContextTokens(name)
	return err
}
