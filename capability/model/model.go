// Package model is the one seam to language models: a provider is data, and a dialect is a
// function from a request to a stream of deltas.
//
//	Model.Generate {"messages":[{"type":"input","text":"hello"}]}
//	→ Model.Streamed {"part":0,"type":"reply","delta":{"text":"Hi"}} …
//	→ {"model":"claude","finish":"stop","messages":[{"part":0,"type":"reply","text":"Hi there"}],"usage":{…}}
//
// The messages are those of a session (cognitive-messages): input, reply, reasoning {title,
// summary}, tool-calls, tool-results, system, summary. Other types aren't shown to a model. What
// belongs to one model only, such as signatures of its reasoning and its own ids of calls, stands
// in the member opaque of a message, and is sent to that model only.
//
// A provider is the value of the key models/NAME in the memory, or stands in config.yaml under
// models:
//
//	{"dialect":"anthropic-messages","baseUrl":"https://api.anthropic.com","model":"claude-…","key":"pwenc:v2:…"}
//	{"dialect":"openai-chat","baseUrl":"http://127.0.0.1:11434/v1","model":"qwen3"}
//	{"dialect":"syscall","type":"Llama.Generate"}
//	{"dialect":"replay","cassette":"tour"}
//
// Its key is sealed for the provider's host. It is opened when a request is sent, and occurs
// nowhere else: a provider that sends it back has failed.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	nethttp "net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/cassette"
	"kernos/capability/model/conversation"
	"kernos/capability/model/demo"
	"kernos/internal/outbound"
	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// Options are the settings of the module. The zero value is usable, and knows no models.
type Options struct {
	// Read returns the value of models/NAME in the memory, or an error with the code 404. Names
	// lists these names. Nil means that the memory has none.
	Read  func(name string) (json.RawMessage, error)
	Names func() ([]string, error)

	// Configured are providers by name, beside those of the memory, which come first.
	Configured map[string]json.RawMessage

	// Client sends the requests to providers. Nil means one that goes to public addresses only.
	Client *nethttp.Client

	// Open opens a sealed key for a use; see capability/crypto. Nil means that providers with a
	// key can't be used.
	Open func(ctx context.Context, text string, use sealed.Use) ([]byte, sealed.Destination, error)

	// Resolve returns what a pointer in a message points to. Nil means data pointers only.
	Resolve func(context.Context, message.BlobPointer) ([]byte, error)

	// Blobs keeps what doesn't fit into a request to a program. Nil means that such a request fails.
	Blobs kernel.BlobPutter

	// BuiltIn reports whether a syscall is one that programs can't serve, which can't be a model. Nil means that programs can serve
	// whatever isn't the framework's.
	BuiltIn func(message.Type) bool

	// Cassettes is the directory of recorded exchanges. "" means that there are none.
	Cassettes string

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// models answers the syscalls of the module.
type models struct {
	Options
	cassettes cassette.Dir
	demo      *demo.Model
}

// streamed and discarded are the events of a generation.
const (
	streamed  message.Type = "Model.Streamed"
	discarded message.Type = "Model.Discarded"
)

var generate = kernel.DefineCommand[generateInput, generateOutput](kernel.Definition{
	Type:    "Model.Generate",
	Summary: "Let a model continue a conversation: its reasoning, its reply and the calls that it wants are streamed, and then come whole.",
	Emits: []kernel.EventDefinition{
		{Type: streamed, Unrecorded: true, Summary: "A part has grown: {part, type, delta: {text}}; the first delta of a call also has call: {id, name}."},
		{Type: discarded, Summary: "What was streamed so far doesn't count, since the provider has failed and is asked again: {reason}."},
	},
	Errors: []kernel.ErrorDefinition{
		{Code: 403, When: "the policy for connections refuses the host, or the key is sealed for another one"},
		{Code: 404, When: "the model isn't configured"},
		{Code: 413, When: "the conversation is longer than what the model takes"},
		{Code: 429, When: "the provider takes no more requests for now"},
		{Code: 502, When: "the provider can't be reached, or its answer is an error or can't be read"},
		{Code: 504, When: "the provider has sent nothing for too long"},
	},
	Volatile: []string{"usage", "messages.calls.id", "messages.opaque"},
	Input: schema.Input[generateInput]().Example(`{"messages":[{"type":"input","text":"What can you do?"}]}`).
		Items("messages", `{"type":"object","properties":{"type":{"type":"string","description":"input, reply, reasoning, tool-calls, tool-results, system or summary."},"text":{"type":"string"}},"required":["type"]}`),
	Runs:    kernel.Slow,
	Effect:  kernel.External,
	Repeat:  kernel.Retried,
	Timeout: 30 * time.Minute, // with all attempts
	Brief:   brief,
})

var check = kernel.DefineCommand[checkInput, checkOutput](kernel.Definition{
	Type:    "Model.Check",
	Summary: "Ask a model for one word, to see whether its provider answers and how fast. It costs a few tokens.",
	Errors:  generate.Errors,
	Runs:    kernel.Slow,
	Effect:  kernel.External,
	Timeout: time.Minute,

	Volatile: []string{"first", "total", "usage"},
})

var list = kernel.DefineQuery[struct{}, listOutput](kernel.Definition{
	Type:      "Model.List",
	Summary:   "List the models that are configured, and what is wrong with their settings.",
	Recording: kernel.InWorkflows,
})

// Definitions returns the module without its handlers.
func Definitions() kernel.Module {
	return kernel.Module{
		Name:     "model",
		Version:  "1.0.0",
		Summary:  "Language models, at providers or served by programs.",
		Domains:  []string{"Model"},
		Syscalls: kernel.Unbound(generate.Definition, check.Definition, list.Definition),
	}
}

// Module returns the module. Nil options mean defaults.
func Module(opts *Options) kernel.Module {
	m := newModels(opts)
	m.demo = demo.New()
	return Definitions().Bind(generate.BindStream(m.generate), check.BindStream(m.check), list.Bind(m.list))
}

// newModels returns what asks providers. Nil options mean defaults.
func newModels(opts *Options) *models {
	m := new(models)
	if opts != nil {
		m.Options = *opts
	}
	m.cassettes.Path = m.Cassettes
	m.Log = cmp.Or(m.Log, slog.New(slog.DiscardHandler))
	if m.Client == nil {
		m.Client = outbound.NewClient(outbound.Policy{}, nil)
	}
	if m.BuiltIn == nil {
		m.BuiltIn = kernel.Reserved
	}
	return m
}

type generateInput struct {
	Model       string               `json:"model,omitempty" jsonschema_description:"The name of a model that Model.List lists. Default: the model named default, or the only one, or demo, the small model inside that is for trying things out."`
	System      string               `json:"system,omitempty" jsonschema_description:"What the model is told before the conversation."`
	Messages    []jsontext.Value     `json:"messages,omitempty" jsonschema_description:"The conversation, as a session has it: {type: input, text?, files?}, {type: reply, text}, {type: reasoning, title, summary}, {type: tool-calls, calls: [{id, name, args}]}, {type: tool-results, results: [{callId, output, error?}]}, {type: system, text}, {type: summary, text}. Other types aren't shown to the model."`
	MessagesRef *message.BlobPointer `json:"messagesRef,omitempty" jsonschema_description:"A pointer to the messages, if they don't fit into a line."`
	Tools       []conversation.Tool  `json:"tools,omitempty" jsonschema_description:"The syscalls that the model may call."`
	ToolsRef    *message.BlobPointer `json:"toolsRef,omitempty" jsonschema_description:"A pointer to the tools, if they don't fit into a line."`
	MaxTokens   int                  `json:"maxTokens,omitempty" jsonschema:"minimum=1" jsonschema_description:"How many tokens the answer may have. Default: what the model's settings say."`
	Temperature *float64             `json:"temperature,omitempty" jsonschema:"minimum=0,maximum=2" jsonschema_description:"How much the model varies its answers. Default: the provider's."`
	Stop        []string             `json:"stop,omitempty" jsonschema:"maxItems=4" jsonschema_description:"Texts at which the answer ends."`
	Session     string               `json:"session,omitempty" jsonschema_description:"The session that the conversation belongs to, which keeps the messages: they are recorded by reference. Providers with a cache for prompts find what they have seen of it."`
}

type generateOutput struct {
	Model    string              `json:"model" jsonschema_description:"The name of the model that answered."`
	Finish   conversation.Finish `json:"finish" jsonschema:"enum=stop,enum=calls,enum=length,enum=refused" jsonschema_description:"Why the answer ends: it is complete, it waits for the results of calls, it is too long, or the model or its provider refuses to answer."`
	Messages []jsontext.Value    `json:"messages" jsonschema_description:"What the model said: reasoning, reply and tool-calls messages without id and timestamp. part is the one that they were streamed as."`
	Usage    conversation.Usage  `json:"usage" jsonschema_description:"What it took."`
	Session  string              `json:"session,omitzero" jsonschema_description:"The session of the request."`
}
