// Package scripts has syscalls written in TypeScript. The test registers them as a daemon does
// that finds them below os://syscalls, and calls each.
package scripts

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/message"
)

// A machine is a daemon that serves the examples.
type machine struct {
	*daemontest.Daemon
	t *testing.T
}

// start starts a daemon on a copy of the examples, which the owner alone can write.
func start(t *testing.T, home, files string) *machine {
	t.Helper()
	return &machine{daemontest.Serve(t, &daemon.Options{Home: home, Files: daemon.Files{Mounts: []string{"/=" + files}}}), t}
}

// send sends a command and returns its events and the data of its outcome; that of an error begins with its code.
func (m *machine) send(name message.Type, data string, metadata message.Metadata) (events []string, outcome string) {
	m.t.Helper()
	answer, err := m.Call(m.t.Context(), message.Message{Kind: message.KindCommand, Type: name, Data: json.RawMessage(data), Metadata: metadata}, func(e message.Message) {
		events = append(events, string(e.Type)+" "+string(e.Data))
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if answer.Kind == message.KindError {
		e := answer.Failure()
		return events, fmt.Sprintf("%d %s", e.Code, e.Error())
	}
	return events, string(answer.Data)
}

func (m *machine) want(name message.Type, data, want string) {
	m.t.Helper()
	if _, got := m.send(name, data, message.Metadata{}); got != want {
		m.t.Errorf("%s %s\ngot  %s\nwant %s", name, data, got, want)
	}
}

func TestExamples(t *testing.T) {
	home, files := t.TempDir(), t.TempDir()
	all, err := filepath.Glob("*.ts")
	if err != nil || len(all) < 5 {
		t.Fatalf("%d examples: %v", len(all), err)
	}
	folder := filepath.Join(files, "syscalls")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var large strings.Builder
	for i := range 10_000 {
		fmt.Fprintln(&large, i, "é")
	}
	for name, text := range map[string]string{"app.log": "start\nerror: one\nfine\nerror: two\n", "large.log": large.String()} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := start(t, home, files)
	testkit.Until(t, "the examples are registered", func() bool {
		for _, name := range all {
			if _, ok := m.Kernel().Registry().Lookup(message.Type(strings.TrimSuffix(name, ".ts"))); !ok {
				if failed := m.Status().FileErrors; len(failed) > 0 {
					t.Fatal(failed)
				}
				return false
			}
		}
		return true
	})

	m.want("Text.Slug", `{"title":"Crème brûlée, twice!"}`, `{"slug":"creme-brulee-twice"}`)

	events, outcome := m.send("Lines.Find", `{"uri":"os://app.log","find":"error"}`, message.Metadata{})
	if got := strings.Join(append(events, outcome), "\n"); got != `Syscall.Progressed {"message":"line 1","percentage":0}
Lines.Find {"line":2,"text":"error: one"}
Lines.Find {"line":4,"text":"error: two"}
{"lines":5,"found":2}` {
		t.Errorf("Lines.Find: %s", got)
	}

	m.want("Lines.Find", `{"uri":"os://large.log","find":"5000 "}`, `{"lines":10001,"found":1}`)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/rates" && r.Header.Get("Authorization") == "Bearer the key":
			fmt.Fprint(w, `{"rate":1.25}`)
		case r.URL.Path == "/repos/a/b/issues/1":
			fmt.Fprint(w, `{"title":"One","state":"open","labels":[{"name":"bug"}]}`)
		default:
			http.Error(w, "none", http.StatusGone)
		}
	}))
	defer server.Close()
	_, sealed := m.send("Crypto.Seal", fmt.Sprintf(`{"plaintext":"the key","for":[%q]}`, strings.TrimPrefix(server.URL, "http://")), message.Metadata{})
	m.want("Memory.Set", fmt.Sprintf(`{"key":"exchange/server","value":{"url":%q,"token":%s}}`, server.URL, sealed), `{"success":true}`)
	m.want("Exchange.Rate", `{"from":"EUR","to":"USD"}`, `{"rate":1.25,"cached":false}`)
	m.want("Exchange.Rate", `{"from":"EUR","to":"USD"}`, `{"rate":1.25,"cached":true}`)
	m.want("Github.Issue", fmt.Sprintf(`{"repository":"a/b","number":1,"api":%q}`, server.URL), `{"title":"One","state":"open","labels":["bug"]}`)
	m.want("Github.Issue", fmt.Sprintf(`{"repository":"a/b","number":2,"api":%q}`, server.URL), `404 a/b#2: the issue was deleted`)

	m.job()
	m.once()
	m.again()

	// A file that changes is registered again, and one that is gone isn't served.
	if err := os.WriteFile(filepath.Join(folder, "Text.Slug.ts"), []byte("export const kind = 'query', InputSchema = {}, OutputSchema = {};\nexport const handler = () => 'changed';"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the file is registered again", func() bool {
		_, got := m.send("Text.Slug", `{"title":"x"}`, message.Metadata{})
		return got == `"changed"`
	})
	if err := os.Remove(filepath.Join(folder, "Text.Slug.ts")); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the syscall has gone with its file", func() bool {
		_, ok := m.Kernel().Registry().Lookup("Text.Slug")
		return !ok
	})
	// One that others can write is refused, and so is one that can't say what it takes.
	if err := os.WriteFile(filepath.Join(folder, "Text.Module.wasm"), []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(folder, "Text.Open.ts")
	if err := os.WriteFile(open, []byte("export const kind = 'query', InputSchema = {}, OutputSchema = {};\nexport const handler = () => 1;"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{"os://syscalls/Text.Open.ts": "may be written by other users", "os://syscalls/Text.Module.wasm": "register it by hand: kernos register Text.Module.wasm"}
	testkit.Until(t, "the files are refused", func() bool {
		n := 0
		for _, failed := range m.Status().FileErrors {
			if why := refused[failed.URI]; why != "" && strings.Contains(failed.Error, why) {
				n++
			}
		}
		return n == len(refused)
	})
}

// job runs an example as a job, now and on a schedule.
func (m *machine) job() {
	m.t.Helper()
	m.want("Memory.Set", `{"key":"notes/old","value":{"at":0,"text":"old"}}`, `{"success":true}`)
	m.want("Memory.Set", `{"key":"notes/new","value":{"at":1000000000,"text":"new"}}`, `{"success":true}`)
	var started struct{ JobID string }
	_, reply := m.send("Job.Start", `{"name":"Notes.Tidy","payload":{"days":1,"now":1000000001}}`, message.Metadata{})
	if err := json.Unmarshal([]byte(reply), &started); err != nil || started.JobID == "" {
		m.t.Fatalf("Job.Start: %s", reply)
	}
	if _, ended := m.send("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID), message.Metadata{}); !strings.Contains(ended, `"completed"`) {
		m.t.Errorf("the job: %s", ended)
	}
	m.want("Memory.List", `{"prefix":"notes"}`, `{"keys":["notes/new"]}`)
	if _, reply := m.send("Job.Start", `{"name":"Notes.Tidy","payload":{"days":30},"schedule":"0 3 * * *"}`, message.Metadata{}); !strings.Contains(reply, `"jobId"`) {
		m.t.Errorf("the schedule: %s", reply)
	}
}

// once sends a command twice with an idempotency key: it runs once.
func (m *machine) once() {
	m.t.Helper()
	for range 2 {
		if _, got := m.send("Notes.Tidy", `{"days":0,"now":2000000000}`, message.Metadata{IdempotencyKey: "tidy"}); got != `{"kept":0,"removed":1}` {
			m.t.Errorf("Notes.Tidy: %s", got)
		}
	}
}

// again replays a workflow of a script.
func (m *machine) again() {
	m.t.Helper()
	m.send("Text.Slug", `{"title":"Again"}`, message.Metadata{Correlation: "slugs"})
	if _, got := m.send("Message.Replay", `{"correlationId":"slugs","execute":true,"queries":true}`, message.Metadata{}); !strings.Contains(got, `"same":1`) {
		m.t.Errorf("the replay: %s", got)
	}
}
