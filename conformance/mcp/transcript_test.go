package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
)

var update = flag.Bool("update", false, "write the transcripts into their pages")

// TestTranscriptOfTheMemory is what the README shows: a client whose configuration was written by kernos mcp install starts
// what that says, a model that this test plays remembers something, and another client knows it.
func TestTranscriptOfTheMemory(t *testing.T) {
	s := &screen{t: t, hide: strings.NewReplacer()}
	p := newPerson(t, s)
	p.types("kernos mcp install claude-code --yes > /dev/null", "kernos mcp install claude-code --yes")
	s.line("…")
	claude := p.start(t, "claude-code")
	s.says("you", "Remember in kernos that releases go out on Thursdays.")
	claude.calls("Memory_Set", `{"key":"notes/releases","value":"Releases go out on Thursdays."}`)
	claude.end()

	s.says("", "The next day, in Codex:")
	p.types("kernos mcp install codex --yes > /dev/null", "kernos mcp install codex --yes")
	s.line("…")
	codex := p.start(t, "codex")
	s.says("you", "When do releases go out?")
	codex.calls("Memory_Get", `{"key":"notes/releases"}`)
	codex.end()

	s.says("", "Who did what?")
	p.types(callers("--type 'Memory.*'"), "")
	s.compare("../../README.md")
}

// callers is a command that prints which callers have called what, of the messages that a flag of kernos log selects.
func callers(which string) string {
	return "kernos log " + which + " --kind command --kind query --jq '[.record.principal, .kind, .type] | join(\" \")'"
}

// TestTranscriptOfATool is what the tutorial about tools begins with: a model that this test plays uses a sealed secret, and
// writes a tool, which another client calls. The calls, the answers and the log are what they are.
func TestTranscriptOfATool(t *testing.T) {
	const secret = "sk-live-4711"
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"live":"2.4.1","since":"Thursday"}`)
	}))
	t.Cleanup(service.Close)
	s := &screen{t: t, hide: strings.NewReplacer(service.URL, "https://deploys.example.com", strings.TrimPrefix(service.URL, "http://"), "deploys.example.com")}
	p := newPerson(t, s)

	p.prints("kernos mcp install claude-code --yes")
	if err := os.WriteFile(filepath.Join(p.home, "deploys.key"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	p.types("kernos secret set deploys --for "+strings.TrimPrefix(service.URL, "http://")+" < deploys.key", "")

	claude := p.start(t, "claude-code")
	s.says("you", "What is live? The key of https://deploys.example.com is in vault/deploys.")
	key := claude.calls("Memory_Get", `{"key":"vault/deploys"}`)
	if strings.Contains(key, secret) || !strings.Contains(key, "pwenc:v2:") {
		t.Fatalf("the model sees %s", key)
	}
	sealed := strings.Trim(key, `"`)
	if got := claude.calls("Http_Fetch", fmt.Sprintf(`{"url":"%s/live","headers":{"Authorization":"Bearer %s"}}`, service.URL, sealed)); !strings.Contains(got, "2.4.1") {
		t.Fatalf("the service is not reached: %s", got)
	}
	s.says("you", "I will ask that often. Make it a tool.")
	code := `export const description = "Report which version is live.";
export async function handler() {
  const key = await kernos.call("Memory.Get", { key: "vault/deploys" });
  const reply = await fetch("` + service.URL + `/live", { headers: { Authorization: "Bearer " + key } });
  return reply.json();
}`
	claude.calls("Syscall_Call", mustJSON(t, map[string]any{"type": "Syscall.Register", "data": map[string]any{"name": "Deploys.Live", "kind": "command",
		"inputSchema": map[string]any{"type": "object"}, "outputSchema": map[string]any{"type": "object"}, "code": code}}))
	claude.end()

	p.prints("kernos mcp install codex --yes")
	s.says("", "The next day, in Codex:")
	codex := p.start(t, "codex")
	s.says("you", "Which version is live?")
	if got := codex.calls("Deploys_Live", `{}`); !strings.Contains(got, "2.4.1") {
		t.Errorf("the tool says %s", got)
	}
	codex.end()
	s.says("", "What has Codex done?")
	p.types(callers("--principal codex"), "")

	if text := p.prints("kernos log -n 1000 --json"); strings.Contains(text, secret) {
		t.Error("the secret is in the journal")
	}
	s.compare("../../docs/tutorial/schedule.md")
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A screen is what a reader sees.
type screen struct {
	t    *testing.T
	text strings.Builder
	hide *strings.Replacer
}

// sealedText is a sealed string, which differs from run to run.
var sealedText = regexp.MustCompile(`pwenc:v2:[A-Za-z0-9_=+/.-]+`)

func (s *screen) line(text string) {
	s.text.WriteString(strings.TrimRight(s.hide.Replace(sealedText.ReplaceAllString(text, "pwenc:v2:…")), " ") + "\n")
}

func (s *screen) says(who, text string) {
	if s.text.Len() > 0 {
		s.text.WriteByte('\n')
	}
	s.line(strings.TrimSpace(fmt.Sprintf("%-6s %s", who, text)))
}

// compare compares the text with the block of the page, or writes it there.
func (s *screen) compare(page string) {
	s.t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		s.t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n```transcript\n(.*?)```\n")
	found := block.FindSubmatchIndex(text)
	switch {
	case found == nil:
		s.t.Fatalf("%s has no block transcript", page)
	case string(text[found[2]:found[3]]) == s.text.String():
	case *update:
		changed := string(text[:found[2]]) + s.text.String() + string(text[found[3]:])
		if err := os.WriteFile(page, []byte(changed), 0o644); err != nil {
			s.t.Fatal(err)
		}
	default:
		s.t.Errorf("%s has\n%s\nand what happens is\n%s\n(go test ./conformance/mcp -run Transcript -update writes it)", page, text[found[2]:found[3]], s.text.String())
	}
}

// A person types commands in a home of its own.
type person struct {
	t      *testing.T
	screen *screen
	home   string
	env    []string
}

func newPerson(t *testing.T, s *screen) *person {
	t.Helper()
	tool.Need(t, "bash", "jq")
	home, err := os.MkdirTemp("", "km") // its name is short, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(home, "bin")
	if err := os.Symlink(filepath.Dir(testkit.Program(t, "kernos/cmd/kernos")), bin); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(home, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(home, ".local/share/kernos")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	// A daemon that a command starts doesn't take its settings from the environment.
	if err := os.WriteFile(filepath.Join(state, "config.yaml"), []byte("no-http: true\nfetch-allow: [127.0.0.1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, screen: s, home: home, env: []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + run,
		"TZ=UTC", "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=10"}}
	t.Cleanup(func() {
		p.prints("kernos stop")
		_ = os.RemoveAll(home)
	})
	return p
}

// variable is one of the person's environment.
func (p *person) variable(name string) string {
	for _, v := range p.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// prints runs a command, and returns what it prints.
func (p *person) prints(command string) string {
	p.t.Helper()
	c := exec.Command("bash", "-c", command)
	c.Env, c.Dir = p.env, p.home
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s%s", command, err, out, &stderr)
	}
	return string(out)
}

// types runs a command that the reader sees, in other words if there are any.
func (p *person) types(command, shown string) {
	p.t.Helper()
	if shown == "" {
		shown = command
	}
	if !strings.Contains(shown, "/dev/null") {
		p.screen.line("$ " + shown)
	}
	for line := range strings.Lines(p.prints(command)) {
		p.screen.line(strings.TrimSuffix(line, "\n"))
	}
}

// start starts what the configuration of a client says.
func (p *person) start(t *testing.T, client string) *mcpClient {
	t.Helper()
	var entry struct {
		Command string
		Args    []string
	}
	switch client {
	case "claude-code":
		text, err := os.ReadFile(filepath.Join(p.home, ".claude.json"))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ MCPServers map[string]json.RawMessage }
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(file.MCPServers["kernos"], &entry); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	default:
		entry.Command, entry.Args = filepath.Join(p.home, "bin/kernos"), []string{"mcp", "--as", client}
	}
	c := &mcpClient{t: t, screen: p.screen, cmd: exec.Command(entry.Command, entry.Args...)}
	c.cmd.Env, c.cmd.Dir, c.cmd.Stderr = p.env, p.home, os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.asks("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+client+`","version":"1"}}`)
	c.sends(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.tools = c.asks("tools/list", `{}`)
	return c
}

// An mcpClient is a client over stdio.
type mcpClient struct {
	t      *testing.T
	screen *screen
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	sent   int
	tools  string // what tools/list has: a model calls nothing else
}

func (c *mcpClient) sends(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// asks sends a request, and returns its result.
func (c *mcpClient) asks(method, params string) string {
	c.t.Helper()
	c.sent++
	c.sends(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.sent, method, params))
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID            int
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Fatalf("%v: %s", err, line)
		}
		switch {
		case m.ID != c.sent: // a notification
		case m.Error != nil:
			c.t.Fatalf("%s %s: %s", method, params, m.Error)
		default:
			return string(m.Result)
		}
	}
}

// calls calls a tool, shows it, and returns the text of its result.
func (c *mcpClient) calls(tool, arguments string) string {
	c.t.Helper()
	if !strings.Contains(c.tools, `"name":"`+tool+`"`) {
		c.t.Errorf("%s isn't listed: %s", tool, c.tools)
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal([]byte(c.asks("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))), &result); err != nil {
		c.t.Fatal(err)
	}
	if result.IsError {
		c.t.Errorf("%s %s: %s", tool, arguments, result.Content[0].Text)
	}
	var members struct {
		Type string
		Data struct{ Name, Code string }
	}
	if json.Unmarshal([]byte(arguments), &members) == nil && members.Data.Code != "" {
		c.screen.line("agent  " + tool + ` {"type":"` + members.Type + `","data":{"name":"` + members.Data.Name + `", …, "code":`)
		for line := range strings.Lines(members.Data.Code) {
			c.screen.line("         " + strings.TrimSuffix(line, "\n"))
		}
		c.screen.line("       }}")
	} else {
		c.screen.line("agent  " + tool + " " + arguments)
	}
	shown := result.Content[0].Text
	var reply struct {
		Status int
		Body   string
	}
	if json.Unmarshal([]byte(shown), &reply) == nil && reply.Status != 0 { // its headers differ from run to run
		shown = fmt.Sprintf(`{"status":%d, …, "body":%s}`, reply.Status, mustJSON(c.t, reply.Body))
	}
	c.screen.line("kernos " + shown)
	return result.Content[0].Text
}

// end closes the client's side, and waits for the process.
func (c *mcpClient) end() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Error(err)
	}
}
