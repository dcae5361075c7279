package chat_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/capability/model/modeltest"
	"kernos/cmd/kernos/chat"
	"kernos/daemon"
	"kernos/internal/patience"
	"kernos/message"
)

func TestMain(m *testing.M) {
	patience.Stretch(20)
	goleak.VerifyTestMain(m)
}

// serve answers every request with a status and a body, and returns its host.
func serve(t *testing.T, status int, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// isolate keeps a test away from the models of the user that runs it.
func isolate(t *testing.T, servers string) {
	t.Setenv(chat.ServersVariable, servers)
	for _, p := range chat.Providers() {
		t.Setenv(p.Variable, "")
	}
}

func TestWhatIsFound(t *testing.T) {
	ollama := serve(t, 200, `{"object":"list","data":[{"id":"nomic-embed-text"},{"id":"qwen3:8b","object":"model"},{"id":"gemma3"}]}`)
	gone := httptest.NewServer(nil)
	gone.Close()
	isolate(t, "ollama="+ollama+",gone="+strings.TrimPrefix(gone.URL, "http://")+",website="+serve(t, 200, "<html>")+
		",refuses="+serve(t, 401, `{"data":[{"id":"x"}]}`)+",empty="+serve(t, 200, `{"data":[]}`)+",nonsense")
	t.Setenv("OPENAI_API_KEY", " sk-1 ")
	t.Setenv("XAI_API_KEY", "xai-1")
	for _, test := range []struct {
		local bool
		want  string
	}{
		{true, "ollama " + ollama + " qwen3:8b [qwen3:8b gemma3] ; openai api.openai.com sk-1; xai api.x.ai xai-1"},
		{false, "openai api.openai.com sk-1; xai api.x.ai xai-1"},
	} {
		var got []string
		for _, f := range chat.Detect(t.Context(), test.local) {
			words := []string{f.Name, f.Host(), f.Key}
			if len(f.Models) > 0 {
				words = []string{f.Name, f.Host(), f.Model, "[" + strings.Join(f.Models, " ") + "]", f.Key}
			}
			got = append(got, strings.Join(words, " "))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("local %v: found %s; want %s", test.local, got, test.want)
		}
	}
}

// A server that doesn't answer holds up the others no longer than the caller wants.
func TestAServerThatHangs(t *testing.T) {
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer s.Close()
	isolate(t, "hangs="+strings.TrimPrefix(s.URL, "http://"))
	go func() { <-asked; cancel() }()
	if found := chat.Detect(ctx, true); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestConnect(t *testing.T) {
	const key = "sk-0123456789abcdef"
	var sent []string
	note := func(r *http.Request) { sent = append(sent, r.Header.Get("Authorization")) }
	s := modeltest.Serve(t, modeltest.Answer{Do: note, Status: 401, Raw: `{"error":{"message":"no"}}`}, modeltest.Answer{Do: note, Text: "ready"})
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	call := func(ctx context.Context, m message.Message, _ func(json.RawMessage) error) (json.RawMessage, error) {
		outcome, _ := d.Call(ctx, m, nil)
		if outcome.Kind == message.KindReply {
			return outcome.Data, nil
		}
		return nil, outcome.Failure()
	}
	configured := func() string {
		var list struct {
			Models []struct {
				Name, Model, Problem string
				Key                  bool
			}
		}
		data, err := call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Model.List", Data: json.RawMessage(`{}`)}, nil)
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range list.Models {
			text := m.Name + ":" + m.Model + m.Problem
			if m.Key {
				text += "+key"
			}
			all = append(all, text)
		}
		return strings.Join(all, " ")
	}
	for _, step := range []struct{ name, key, fails, want string }{
		{"cloud", key, "the provider refuses the key", "demo:"},
		{"cloud", key, "", "cloud:m+key default:cloud demo:"},
		{"cloud", key, "a model cloud is configured already; kernos memory delete models/cloud", "cloud:m+key default:cloud demo:"},
		{"demo", "", "a model demo is configured already", "cloud:m+key default:cloud demo:"},
		{"local", "", "", "cloud:m+key default:cloud demo: local:m"},
	} {
		err := chat.Connect(t.Context(), call, chat.Found{Name: step.name, Dialect: "openai-chat", BaseURL: s.URL + "/v1", Model: "m", Key: step.key})
		if (err == nil) != (step.fails == "") || err != nil && !strings.Contains(err.Error(), step.fails) {
			t.Errorf("%s: got %v; want %s", step.name, err, step.fails)
		}
		if got := configured(); got != step.want {
			t.Errorf("%s: configured are %s; want %s", step.name, got, step.want)
		}
	}
	if got := strings.Join(sent, ","); got != "Bearer "+key+",Bearer "+key {
		t.Errorf("sent %s", got)
	}
}
