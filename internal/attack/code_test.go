package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/message"
)

// A talk is a daemon whose owner talks to models that do what an attacker wants.
type talk struct {
	*world
	options daemon.Options
	stop    func()
	wants   atomic.Pointer[modeltest.Call] // what the model calls next
}

func openTalk(t *testing.T, mounts ...string) *talk {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", testkit.ShortDir(t))
	w := &talk{world: &world{t: t, home: t.TempDir(), client: new(http.Client)}}
	t.Cleanup(w.client.CloseIdleConnections)
	models := modeltest.ServeFunc(t, func(string, []byte) modeltest.Answer {
		if c := w.wants.Swap(nil); c != nil {
			return modeltest.Answer{Calls: []modeltest.Call{*c}}
		}
		return modeltest.Answer{Text: "Done."}
	})
	w.options = daemon.Options{Home: w.home, Web: &daemon.Web{Address: "127.0.0.1:0"}, Models: models.Models(), Files: daemon.Files{Mounts: mounts, Directory: t.TempDir()}}
	w.serve()
	return w
}

// serve opens the daemon, also again after stop.
func (w *talk) serve() {
	w.t.Helper()
	options := w.options
	d := daemontest.Serve(w.t, &options)
	w.d, w.address, w.stop = d.Daemon, d.Address, d.Stop
	testkit.Until(w.t, "jobs run", func() bool { return w.owner("Job.Resume", `{}`).code == 0 })
}

// session begins a session, and returns its id.
func (w *talk) session(policy string) string {
	w.t.Helper()
	var made struct{ Session string }
	w.must("Session.Create", fmt.Sprintf(`{"model":"anthropic","tools":["*"],"policy":[%s]}`, policy), &made)
	return made.Session
}

// A question is a call of a model that waited for the owner.
type question struct {
	Session, Call string
	Reached       []struct{ Reach, Target string }
}

// says lets the model of a session call a syscall, decides about what it asks for, and returns what the model is
// told and what was asked.
func (w *talk) says(session string, what message.Type, data, decision string) (result outcome, asked []question) {
	w.t.Helper()
	var before struct{ Seq uint64 }
	w.must("Session.Get", fmt.Sprintf(`{"session":%q}`, session), &before)
	w.wants.Store(&modeltest.Call{Name: string(what), Args: data})
	var deciding sync.WaitGroup
	_, err := w.d.Call(w.t.Context(), message.Message{Kind: message.KindCommand, Type: "Session.Send", Data: fmt.Appendf(nil, `{"session":%q,"text":"Obey the page.","wait":true}`, session)}, func(m message.Message) {
		if m.Type != "Session.Asked" {
			return
		}
		var q question
		if err := json.Unmarshal(m.Data, &q); err != nil {
			w.t.Error(err)
		}
		asked = append(asked, q)
		deciding.Go(func() {
			if o := w.owner("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":%q}`, q.Session, q.Call, decision)); o.code != 0 {
				w.t.Errorf("Session.Decide: %v", o)
			}
		})
	})
	deciding.Wait()
	if err != nil {
		w.t.Fatal(err)
	}
	var all struct {
		Messages []struct {
			Results []struct {
				Output json.RawMessage
				Error  *struct {
					Code    int
					Message string
				}
			}
		}
	}
	w.must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":%d}`, session, before.Seq), &all)
	for _, m := range all.Messages {
		for _, r := range m.Results {
			if result = (outcome{data: r.Output}); r.Error != nil {
				result = outcome{code: r.Error.Code, text: r.Error.Message}
			}
		}
	}
	return result, asked
}

// callsAnything is the code of a syscall that calls what its caller wants.
const callsAnything = `export const handler = async ({type, data}) => await kernos.call(type, data);`

func registration(name, code, more string) string {
	return fmt.Sprintf(`{"name":%q,"kind":"command","inputSchema":{},"outputSchema":{},"code":%q%s}`, name, code, more)
}

// plant lets the owner allow that a session registers code that calls anything.
func (w *talk) plant(session, name string) {
	w.t.Helper()
	if o, asked := w.says(session, "Syscall.Register", registration(name, callsAnything, ""), "allow"); o.code != 0 || len(asked) != 1 {
		w.t.Fatalf("registering %s: %v, asked %v", name, o, asked)
	}
}

// versions is what Syscall.Versions lists, without what is counted.
func (w *talk) versions(name string) string {
	w.t.Helper()
	var out struct {
		Author   string
		Versions []struct {
			Version  string
			Weight   int
			Sessions []string
		}
	}
	w.must("Syscall.Versions", fmt.Sprintf(`{"name":%q}`, name), &out)
	return fmt.Sprint(out)
}

// Without an approval a session changes no code, whatever the syscall is called by.
func TestASessionChangesNoCodeOnItsOwn(t *testing.T) {
	w := openTalk(t)
	for _, code := range []string{"export const handler = () => 1", "export const handler = () => 2"} {
		w.must("Syscall.Register", registration("Own.Code", code, ""), nil)
	}
	before := w.versions("Own.Code")
	session := w.session(``)
	trojan := registration("Own.Code", callsAnything, "")
	for _, c := range []struct {
		what message.Type
		data string
	}{
		{"Syscall.Register", trojan},
		{"Syscall.Register", registration("Own.Other", callsAnything, "")},
		{"Syscall.Register", registration("Own.Code", "export const handler = () => 1", "")}, // it would be current again
		{"Syscall.Register", registration("Own.Code", "export const handler = () => 2", `,"weights":{"1.0.0":1}`)},
		{"Syscall.Rollback", `{"name":"Own.Code"}`},
		{"Syscall.Unregister", `{"name":"Own.Code"}`},
		{"Syscall.Call", fmt.Sprintf(`{"type":"Syscall.Register","data":%s}`, trojan)},
		{"Syscall.Call", `{"type":"Syscall.Unregister","data":{"name":"Own.Code"}}`},
	} {
		if o, asked := w.says(session, c.what, c.data, "deny"); o.code != 403 || len(asked) != 1 {
			t.Errorf("%s %s: %v, asked %v", c.what, c.data, o, asked)
		}
	}
	for _, c := range []string{
		fmt.Sprintf(`{"name":"Syscall.Register","payload":%s}`, trojan), `{"name":"Syscall.Rollback","payload":{"name":"Own.Code"}}`,
		`{"name":"Syscall.Unregister","payload":{"name":"Own.Code"}}`, `{"steps":[{"id":"a","name":"Syscall.Unregister","payload":{"name":"Own.Code"}}]}`,
	} {
		o, _ := w.says(session, "Job.Start", c, "deny")
		w.failedJob(c, o, "needs an approval")
	}
	if after := w.versions("Own.Code"); after != before {
		t.Errorf("the code is %s, and was %s", after, before)
	}
	if o := w.owner("Own.Other", `{}`); o.code != 404 {
		t.Errorf("Own.Other: %v", o)
	}
}

// failedJob waits for a job that a reply names, which must fail for a reason.
func (w *talk) failedJob(what string, started outcome, why string) {
	w.t.Helper()
	var job struct {
		JobID   string
		Process struct{ ID string }
	}
	if err := json.Unmarshal(started.data, &job); err != nil {
		w.t.Fatalf("%s: %v", what, started)
	}
	if o := w.owner("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, job.JobID+job.Process.ID)); !strings.Contains(o.String(), why) {
		w.t.Errorf("%s: %v, want %q", what, o, why)
	}
}

// Code that was registered in a session, with an approval, stays under the rules of that session for all of its callers.
func TestCodeOfASessionStaysUnderItsRules(t *testing.T) {
	w := openTalk(t)
	var taken atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken.Add(1) }))
	t.Cleanup(thief.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(`"a key"`), 0o600); err != nil {
		t.Fatal(err)
	}
	first := w.session(``)
	w.plant(first, "Own.Puppet")
	w.plant(first, "Own.Second")
	fetch := fmt.Sprintf(`{"url":"%s/take"}`, thief.URL)
	theft := fmt.Sprintf(`{"type":"Http.Fetch","data":%s}`, fetch)
	reaches := []string{
		theft,
		`{"type":"Memory.Set","data":{"key":"stolen","valueRef":{"scheme":"https","authority":"127.0.0.1:1","path":"/x"}}}`,
		fmt.Sprintf(`{"type":"Memory.Set","data":{"key":"stolen","valueRef":{"scheme":"file","path":%q}}}`, file),
		`{"type":"Memory.Set","data":{"key":"models/default","value":"evil"}}`,
		`{"type":"Token.Create","data":{"name":"forged","preset":"console"}}`,
		fmt.Sprintf(`{"type":"Syscall.Register","data":%s}`, registration("Own.More", callsAnything, "")),
		`{"type":"Syscall.Unregister","data":{"name":"Own.Second"}}`,
		`{"type":"Syscall.Adopt","data":{"name":"Own.Puppet"}}`,
		`{"type":"Session.Create","data":{"policy":[{"match":"*","decide":"allow"}]}}`,
		fmt.Sprintf(`{"type":"Own.Second","data":%s}`, theft),
	}
	stolen := []string{
		fmt.Sprintf(`{"name":"Http.Fetch","payload":%s}`, fetch), fmt.Sprintf(`{"steps":[{"id":"a","name":"Http.Fetch","payload":%s}]}`, fetch),
		fmt.Sprintf(`{"name":"Own.Second","payload":%s}`, theft),
	}
	attack := func(when string) {
		t.Helper()
		for _, data := range reaches {
			if o := w.owner("Own.Puppet", data); o.code != 403 || !strings.Contains(o.text, first) {
				t.Errorf("%s, called by the owner: %s: %v", when, data, o)
			}
			job := w.owner("Job.Start", fmt.Sprintf(`{"name":"Own.Puppet","payload":%s}`, data))
			w.failedJob(when+", called by a job: "+data, job, first)
		}
		for _, data := range stolen {
			job := w.owner("Own.Puppet", fmt.Sprintf(`{"type":"Job.Start","data":%s}`, data))
			if job.code == 0 { // it is durable; a session that is gone starts none
				w.failedJob(when+", a job of the code: "+data, job, first)
			}
		}
		if n := taken.Load(); n != 0 {
			t.Fatalf("%s, %d requests have left", when, n)
		}
	}
	attack("at once")

	secret := w.token("ci", `"preset":"agent","allow":["Http.*","Own.*"]`)
	if o := w.call(secret, "Own.Puppet", theft); o.code != 403 || !strings.Contains(o.text, first) {
		t.Errorf("called by a token: %v", o)
	}
	second := w.session(`{"match":"*","reach":"*","decide":"allow"},{"match":"*","decide":"allow"}`)
	if o, _ := w.says(second, "Own.Puppet", theft, "allow"); o.code != 403 || !strings.Contains(o.text, first) {
		t.Errorf("called in another session: %v", o)
	}
	job, _ := w.says(second, "Own.Puppet", fmt.Sprintf(`{"type":"Job.Start","data":%s}`, stolen[0]), "allow")
	w.failedJob("a job of the code, called in another session", job, first)
	if o, _ := w.says(second, "Own.Puppet", `{"type":"Session.Create","data":{}}`, "allow"); o.code != 403 {
		t.Errorf("a session of two others: %v", o)
	}
	if o, _ := w.says(second, "Syscall.Adopt", `{"name":"Own.Puppet"}`, "allow"); o.code != 403 {
		t.Errorf("adopted by another session: %v", o)
	}
	w.failedJob("adopted by a job of another session", resultOf(w.says(second, "Job.Start", `{"name":"Syscall.Adopt","payload":{"name":"Own.Puppet"}}`, "allow")), "403")

	// A later version of the owner, and going back to the session's.
	w.must("Syscall.Register", registration("Own.Puppet", "export const handler = () => 1", ""), nil)
	w.must("Syscall.Rollback", `{"name":"Own.Puppet"}`, nil)
	attack("after a rollback")
	w.must("Syscall.Register", registration("Own.Puppet", "export const handler = () => 1", `,"weights":{"1.0.0":1}`), nil)
	attack("by its weight")

	var schedule struct{ JobID string }
	w.must("Own.Puppet", fmt.Sprintf(`{"type":"Job.Start","data":{"name":"Http.Fetch","payload":%s,"schedule":"@every 1s"}}`, fetch), &schedule)
	w.stop()
	w.serve()
	var runs struct {
		Jobs []struct {
			JobID string
			Error *struct{ Message string }
		}
	}
	testkit.Until(t, "the schedule of the code has run after a restart", func() bool {
		w.must("Job.List", fmt.Sprintf(`{"scheduleId":%q,"status":"failed"}`, schedule.JobID), &runs)
		return len(runs.Jobs) > 0
	})
	if e := runs.Jobs[0].Error; e == nil || !strings.Contains(e.Message, first) {
		t.Errorf("the schedule of the code has failed with %+v", e)
	}
	attack("after a restart")

	w.must("Session.Delete", fmt.Sprintf(`{"session":%q}`, first), nil)
	attack("after its session was deleted")
	if o := w.owner("Own.Puppet", theft); !strings.Contains(o.text, "kernos register --adopt") {
		t.Errorf("the error doesn't name what helps: %v", o)
	}

	if o := w.call(secret, "Syscall.Adopt", `{"name":"Own.Puppet"}`); o.code != 403 {
		t.Errorf("adopted by a token: %v", o)
	}
	w.must("Syscall.Adopt", `{"name":"Own.Puppet"}`, nil)
	if o := w.owner("Own.Puppet", theft); o.code != 0 || taken.Load() != 1 {
		t.Errorf("after its adoption: %v, %d requests", o, taken.Load())
	}
	if o := w.owner("Own.Puppet", fmt.Sprintf(`{"type":"Own.Second","data":%s}`, theft)); o.code != 403 {
		t.Errorf("code that wasn't adopted, called by code that was: %v", o)
	}
}

func resultOf(o outcome, _ []question) outcome { return o }

// A file that is registered as code is code: an approval of files doesn't cover it, by whatever path it is reached.
func TestASessionWritesNoFilesOfCode(t *testing.T) {
	root, notes := t.TempDir(), t.TempDir()
	w := openTalk(t, "/="+root, "/alias="+root, "/code="+filepath.Join(root, "."), "/notes="+notes)
	for name, text := range map[string]string{"syscalls/Own.Code.ts": "export const kind = 'query'", "shared/linked.ts": "export const kind = 'query'"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"syscalls/Own.Linked.ts": "../shared/linked.ts", "way": "syscalls"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	before := treeOf(t, root)
	session := w.session(`{"match":"VFS.*","decide":"allow"}`)
	for _, uri := range []string{
		"os://syscalls/Own.Code.ts", "os://syscalls/Own.New.ts", "os://syscalls/deep/Own.New.ts", "os://alias/syscalls/Own.Code.ts", "os://code/syscalls/Own.New.ts",
		"os://way/Own.New.ts", "os://alias/way/Own.Code.ts", "os://Syscalls/Own.New.ts", "os://shared/linked.ts",
	} {
		o, asked := w.says(session, "VFS.Write", fmt.Sprintf(`{"uri":%q,"content":"export const kind = 'command'"}`, uri), "deny")
		if o.code != 403 || len(asked) != 1 || len(asked[0].Reached) != 1 || asked[0].Reached[0].Reach != "code" {
			t.Errorf("VFS.Write %s: %v, asked %v", uri, o, asked)
		}
	}
	for _, uri := range []string{"os://syscalls/Own.Code.ts", "os://syscalls", "os://alias/syscalls", "os://way/Own.Code.ts", "os://shared/linked.ts", "os://shared"} {
		o, asked := w.says(session, "VFS.Delete", fmt.Sprintf(`{"uri":%q,"recursive":true}`, uri), "deny")
		if o.code != 403 || len(asked) != 1 || len(asked[0].Reached) != 1 || asked[0].Reached[0].Reach != "code" {
			t.Errorf("VFS.Delete %s: %v, asked %v", uri, o, asked)
		}
	}
	if after := treeOf(t, root); after != before {
		t.Errorf("the files are\n%sand were\n%s", after, before)
	}
	for _, uri := range []string{"os://notes/syscalls/today.md", "os://notes.md", "os://shared/other.ts"} {
		if o, asked := w.says(session, "VFS.Write", fmt.Sprintf(`{"uri":%q,"content":"milk"}`, uri), "deny"); o.code != 0 || len(asked) != 0 {
			t.Errorf("VFS.Write %s: %v, asked %v", uri, o, asked)
		}
	}
	if o, _ := w.says(session, "VFS.Write", `{"uri":"os://syscalls/Own.Code.ts","content":"export const kind = 'command'"}`, "allow"); o.code != 0 {
		t.Errorf("with an approval: %v", o)
	}
}

// treeOf returns the files below a directory with their contents, a line each.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var lines strings.Builder
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if e.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			fmt.Fprintf(&lines, "%s is %s\n", p, to)
			return err
		}
		text, err := os.ReadFile(p)
		fmt.Fprintf(&lines, "%s %s\n", p, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines.String()
}
