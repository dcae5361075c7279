package model

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/model/conversation"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

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
	Input: schema.Input[generateInput]().Example(`{"messages":[{"type":"input","text":"What can you do?"}]}`).
		Items("messages", `{"type":"object","properties":{"type":{"type":"string","description":"input, reply, reasoning, tool-calls, tool-results, system or summary."},"text":{"type":"string","description":"What is said, in the types that have a text."}},"required":["type"]}`),
	Presentation: kernel.Presentation{
		Title: "Let a model continue",
		Words: "llm, complete, completion, inference, prompt a model, write a text, compose, draft, translate, ask a model directly, " +
			"answer a question with an llm, write a poem, generate text, let ai write, summarize a text, rewrite a text, classify a text",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the policy for connections refuses the host, or the key is sealed for another one"},
			{Code: 404, When: "the model isn't configured"},
			{Code: 413, When: "the conversation is longer than what the model takes"},
			{Code: 422, When: "the settings of the model can't be used"},
			{Code: 429, When: "the provider takes no more requests for now"},
			{Code: 502, When: "the provider can't be reached, or its answer is an error or can't be read"},
			{Code: 504, When: "the provider has sent nothing for too long"},
		},
	},
	Behavior: kernel.Behavior{
		Volatile: []string{"usage", "messages.calls.id", "messages.opaque"},
		Runs:     kernel.Slow,
		Reaches:  []kernel.Reach{kernel.ToNetwork},
		Effect:   kernel.External,
		Repeat:   kernel.Retried,
		Timeout:  30 * time.Minute, // with all attempts
	},
})

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
	Session     string               `json:"session,omitempty" jsonschema_description:"The session that the conversation belongs to, for providers with a cache for prompts, which find what they have seen of it."`
}

type generateOutput struct {
	Model    string              `json:"model" jsonschema_description:"The name of the model that answered."`
	Finish   conversation.Finish `json:"finish" jsonschema:"enum=stop,enum=calls,enum=length,enum=refused" jsonschema_description:"Why the answer ends: it is complete, it waits for the results of calls, it is too long, or the model or its provider refuses to answer."`
	Messages []jsontext.Value    `json:"messages" jsonschema_description:"What the model said: reasoning, reply and tool-calls messages without id and timestamp. part is the one that they were streamed as."`
	Usage    conversation.Usage  `json:"usage" jsonschema_description:"What it took."`
	Session  string              `json:"session,omitzero" jsonschema_description:"The session of the request."`
}

var check = kernel.DefineCommand[checkInput, checkOutput](kernel.Definition{
	Type:    "Model.Check",
	Summary: "Ask a model for one word, to see whether its provider answers and how fast. It costs a few tokens.",
	Presentation: kernel.Presentation{
		Title: "Test a model",
		Words: "try a model, is it up, is it working, connection, does my model work, is the provider reachable, the model doesn't answer, " +
			"is my api key accepted, how fast is a model, check a model's connection, test an api key",
		Arguments: []string{"model"},
		Result:    "{model} answers; all of it took {total} ms",
		Errors:    generate.Errors,
	},
	Behavior: kernel.Behavior{
		Runs:     kernel.Slow,
		Reaches:  []kernel.Reach{kernel.ToNetwork},
		Effect:   kernel.External,
		Timeout:  time.Minute,
		Volatile: []string{"first", "total", "usage"},
	},
})

type checkInput struct {
	Model string `json:"model,omitempty" jsonschema_description:"The name of a model that Model.List lists. Default: the model named default, or the only one, or demo, the small model inside that is for trying things out."`
}

type checkOutput struct {
	Model string             `json:"model" jsonschema_description:"The name of the model that answered."`
	First int64              `json:"first" jsonschema_description:"After how many milliseconds the first piece of its answer came."`
	Total int64              `json:"total" jsonschema_description:"After how many milliseconds it was complete."`
	Usage conversation.Usage `json:"usage" jsonschema_description:"What it took."`
}

var list = kernel.DefineQuery[struct{}, listOutput](kernel.Definition{
	Type:    "Model.List",
	Summary: "List the models that are configured, and what is wrong with their settings.",
	Presentation: kernel.Presentation{
		Title: "List models",
		Words: "llms, providers, which models, which llm can i use, which models do i have, available models, show all models, what ai is set up, " +
			"which providers are connected",
		Columns: []string{"NAME {name}", "MODEL {model}", "ADDRESS {baseUrl} | {type}", "NOTE {problem} | {about}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

type listOutput struct {
	Models []listed `json:"models" jsonschema_description:"The models, by name."`
}

type listed struct {
	Name          string  `json:"name" jsonschema_description:"The name to give as model."`
	Dialect       string  `json:"dialect,omitzero" jsonschema_description:"How its provider is talked to: openai-chat, anthropic-messages, syscall, replay or demo."`
	Model         string  `json:"model,omitzero" jsonschema_description:"The name of the model at the provider, or the name that this one stands for."`
	BaseURL       string  `json:"baseUrl,omitzero" jsonschema_description:"Where the provider is."`
	Type          string  `json:"type,omitzero" jsonschema_description:"The syscall that generates, of the dialect syscall."`
	Key           bool    `json:"key,omitzero" jsonschema_description:"Whether a key is sent."`
	ContextWindow int     `json:"contextWindow,omitzero" jsonschema_description:"How many tokens a conversation may have."`
	Input         float64 `json:"input,omitzero" jsonschema_description:"What a million tokens of a conversation cost."`
	Output        float64 `json:"output,omitzero" jsonschema_description:"What a million tokens of an answer cost."`
	Source        string  `json:"source" jsonschema:"enum=memory,enum=config,enum=built-in" jsonschema_description:"Where its settings are: the key models/NAME of the memory, or config.yaml. The model demo is built in."`
	About         string  `json:"about,omitzero" jsonschema_description:"What the built-in model is, and how to connect another one."`
	Problem       string  `json:"problem,omitzero" jsonschema_description:"Why it can't be used."`
}
