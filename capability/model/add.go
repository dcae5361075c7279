package model

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"kernos/internal/jsonvalue"
	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// memoryChanged is the event of the memory that records a change of models/NAME.
var memoryChanged = []kernel.EventDefinition{{Type: "Memory.Changed", Summary: "The settings of a model have changed: {key, revision, deleted?}. It is sent to watchers, not to the caller."}}

type addInput struct {
	Name    string `json:"name" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"What to call the model. The name of a known provider, such as openai or anthropic, is enough to know its address."`
	Model   string `json:"model,omitzero" jsonschema:"maxLength=256" jsonschema_description:"The name of the model at the provider. Default: a current model of a known provider."`
	BaseURL string `json:"baseUrl,omitzero" jsonschema:"maxLength=2048" jsonschema_description:"Where the provider is. Default: the address of the known provider of this name."`
	Dialect string `json:"dialect,omitzero" jsonschema:"enum=openai-chat,enum=anthropic-messages" jsonschema_description:"How the provider is talked to. Default: as the known provider of this name, or else openai-chat."`
	APIKey  string `json:"apiKey,omitzero" jsonschema:"format=password,writeOnly=true,maxLength=8192" jsonschema_description:"The key of the provider. It is sealed for the host of the provider; a sealed string is kept as it is."`
}

type addOutput struct {
	Name    string `json:"name" jsonschema_description:"The name to give as model."`
	Model   string `json:"model" jsonschema_description:"The name of the model at the provider."`
	BaseURL string `json:"baseUrl" jsonschema_description:"Where the provider is."`
	Default bool   `json:"default,omitzero" jsonschema_description:"Whether it has become the default model, since there was none."`
}

var add = kernel.DefineCommand[addInput, addOutput](kernel.Definition{
	Type:    "Model.Add",
	Summary: "Connect a model: its key is sealed for the host of its provider, the provider is asked for one word, and the settings are kept as models/NAME if it answers.",
	Input:   schema.Input[addInput]().Example(`{"name":"local","baseUrl":"http://127.0.0.1:11434/v1","model":"qwen3"}`),
	Emits:   memoryChanged,
	Presentation: kernel.Presentation{
		Title: "Connect a model",
		Words: "configure a model, llm, provider, ollama, openai, anthropic, chatgpt, claude, gemini, mistral, set up a model, add an openai key, " +
			"hook up claude, use my own llm, enter a provider's key, new language model, connect to ollama",
		Result:    "{name} is connected: {model} at {baseUrl}",
		Arguments: []string{"name"},
		Errors:    slices.Insert(slices.Clone(generate.Errors), 2, kernel.ErrorDefinition{Code: 409, When: "a model of this name is configured"}),
	},
	Behavior: kernel.Behavior{
		Runs:    kernel.Slow,
		Reaches: []kernel.Reach{kernel.ToNetwork, kernel.ToSettings},
		Effect:  kernel.External,
		Repeat:  kernel.Retried,
		Timeout: 5 * time.Minute, // a server may have to load the model first
	},
	Access: principal.OwnerOnly,
})

// add answers Model.Add. Nothing is kept before the provider has answered, so there is nothing to take back.
func (m *models) add(ctx context.Context, in addInput) (out addOutput, err error) {
	known, err := m.names()
	switch {
	case err != nil:
		return out, err
	case m.Write == nil || m.Seal == nil:
		return out, errReadOnly
	case !nameForm().MatchString(in.Name) || in.Name == defaultName:
		return out, message.Invalid("name", "name: expected a name of letters, digits, dots and dashes, and not default, got %q", message.Clip(in.Name, 64))
	case slices.Contains(known, in.Name):
		return out, message.Errorf(409, "A model %s is configured already; remove it first (Model.Remove), or choose another name", in.Name)
	}
	p := in.provider()
	if err := p.check(); err != nil {
		return out, message.Errorf(422, "%v", err)
	}
	if p.Key = in.APIKey; in.APIKey != "" && !sealed.In(in.APIKey) {
		if p.Key, err = m.Seal(ctx, in.APIKey, sealed.Destination{p.host()}); err != nil {
			return out, err
		}
	}
	if err := p.checkKey(); err != nil {
		return out, message.Errorf(422, "%v", err)
	}
	if _, err := m.ask(ctx, p); err != nil {
		return out, err
	}
	text, err := jsonv2.Marshal(p)
	if err != nil {
		return out, err
	}
	if err := m.Write(ctx, p.name, text, true); err != nil {
		return out, err
	}
	out = addOutput{Name: p.name, Model: p.Model, BaseURL: p.BaseURL}
	if _, _, none := m.setting(defaultName); none != nil {
		out.Default = true
		return out, m.Write(ctx, defaultName, jsonvalue.Marshal(p.name), true)
	}
	return out, nil
}

// provider returns the provider that is to be added. What isn't given is as the known provider of the name has it.
func (in *addInput) provider() *provider {
	p := &provider{name: in.Name, Dialect: in.Dialect, BaseURL: in.BaseURL, Model: in.Model}
	if at := slices.IndexFunc(Known, func(k KnownProvider) bool { return k.Name == in.Name }); at >= 0 && in.BaseURL == "" {
		k := Known[at]
		p.Dialect, p.BaseURL, p.Model = cmp.Or(p.Dialect, k.Dialect), k.BaseURL, cmp.Or(p.Model, k.Model)
	}
	p.Dialect = cmp.Or(p.Dialect, "openai-chat")
	return p
}

var errReadOnly = message.Errorf(503, "This kernel has no memory to keep the settings of models in")

type nameInput struct {
	Name string `json:"name" jsonschema:"minLength=1,maxLength=64,example=local" jsonschema_description:"The name of a model that Model.List lists."`
}

type removeOutput struct {
	Removed bool `json:"removed" jsonschema_description:"Always true."`
	Default bool `json:"default,omitzero" jsonschema_description:"Whether it was the default model. There is none then."`
}

var remove = kernel.DefineCommand[nameInput, removeOutput](kernel.Definition{
	Type:    "Model.Remove",
	Summary: "Remove the settings of a model, with its key. If it is the default, there is no default any more.",
	Emits:   memoryChanged,
	Presentation: kernel.Presentation{
		Title:  "Remove a model",
		Words:  "disconnect a model, delete a provider, get rid of a model, delete a model, drop a provider, don't use openai any more, forget a model's key",
		Result: "The model {request.name} is gone[; there is no default{?default}]",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the model isn't configured"},
			{Code: 409, When: "the settings of the model aren't in the memory"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToSettings}, Destroys: true, Repeat: kernel.Idempotent},
	Access:   principal.OwnerOnly,
})

func (m *models) remove(ctx context.Context, in nameInput) (out removeOutput, err error) {
	known, err := m.names()
	switch {
	case err != nil:
		return out, err
	case !slices.Contains(known, in.Name):
		return out, notConfigured(in.Name, known)
	case m.Delete == nil:
		return out, errReadOnly
	}
	_, source, err := m.setting(in.Name)
	if err != nil {
		return out, err
	}
	if source != fromMemory {
		return out, message.Errorf(409, "The settings of the model %s aren't in the memory (%s), so they can't be removed here", in.Name, source)
	}
	if err := m.Delete(ctx, in.Name); err != nil {
		return out, err
	}
	out.Removed = true
	text, source, err := m.setting(defaultName)
	if out.Default = err == nil && source == fromMemory && standsFor(text) == in.Name; out.Default {
		return out, m.Delete(ctx, defaultName)
	}
	return out, nil
}

type defaultOutput struct {
	Default string `json:"default" jsonschema_description:"The model that answers now where none is named."`
	Before  string `json:"before,omitzero" jsonschema_description:"The model that did before."`
}

var makeDefault = kernel.DefineCommand[nameInput, defaultOutput](kernel.Definition{
	Type:    "Model.Default",
	Summary: "Make a model the default: it answers where no model is named.",
	Emits:   memoryChanged,
	Presentation: kernel.Presentation{
		Title: "Choose the default model",
		Words: "use a model, switch models, set the default model, always use this model, make it the main model, prefer another model, " +
			"change the standard llm, switch to another llm",
		Result: "{default} is the default model",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "the model isn't configured"},
			{Code: 409, When: "models/default has settings of its own, which would be lost"},
		},
	},
	Behavior: kernel.Behavior{Reaches: []kernel.Reach{kernel.ToSettings}, Repeat: kernel.Idempotent},
	Access:   principal.OwnerOnly,
})

func (m *models) makeDefault(ctx context.Context, in nameInput) (out defaultOutput, err error) {
	if m.Write == nil {
		return out, errReadOnly
	}
	if _, err := m.find(in.Name); err != nil {
		return out, err
	}
	for name, text := in.Name, json.RawMessage(nil); name != ""; name = standsFor(text) {
		if name == defaultName {
			return out, message.Invalid("name", "name: %s stands for the default model; name one that doesn't", in.Name)
		}
		if text, _, err = m.setting(name); err != nil {
			return out, err
		}
	}
	text, source, err := m.setting(defaultName)
	if err == nil && source == fromMemory && !standsForAnother(text) {
		return out, message.Errorf(409, "models/default has settings of its own, which would be lost; give them another name first, or remove them: Model.Remove default")
	}
	out = defaultOutput{in.Name, standsFor(text)}
	return out, m.Write(ctx, defaultName, jsonvalue.Marshal(in.Name), false)
}
