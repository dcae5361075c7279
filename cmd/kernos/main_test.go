package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"kernos/internal/patience"
	"kernos/internal/testkit"
)

// TestMain gives kernos more time, here and in the processes that tests start: on a busy machine, a daemon may start
// late, and answer a completion or a question for its status late.
func TestMain(m *testing.M) {
	patience.Stretch(20)
	testscript.Main(tidy{m}, map[string]func(){"kernos": main, measured: measure, "systemctl": systemctl})
}

// tidy are tests that leave no goroutine behind.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	status := m.M.Run()
	if status != 0 {
		return status
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestScripts runs the scripts in testdata as a person would type them.
func TestScripts(t *testing.T) {
	wasm, err := filepath.Abs("../../capability/script/engine/testdata/wasm")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("KERNOS_HOME", e.WorkDir+"/home")
			e.Setenv("KERNOS_ORIGIN", "")
			e.Setenv("SSH_AUTH_SOCK", "")
			e.Setenv("WASM", wasm) // modules of WebAssembly
			if err := noHTTP(e.WorkDir + "/home"); err != nil {
				return err
			}
			for _, v := range noModels() {
				name, value, _ := strings.Cut(v, "=")
				e.Setenv(name, value)
			}
			runtime, err := os.MkdirTemp("", "kernos") // its name is short, as those of sockets must be
			if err != nil {
				return err
			}
			e.Setenv("XDG_RUNTIME_DIR", runtime)
			e.Defer(func() {
				endDaemons(runtime)
				_ = os.RemoveAll(runtime)
			})
			// A process with the race detector would wait a second before it ends.
			e.Setenv("GORACE", "atexit_sleep_ms=10")
			e.Values[running] = new(process)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  status,
			"until":   until,
			"hold":    hold,
			"release": release,
			"crash":   crash,
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// status N COMMAND … runs a command and wants it to leave with this status.
func status(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND …")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if ended, ok := err.(interface{ ExitCode() int }); ok {
		got = strconv.Itoa(ended.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("status %s, want %s", got, args[0])
	}
}

// until PATTERN COMMAND … runs a command again until its output has the pattern: some things
// take a moment.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND …")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	if !testkit.Poll(func() bool {
		ts.Check(ts.Exec(args[1], args[2:]...))
		return pattern.MatchString(ts.ReadFile("stdout"))
	}) {
		ts.Fatalf("it does not say %s", args[0])
	}
}

// running is the key of the script's process.
const running = "running"

// A process is a kernos pipe beside the script, which holds the store open.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	errors  bytes.Buffer
}

// hold FILE [FLAG …] runs kernos pipe --inline with these flags and sends it the messages
// in the file. When it has answered each, the script goes on, and so does the process,
// whose number is in $PROCESS.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value(running).(*process)
	if neg || len(args) == 0 || p.command != nil {
		ts.Fatalf("usage: hold FILE [FLAG …], once at a time")
	}
	messages := ts.ReadFile(args[0])
	p.command = exec.Command("kernos", append([]string{"pipe", "--inline"}, args[1:]...)...)
	p.command.Dir = ts.MkAbs(".")
	p.command.Env = os.Environ()
	for _, name := range []string{"KERNOS_HOME", "KERNOS_ORIGIN", "GORACE"} {
		p.command.Env = append(p.command.Env, name+"="+ts.Getenv(name))
	}
	p.command.Stderr = &p.errors
	var err error
	p.in, err = p.command.StdinPipe()
	ts.Check(err)
	out, err := p.command.StdoutPipe()
	ts.Check(err)
	ts.Check(p.command.Start())
	ts.Setenv("PROCESS", strconv.Itoa(p.command.Process.Pid))
	command := p.command
	ts.Defer(func() {
		_ = command.Process.Kill() // it has ended, unless the script has failed
		_ = command.Wait()
	})
	_, err = io.WriteString(p.in, messages)
	ts.Check(err)
	answers := bufio.NewReader(out)
	for range strings.Count(messages, "\n") {
		answer, err := answers.ReadString('\n')
		if err != nil {
			ts.Fatalf("the process has ended: %v: %s", command.Wait(), p.errors.String())
		}
		if !strings.HasPrefix(answer, `{"kind":"reply"`) {
			ts.Fatalf("the process said: %s", answer)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, answers) }() // until it ends
}

// release ends the input of the process that hold has started, and wants it to end well.
func release(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value(running).(*process)
	if neg || len(args) > 0 || p.command == nil {
		ts.Fatalf("usage: release, after hold")
	}
	ts.Check(p.in.Close())
	if err := p.command.Wait(); err != nil || p.errors.Len() > 0 {
		ts.Fatalf("the process: %v: %s", err, p.errors.String())
	}
	p.command = nil
}

// crash kills the process that hold has started.
func crash(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value(running).(*process)
	if neg || len(args) > 0 || p.command == nil {
		ts.Fatalf("usage: crash, after hold")
	}
	ts.Check(p.command.Process.Kill())
	_ = p.command.Wait() // it was killed
	p.command = nil
}
