package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/backoff"
	"kernos/internal/jsonscan"
	"kernos/kernel"
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

// defaultRetries is how often a request is repeated that has failed for a while only.
const defaultRetries = 4

// generate answers Model.Generate.
func (m *models) generate(ctx context.Context, in generateInput, stream *kernel.Stream) (generateOutput, error) {
	p, err := m.find(in.Model)
	if err != nil {
		return generateOutput{}, err
	}
	g, err := m.prepare(ctx, p, &in)
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

type checkInput struct {
	Model string `json:"model,omitempty" jsonschema_description:"The name of a model that Model.List lists. Default: the model named default, or the only one, or demo, the small model inside that is for trying things out."`
}

type checkOutput struct {
	Model string             `json:"model" jsonschema_description:"The name of the model that answered."`
	First int64              `json:"first" jsonschema_description:"After how many milliseconds the first piece of its answer came."`
	Total int64              `json:"total" jsonschema_description:"After how many milliseconds it was complete."`
	Usage conversation.Usage `json:"usage" jsonschema_description:"What it took."`
}

// check answers Model.Check.
func (m *models) check(ctx context.Context, in checkInput, _ *kernel.Stream) (checkOutput, error) {
	begun := time.Now()
	out := checkOutput{First: -1}
	reply, err := m.generate(ctx, generateInput{
		Model: in.Model, MaxTokens: 64, Messages: []jsontext.Value{jsontext.Value(`{"type":"input","text":"Reply with the word: ready"}`)},
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

// brief returns what is recorded of a generation for a session, which has the messages: recording the
// whole conversation at each step would grow with its square.
func brief(data json.RawMessage) json.RawMessage {
	if jsonscan.Member(data, "session") == nil {
		return data
	}
	return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
		switch name {
		case "messages", "tools", "system", "messagesRef", "toolsRef":
		default:
			return ""
		}
		hash := sha256.Sum256(jsonscan.AppendCanonical(nil, value))
		token := `{"sha256":"` + hex.EncodeToString(hash[:]) + `"`
		if value[0] == '[' {
			n, last := 0, []byte(nil)
			jsonscan.Elements(value, 0, func(one []byte) bool {
				n, last = n+1, jsonscan.Member(one, "id")
				return true
			})
			token += `,"count":` + strconv.Itoa(n)
			if last != nil {
				token += `,"last":` + string(last)
			}
		}
		return token + "}"
	})
}
