// Package handlers has programs that serve syscalls from outside the kernel, in four
// languages. The tests run them beside a real daemon.
package handlers

import (
	"bufio"
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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	m := &machine{t: t, kernos: testkit.Program(t, "kernos/cmd/kernos")}
	run := filepath.Join(root, "run")
	if err := errors.Join(os.Mkdir(run, 0o700), os.Symlink(m.kernos, filepath.Join(root, "kernos"))); err != nil {
		t.Fatal(err)
	}
	// Others have the address that every kernel of a user wants.
	m.env = append(environment(t), "KERNOS_NO_HTTP=true", "KERNOS_HOME="+filepath.Join(root, "home"), "XDG_RUNTIME_DIR="+run, "PATH="+root+":"+os.Getenv("PATH"))
	socket, _ := m.serve()
	m.env = append(m.env, "KERNOS_SOCKET="+socket)
	return m
}

// serve starts a daemon, and returns the path of its socket and a function that waits for its end. It ends with the test at
// the latest.
func (m *machine) serve() (socket string, wait func()) {
	m.t.Helper()
	daemon := m.command(m.kernos, "serve")
	stderr, err := daemon.StderrPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		m.t.Fatal(err)
	}
	boot := bufio.NewReader(stderr)
	for socket == "" {
		line, err := boot.ReadString('\n')
		if err != nil {
			_ = daemon.Wait()
			m.t.Fatalf("the daemon did not start: %s %v", line, err)
		}
		if name, path, _ := strings.Cut(strings.TrimSpace(line), " "); name == "socket" {
			socket = strings.TrimSpace(path)
		}
	}
	wait = sync.OnceFunc(func() {
		_, _ = io.Copy(io.Discard, boot)
		if err := daemon.Wait(); err != nil {
			m.t.Errorf("the daemon ended with %v", err)
		}
	})
	m.t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		wait()
	})
	return socket, wait
}

// environment is that of this process, with the library for Python.
func environment(t *testing.T) []string {
	t.Helper()
	library, err := filepath.Abs("../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PYTHONPATH="+library, "PYTHONDONTWRITEBYTECODE=1")
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
	tools       []string // that it needs
	name        string
	data, reply string                           // a request, and its answer
	wrong       string                           // a request that gets a 422
	large       string                           // one whose answer is too long for a line; "" if there is none
	numbered    func(i int) (data, reply string) // requests that differ
	many        int                              // of them
	handled     bool                             // by kernos handle
	model       bool                             // it is in examples/models, and tested further there
	socket      bool                             // without a library: it knows a socket only
}

func programs(t *testing.T) []program {
	t.Helper()
	return []program{
		{
			command: []string{testkit.Program(t, "kernos/examples/handlers/go")}, name: "Text.Count", many: 150, socket: true,
			data: `{"text":"Grüße an\nalle\n"}`, reply: `{"characters":14,"lines":2,"words":3}`, wrong: `{"text":7}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"text":%q}`, strings.Repeat("x ", i)), fmt.Sprintf(`{"characters":%d,"lines":0,"words":%d}`, 2*i, i)
			},
		},
		{
			command: []string{testkit.Program(t, "kernos/examples/models/go")}, name: "Echoing.Generate", model: true,
			data: `{"messages":[{"type":"input","text":"x"}]}`, reply: `{"finish":"stop","messages":[{"text":"You said: x","type":"reply"}],"usage":{"input":1,"output":3}}`,
		},
		{
			command: []string{"python3", "python/handler.py"}, tools: []string{"python3"}, name: "Csv.Parse", many: 150,
			data: `{"text":"a,b\n1,\"x, y\"\n"}`, reply: `{"rows":[{"a":"1","b":"x, y"}]}`, wrong: `{"text":"a\n\"x\"y"}`,
			large: `{"text":"` + strings.Repeat("header", 20) + `\n` + strings.Repeat(`1\n`, 200) + `"}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"text":"n\n%d"}`, i), fmt.Sprintf(`{"rows":[{"n":"%d"}]}`, i)
			},
		},
		{
			command: []string{"node", "typescript/handler.mjs"}, tools: []string{"node"}, name: "Url.Parse", many: 150,
			data: `{"url":"https://a.example/b?c=d"}`, reply: `{"host":"a.example","path":"/b","query":{"c":"d"}}`, wrong: `{"url":"nowhere"}`,
			large: `{"url":"https://a.example/` + strings.Repeat("ü", 4000) + `"}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"url":"https://a/%d"}`, i), fmt.Sprintf(`{"host":"a","path":"/%d","query":{}}`, i)
			},
		},
		{
			command: []string{"kernos", "handle", "Json.Select", "--definition", "shell/definition.json", "--", "bash", "shell/handler.sh"}, tools: []string{"bash", "jq"}, name: "Json.Select", many: 20, handled: true,
			data: `{"filter":".[] | select(. > 1)","value":[1,2,3]}`, reply: `{"values":[2,3]}`, wrong: `{"filter":".[","value":1}`,
			large: `{"filter":"repeat(1)","value":1}`,
			numbered: func(i int) (string, string) {
				return fmt.Sprintf(`{"filter":".n","value":{"n":%d}}`, i), fmt.Sprintf(`{"values":[%d]}`, i)
			},
		},
	}
}

// needAll skips a test of all programs at once where a tool of one is missing.
func needAll(t *testing.T) {
	t.Helper()
	for _, p := range programs(t) {
		tool.Need(t, p.tools...)
	}
}

// run starts a program, which ends with the test at the latest. It is over when the channel
// is closed.
func (m *machine) run(p program) (*exec.Cmd, <-chan struct{}) {
	m.t.Helper()
	name := p.command[0]
	if p.handled {
		name = m.kernos
	}
	c := m.command(name, p.command[1:]...)
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

func TestHandlersInFourLanguages(t *testing.T) {
	m := start(t)
	for _, p := range programs(t) {
		if p.model {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			tool.Need(t, p.tools...)
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
	n := p.many
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

// A program waits for the next daemon, serves again, and starts none itself: the test couldn't start one then.
func TestHandlersSurviveTheDaemon(t *testing.T) {
	needAll(t)
	for wire, socket := range map[string]bool{"socket": true, "pipe": false} {
		t.Run(wire, func(t *testing.T) {
			m := start(t)
			all := programs(t)
			if !socket {
				m.env = append(m.env, "KERNOS_SOCKET=")
				all = slices.DeleteFunc(all, func(p program) bool { return p.socket })
			}
			for _, p := range all {
				_, ended := m.run(p)
				testkit.Until(m.t, p.name+" registers", func() bool { return m.listed(p.name) })
				defer func() {
					select {
					case <-ended:
						t.Errorf("%s has ended", p.name)
					default:
					}
				}()
			}
			for range 2 {
				if out, err := m.command(m.kernos, "stop").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				m.serve()
				for _, p := range all {
					testkit.Until(m.t, p.name+" serves again", func() bool { return m.listed(p.name) })
					if got := outcome(m.call("query", p.name, p.data)); got != p.reply {
						t.Errorf("%s was answered with %s", p.data, got)
					}
				}
			}
		})
	}
}

// ends runs a program that can't serve, and checks that it ends with a status other than 0 and a line that says why.
func (m *machine) ends(p program, why string) {
	m.t.Helper()
	name := p.command[0]
	if p.handled {
		name = m.kernos
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), testkit.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, name, p.command[1:]...)
	c.Env = m.env
	out, err := c.CombinedOutput()
	exit, ended := errors.AsType[*exec.ExitError](err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if !ended || exit.ExitCode() <= 0 || !strings.Contains(lines[len(lines)-1], why) || len(lines) > 2 {
		m.t.Errorf("%s ended with %v: %s", p.name, err, out)
	}
}

// What waiting can't mend ends a program: here another program serves the type with another definition.
func TestAWrongDefinitionEndsAHandler(t *testing.T) {
	needAll(t)
	m := start(t)
	for _, p := range programs(t) {
		other := m.command(m.kernos, "handle", p.name, "--kind", "query", "--input", `{"type":"array"}`, "--", "cat")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "another program serves "+p.name, func() bool { return m.listed(p.name) })
		m.ends(p, p.name+" can't be served: ")
		_ = other.Process.Signal(os.Interrupt)
		_ = other.Wait()
	}
}

// A token that a server refuses ends a program, too.
func TestARefusedTokenEndsAHandler(t *testing.T) {
	needAll(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":401,"message":"The token isn't known"}`)
	}))
	defer server.Close()
	m := &machine{t: t, kernos: testkit.Program(t, "kernos/cmd/kernos")}
	bin := t.TempDir()
	if err := os.Symlink(m.kernos, filepath.Join(bin, "kernos")); err != nil {
		t.Fatal(err)
	}
	m.env = append(environment(t), "PATH="+bin+":"+os.Getenv("PATH"), "KERNOS_HOME="+t.TempDir(), "KERNOS_SOCKET=", "KERNOS_CONTEXT="+server.URL, "KERNOS_TOKEN=wrong")
	for _, p := range programs(t) {
		if !p.socket { // a socket has no token
			m.ends(p, "")
		}
	}
}

// What bears the type that a program serves, and is no request, is not for it: the kernel
// answers a line that it can't take with an error of that type. The test plays the kernel.
func TestAHandlerLeavesAloneWhatIsNoRequest(t *testing.T) {
	folder, err := os.MkdirTemp("", "kernos") // its name is short, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	socket := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	env := append(environment(t), "KERNOS_SOCKET="+socket)
	for _, p := range programs(t) {
		if p.handled || p.model {
			continue // what handles it sees requests only
		}
		t.Run(p.name, func(t *testing.T) {
			tool.Need(t, p.tools...)
			m := &machine{t: t, env: env}
			c, ended := m.run(p)
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
			lines := fmt.Sprintf(`{"kind":"reply","type":"Syscall.Register","data":{"registered":true},"metadata":{"id":"x","timestamp":1,"causation":%q}}`+"\n", registration.Metadata.ID)
			for _, kind := range []string{"error", "reply", "event"} {
				lines += request("x-"+kind, kind, p.name, `{"code":413,"message":"Message too large"}`)
			}
			lines += request("x-cancelled", "event", "Syscall.Cancelled", `{"id":"q0"}`)
			for _, asked := range []string{"query", "command"} {
				if _, err := io.WriteString(conn, lines+request("as-"+asked, asked, p.name, p.data)); err != nil {
					t.Fatal(err)
				}
				lines = ""
				for _, kind := range []string{"event", "reply"} {
					var a answer
					if err := said.Decode(&a); err != nil || a.Kind != kind || a.Metadata.Causation != "as-"+asked || kind == "reply" && string(a.Data) != p.reply {
						t.Fatalf("%s of a %s: %+v %s, %v", kind, asked, a, a.Data, err)
					}
				}
			}
			_ = conn.Close() // it comes back, and registers again
			if conn, err = listener.Accept(); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
			if err := json.NewDecoder(conn).Decode(&registration); err != nil || registration.Type != "Syscall.Register" {
				t.Errorf("it came back with %+v, %v", registration, err)
			}
			_ = c.Process.Kill()
			<-ended
		})
	}
}

// The page shows the programs as they are.
func TestThePageShowsThePrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/HANDLERS.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, path := range map[string]string{"go": "go/main.go", "python": "python/handler.py", "js": "typescript/handler.mjs", "bash": "shell/handler.sh"} {
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
