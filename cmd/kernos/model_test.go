package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/cmd/kernos/chat"
)

func TestModelsAreFoundAndConnected(t *testing.T) {
	provider := modeltest.Serve(t, modeltest.Answer{Text: "ready"})
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"id":"qwen3"},{"id":"gemma3"}]}`))
	}))
	defer local.Close()
	host := strings.TrimPrefix(local.URL, "http://")
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
		{args: "model add ollama --model gemma3", want: "ollama is connected: gemma3 at " + host + "\n"},
		{args: "model add ollama", want: "a model ollama is configured already", status: 1},
		{args: "model add olama", want: "did you mean ollama?", status: 2},
		{args: "model add", want: "name the model", status: 2},
		{args: "model add mine --url " + provider.URL + "/v1", want: "--model NAME", status: 2},
		{args: "model add mine --key --model m --url " + provider.URL + "/v1", want: "no key for", status: 2},
		{args: "model add mine --key --model m --url " + provider.URL + "/v1", in: "sk-0123456789abcdef\n", want: "mine is connected: m at "},
		{args: "memory get models/default -r", want: "ollama"},
		{args: "model check --model mine --jq .model", want: "mine\n"},
		{args: "__complete model de", want: "detect\t"},
		{args: "__complete model ch", want: "check\t"},
	} {
		out, notes, status := h.run(step.in, strings.Fields(step.args)...)
		if got := out + notes; status != step.status || !strings.Contains(got, step.want) || strings.Contains(got, "0123456789abcdef") {
			t.Errorf("%s: status %d: %s; want %s", step.args, status, got, step.want)
		}
	}
}
