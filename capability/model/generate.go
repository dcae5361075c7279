package model

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
)

// defaultRetries is how often a request is repeated that has failed for a while only.
const defaultRetries = 4

// generate answers Model.Generate.
func (m *models) generate(ctx context.Context, in generateInput, stream *kernel.Stream) (generateOutput, error) {
	p, err := m.find(in.Model)
	if err != nil {
		return generateOutput{}, err
	}
	return m.generateWith(ctx, p, &in, stream)
}

// generateWith lets the model of a provider continue a conversation.
func (m *models) generateWith(ctx context.Context, p *provider, in *generateInput, stream *kernel.Stream) (generateOutput, error) {
	g, err := m.prepare(ctx, p, in)
	if err != nil {
		return generateOutput{}, err
	}
	retries := defaultRetries
	if p.Retries != nil {
		retries = *p.Retries
	}
	pauses := backoff.Backoff{First: time.Second / 2, Longest: 30 * time.Second, Jitter: true}
	for try := 0; ; try++ {
		a := &conversation.Answer{Stream: func(event []byte) { stream.EmitText(streamed, event) }, Tools: g.tools}
		err := dialects[p.Dialect](ctx, m, g, a)
		out := generateOutput{Model: p.name, Session: in.Session}
		if err == nil {
			out.Messages, err = a.Messages(p.identity())
			out.Finish, out.Usage = a.Finish, p.priced(a.Usage)
		}
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		f := failureOf(p, err)
		if try >= retries || !f.again || f.wait > maxWait {
			return out, f.err
		}
		if a.Shown {
			if err := stream.Emit(discarded, map[string]string{"reason": f.err.Message}); err != nil {
				return out, err
			}
		}
		if !f.pause(ctx, &pauses) {
			return out, ctx.Err()
		}
	}
}

// check answers Model.Check.
func (m *models) check(ctx context.Context, in checkInput, _ *kernel.Stream) (checkOutput, error) {
	p, err := m.find(in.Model)
	if err != nil {
		return checkOutput{}, err
	}
	return m.ask(ctx, p)
}

// ask asks the model of a provider for one word.
func (m *models) ask(ctx context.Context, p *provider) (checkOutput, error) {
	begun := time.Now()
	out := checkOutput{First: -1}
	reply, err := m.generateWith(ctx, p, &generateInput{
		MaxTokens: 64, Messages: []jsontext.Value{jsontext.Value(`{"type":"input","text":"Reply with the word: ready"}`)},
	}, kernel.NewStream(&message.Message{}, func(message.Message) {
		if out.First < 0 {
			out.First = time.Since(begun).Milliseconds()
		}
	}))
	if err != nil {
		return out, err
	}
	out.Model, out.Usage, out.Total = reply.Model, reply.Usage, time.Since(begun).Milliseconds()
	if out.First < 0 {
		out.First = out.Total
	}
	return out, nil
}
