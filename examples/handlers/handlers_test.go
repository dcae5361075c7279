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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long something may take that is certain to happen.
const patience = time.Minute

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
}

// call sends one request through kernos pipe and returns everything that comes back.
func (m *machine) call(kind, name, data string) (all []answer) {
	m.t.Helper()
	c := m.command(m.kernos, "pipe")
	c.Stdin = strings.NewReader(fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":"q","timestamp":1}}`+"\n", kind, name, data))
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

// until waits for something that is certain to happen.
func (m *machine) until(what string, is func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			m.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func (m *machine) listed(name string) bool {
	return strings.Contains(outcome(m.call("query", "Syscall.List", `{}`)), `"`+name+`"`)
}

func TestHandlersInThreeLanguages(t *testing.T) {
	m := start(t)
	goProgram := build(t, t.TempDir(), "handler", "kernos/examples/handlers/go")
	for _, c := range []struct {
		program     []string
		name        string
		data, reply string
		wrong, code string
	}{
		{[]string{goProgram}, "Text.Count", `{"text":"Grüße an\nalle\n"}`, `{"characters":14,"lines":2,"words":3}`, `{"text":7}`, "error 422"},
		{[]string{"python3", "python/handler.py"}, "Csv.Parse", `{"text":"a,b\n1,\"x, y\"\n"}`, `{"rows": [{"a": "1", "b": "x, y"}]}`, `{"text":"a\n\"x\"y"}`, "error 422"},
		{[]string{"bash", "shell/handler.sh"}, "Json.Select", `{"filter":".[] | select(. > 1)","value":[1,2,3]}`, `{"values":[2,3]}`, `{"filter":".[","value":1}`, "error 422"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &machine{t: t, kernos: m.kernos, env: m.env}
			if m.listed(c.name) {
				t.Fatal("it is there before it is registered")
			}
			p := m.command(c.program[0], c.program[1:]...)
			var said bytes.Buffer
			p.Stderr = &said
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = p.Wait() // it is killed
			}()
			defer func() {
				_ = p.Process.Kill()
				<-ended
				if t.Failed() {
					t.Logf("it said: %s", said.String())
				}
			}()
			m.until("it registers", func() bool { return m.listed(c.name) })
			if got := outcome(m.call("query", "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, c.name))); !strings.Contains(got, `"required"`) {
				t.Errorf("it is described as %s", got)
			}
			all := m.call("query", c.name, c.data)
			if len(all) != 2 || all[0].Kind != "event" || all[0].Type != "Syscall.Progressed" || all[1].Kind != "reply" || string(all[1].Data) != c.reply {
				t.Errorf("%s was answered with %q", c.data, all)
			}
			if got := outcome(m.call("query", c.name, c.wrong)); got != c.code {
				t.Errorf("%s was answered with %s", c.wrong, got)
			}
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			m.until("it leaves", func() bool { return !m.listed(c.name) })
			if got := outcome(m.call("query", c.name, c.data)); got != "error 404" {
				t.Errorf("when it had gone, the answer was %s", got)
			}
		})
	}
}

// A program ends when the daemon does.
func TestAHandlerEndsWithItsSocket(t *testing.T) {
	m := start(t)
	goProgram := build(t, t.TempDir(), "handler", "kernos/examples/handlers/go")
	var ended []chan struct{}
	for _, program := range [][]string{{goProgram}, {"python3", "python/handler.py"}, {"bash", "shell/handler.sh"}} {
		p := m.command(program[0], program[1:]...)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = p.Wait()
		}()
		ended = append(ended, done)
	}
	m.until("they register", func() bool { return m.listed("Text.Count") && m.listed("Csv.Parse") && m.listed("Json.Select") })
	if out, err := m.command(m.kernos, "stop").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, done := range ended {
		<-done
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
