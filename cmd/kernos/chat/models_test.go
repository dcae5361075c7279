package chat_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kernos/cmd/kernos/chat"
	"kernos/internal/patience"
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
