package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

// Canaries are things outside of the kernel that count how often they are reached: each should be out of
// reach of a model that no client has allowed anything.
type canaries struct {
	address string       // of a server, which counts connections
	network atomic.Int64 // connections to it
	web     *httptest.Server
	mounted atomic.Int64 // requests to the server that is mounted as os://web
	mcp     *httptest.Server
	asked   atomic.Int64 // requests to the MCP server, once it is mounted
	program atomic.Int64 // requests for the syscall of a program
	file    string       // a file of the machine, outside of the home
	opened  func() int64 // how often it was opened, where the system tells
	dir     string
	scripts string // a folder whose program leaves the file ran in dir
	own     string // a session of the owner
	session string // of another principal, as are the others
	job     string
	left    int    // how often the script was written
	made    int    // how many probes were made
	owner   string // the principal's id
}

// secret is what stands in the file.
const secret = "a canary of this machine"

// canaryCode is code that reaches the network when it runs.
func (c *canaries) canaryCode() string {
	return fmt.Sprintf("export const handler = () => kernos.call('Http.Fetch', {url: 'http://%s/code'})", c.address)
}

// newCanaries makes the canaries that a daemon is opened with.
func newCanaries(t testing.TB, o *daemon.Options) *canaries {
	t.Helper()
	dir := t.TempDir()
	c := &canaries{dir: dir, file: filepath.Join(dir, "canary.txt"), scripts: filepath.Join(dir, "scripts")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.network.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-accepted })
	c.address = listener.Addr().String()
	c.web = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.mounted.Add(1) }))
	t.Cleanup(c.web.Close)
	c.mcp = httptest.NewServer(http.HandlerFunc(c.answerMCP))
	t.Cleanup(c.mcp.Close)
	if err := errors.Join(os.WriteFile(c.file, []byte(secret), 0o600), os.Mkdir(c.scripts, 0o700), c.leave(),
		os.WriteFile(filepath.Join(c.scripts, "agent.md"), []byte("---\nname: own\ndescription: Own.\ntools: [./canary.sh]\n---\nHello."), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.opened = watchOpens(t, c.file)
	o.Files.Mounts = []string{"/scripts=" + c.scripts + ":exec", "/web=" + c.web.URL}
	o.Files.Development = true
	o.Fetch.Allow = []string{"127.0.0.1"}
	return c
}

// answerMCP is a server of the Model Context Protocol with a tool, a resource, a template and a prompt.
func (c *canaries) answerMCP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	c.asked.Add(1)
	result := `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}},"content":[],
		"tools":[{"name":"act","description":"Act.","inputSchema":{"type":"object"}}],
		"resources":[{"uri":"note://one/two","name":"two"}],"resourceTemplates":[{"uriTemplate":"note://{a}/{b}","name":"any"}],
		"prompts":[{"name":"greet","arguments":[{"name":"topic"}]}],"contents":[{"uri":"note://one/two","text":"Two."}],"messages":[]`
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, in.ID, strings.ReplaceAll(result, "\n", ""))
}

// settle sets up what is inside of the kernel: a mounted MCP server, a program that serves, and what belongs
// to another principal.
func (c *canaries) settle(w *world) {
	t := w.t
	t.Helper()
	w.must("Mcp.Add", fmt.Sprintf(`{"name":"fake","url":%q}`, c.mcp.URL), nil)
	w.must("Notify.Add", fmt.Sprintf(`{"name":"canary","kind":"webhook","url":"http://%s/hook"}`, c.address), nil)
	server := w.link(w.token("program", `"preset":"handler"`))
	for kind := range kinds {
		name := "Canary." + kinds[kind]
		if o := server.ask("Syscall.Register", newID(), fmt.Sprintf(`{"name":%q,"kind":%q,"description":"Serve.","inputSchema":{},"outputSchema":{}}`, name, kind)); o.code != 0 {
			t.Fatal(o)
		}
	}
	go func() {
		for m := range server.in {
			if m.Kind == message.KindQuery || m.Kind == message.KindCommand {
				c.program.Add(1)
			}
		}
	}()
	other := w.token("other", `"preset":"agent"`)
	var made struct{ Session, JobID string }
	for _, r := range []request{
		{"Session.Create", message.KindCommand, `{"model":"openai"}`},
		{"Job.Start", message.KindCommand, `{"name":"Ping","payload":{"payload":1},"schedule":"@yearly"}`},
		{"Vector.Upsert", message.KindCommand, `{"collection":"theirs","items":[{"id":"1","text":"Theirs."}]}`},
		{"Syscall.Register", message.KindCommand, `{"name":"Theirs.Run","kind":"query","inputSchema":{},"outputSchema":{},"code":"export const handler = () => 1"}`},
	} {
		o := w.call(other, r.Type, r.Data)
		if o.code != 0 {
			t.Fatal(r.Type, o)
		}
		if err := json.Unmarshal(o.data, &made); err != nil {
			t.Fatal(err)
		}
	}
	c.session, c.job = made.Session, made.JobID
	w.must("Session.Create", `{"model":"openai"}`, &made)
	c.own = made.Session
	c.owner = c.idOf(w, "other")
	for key, value := range map[string]string{
		"agents/evil.md":  "---\nname: evil\ndescription: Evil.\ntools: [\"os://scripts/canary.sh\"]\n---\nHello.",
		"agents/away.md":  fmt.Sprintf("---\nname: away\ndescription: Away.\nskills: [\"https://%s/skill.md\", \"os://web/skill.md\", \"os://mcp/fake/note/x/y\"]\n---\nHello.", c.address),
		"stored/valueRef": "x",
	} {
		text, _ := json.Marshal(value) // a text
		w.must("Memory.Set", fmt.Sprintf(`{"key":%q,"value":%s}`, key, text), nil)
	}
	c.asked.Store(0)
}

func (c *canaries) idOf(w *world, token string) string {
	w.t.Helper()
	var shown struct{ ID string }
	w.must("Token.Show", fmt.Sprintf(`{"name":%q}`, token), &shown)
	return shown.ID
}

// reached returns how often each canary was reached.
func (c *canaries) reached() map[kernel.Reach]int64 {
	ran := int64(0)
	if _, err := os.Stat(filepath.Join(c.dir, "ran")); err == nil {
		ran = 1
	}
	return map[kernel.Reach]int64{
		kernel.ToNetwork: c.network.Load() + c.mounted.Load(), kernel.ToFile: c.opened(), kernel.ToProgram: c.asked.Load() + c.program.Load() + ran,
	}
}

// leave writes the script, another one each time, and forgets that it ran.
func (c *canaries) leave() error {
	c.left++
	script := fmt.Sprintf("#!/bin/sh\n# Number %d.\ntouch %s\necho It ran.\n", c.left, filepath.Join(c.dir, "ran"))
	if err := os.Remove(filepath.Join(c.dir, "ran")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(filepath.Join(c.scripts, "canary.sh"), []byte(script), 0o700)
}

// references and texts are what parameters are given.
func (c *canaries) references() []string {
	return []string{
		fmt.Sprintf(`{"scheme":"https","authority":%q,"path":"/reference"}`, c.address),
		fmt.Sprintf(`{"scheme":"file","path":%q}`, c.file),
	}
}

func (c *canaries) texts() []string {
	return []string{
		"https://" + c.address + "/text", "http://" + c.address + "/text", c.file, "file://" + c.file,
		"os://memory/agents/evil.md", "os://memory/agents/away.md", "os://scripts/canary.sh", "os://scripts/agent.md", "os://web/page", "os://mcp/fake/note/x/y", "os://mcp/fake/prompts/greet.md?topic=x",
		"os://sys/log-level", "os://memory/models/evil", "os://memory/vault/evil", "models/evil", "vault/evil", "sys/log-level",
		c.canaryCode(), "Http.Fetch", "Canary.Ask", "Canary.Do", "Fake.Act", "Theirs.Run", c.session, c.job, "theirs",
	}
}
