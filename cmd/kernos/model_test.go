package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/cmd/kernos/chat"
)

func TestModelsAreFoundAndConnected(t *testing.T) {
	provider := modeltest.Serve(t, modeltest.Answer{Text: "ready"})
	host := serveModels(t, "qwen3", "gemma3")
	h := newHouse(t)
	if out, notes, status := h.run("", "model", "detect"); status != 0 || out != "" || !strings.Contains(notes, "no model server answers on this machine") {
		t.Errorf("nothing: %d %s%s", status, out, notes)
	}
	h.env = append(h.env, chat.ServersVariable+"=ollama="+host, "GROQ_API_KEY=gsk-0123456789abcdef")
	for _, step := range []struct {
		args, in, want string
		status         int
	}{
		{args: "model detect", want: "ollama  " + host + " "},
		{args: "model detect", want: "groq    api.groq.com     openai/gpt-oss-120b  GROQ_API_KEY\n"},
		{args: "model detect", want: "kernos: kernos model add ollama connects it"},
		{args: "model detect --json --jq .found[1].name", want: "groq"},
		{args: "model list --jq .models[].name", want: "demo\n"},
		{args: "model add ollama --model gone", want: "The model ollama failed: the provider doesn't know the model", status: 1},
		{args: "model list --jq .models[].name", want: "demo\n"},
		{args: "model add groq --dry-run", want: "groq"},
		{args: "model add groq --as curl", want: "[redacted]"},
		{args: "model add groq --as ndjson", want: "Model.Add"},
		{args: "model add groq --background --dry-run", want: "[redacted]"},
		{args: "model add ollama --model gemma3", want: "ollama is connected: gemma3 at http://" + host + "/v1\n"},
		{args: "model add ollama", want: "model ollama is configured already", status: 1},
		{args: "model add olama", want: "did you mean ollama?", status: 2},
		{args: "model add", want: "name the model", status: 5},
		{args: "model add mine --url " + provider.URL + "/v1", want: "--model NAME", status: 2},
		{args: "model add mine --key --model m --url " + provider.URL + "/v1", want: "no key for", status: 2},
		{args: "model add mine --key --model m --url " + provider.URL + "/v1", in: "sk-0123456789abcdef\n", want: "mine is connected: m at "},
		{args: "memory get models/default -r", want: "ollama"},
		{args: "model check --model mine --jq .model", want: "mine\n"},
		{args: "model default mine", want: "mine"},
		{args: "memory get models/default -r", want: "mine"},
		{args: "model default min", want: "did you mean mine?", status: 1},
		{args: "model remove mine", want: "removed"},
		{args: "model remove mine", want: "isn't configured", status: 1},
		{args: "memory get models/default -r", want: "Key not found", status: 1},
		{args: "__complete model de", want: "detect\t"},
		{args: "__complete model ch", want: "check\t"},
	} {
		out, notes, status := h.run(step.in, strings.Fields(step.args)...)
		if got := out + notes; status != step.status || !strings.Contains(got, step.want) || strings.Contains(got, "0123456789abcdef") {
			t.Errorf("%s: status %d: %s; want %s", step.args, status, got, step.want)
		}
	}
}

// serveModels serves models as ollama does, and returns its host.
func serveModels(t *testing.T, names ...string) (host string) {
	t.Helper()
	answers := modeltest.Serve(t, modeltest.Answer{Text: "ready"})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		switch {
		case r.Method == http.MethodGet:
			_, _ = fmt.Fprintf(w, `{"data":[{"id":"%s"}]}`, strings.Join(names, `"},{"id":"`))
		case !slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(text, []byte(`"`+name+`"`)) }):
			w.WriteHeader(http.StatusNotFound)
		default:
			answers.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}
