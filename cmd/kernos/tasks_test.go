package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/cmd/kernos/server"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/message"
	"kernos/store"
)

// A task is an input for the model inside, in a session of its own, and what has to come of it.
type task struct {
	says  string
	tools string // of the session; "" means those of a new session
	deny  bool   // the call that asks for an approval is denied
	reply string // a part of the last reply
	calls string // the syscalls that were called

	// What the kernel has afterwards: a request, and a part of its answer.
	query message.Type
	data  string
	has   string
}

// TestTwentyTasks lets the model inside do twenty tasks with a real daemon, over every kind of tool. Two of
// them are killed in the middle.
func TestTwentyTasks(t *testing.T) {
	w := newTasks(t)
	page := w.pages.URL
	tasks := []task{
		// The memory, and the journal.
		{says: "Remember that the door code is 4711.", calls: "Memory.Set", reply: "I will remember that the door code is 4711.", query: "Memory.Get", data: `{"key":"/door-code"}`, has: `"4711"`},
		{says: "What's the door code?", calls: "Memory.Get", reply: "The door code is 4711."},
		{says: "remember that tea is green and my bank password is swordfish", calls: "Memory.Set Memory.Set", reply: "swordfish", query: "Memory.Get", data: `{"key":"/bank-password"}`, has: `"swordfish"`},
		{says: "Please forget tea.", calls: "Memory.Delete", reply: "I have forgotten tea.", query: "Memory.List", data: `{"prefix":"/"}`, has: `{"keys":["bank-password","door-code"]}`},
		{says: "What do you know about me?", calls: "Memory.List", reply: "I know /bank-password, /door-code."},
		{says: "Use Message.Stats.", calls: "Syscall.Call", reply: "Stats answered: {\"messages\": "},

		// The web, which asks for an approval.
		{says: "Fetch " + page + "/page and remember it as kitchen.", calls: "Http.Fetch Memory.Set", reply: "I have stored the page as kitchen.", query: "Memory.Get", data: `{"key":"/kitchen"}`, has: `"fresh bread"`},
		{says: "fetch " + page + "/secret", deny: true, calls: "Http.Fetch", reply: "That was not approved: The call of Http.Fetch was denied"},

		// Files: of the tree, and mounted.
		{says: "Write eggs and flour to os://list.txt.", calls: "VFS.Write", reply: "I have written os://list.txt.", query: "VFS.Read", data: `{"uri":"os://list.txt"}`, has: `"eggs and flour"`},
		{says: "What's in os://docs/guide.md?", calls: "VFS.Read", reply: "os://docs/guide.md says: turn left"},

		// What happened, and what is to happen.
		{says: "Search for door code.", calls: "Message.Search", reply: " about door code."},
		{says: "Every 5 minutes fetch " + page + "/page.", calls: "Job.Start", reply: "will do that every 5 minutes.", query: "Job.List", data: `{}`, has: `"schedule":"*/5 * * * *"`},
		{says: "Remind me in 10 minutes to call mum.", calls: "Job.Start", reply: "in 10 minutes", query: "Job.List", data: `{}`, has: `"name":"Notify.Send"`},

		// A secret; tools that it has never seen: code, a program, an MCP server, and one that runs at the caller.
		{says: "Seal the secret tiger-stripes.", calls: "Syscall.Call", reply: "It is sealed."},
		{says: "Use Text.Shout with text hello.", calls: "Syscall.Call", reply: "Text_Shout answered: HELLO"},
		{says: "call Weather.Report with city Rome", tools: `["Memory.*","Weather.*"]`, calls: "Weather.Report", reply: "sunny"},
		{says: "Use Library.HttpFetch with url " + page + "/page.", calls: "Syscall.Call", reply: "Library_HttpFetch answered: {"},
		{says: "use Screen.Show with title welcome", tools: `["Memory.*",{"name":"Screen.Show","description":"Show a title.","inputSchema":{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}}]`, calls: "Screen.Show", reply: "Screen_Show answered: "},
	}
	for _, task := range tasks {
		w.do(task)
	}
	// A reminder is a notification, which waits until a person has seen it.
	w.do(task{says: "Remind me in 1 second to stretch.", calls: "Job.Start", reply: "in 1 second"})
	testkit.Until(t, "the reminder is listed", func() bool { return strings.Contains(string(w.must("Notify.List", `{}`)), `"text":"stretch"`) })
	if n := w.secrets.Load(); n > 0 {
		t.Errorf("the page that was denied was fetched %d times", n)
	}
	w.killsACall()
	w.killsAGeneration()
	if n := len(tasks) + 2; n != 20 {
		t.Errorf("there are %d tasks", n)
	}
}

// A tasks is a daemon that does tasks, with what their tools need.
type tasks struct {
	t       *testing.T
	house   *house
	args    []string
	server  *daemonProcess
	kernel  *server.Kernel
	pages   *httptest.Server
	secrets atomic.Int32  // how often the page was fetched that isn't approved
	library *house        // another Kernos, which is mounted as an MCP server
	slow    chan struct{} // a value for each time that the slow page is asked for
}

func newTasks(t *testing.T) *tasks {
	w := &tasks{t: t, house: newHouse(t), library: newHouse(t), slow: make(chan struct{}, 8)}
	w.pages = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/secret":
			w.secrets.Add(1)
		case "/slow":
			w.slow <- struct{}{}
			<-r.Context().Done()
		default:
			_, _ = out.Write([]byte("fresh bread"))
		}
	}))
	t.Cleanup(w.pages.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"os/notes.md": "buy milk", "docs/guide.md": "turn left"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.args = []string{"--mount", "/=" + dir + "/os", "--mount", "/docs=" + dir + "/docs:ro"}
	t.Setenv("KERNOS_HOME", w.house.home)
	t.Setenv("XDG_RUNTIME_DIR", w.house.runtime)
	t.Setenv("KERNOS_ORIGIN", "")
	if err := testkit.ShareEngine(daemon.Home{Dir: w.house.home, Origin: store.DefaultOrigin}.State()); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.must("Syscall.Register", `{"name":"Text.Shout","kind":"query","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"outputSchema":{},"code":"export const handler = ({text}) => text.toUpperCase()"}`)
	if err := os.WriteFile(filepath.Join(w.library.home, "config.yaml"), []byte("no-http: true\nfetch-allow: 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.house.must("", "mcp", "add", "library", "--env", "KERNOS_HOME="+w.library.home, "--env", "XDG_RUNTIME_DIR="+w.library.runtime, "--", "kernos", "mcp")
	program := w.house.command("handle", "Weather.Report", "--kind", "query", "--input", `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`, "--", "echo", `{"weather":"sunny"}`)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = program.Process.Kill(), program.Wait() })
	testkit.Until(t, "the program serves", func() bool { _, err := w.call("Weather.Report", `{"city":"Rome"}`, nil); return err == nil })
	return w
}

func (w *tasks) start() {
	w.t.Helper()
	w.server = w.house.serve(w.args...)
	var err error
	if w.kernel, err = server.Open(w.t.Context(), server.Options{}); err != nil {
		w.t.Fatal(err)
	}
	kernel := w.kernel
	w.t.Cleanup(func() { _ = kernel.Close() })
}

// kill ends the daemon as a power cut would, and starts it again.
func (w *tasks) kill() {
	w.t.Helper()
	if err := w.server.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	_ = w.server.wait()
	_ = w.kernel.Close()
	w.start()
}

func (w *tasks) call(t message.Type, data string, event func(json.RawMessage) error) (json.RawMessage, error) {
	kind := message.KindCommand
	switch t {
	case "Memory.Get", "Memory.List", "VFS.Read", "Job.List", "Session.Get", "Session.Messages", "Weather.Report":
		kind = message.KindQuery
	}
	return w.kernel.Call(w.t.Context(), message.Message{Kind: kind, Type: t, Data: json.RawMessage(data)}, event)
}

// try is must for another goroutine than the test's.
func (w *tasks) try(t message.Type, data string) {
	if _, err := w.call(t, data, nil); err != nil {
		w.t.Errorf("%s %s: %v", t, data, err)
	}
}

func (w *tasks) must(t message.Type, data string) json.RawMessage {
	w.t.Helper()
	reply, err := w.call(t, data, nil)
	if err != nil {
		w.t.Fatalf("%s %s: %v", t, data, err)
	}
	return reply
}

// create begins a session.
func (w *tasks) create(data string) string {
	w.t.Helper()
	var made struct{ Session string }
	if err := json.Unmarshal(w.must("Session.Create", data), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.Session
}

// do sends an input, answers what the turn asks, and checks what has come of it.
func (w *tasks) do(k task) {
	w.t.Helper()
	data := `{}`
	if k.tools != "" {
		data = `{"tools":` + k.tools + `}`
	}
	id := w.create(data)
	decision := "allow"
	if k.deny {
		decision = "deny"
	}
	_, err := w.call("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q,"wait":true}`, id, k.says), func(data json.RawMessage) error {
		var e struct{ Message turnMessage }
		_ = json.Unmarshal(data, &e)
		switch m := e.Message; {
		case m.Type == "approval-request":
			go w.try("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":%q}`, id, m.Call, decision))
		case m.Type == "tool-calls" && m.Calls[0].Name == "Screen.Show":
			go w.try("Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"tool-results","results":[{"callId":%q,"output":{"shown":true}}]}}`, id, m.Calls[0].ID))
		}
		return nil
	})
	if err != nil {
		w.t.Errorf("%s: %v", k.says, err)
		return
	}
	w.check(id, k)
}

type turnMessage struct {
	Type, Text, Call string
	Calls            []struct{ ID, Name string }
	Results          []struct {
		CallID string
		Error  *message.Error
	}
}

// check looks at the calls and the last reply of a session, and at what the kernel has.
func (w *tasks) check(id string, k task) {
	w.t.Helper()
	var all struct{ Messages []turnMessage }
	if err := json.Unmarshal(w.must("Session.Messages", fmt.Sprintf(`{"session":%q}`, id)), &all); err != nil {
		w.t.Fatal(err)
	}
	var called []string
	reply, results := "", 0
	for _, m := range all.Messages {
		for _, c := range m.Calls {
			called = append(called, c.Name)
		}
		results += len(m.Results)
		if m.Type == "reply" {
			reply = m.Text
		}
	}
	if calls := strings.Join(called, " "); calls != k.calls || !strings.Contains(reply, k.reply) || results != len(called) {
		w.t.Errorf("%s: it called %q, got %d results and replied %q; want %q and %q", k.says, calls, results, reply, k.calls, k.reply)
	}
	if k.query != "" {
		if got := string(w.must(k.query, k.data)); !strings.Contains(got, k.has) {
			w.t.Errorf("%s: %s %s is %s; want %s", k.says, k.query, k.data, got, k.has)
		}
	}
}

// ended waits until the turn of a session has ended.
func (w *tasks) ended(id string) {
	w.t.Helper()
	testkit.Until(w.t, "the turn has ended", func() bool {
		var now struct{ Status string }
		data, err := w.call("Session.Get", fmt.Sprintf(`{"session":%q}`, id), nil)
		return err == nil && json.Unmarshal(data, &now) == nil && now.Status == "idle"
	})
}

// killsACall kills the daemon while a page is fetched: the request isn't repeated, and the model reports that it
// doesn't know its outcome.
func (w *tasks) killsACall() {
	w.t.Helper()
	k := task{says: "fetch " + w.pages.URL + "/slow", calls: "Http.Fetch", reply: "I don't know whether that happened, so I did not repeat it:"}
	id := w.create(`{"policy":[{"match":"Http.*","decide":"allow"}]}`)
	w.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q}`, id, k.says))
	<-w.slow
	w.kill()
	w.ended(id)
	w.check(id, k)
	if n := len(w.slow); n > 0 {
		w.t.Errorf("the page was fetched %d times more", n)
	}
}

// killsAGeneration kills the daemon while the model speaks: it says the whole once.
func (w *tasks) killsAGeneration() {
	w.t.Helper()
	k := task{says: "tell me a story", reply: "Once there was a ring of clay with many small cups. Each cup held one message. Not one message was ever lost, and the ring was content. The end."}
	id := w.create(`{}`)
	w.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"hello"}`, id)) // what the watch begins with
	w.ended(id)
	begun, spoken := make(chan struct{}, 1), make(chan struct{}, 1)
	watching, stop := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	kernel := w.kernel
	go func() {
		defer close(ended)
		m := message.Message{Kind: message.KindQuery, Type: "Session.Watch", Data: json.RawMessage(fmt.Sprintf(`{"session":%q}`, id))}
		_, _ = kernel.Call(watching, m, func(data json.RawMessage) error {
			came := begun
			if strings.Contains(string(data), `"delta"`) {
				came = spoken
			}
			select {
			case came <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	<-begun
	w.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q}`, id, k.says))
	<-spoken
	stop()
	<-ended
	w.kill()
	w.ended(id)
	w.check(id, k)
}
