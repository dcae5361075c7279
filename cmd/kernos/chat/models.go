package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"kernos/capability/model"
	"kernos/cmd/kernos/server"
	"kernos/internal/outbound"
	"kernos/internal/patience"
	"kernos/message"
)

// Found is a server or a provider of language models.
type Found struct {
	Name     string   `json:"name"`               // name of the setting: models/NAME
	Dialect  string   `json:"dialect"`            // the dialect of its API
	BaseURL  string   `json:"baseUrl"`            // the server's address
	Model    string   `json:"model"`              // the model that is connected, unless another one is chosen
	Models   []string `json:"models,omitzero"`    // all models of a server
	Variable string   `json:"variable,omitempty"` // the environment variable with the key; "" for a server
	Key      string   `json:"-"`                  // the provider's key
}

// Host returns where it is, for people.
func (f *Found) Host() string { return host(f.BaseURL) }

func host(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return baseURL
	}
	return u.Host
}

// Addition returns the input of Model.Add that connects it.
func (f *Found) Addition() map[string]string {
	in := map[string]string{"name": f.Name, "dialect": f.Dialect, "baseUrl": f.BaseURL, "model": f.Model}
	if f.Key != "" {
		in["apiKey"] = f.Key
	}
	return in
}

// Providers returns the known providers, without keys, and at the addresses that the environment has: a key is for
// that place, and may be refused at the usual one.
func Providers() (all []Found) {
	for _, k := range model.Known {
		at := cmp.Or(strings.TrimRight(os.Getenv(k.Elsewhere), "/"), k.BaseURL)
		all = append(all, Found{Name: k.Name, Dialect: k.Dialect, BaseURL: at, Model: k.Model, Variable: k.Variable})
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

// A ListedModel is a model as Model.List has it.
type ListedModel struct{ Name, Model, BaseURL, Source, Problem string }

// Models asks a kernel for its models.
func Models(ctx context.Context, call server.Caller) ([]ListedModel, error) {
	var out struct{ Models []ListedModel }
	err := server.Read(ctx, call, message.KindQuery, "Model.List", struct{}{}, &out)
	return out.Models, err
}
