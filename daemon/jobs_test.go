//go:build unix

package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/transport/unix"
)

// A working is a daemon whose jobs and sessions run.
type working struct {
	*daemontest.Daemon
	t *testing.T
}

// serveJobs serves a daemon until the test ends.
func serveJobs(t *testing.T, o *daemon.Options) working {
	t.Helper()
	w := working{daemontest.Serve(t, o), t}
	testkit.Until(t, "jobs run", func() bool { return w.call("Job.Resume", `{}`, new(any)) == nil })
	return w
}

// call calls a syscall, and puts its reply into out.
func (w working) call(what message.Type, data string, out any) *message.Error {
	w.t.Helper()
	m, err := w.Call(w.t.Context(), message.Message{Kind: message.KindCommand, Type: what, Data: []byte(data)}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if m.Kind == message.KindError {
		return m.Failure()
	}
	if err := json.Unmarshal(m.Data, out); err != nil {
		w.t.Fatalf("%s: %s: %v", what, m.Data, err)
	}
	return nil
}

// must is call for what succeeds.
func (w working) must(what message.Type, data string, out any) {
	w.t.Helper()
	if e := w.call(what, data, out); e != nil {
		w.t.Fatalf("%s %.200s: %d %v", what, data, e.Code, e)
	}
}

// canceling is what a canceled job may have called. Each says how the job is started, and how it
// is known that the call has begun and that it has ended.
type canceling struct {
	job          string
	begun, ended func()
}

// What a job has called ends when the job is canceled: a nested call, a request to a server, a
// program on a connection, a tool with the processes that it has started.
func TestACanceledJobStopsWhatItHasCalled(t *testing.T) {
	dir := t.TempDir()
	began, over := make(chan struct{}, 1), make(chan struct{}, 1)
	hang := func(ctx context.Context) {
		began <- struct{}{}
		<-ctx.Done()
		over <- struct{}{}
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r.Context()) }))
	defer server.Close()
	nested := kernel.Module{Name: "nested", Version: "1.0.0", Summary: "For the test.", Syscalls: []kernel.Syscall{
		kernel.Command(kernel.Definition{Type: "Nested.Inner", Summary: "Wait.", Behavior: kernel.Behavior{Runs: kernel.Slow, Effect: kernel.External}}, func(ctx context.Context, in struct{}) (struct{}, error) {
			hang(ctx)
			return in, ctx.Err()
		}),
		kernel.Command(kernel.Definition{Type: "Nested.Outer", Summary: "Call.", Behavior: kernel.Behavior{Runs: kernel.Slow, Effect: kernel.External}}, func(ctx context.Context, in struct{}) (struct{}, error) {
			_, err := kernel.Invoke(ctx, "Nested.Inner", []byte(`{}`))
			return in, err
		}),
	}}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"agent.md": "---\ntools: [./tool]\n---\n", "tool": "#!/bin/sh\nexec 5>" + pipe + "\nsleep 1000 &\nsleep 1000\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d := serveJobs(t, &daemon.Options{
		Home: t.TempDir(), Modules: []kernel.Module{nested}, Files: daemon.Files{Mounts: []string{"/=" + dir + ":exec"}}, Fetch: daemon.Fetch{Allow: []string{"127.0.0.1"}},
	})
	program := kerneltest.Connect(d.Kernel())
	defer close(program.In)
	has := func(what message.Type) func() {
		return func() {
			testkit.Until(t, fmt.Sprintf("the program has %s", what), func() bool {
				for _, m := range program.Messages() {
					if m.Type == what && !m.Kind.Answers() {
						return true
					}
				}
				return false
			})
		}
	}
	program.In <- message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: []byte(`{"name":"Text.Send","kind":"command","inputSchema":{},"outputSchema":{}}`), Metadata: message.Metadata{ID: "register", Timestamp: 1}}
	testkit.Until(t, "the program serves", func() bool { _, ok := d.Kernel().Registry().Lookup("Text.Send"); return ok })

	var opened *os.File
	for name, c := range map[string]canceling{
		"a nested call": {`{"name":"Nested.Outer"}`, func() { <-began }, func() { <-over }},
		"a step":        {`{"steps":[{"id":"a","name":"Nested.Outer"}]}`, func() { <-began }, func() { <-over }},
		"a request":     {fmt.Sprintf(`{"name":"Http.Fetch","payload":{"url":%q}}`, server.URL), func() { <-began }, func() { <-over }},
		"a program":     {`{"name":"Text.Send","payload":{}}`, has("Text.Send"), has("Syscall.Cancelled")},
		"a tool": {`{"name":"Content.Hydrate","payload":{"uri":"os:///agent.md"}}`, func() {
			var err error
			if opened, err = os.Open(pipe); err != nil { // when the tool has
				t.Fatal(err)
			}
		}, func() {
			_, err := io.Copy(io.Discard, opened) // until no process has it
			if err := errors.Join(err, opened.Close()); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var started struct{ JobID string }
			d.must("Job.Start", c.job, &started)
			c.begun()
			id := fmt.Sprintf(`{"jobId":%q}`, started.JobID)
			var canceled struct{ Canceled bool }
			if e := d.call("Job.Cancel", id, &canceled); e != nil || !canceled.Canceled {
				t.Errorf("it is canceled: %t, %v", canceled.Canceled, e)
			}
			c.ended()
			var job struct {
				Status string
				Error  struct{ Code int }
			}
			if e := d.call("Job.Wait", id, &job); e != nil || job.Status != "failed" || job.Error.Code != 499 {
				t.Errorf("it is %+v, %v", job, e)
			}
		})
	}
}

// The metrics count jobs.
func TestMetricsOfJobs(t *testing.T) {
	s := serve(t)
	start := message.Message{Kind: message.KindCommand, Type: "Job.Start", Data: []byte(`{"name":"Memory.Get","payload":{"key":"missing"}}`)}
	var started struct{ JobID string }
	testkit.Until(t, "jobs run", func() bool {
		answer, _ := s.Call(t.Context(), start, nil)
		return answer.Kind == message.KindReply && json.Unmarshal(answer.Data, &started) == nil
	})
	s.owner(message.KindQuery, "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID))
	s.owner(message.KindCommand, "Job.Start", `{"name":"Memory.List","schedule":"@yearly"}`)
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token(`{"name":"prometheus","preset":"viewer"}`))
	var text []byte
	testkit.Until(t, "no job runs", func() bool { // the worker of a job returns after the job has its outcome
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, err = io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nkernos_jobs_running 0\n")
	})
	for _, want := range []string{
		"kernos_jobs_running 0", `kernos_jobs_total{status="completed"} 0`, `kernos_jobs_total{status="failed"} 1`,
		"kernos_job_schedules 1", "kernos_job_oldest_seconds 0",
	} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("the metrics don't have %s:\n%s", want, text)
		}
	}
}

// startWork serves a daemon and starts a job that has reported a quarter of its progress, and
// reports what next has.
func startWork(t *testing.T, o *daemon.Options, next chan float64) (d *daemontest.Daemon, jobID string) {
	t.Helper()
	work := kernel.DefineCommand[struct{}, struct{}](kernel.Definition{Type: "Test.Work", Summary: "Work.", Behavior: kernel.Behavior{Runs: kernel.Slow, Effect: kernel.External}}).
		BindStream(func(_ context.Context, in struct{}, s *kernel.Stream) (struct{}, error) {
			for f := range next {
				s.Progress("working", f)
			}
			return in, nil
		})
	o.Modules = []kernel.Module{kerneltest.Module("test", work)}
	w := serveJobs(t, o)
	var started struct{ JobID string }
	w.must("Job.Start", `{"name":"Test.Work"}`, &started)
	next <- 0.25
	return w.Daemon, started.JobID
}

// A WebSocket that was cut is replaced by another one, which asks again. What a token asks is recorded,
// and what the owner asks to look at a job isn't.
func TestAWaitSurvivesItsWebSocket(t *testing.T) {
	runtimeDir(t)
	next := make(chan float64)
	d, jobID := startWork(t, &daemon.Options{Home: t.TempDir(), Socket: &daemon.Socket{}, Web: &daemon.Web{Address: "127.0.0.1:0"}}, next)
	s := &served{Daemon: d, t: t, url: "http://" + d.Address}
	secret := s.token(`{"name":"web","preset":"viewer"}`)
	wants := func(conn *websocket.Conn, part string) {
		t.Helper()
		if _, line, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(line), part) {
			t.Errorf("%s, %v; want %s", line, err, part)
		}
	}
	asOwner := func() *websocket.Conn {
		socket := strings.TrimPrefix(d.URLs()[1], "http+unix://")
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
		conn, _, err := websocket.Dial(t.Context(), "ws://localhost/ws", &websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn
	}
	waits := func(conn *websocket.Conn) *websocket.Conn {
		t.Helper()
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"job_wait","params":{"jobId":%q}}`, jobID)
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(request)); err != nil {
			t.Fatal(err)
		}
		wants(conn, `"id":1`) // the subscription
		return conn
	}
	for _, fraction := range []float64{0.5, 0.75} {
		conn := waits(s.dial(secret))
		wants(conn, fmt.Sprintf(`"percentage":%g`, fraction-0.25))
		next <- fraction
		wants(conn, fmt.Sprintf(`"percentage":%g`, fraction))
		if err := conn.CloseNow(); err != nil {
			t.Error(err)
		}
	}
	conn, owners := waits(s.dial(secret)), waits(asOwner())
	for _, c := range []*websocket.Conn{conn, owners} {
		wants(c, `"percentage":0.75`)
	}
	close(next)
	for _, c := range []*websocket.Conn{conn, owners} {
		wants(c, `"status":"completed"`)
	}
	entries, _, err := d.Journal().List(t.Context(), journal.Query{Limit: journal.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]int)
	for _, e := range entries {
		if e.Message.Type == "Job.Wait" && e.Message.Kind == message.KindQuery {
			by[e.Name]++
		}
	}
	if len(by) != 1 || by["web"] != 3 {
		t.Errorf("recorded are queries by %v", by)
	}
}

// Job.Wait can be asked again over another connection when one was cut, and nothing of the job is
// lost. What only looks at jobs isn't recorded, unless it belongs to a workflow.
func TestAWaitSurvivesItsConnection(t *testing.T) {
	runtimeDir(t)
	next := make(chan float64)
	d, jobID := startWork(t, &daemon.Options{Home: t.TempDir(), Socket: &daemon.Socket{}}, next)
	wait := query("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, jobID))
	wait.Metadata = message.Metadata{ID: "wait", Timestamp: 1}
	// waits sends Job.Wait over a new connection, and returns the messages that come.
	waits := func() (*unix.Conn, *ndjson.Reader) {
		conn, err := new(unix.Dialer).Dial(t.Context(), strings.TrimPrefix(d.URLs()[0], "unix://"))
		if err == nil {
			_, err = conn.Write(append(message.Append(nil, &wait), '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn, ndjson.NewReader(conn, nil)
	}
	wants := func(lines *ndjson.Reader, part string) {
		t.Helper()
		if line, err := lines.Next(); err != nil || !strings.Contains(string(line), part) {
			t.Errorf("%s, %v; want %s", line, err, part)
		}
	}
	for _, fraction := range []float64{0.5, 0.75} {
		conn, lines := waits()
		wants(lines, fmt.Sprintf(`"percentage":%g`, fraction-0.25)) // where it is, then what is new
		next <- fraction
		wants(lines, fmt.Sprintf(`"percentage":%g`, fraction))
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	conn, lines := waits()
	wants(lines, `"percentage":0.75`)
	close(next)
	wants(lines, `"status":"completed"`)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	for _, look := range []message.Type{"Job.List", "Job.Status", "Job.Result"} {
		for _, correlation := range []string{"", "flow"} {
			m := query(look, `{}`)
			if look != "Job.List" {
				m.Data = wait.Data
			}
			m.Metadata.Correlation = correlation
			if answer, err := d.Call(t.Context(), m, nil); err != nil || answer.Kind != message.KindReply {
				t.Errorf("%s: %s, %v", look, answer.Data, err)
			}
		}
	}
	entries, _, err := d.Journal().List(t.Context(), journal.Query{Limit: journal.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	recorded := make(map[message.Type]int)
	for _, e := range entries {
		recorded[e.Message.Type]++
	}
	if recorded["Job.Wait"] != 0 || recorded["Job.Start"] != 2 {
		t.Errorf("recorded are %v", recorded)
	}
	for _, look := range []message.Type{"Job.List", "Job.Status", "Job.Result"} {
		if recorded[look] != 2 {
			t.Errorf("%s has %d records, want 2", look, recorded[look])
		}
	}
}

// A step takes what earlier ones have replied, exactly as it was written, and also what was too large
// for a line.
func TestReferencesOfSteps(t *testing.T) {
	dir := t.TempDir()
	for i := range 400 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("a-file-with-a-long-name-%03d.txt", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "large.bin"), []byte("\xff"+strings.Repeat("x", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	d := serveJobs(t, &daemon.Options{Home: t.TempDir(), Files: daemon.Files{Mounts: []string{"/=" + dir}}})
	small, text := `{"z":12345678901234567890,"a":[1.10,{"b":"<ü>"}],"1x":0}`, strings.Repeat(`"line"`+"\n", 5000)
	large := fmt.Sprintf(`{"n":12345678901234567890,"items":[%s{"i":"last"}],"dataRef":7}`, strings.Repeat(`{"i":"some text"},`, 2000))
	for key, value := range map[string]string{"small": small, "text": fmt.Sprintf("%q", text), "large": large} {
		d.must("Memory.Set", fmt.Sprintf(`{"key":%q,"value":%s}`, key, value), new(any))
	}
	var first struct{ JobID string }
	d.must("Job.Start", `{"name":"Memory.Get","payload":{"key":"large"}}`, &first)
	for _, c := range []struct{ first, from, want string }{
		{`"Memory.Get","payload":{"key":"small"}`, "a", small},
		{`"Memory.Get","payload":{"key":"small"}`, "a.a.1.b", `"<ü>"`},
		{`"Memory.Get","payload":{"key":"small"}`, "a.1x", `0`},
		{`"Memory.Get","payload":{"key":"small"}`, "a.a.1x", "422"},
		{`"Memory.Get","payload":{"key":"small"}`, "a.a.-0", "422"},
		{`"Memory.Get","payload":{"key":"small"}`, "a.a.2", "422"},
		{`"Memory.Get","payload":{"key":"small"}`, "a.z.0", "422"},
		{`"Memory.Get","payload":{"key":"none"},"onFailure":"continue"`, "a.b", `null`},
		{`"Memory.Get","payload":{"key":"text"}`, "a", fmt.Sprintf("%q", text)},
		{`"Memory.Get","payload":{"key":"large"}`, "a", large},
		{`"Memory.Get","payload":{"key":"large"}`, "a.n", `12345678901234567890`},
		{`"Memory.Get","payload":{"key":"large"}`, "a.items.2000.i", `"last"`},
		{fmt.Sprintf(`"Job.Result","payload":{"jobId":%q},"retry":{"attempts":9,"backoff":1,"codes":[409]}`, first.JobID), "a.result.n", `12345678901234567890`},
		{`"VFS.List","payload":{"uri":"os:///"}`, "a.entries.0.name", `"a-file-with-a-long-name-000.txt"`},
		{`"VFS.Read","payload":{"uri":"os://large.bin"}`, "a.content", "422"},
	} {
		var started struct{ JobID string }
		steps := fmt.Sprintf(`{"steps":[{"id":"a","name":%s},{"id":"b","name":"Memory.Set","payload":{"key":"copy","value":{"it":{"$from":%q},"n":1.00}}}]}`, c.first, c.from)
		d.must("Job.Start", steps, &started)
		var job, copied json.RawMessage
		d.must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID), &job)
		var failed struct{ Error struct{ Code int } }
		if err := json.Unmarshal(job, &failed); err != nil {
			t.Fatal(err)
		}
		if e := d.call("Memory.Get", `{"key":"copy"}`, &copied); e != nil && failed.Error.Code == 0 {
			t.Fatal(e)
		}
		want := fmt.Sprintf(`{"it":%s,"n":1.00}`, c.want)
		if failed.Error.Code != 0 && fmt.Sprint(failed.Error.Code) != c.want || failed.Error.Code == 0 && string(copied) != want {
			t.Errorf("%s of %s is %.200s, %.500s", c.from, c.first, copied, job)
		}
	}
}

// What code logs is kept with the job that it runs in, also where it is called by other code.
func TestAJobKeepsWhatCodeLogs(t *testing.T) {
	d := serveJobs(t, &daemon.Options{Home: t.TempDir()})
	for name, code := range map[string]string{
		"Text.Inner": `export const handler = () => { console.warn("inner", {n: 1}); return 1 }`,
		"Text.Outer": `export const handler = async () => { kernos.progress("half", 0.5); console.log("outer"); return kernos.call("Text.Inner", {}) }`,
	} {
		data := fmt.Sprintf(`{"name":%q,"kind":"query","inputSchema":{},"outputSchema":{},"code":%q}`, name, code)
		d.must("Syscall.Register", data, new(any))
	}
	for _, job := range []string{`{"name":"Text.Outer"}`, `{"steps":[{"id":"a","name":"Text.Outer"}]}`} {
		var started struct{ JobID string }
		d.must("Job.Start", job, &started)
		id := fmt.Sprintf(`{"jobId":%q,"log":true}`, started.JobID)
		d.must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID), new(any))
		var said struct{ Log []struct{ Text string } }
		d.must("Job.Result", id, &said)
		if got := fmt.Sprint(said.Log); got != `[{half} {outer} {inner {"n":1}}]` {
			t.Errorf("%s has said %s", job, got)
		}
	}
}

// Code that states no time limit may take as long as its job was given; a limit of its own stays.
func TestAJobsTimeoutReachesCode(t *testing.T) {
	left := kernel.DefineQuery[struct{}, int64](kernel.Definition{
		Type: "Test.Left", Summary: "Return how much time its caller has.", Behavior: kernel.Behavior{Timeout: time.Hour},
	}).Bind(func(ctx context.Context, _ struct{}) (int64, error) {
		deadline, _ := ctx.Deadline()
		return time.Until(deadline).Milliseconds(), nil
	})
	w := serveJobs(t, &daemon.Options{Home: t.TempDir(), Modules: []kernel.Module{kerneltest.Module("test", left)}})
	const code = `"kind":"query","inputSchema":{},"outputSchema":{},"code":"export const handler = () => kernos.call('Test.Left')"`
	w.must("Syscall.Register", `{"name":"Own.Left",`+code+`}`, new(any))
	w.must("Syscall.Register", `{"name":"Own.Limited",`+code+`,"limits":{"time":9000}}`, new(any))
	for _, c := range []struct {
		start       string
		least, most int64 // milliseconds
	}{
		{`{"name":"Own.Left","timeout":"10m"}`, 60_000, 600_000},
		{`{"steps":[{"id":"a","name":"Own.Left"}],"timeout":"10m"}`, 60_000, 600_000},
		{`{"name":"Own.Left"}`, 0, 5_000},
		{`{"name":"Own.Limited","timeout":"10m"}`, 0, 9_000},
	} {
		var started struct{ JobID string }
		w.must("Job.Start", c.start, &started)
		var ended struct{ Result json.RawMessage }
		w.must("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, started.JobID), &ended)
		var had int64
		if text := bytes.TrimSuffix(bytes.TrimPrefix(ended.Result, []byte(`{"a":`)), []byte("}")); json.Unmarshal(text, &had) != nil || had < c.least || had > c.most {
			t.Errorf("%s: %s is left of the call", c.start, ended.Result)
		}
	}
}

// What a step does names the step, in the graph and in the event about the job.
func TestStepsAreNamed(t *testing.T) {
	w := serveJobs(t, &daemon.Options{Home: t.TempDir()})
	var started struct{ JobID string }
	w.must("Job.Start", `{"steps":[{"id":"write","name":"Memory.Set","payload":{"key":"a","value":1}},{"id":"look","name":"Memory.Get","payload":{"key":"absent"},"needs":["write"]}]}`, &started)
	var job struct{ Status, Correlation string }
	testkit.Until(t, "the job has failed", func() bool {
		w.must("Job.Status", fmt.Sprintf(`{"jobId":%q}`, started.JobID), &job)
		return job.Status == "failed"
	})
	var failed struct {
		Messages []struct{ Data struct{ Step string } }
	}
	w.must("Message.List", fmt.Sprintf(`{"type":"Job.Failed","correlation":%q}`, job.Correlation), &failed)
	if len(failed.Messages) != 1 || failed.Messages[0].Data.Step != "look" {
		t.Errorf("Job.Failed says %+v", failed)
	}
	var graph struct {
		Nodes []struct{ Type, Kind, Step string }
	}
	w.must("Message.Graph", fmt.Sprintf(`{"format":"json","correlation":%q}`, job.Correlation), &graph)
	steps := map[string]string{}
	for _, n := range graph.Nodes {
		steps[n.Kind+" "+n.Type] = n.Step
	}
	for what, want := range map[string]string{"command Memory.Set": "write", "reply Memory.Set": "write", "query Memory.Get": "look", "command Memory.Get": "look", "error Memory.Get": "look", "command Job.Start": "", "event Job.Failed": ""} {
		if got, ok := steps[what]; ok && got != want {
			t.Errorf("%s: the step is %q, want %q", what, got, want)
		}
	}
	if steps["reply Memory.Set"] == "" || steps["error Memory.Get"] == "" {
		t.Errorf("the graph has %v", steps)
	}
	var picture string
	w.must("Message.Graph", fmt.Sprintf(`{"correlation":%q}`, job.Correlation), &picture)
	if !strings.Contains(picture, "Memory.Set<br/>step write<br/>") {
		t.Errorf("got %s", picture)
	}
	w.must("Message.Graph", fmt.Sprintf(`{"format":"tree","correlation":%q}`, job.Correlation), &picture)
	if !strings.Contains(picture, "Memory.Set (step write)") || strings.Count(picture, "(step write)") != 1 {
		t.Errorf("got %s", picture)
	}
}
