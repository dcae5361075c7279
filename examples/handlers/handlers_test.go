// Package handlers has programs that serve syscalls from outside the kernel, in three
// languages. The tests run them beside a real daemon.
package handlers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/testkit"
)

// TestMain is also kernos pipe, for the shell script where a test plays the kernel.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kernos" {
		relay(os.Getenv("KERNOS_SOCKET"))
		return
	}
	goleak.VerifyTestMain(m)
}

// build builds a program of this module into a folder.
func build(t *testing.T, folder, name, pkg string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	c := exec.Command("go", "build", "-o", path, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// A machine is a place of its own for a daemon and the programs around it.
type machine struct {
	t      *testing.T
	kernos string
	env    []string
}

// start starts a daemon, which ends with the test.
func start(t *testing.T) *machine {
	t.Helper()
	// A socket's path must be short, and the folder of a test may be long.
	root, err := os.MkdirTemp("", "kernos")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m := &machine{t: t, kernos: build(t, root, "kernos", "kernos/cmd/kernos")}
	run := filepath.Join(root, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	m.env = append(os.Environ(), "KERNOS_HOME="+filepath.Join(root, "home"), "XDG_RUNTIME_DIR="+run, "PATH="+root+":"+os.Getenv("PATH"))
	daemon := m.command(m.kernos, "serve")
	stderr, err := daemon.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	boot := bufio.NewReader(stderr)
	socket := ""
	for socket == "" {
		line, err := boot.ReadString('\n')
		if err != nil {
			_ = daemon.Wait()
			t.Fatalf("the daemon did not start: %s %v", line, err)
		}
		if name, path, _ := strings.Cut(strings.TrimSpace(line), " "); name == "socket" {
			socket = strings.TrimSpace(path)
		}
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(io.Discard, boot)
	}()
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		<-rest
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	m.env = append(m.env, "KERNOS_SOCKET="+socket)
	return m
}

func (m *machine) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = m.env
	return c
}

type answer struct {
	Kind, Type string
	Data       json.RawMessage
	Metadata   struct{ ID, Causation string }
}

func request(id, kind, name, data string) string {
	return fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":%q,"timestamp":1}}`+"\n", kind, name, data, id)
}

// call sends one request through kernos pipe and returns everything that comes back.
func (m *machine) call(kind, name, data string) []answer {
	m.t.Helper()
	return m.pipe(request("q", kind, name, data))
}

// pipe sends lines through kernos pipe and returns everything that comes back.
func (m *machine) pipe(lines string) (all []answer) {
	m.t.Helper()
	c := m.command(m.kernos, "pipe")
	c.Stdin = strings.NewReader(lines)
	out, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) { // 1: an error message came back
		m.t.Fatalf("kernos pipe: %v\n%s", err, out)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var a answer
		if err := d.Decode(&a); err == io.EOF {
			return all
		} else if err != nil {
			m.t.Fatalf("%v\n%s", err, out)
		}
		all = append(all, a)
	}
}

// outcome is the last answer, in brief: the data, or the code of an error.
func outcome(all []answer) string {
	if len(all) == 0 {
		return "nothing"
	}
	last := all[len(all)-1]
	if last.Kind != "error" {
		return string(last.Data)
	}
	var e struct{ Code int }
	_ = json.Unmarshal(last.Data, &e)
	return fmt.Sprint("error ", e.Code)
}

func (m *machine) listed(name string) bool {
	return strings.Contains(outcome(m.call("query", "Syscall.List", `{}`)), `"`+name+`"`)
}

// A program is one of the examples, and what it is asked.
type program struct {
	command     []string
	name        string
	data, reply string                           // a request, and its answer
	wrong       string                           // a request that gets a 422
	large       string                           // one whose answer is too long for a line; "" if there is none
	numbered    func(i int) (data, reply string) // requests that differ
}

func programs(t *testing.T) []program {
	t.Helper()
	return []program{
		{
			command: []string{build(t, t.TempDir(), "handler", "kernos/examples/handlers/go")}, name: "Text.Count",
			data: `{"text":"Grüße an\nalle\n"}`, reply: `{"characters":14,"lines":2,"words":3}`, wrong: `{"text":7}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"text":%q}`, strings.Repeat("x ", i)), fmt.Sprintf(`{"characters":%d,"lines":0,"words":%d}`, 2*i, i)
			},
		},
		{
			command: []string{"python3", "python/handler.py"}, name: "Csv.Parse",
			data: `{"text":"a,b\n1,\"x, y\"\n"}`, reply: `{"rows": [{"a": "1", "b": "x, y"}]}`, wrong: `{"text":"a\n\"x\"y"}`,
			large: `{"text":"` + strings.Repeat("header", 20) + `\n` + strings.Repeat(`1\n`, 200) + `"}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"text":"n\n%d"}`, i), fmt.Sprintf(`{"rows": [{"n": "%d"}]}`, i)
			},
		},
		{
			command: []string{"bash", "shell/handler.sh"}, name: "Json.Select",
			data: `{"filter":".[] | select(. > 1)","value":[1,2,3]}`, reply: `{"values":[2,3]}`, wrong: `{"filter":".[","value":1}`,
			large: `{"filter":"repeat(1)","value":1}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"filter":".n","value":{"n":%d}}`, i), fmt.Sprintf(`{"values":[%d]}`, i)
			},
		},
	}
}

// run starts a program, which ends with the test at the latest. It is over when the channel
// is closed.
func (m *machine) run(p program) (*exec.Cmd, <-chan struct{}) {
	m.t.Helper()
	c := m.command(p.command[0], p.command[1:]...)
	said := new(bytes.Buffer)
	c.Stderr = said
	if err := c.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // most are killed
	}()
	m.t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
		if m.t.Failed() {
			m.t.Logf("%s said: %s", p.name, said.String())
		}
	})
	return c, ended
}

func TestHandlersInThreeLanguages(t *testing.T) {
	m := start(t)
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			m := &machine{t: t, kernos: m.kernos, env: m.env}
			if m.listed(p.name) {
				t.Fatal("it is there before it is registered")
			}
			c, _ := m.run(p)
			testkit.Until(m.t, "it registers", func() bool { return m.listed(p.name) })
			if got := outcome(m.call("query", "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, p.name))); !strings.Contains(got, `"required"`) {
				t.Errorf("it is described as %s", got)
			}
			all := m.call("query", p.name, p.data)
			if len(all) != 2 || all[0].Kind != "event" || all[0].Type != "Syscall.Progressed" || all[1].Kind != "reply" || string(all[1].Data) != p.reply {
				t.Errorf("%s was answered with %q", p.data, all)
			}
			if got := outcome(m.call("query", p.name, p.wrong)); got != "error 422" {
				t.Errorf("%s was answered with %s", p.wrong, got)
			}
			// An answer that is too long is an error of its own, and nothing breaks.
			if p.large != "" {
				if got := outcome(m.call("query", p.name, p.large)); got != "error 413" {
					t.Errorf("%.80s was answered with %s", p.large, got)
				}
			}
			m.pipelined(p)
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			testkit.Until(m.t, "it leaves", func() bool { return !m.listed(p.name) })
			if got := outcome(m.call("query", p.name, p.data)); got != "error 404" {
				t.Errorf("when it had gone, the answer was %s", got)
			}
		})
	}
}

// pipelined sends many requests at once, each of which must get its own answer.
func (m *machine) pipelined(p program) {
	m.t.Helper()
	const n = 150
	var lines strings.Builder
	missing := make(map[string]string)
	for i := range n {
		data, reply := p.numbered(i)
		id := fmt.Sprint("q", i)
		lines.WriteString(request(id, "query", p.name, data))
		missing[id] = reply
	}
	for _, a := range m.pipe(lines.String()) {
		if a.Kind == "event" {
			continue
		}
		want, ok := missing[a.Metadata.Causation]
		if !ok || a.Kind != "reply" || string(a.Data) != want {
			m.t.Errorf("%s was answered with %s %s, and %s was expected", a.Metadata.Causation, a.Kind, a.Data, want)
		}
		delete(missing, a.Metadata.Causation)
	}
	if len(missing) > 0 {
		m.t.Errorf("%d of %d requests that came together were not answered", len(missing), n)
	}
}

// A program ends when the daemon does.
func TestAHandlerEndsWithItsSocket(t *testing.T) {
	m := start(t)
	all := programs(t)
	var endings []<-chan struct{}
	for _, p := range all {
		_, ended := m.run(p)
		endings = append(endings, ended)
	}
	testkit.Until(m.t, "they register", func() bool { return m.listed(all[0].name) && m.listed(all[1].name) && m.listed(all[2].name) })
	if out, err := m.command(m.kernos, "stop").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, ended := range endings {
		<-ended
	}
}

// relay is kernos pipe without a daemon: it copies between its standard streams and a socket.
func relay(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
}

// What bears the type that a program serves, and is no request, is not for it: the kernel
// answers a line that it can't take with an error of that type. The test plays the kernel.
func TestAHandlerLeavesAloneWhatIsNoRequest(t *testing.T) {
	folder, err := os.MkdirTemp("", "kernos") // its name is short, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(folder, "kernos")); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	env := append(os.Environ(), "KERNOS_SOCKET="+socket, "PATH="+folder+":"+os.Getenv("PATH"))
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			m := &machine{t: t, env: env}
			_, ended := m.run(p)
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
			said := json.NewDecoder(conn)
			var registration answer
			if err := said.Decode(&registration); err != nil || registration.Type != "Syscall.Register" {
				t.Fatalf("it began with %+v, %v", registration, err)
			}
			var lines strings.Builder
			for _, kind := range []string{"error", "reply", "event"} {
				lines.WriteString(request("x-"+kind, kind, p.name, `{"code":413,"message":"Message too large"}`))
			}
			lines.WriteString(request("x-cancelled", "event", "Syscall.Cancelled", `{"id":"q0"}`))
			lines.WriteString(request("as-query", "query", p.name, p.data))
			lines.WriteString(request("as-command", "command", p.name, p.data))
			if _, err := io.WriteString(conn, lines.String()); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"as-query", "as-command"} {
				for _, kind := range []string{"event", "reply"} {
					var a answer
					if err := said.Decode(&a); err != nil || a.Kind != kind || a.Metadata.Causation != want || kind == "reply" && string(a.Data) != p.reply {
						t.Fatalf("%s of %s: %+v %s, %v", kind, want, a, a.Data, err)
					}
				}
			}
			_ = conn.Close()
			<-ended // it does not outlive its connection
		})
	}
}

// The page shows the programs as they are.
func TestThePageShowsThePrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/HANDLERS.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, path := range map[string]string{"go": "go/main.go", "python": "python/handler.py", "bash": "shell/handler.sh"} {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```\n").FindSubmatch(page)
		if block == nil || !bytes.Equal(block[1], program) {
			t.Errorf("the block in %s in docs/HANDLERS.md is not %s", language, path)
		}
	}
}
