package model

import (
	"cmp"
	"context"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/capability/model/conversation"
	"kernos/message"
)

// A generation is one request, as a dialect needs it.
type generation struct {
	*provider
	in           *generateInput
	conversation *conversation.Conversation
	tools        conversation.Names
	maxTokens    int
}

// prepare makes a generation of a request.
func (m *models) prepare(ctx context.Context, p *provider, in *generateInput) (*generation, error) {
	for _, ref := range []struct {
		pointer *message.BlobPointer
		into    any
		name    string
	}{{in.MessagesRef, &in.Messages, "messagesRef"}, {in.ToolsRef, &in.Tools, "toolsRef"}} {
		if ref.pointer == nil {
			continue
		}
		text, err := m.resolve(ctx, *ref.pointer)
		if err != nil {
			return nil, err
		}
		if err := jsonv2.Unmarshal(text, ref.into); err != nil {
			return nil, message.Invalid(ref.name, "%s: what it points to isn't a list of what belongs there", ref.name)
		}
	}
	in.MessagesRef, in.ToolsRef = nil, nil
	g := &generation{provider: p, in: in, tools: make(conversation.Names, len(in.Tools)), maxTokens: in.MaxTokens}
	g.maxTokens = cmp.Or(g.maxTokens, p.MaxTokens)
	for _, t := range in.Tools {
		g.tools[conversation.ToolName(t.Name)] = t.Name
	}
	if p.Dialect == servedDialect {
		return g, nil // a program gets the messages as they are
	}
	var err error
	g.conversation, err = conversation.Of(ctx, in.System, in.Messages, p.identity(), m.resolve)
	return g, err
}

// resolve returns what a pointer in a message points to.
func (m *models) resolve(ctx context.Context, p message.BlobPointer) ([]byte, error) {
	if m.Resolve != nil {
		return m.Resolve(ctx, p)
	}
	_, data, err := p.Inline()
	return data, err
}
