package model

import (
	"cmp"
	"context"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/schema"
)

// anthropic is the dialect anthropic-messages.
func anthropic(ctx context.Context, m *models, g *generation, a *conversation.Answer) error {
	body, err := g.anthropicRequest()
	if err != nil {
		return err
	}
	path := "v1/messages"
	if strings.HasSuffix(strings.TrimRight(g.url.Path, "/"), "/v1") {
		path = "messages"
	}
	r := anthropicReader{answer: a}
	return m.post(ctx, g, a, path, body, func(h nethttp.Header, key string) {
		h.Set("Anthropic-Version", "2023-06-01")
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	}, r.take)
}

type anthropicBody struct {
	Model         string             `json:"model"`
	MaxTokens     int                `json:"max_tokens"`
	System        []anthropicBlock   `json:"system,omitzero"`
	Messages      []anthropicMessage `json:"messages"`
	Tools         []anthropicTool    `json:"tools,omitzero"`
	Temperature   *float64           `json:"temperature,omitzero"`
	StopSequences []string           `json:"stop_sequences,omitzero"`
	Stream        bool               `json:"stream"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type      string           `json:"type"`
	Text      string           `json:"text,omitzero"`
	Thinking  *string          `json:"thinking,omitzero"`
	Signature string           `json:"signature,omitzero"`
	Data      string           `json:"data,omitzero"`
	ID        string           `json:"id,omitzero"`
	Name      string           `json:"name,omitzero"`
	Input     jsontext.Value   `json:"input,omitzero"`
	ToolUseID string           `json:"tool_use_id,omitzero"`
	Content   string           `json:"content,omitzero"`
	IsError   bool             `json:"is_error,omitzero"`
	Title     string           `json:"title,omitzero"`
	Source    *anthropicSource `json:"source,omitzero"`
	Cache     *anthropicCache  `json:"cache_control,omitzero"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type anthropicCache struct {
	Type string `json:"type"`
}

type anthropicTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
}

// defaultMaxTokens is the limit of an answer where neither the request nor the settings have one:
// requests of this dialect must set a limit.
const defaultMaxTokens = 8192

// anthropicRequest returns the body of a request.
func (g *generation) anthropicRequest() ([]byte, error) {
	b := anthropicBody{Model: g.Model, MaxTokens: g.maxTokens, StopSequences: g.in.Stop, Stream: true}
	b.MaxTokens = cmp.Or(b.MaxTokens, defaultMaxTokens)
	if t := g.in.Temperature; t != nil {
		most := min(*t, 1)
		b.Temperature = &most
	}
	var cache *anthropicCache
	if !g.has("no-cache-control") {
		cache = &anthropicCache{"ephemeral"}
	}
	if g.conversation.System != "" { // the tools stand before it, and are in the cache with it
		b.System = []anthropicBlock{{Type: "text", Text: g.conversation.System, Cache: cache}}
	}
	for _, t := range g.in.Tools {
		b.Tools = append(b.Tools, anthropicTool{conversation.ToolName(t.Name), t.Description, jsontext.Value(schema.OfTool([]byte(t.InputSchema)))})
	}
	for _, t := range g.conversation.Turns {
		m := anthropicMessage{Role: "assistant"}
		if t.User {
			m.Role = "user"
		}
		for i := range t.Blocks {
			if k := &t.Blocks[i]; k.Reasoning == nil || k.Reasoning.Opaque.Signature+k.Reasoning.Opaque.Redacted != "" { // reasoning without a signature was cut off
				m.Content = append(m.Content, g.anthropicBlock(k))
			}
		}
		b.Messages = append(b.Messages, m)
	}
	last := b.Messages[len(b.Messages)-1].Content
	last[len(last)-1].Cache = cache
	body, err := json.Marshal(b, json.Deterministic(true))
	body = g.withExtra(body)
	if n := len(b.Messages); n > 1 && !mayThink(b.Messages[n-2].Content) {
		body = jsonvalue.Members(body).Without("thinking").Text()
	}
	return body, err
}

// mayThink reports whether a model may think after what it has said last: not if it has called
// something without having thought before, since another model has.
func mayThink(blocks []anthropicBlock) bool {
	calls := slices.ContainsFunc(blocks, func(k anthropicBlock) bool { return k.Type == "tool_use" })
	return !calls || strings.HasSuffix(blocks[0].Type, "thinking")
}

func (g *generation) anthropicBlock(k *conversation.Block) anthropicBlock {
	switch {
	case k.Result != nil:
		return anthropicBlock{Type: "tool_result", ToolUseID: k.Result.ID, Content: k.Result.Text, IsError: k.Result.IsError}
	case k.Call != nil:
		return anthropicBlock{Type: "tool_use", ID: k.Call.ID, Name: conversation.ToolName(k.Call.Name), Input: k.Call.Arguments()}
	case k.Reasoning != nil && k.Reasoning.Opaque.Redacted != "":
		return anthropicBlock{Type: "redacted_thinking", Data: k.Reasoning.Opaque.Redacted}
	case k.Reasoning != nil:
		return anthropicBlock{Type: "thinking", Thinking: &k.Reasoning.Summary, Signature: k.Reasoning.Opaque.Signature}
	case k.File != nil:
		kind, title := "image", ""
		if k.File.MimeType == "application/pdf" {
			kind, title = "document", k.File.Filename
		}
		return anthropicBlock{Type: kind, Title: title, Source: &anthropicSource{"base64", k.File.MimeType, k.File.Data}}
	}
	return anthropicBlock{Type: "text", Text: k.Text}
}

// An anthropicReader adds the events of a stream to an answer.
type anthropicReader struct {
	answer *conversation.Answer
	kind   string // the kind of the block that is streamed
}

func (r *anthropicReader) take(data []byte) (done bool, err error) {
	if data == nil || data[0] != '{' {
		return false, &failure{again: true, err: unreadable("an event isn't an object")}
	}
	var kind, index, inner []byte
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		switch string(name) {
		case `"type"`:
			kind = value
		case `"index"`:
			index = value
		case `"delta"`, `"content_block"`, `"message"`:
			inner = value
		case `"usage"`:
			r.usage(value)
		}
		return true
	})
	if inner == nil || inner[0] != '{' {
		inner = []byte(`{}`)
	}
	switch string(kind) {
	case `"message_start"`:
		if u := jsonscan.Member(inner, "usage"); u != nil {
			r.usage(u)
		}
	case `"content_block_start"`:
		err = r.begin(index, inner)
	case `"content_block_delta"`:
		err = r.delta(index, inner)
	case `"message_delta"`:
		if reason := jsonscan.Unquote(jsonscan.Member(inner, "stop_reason")); reason != "" {
			r.answer.Finish = anthropicFinish(reason)
		}
	case `"message_stop"`:
		r.answer.Finish = cmp.Or(r.answer.Finish, conversation.FinishStop)
		return true, nil
	case `"message"`: // the answer isn't streamed
		return true, r.unstreamed(data)
	case `"error"`:
		words, what := errorText(data)
		err = streamFailure(words, what)
	}
	return false, err
}

func anthropicFinish(reason string) conversation.Finish {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return conversation.FinishLength
	case "refusal":
		return conversation.FinishRefused
	case "tool_use":
		return conversation.FinishCalls
	}
	return conversation.FinishStop
}

// begin takes the beginning of a block, which may have all of it.
func (r *anthropicReader) begin(index, block []byte) (err error) {
	switch r.kind = jsonscan.Unquote(jsonscan.Member(block, "type")); r.kind {
	case "text":
		err = r.answer.Say(conversation.PartReply, jsonscan.Member(block, "text"))
	case "thinking":
		r.answer.Begin(conversation.PartReasoning)
		if err = r.answer.Say(conversation.PartReasoning, jsonscan.Member(block, "thinking")); err == nil {
			r.sign(jsonscan.Member(block, "signature"))
		}
	case "redacted_thinking":
		p := r.answer.Begin(conversation.PartReasoning)
		p.Redacted = []byte(jsonscan.Unquote(jsonscan.Member(block, "data")))
	case "tool_use":
		key, _ := strconv.Atoi(string(index))
		c := r.answer.Want(key, jsonscan.Unquote(jsonscan.Member(block, "id")), jsonscan.Unquote(jsonscan.Member(block, "name")))
		args := []byte(`""`)
		if input := jsonscan.Member(block, "input"); len(input) > 2 && input[0] == '{' {
			args = jsonscan.AppendQuoted(nil, string(input))
		}
		err = r.answer.Grow(c, args)
	}
	return err
}

func (r *anthropicReader) sign(token []byte) {
	if text := jsonscan.Unquote(token); text != "" {
		p := r.answer.Last(conversation.PartReasoning)
		p.Signature = append(p.Signature, text...)
	}
}

func (r *anthropicReader) delta(index, delta []byte) error {
	var kind, value []byte
	jsonscan.Members(delta, 0, func(name, v []byte) bool {
		switch string(name) {
		case `"type"`:
			kind = v
		case `"text"`, `"thinking"`, `"signature"`, `"partial_json"`:
			value = v
		}
		return true
	})
	switch string(kind) {
	case `"text_delta"`:
		return r.answer.Say(conversation.PartReply, value)
	case `"thinking_delta"`:
		return r.answer.Say(conversation.PartReasoning, value)
	case `"signature_delta"`:
		r.sign(value)
	case `"input_json_delta"`:
		if r.kind != "tool_use" || len(value) < 2 || value[0] != '"' {
			return nil // the input of a tool that the provider runs itself
		}
		key, _ := strconv.Atoi(string(index))
		for i := len(r.answer.Calls) - 1; i >= 0; i-- {
			if c := &r.answer.Calls[i]; c.Key == key || i == 0 {
				return r.answer.Grow(c, value)
			}
		}
	}
	return nil
}

// unstreamed takes an answer that isn't streamed.
func (r *anthropicReader) unstreamed(data []byte) (err error) {
	if content := jsonscan.Member(data, "content"); content != nil && content[0] == '[' {
		n := 0
		jsonscan.Elements(content, 0, func(block []byte) bool {
			err = r.begin(strconv.AppendInt(nil, int64(n), 10), block)
			n++
			return err == nil
		})
	}
	r.answer.Finish = anthropicFinish(jsonscan.Unquote(jsonscan.Member(data, "stop_reason")))
	return err
}

// usage takes counts, of which each event has some: the last ones count.
func (r *anthropicReader) usage(value []byte) {
	u := &r.answer.Usage
	counts := jsonvalue.Members(value)
	input := u.Input - u.Cached - u.Written
	counts.Read("input_tokens", &input)
	counts.Read("cache_read_input_tokens", &u.Cached)
	counts.Read("cache_creation_input_tokens", &u.Written)
	counts.Read("output_tokens", &u.Output)
	u.Input = input + u.Cached + u.Written
}
