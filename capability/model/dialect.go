package model

import (
	"context"

	"kernos/capability/model/conversation"
	"kernos/capability/model/demo"
)

// A dialect asks a model and adds what it generates to an answer.
type dialect func(ctx context.Context, m *models, g *generation, a *conversation.Answer) error

var dialects = map[string]dialect{
	"openai-chat":        openAI,
	"anthropic-messages": anthropic,
	servedDialect:        served,
	demo.Name:            inside,
}

// inside is the dialect demo: the model inside answers.
func inside(ctx context.Context, m *models, g *generation, a *conversation.Answer) error {
	return m.demo.Generate(ctx, &demo.Request{Conversation: g.conversation, Tools: g.in.Tools, MaxTokens: g.maxTokens}, a)
}
