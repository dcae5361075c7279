package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/internal/exit"
	"kernos/internal/outbound"
	"kernos/internal/patience"
	"kernos/message"
)

// Found is a server or a provider of language models.
type Found struct {
	Name      string   `json:"name"`               // name of the setting: models/NAME
	Dialect   string   `json:"dialect"`            // the dialect of its API
	BaseURL   string   `json:"baseUrl"`            // the server's address
	Model     string   `json:"model"`              // the model that is connected, unless another one is chosen
	Models    []string `json:"models,omitzero"`    // all models of a server
	Variable  string   `json:"variable,omitempty"` // the environment variable with the key; "" for a server
	elsewhere string   // the environment variable that names another place; "" if none is usual
	Key       string   `json:"-"` // the provider's key
}

// Host returns where it is, for people and for sealing the key.
func (f *Found) Host() string {
	u, err := url.Parse(f.BaseURL)
	if err != nil {
		return f.BaseURL
	}
	return u.Host
}

// providers are the providers that are known by the variable of their key. The models are the names that
// the provider keeps for its latest one, where it has such a name: a key doesn't determine the model. If the
// provider no longer has the name, nothing is connected, and --model names another one.
var providers = []Found{
	{Name: "anthropic", Variable: "ANTHROPIC_API_KEY", elsewhere: "ANTHROPIC_BASE_URL", Dialect: "anthropic-messages", BaseURL: "https://api.anthropic.com", Model: "claude-sonnet-4-5"},
	{Name: "openai", Variable: "OPENAI_API_KEY", elsewhere: "OPENAI_BASE_URL", Dialect: "openai-chat", BaseURL: "https://api.openai.com/v1", Model: "gpt-5-mini"},
	{Name: "gemini", Variable: "GEMINI_API_KEY", Dialect: "openai-chat", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", Model: "gemini-flash-latest"},
	{Name: "openrouter", Variable: "OPENROUTER_API_KEY", Dialect: "openai-chat", BaseURL: "https://openrouter.ai/api/v1", Model: "openrouter/auto"},
	{Name: "mistral", Variable: "MISTRAL_API_KEY", Dialect: "openai-chat", BaseURL: "https://api.mistral.ai/v1", Model: "mistral-medium-latest"},
	{Name: "groq", Variable: "GROQ_API_KEY", Dialect: "openai-chat", BaseURL: "https://api.groq.com/openai/v1", Model: "openai/gpt-oss-120b"},
	{Name: "deepseek", Variable: "DEEPSEEK_API_KEY", Dialect: "openai-chat", BaseURL: "https://api.deepseek.com/v1", Model: "deepseek-chat"},
	{Name: "xai", Variable: "XAI_API_KEY", Dialect: "openai-chat", BaseURL: "https://api.x.ai/v1", Model: "grok-4"},
}

// Providers returns the known providers, without keys, and at the addresses that the environment has: a key is for
// that place, and may be refused at the usual one.
func Providers() []Found {
	all := slices.Clone(providers)
	for i := range all {
		all[i].BaseURL = cmp.Or(strings.TrimRight(os.Getenv(all[i].elsewhere), "/"), all[i].BaseURL)
	}
	return all
}

// ServersVariable is the environment variable that names other servers than the usual ones, as
// NAME=HOST:PORT with commas between them. "none" names none.
const ServersVariable = "KERNOS_MODEL_SERVERS"

const usualServers = "ollama=127.0.0.1:11434,llama-server=127.0.0.1:8080,lm-studio=127.0.0.1:1234"

// Detect looks for models: servers first, which are asked for their models, and then keys in the
// environment, which are sent nowhere. A kernel on another machine can't reach the servers of this one:
// local reports whether the kernel is here.
func Detect(ctx context.Context, local bool) []Found {
	var found []Found
	if local {
		found = detectServers(ctx)
	}
	for _, p := range Providers() {
		if p.Key = strings.TrimSpace(os.Getenv(p.Variable)); p.Key != "" {
			found = append(found, p)
		}
	}
	return found
}

// detectTime is how long a server may take to list its models. One that isn't there refuses at once.
const detectTime = time.Second

func detectServers(ctx context.Context) []Found {
	servers := cmp.Or(os.Getenv(ServersVariable), usualServers)
	ctx, cancel := context.WithTimeout(ctx, patience.For(detectTime))
	defer cancel()
	client := outbound.NewClient(outbound.Policy{Loopback: true, Private: true}, nil)
	defer client.CloseIdleConnections()
	named := strings.Split(servers, ",")
	found := make([]Found, len(named))
	var all sync.WaitGroup
	for i, server := range named {
		name, host, ok := strings.Cut(server, "=")
		if !ok {
			continue
		}
		found[i] = Found{Name: name, Dialect: "openai-chat", BaseURL: "http://" + host + "/v1"}
		all.Go(func() { found[i].Models = listModels(ctx, client, found[i].BaseURL) })
	}
	all.Wait()
	found = slices.DeleteFunc(found, func(f Found) bool { return len(f.Models) == 0 })
	for i := range found {
		found[i].Model = found[i].Models[0]
	}
	return found
}

// maxList is how many bytes of a list of models are read.
const maxList = 1 << 20

// listModels returns the models of a server, if it is one: any program may listen at the usual ports.
// Models that make embeddings can't hold a conversation.
func listModels(ctx context.Context, client *http.Client, baseURL string) (names []string) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, baseURL+"/models", nil)
	if err != nil {
		return nil
	}
	answer, err := client.Do(q)
	if err != nil {
		return nil
	}
	defer func() { _ = answer.Body.Close() }()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if answer.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(answer.Body, maxList)).Decode(&list) != nil {
		return nil
	}
	for _, m := range list.Data {
		if m.ID != "" && !strings.Contains(strings.ToLower(m.ID), "embed") {
			names = append(names, m.ID)
		}
	}
	return names
}

// A Listed is a model as Model.List has it.
type ListedModel struct{ Name, Model, BaseURL, Source, Problem string }

// Models asks a kernel for its models.
func Models(ctx context.Context, call server.Caller) ([]ListedModel, error) {
	var out struct{ Models []ListedModel }
	err := server.Read(ctx, call, message.KindQuery, "Model.List", struct{}{}, &out)
	return out.Models, err
}

// Connect gives a kernel the settings of a model, models/NAME, with its key sealed for its host, and
// makes it the default if there is none. A provider that doesn't answer with this key isn't kept. A server
// isn't asked: it has listed its models, and may take long to load one.
func Connect(ctx context.Context, call server.Caller, f Found) error {
	known, err := Models(ctx, call)
	if err != nil {
		return err
	}
	hasDefault := false
	for _, m := range known {
		hasDefault = hasDefault || m.Name == "default"
		if m.Name == f.Name {
			return exit.Wrap(fmt.Errorf("a model %s is configured already; kernos memory delete models/%s removes it", f.Name, f.Name))
		}
	}
	send := func(t message.Type, input any) error {
		_, err := server.Send(ctx, call, message.KindCommand, t, input, nil)
		return err
	}
	settings := map[string]any{"dialect": f.Dialect, "baseUrl": f.BaseURL, "model": f.Model}
	if f.Key != "" {
		var sealed string
		if err := server.Read(ctx, call, message.KindCommand, "Crypto.Seal", map[string]any{"plaintext": f.Key, "for": []string{f.Host()}}, &sealed); err != nil {
			return err
		}
		settings["key"] = sealed
	}
	if err := send("Memory.Set", map[string]any{"key": "models/" + f.Name, "value": settings}); err != nil {
		return err
	}
	if f.Key != "" {
		if err := send("Model.Check", map[string]any{"model": f.Name}); err != nil {
			_, _ = server.Send(context.WithoutCancel(ctx), call, message.KindCommand, "Memory.Delete", map[string]any{"key": "models/" + f.Name}, nil)
			return err
		}
	}
	if hasDefault {
		return nil
	}
	return send("Memory.Set", map[string]any{"key": "models/default", "value": f.Name})
}
