package model

import (
	"cmp"
	"context"
	nethttp "net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/schema"
)

// openAI is the dialect openai-chat: that of the chat completions of OpenAI, and of ollama,
// llama.cpp, vLLM and other servers.
func openAI(ctx context.Context, m *models, g *generation, a *conversation.Answer) error {
	body, err := g.openAIRequest()
	if err != nil {
		return err
	}
	r := openAIReader{answer: a}
	headers := func(h nethttp.Header, key string) {
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	}
	err = m.post(ctx, g, a, "chat/completions", body, headers, r.take)
	if err == errCutOff && a.Finish != "" {
		err = nil // not every server sends the final [DONE]
	}
	if err == nil && a.Finish == "" {
		err = errCutOff
	}
	return err
}

type openAIBody struct {
	Model               string          `json:"model"`
	Messages            []openAIMessage `json:"messages"`
	Tools               []openAITool    `json:"tools,omitzero"`
	MaxTokens           int             `json:"max_tokens,omitzero"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
	Temperature         *float64        `json:"temperature,omitzero"`
	Stop                []string        `json:"stop,omitzero"`
	Stream              bool            `json:"stream"`
	StreamOptions       *openAIOptions  `json:"stream_options,omitzero"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitzero"`
}

type openAIOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type openAIMessage struct {
	Role             string       `json:"role"`
	Content          any          `json:"content,omitzero"` // a text, or a list of openAIPart
	ReasoningContent string       `json:"reasoning_content,omitzero"`
	ToolCalls        []openAICall `json:"tool_calls,omitzero"`
	ToolCallID       string       `json:"tool_call_id,omitzero"`
}

type openAIPart struct {
	Type     string      `json:"type"`
	Text     string      `json:"text,omitzero"`
	ImageURL *openAIURL  `json:"image_url,omitzero"`
	File     *openAIFile `json:"file,omitzero"`
}

type openAIURL struct {
	URL string `json:"url"`
}

type openAIFile struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

type openAICall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type openAITool struct {
	Type     string           `json:"type"`
	Function openAIDefinition `json:"function"`
}

type openAIDefinition struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// openAIRequest returns the body of a request.
func (g *generation) openAIRequest() ([]byte, error) {
	b := openAIBody{Model: g.Model, Temperature: g.in.Temperature, Stop: g.in.Stop, Stream: true}
	if !g.has("no-stream-options") {
		b.StreamOptions = &openAIOptions{IncludeUsage: true}
	}
	own := g.url.Hostname() == "api.openai.com"
	if own || g.has("max-completion-tokens") {
		b.MaxCompletionTokens = g.maxTokens
	} else {
		b.MaxTokens = g.maxTokens
	}
	if own || g.has("prompt-cache-key") {
		b.PromptCacheKey = g.in.Session
	}
	if system := g.conversation.System; system != "" {
		role := "system"
		if g.has("developer-role") {
			role = "developer"
		}
		b.Messages = append(b.Messages, openAIMessage{Role: role, Content: system})
	}
	for i := range g.conversation.Turns {
		b.Messages = g.openAITurn(b.Messages, &g.conversation.Turns[i])
	}
	for _, t := range g.in.Tools {
		b.Tools = append(b.Tools, openAITool{"function", openAIDefinition{conversation.ToolName(t.Name), t.Description, jsontext.Value(schema.OfTool([]byte(t.InputSchema)))}})
	}
	body, err := json.Marshal(b, json.Deterministic(true))
	return g.withExtra(body), err
}

// openAITurn appends a turn: results are messages of their own.
func (g *generation) openAITurn(messages []openAIMessage, t *conversation.Turn) []openAIMessage {
	var text string
	var parts []openAIPart
	said := openAIMessage{Role: "assistant"}
	if t.User {
		said.Role = "user"
	}
	for _, k := range t.Blocks {
		switch {
		case k.Result != nil:
			text := k.Result.Text
			if k.Result.IsError {
				text = "Error: " + text
			}
			messages = append(messages, openAIMessage{Role: "tool", ToolCallID: k.Result.ID, Content: text})
		case k.Call != nil:
			said.ToolCalls = append(said.ToolCalls, openAICall{k.Call.ID, "function", openAIFunction{conversation.ToolName(k.Call.Name), string(k.Call.Arguments())}})
		case k.Reasoning != nil:
			if g.has("send-reasoning") {
				said.ReasoningContent += k.Reasoning.Summary
			}
		case k.File != nil:
			data := "data:" + k.File.MimeType + ";base64," + k.File.Data
			if k.File.MimeType == "application/pdf" {
				parts = append(parts, openAIPart{Type: "file", File: &openAIFile{k.File.Name(), data}})
			} else {
				parts = append(parts, openAIPart{Type: "image_url", ImageURL: &openAIURL{data}})
			}
		default:
			if text != "" {
				text += "\n\n"
			}
			text += k.Text
			parts = append(parts, openAIPart{Type: "text", Text: k.Text})
		}
	}
	switch {
	case t.User && slices.ContainsFunc(t.Blocks, func(k conversation.Block) bool { return k.File != nil }):
		said.Content = parts
	case text != "":
		said.Content = text
	case said.ToolCalls == nil:
		return messages
	}
	return append(messages, said)
}

// An openAIReader adds the events of a stream to an answer. It doesn't rely on more than servers
// do: a call may have no index or always the same one, an id in each piece, in the first one or in
// none; there may be no choices.
type openAIReader struct{ answer *conversation.Answer }

func (r *openAIReader) take(data []byte) (done bool, err error) {
	if data == nil {
		return true, nil // [DONE]
	}
	if data[0] != '{' {
		return false, &failure{again: true, err: unreadable("an event isn't an object")}
	}
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		switch string(name) {
		case `"choices"`:
			if value[0] == '[' {
				jsonscan.Elements(value, 0, func(choice []byte) bool {
					err = r.choice(choice)
					return false // only the first choice counts
				})
			}
		case `"usage"`:
			r.usage(value)
		case `"error"`:
			if string(value) != "null" {
				words, kind := errorText(data)
				err = streamFailure(words, kind)
			}
		}
		return err == nil
	})
	return false, err
}

func (r *openAIReader) choice(choice []byte) (err error) {
	if choice[0] != '{' {
		return nil
	}
	jsonscan.Members(choice, 0, func(name, value []byte) bool {
		switch string(name) {
		case `"delta"`, `"message"`: // the latter if the answer isn't streamed
			if value[0] == '{' {
				err = r.delta(value)
			}
		case `"finish_reason"`:
			if value[0] == '"' && len(value) > 2 {
				r.answer.Finish = openAIFinish(string(value[1 : len(value)-1]))
			}
		}
		return err == nil
	})
	return err
}

func openAIFinish(reason string) conversation.Finish {
	switch reason {
	case "length", "max_tokens":
		return conversation.FinishLength
	case "content_filter":
		return conversation.FinishRefused
	case "tool_calls", "function_call":
		return conversation.FinishCalls
	}
	return conversation.FinishStop
}

func (r *openAIReader) delta(delta []byte) (err error) {
	thought := false
	jsonscan.Members(delta, 0, func(name, value []byte) bool {
		switch string(name) {
		case `"content"`, `"refusal"`:
			err = r.content(value)
		case `"reasoning_content"`, `"reasoning"`: // some servers send both
			if !thought && value[0] == '"' && len(value) > 2 {
				thought = true
				err = r.answer.Say(conversation.PartReasoning, value)
			}
		case `"tool_calls"`:
			if value[0] == '[' {
				jsonscan.Elements(value, 0, func(call []byte) bool {
					err = r.call(call)
					return err == nil
				})
			}
		}
		return err == nil
	})
	return err
}

// content takes a text, or a list of parts.
func (r *openAIReader) content(value []byte) (err error) {
	if value[0] != '[' {
		return r.answer.Say(conversation.PartReply, value)
	}
	jsonscan.Elements(value, 0, func(part []byte) bool {
		if text := jsonscan.Member(part, "text"); text != nil {
			err = r.answer.Say(conversation.PartReply, text)
		} else if thinking := jsonscan.Member(part, "thinking"); thinking != nil && thinking[0] == '[' {
			jsonscan.Elements(thinking, 0, func(part []byte) bool {
				err = r.answer.Say(conversation.PartReasoning, jsonscan.Member(part, "text"))
				return err == nil
			})
		}
		return err == nil
	})
	return err
}

// call takes a piece of a call.
func (r *openAIReader) call(piece []byte) error {
	if piece[0] != '{' {
		return nil
	}
	key := -1
	if index := jsonscan.Member(piece, "index"); index != nil {
		key, _ = strconv.Atoi(string(index))
	}
	id, name := jsonscan.Unquote(jsonscan.Member(piece, "id")), ""
	var args []byte
	if function := jsonscan.Member(piece, "function"); function != nil && function[0] == '{' {
		name = jsonscan.Unquote(jsonscan.Member(function, "name"))
		args = jsonscan.Member(function, "arguments")
	}
	c := r.which(key, id, name)
	if args == nil || string(args) == "null" {
		args = []byte(`""`)
	} else if args[0] != '"' { // an object in place of its text
		args = jsonscan.AppendQuoted(nil, string(args))
	}
	return r.answer.Grow(c, args)
}

// which returns the call that a piece belongs to.
func (r *openAIReader) which(key int, id, name string) *conversation.Wanted {
	all := r.answer.Calls
	n := len(all) - 1
	for key >= 0 && n >= 0 && all[n].Key != key {
		n--
	}
	if n < 0 {
		return r.answer.Want(key, id, name)
	}
	c := &all[n]
	other := id != "" && c.Theirs != "" && id != c.Theirs
	again := name != "" && (id == "" || c.Theirs == "") && len(c.Args) > 0 && jsonscan.Valid(c.Args)
	if other || again {
		return r.answer.Want(key, id, name)
	}
	c.Theirs = cmp.Or(c.Theirs, id)
	if len(c.Args) == 0 && name != c.Name {
		c.Name += name
	}
	return c
}

func (r *openAIReader) usage(value []byte) {
	u := &r.answer.Usage
	counts := jsonvalue.Members(value)
	counts.Read("prompt_tokens", &u.Input)
	counts.Read("completion_tokens", &u.Output)
	jsonvalue.Members(counts.Get("prompt_tokens_details")).Read("cached_tokens", &u.Cached)
	jsonvalue.Members(counts.Get("completion_tokens_details")).Read("reasoning_tokens", &u.Reasoning)
}
