package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A trial is a test that asks for tools.
type trial struct {
	testing.TB
	name, outcome string
}

func (t *trial) Helper()      {}
func (t *trial) Name() string { return t.name }

func (t *trial) Skipf(format string, args ...any) { t.end("skip", format, args) }

func (t *trial) Fatalf(format string, args ...any) { t.end("fail", format, args) }

func (t *trial) Fatal(args ...any) { t.end("fail", "%v", args) }

func (t *trial) end(how, format string, args []any) {
	t.outcome = how + ": " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// try returns how a test ends that needs some tools.
func try(name string, needs ...string) string {
	t := &trial{name: name, outcome: "runs"}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Need(t, needs...)
	}()
	<-ended
	return t.outcome
}

// only makes a PATH with nothing but some programs.
func only(t *testing.T, programs ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestTestsThatLackAToolAreSkippedAndCounted(t *testing.T) {
	only(t, "jq", "brew")
	file := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(skipped, file)
	t.Setenv(needAll, "")
	for _, c := range []struct {
		name  string
		needs []string
		want  string
	}{
		{"TestA", []string{"jq"}, "runs"},
		{"TestB", []string{"curl", "jq"}, "skip: curl: missing; make setup installs it"},
		{"TestC", []string{"curl", "python3"}, "skip: curl and python3: missing; make setup installs it"},
		{"TestD", []string{"abacus"}, `fail: the tool "abacus" isn't in the list of internal/testkit/tool`},
	} {
		if got := try(c.name, c.needs...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for system, want := range map[*System]string{
		Here(): `Skipped 2 tests for want of a tool. make setup installs all of them, as here one by one:
  curl         2 tests    brew install curl
  python3      1 test     brew install python
`,
		&debian: `Skipped 2 tests for want of a tool. make setup installs all of them, as here one by one:
  curl         2 tests    apt-get install curl
  python3      1 test     apt-get install python3
`,
		{}: `Skipped 2 tests for want of a tool. make setup installs all of them, as here one by one:
  curl         2 tests    install curl
  python3      1 test     install python3
`,
	} {
		if got, err := Summary(strings.NewReader(string(lines)), system); err != nil || got != want {
			t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
		}
	}
	if got, err := Summary(strings.NewReader("npm modules\tmcp.test TestD\n"), &debian); err != nil || !strings.HasSuffix(got, "\n  npm modules  1 test     make npm\n") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := Summary(strings.NewReader(""), &debian); got != "" || err != nil {
		t.Errorf("a run that skipped nothing has the summary %q, %v", got, err)
	}
	if got, err := Summary(strings.NewReader("garbage\n"), &debian); err == nil {
		t.Errorf("a line that isn't a tool and a test is read as %q", got)
	}

	t.Setenv(needAll, "1")
	if got, want := try("TestE", "curl"), "fail: curl: missing, and KERNOS_TEST_ALL is set; make setup installs it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again, _ := os.ReadFile(file); string(again) != string(lines) {
		t.Errorf("a failed test is counted as skipped: %s", again)
	}
}

func TestOldNodeIsMissing(t *testing.T) {
	only(t, "node")
	for text, want := range map[string]int{"v18.20.4": 18, "24.0.0": 24, "": 0, "no": 0} {
		program := filepath.Join(t.TempDir(), "node")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho '"+text+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := version(program); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestToolsInCommands(t *testing.T) {
	for commands, want := range map[string]string{
		"kernos ls --jq .":                              "",
		"kernos log --json | jq -r .type":               "jq",
		"curl -s localhost |jq .\npython3 handler.py &": "curl jq python3",
		"x=$(jq . file)":                                "jq",
		"kernos token create curl":                      "",
		"cat jq.txt; ls node_modules":                   "",
		"A=1; env node x.mjs":                           "node",
		"kernos handle X -- python3 count.py":           "python3",
	} {
		if got := strings.Join(In(commands), " "); got != want {
			t.Errorf("%q runs %q, want %q", commands, got, want)
		}
	}
}

func TestSetupInstallsWhatIsMissing(t *testing.T) {
	only(t, "apt-get", "curl", "jq", "bash", "cc")
	missing := Missing()
	packages := Here().Packages(missing)
	for name, want := range map[string]bool{"curl": false, "jq": false, "gcc": false, "python3": true, "npm": true} {
		if slices.Contains(packages, name) != want {
			t.Errorf("%s is installed: %t", name, !want)
		}
	}
	commands := Here().Commands([]string{"a", "b"})
	last := strings.Join(commands[len(commands)-1], " ")
	if len(commands) != 2 || !strings.HasSuffix(last, "apt-get install -y --no-install-recommends a b") || strings.HasPrefix(last, "sudo ") != (os.Getuid() != 0) {
		t.Errorf("got %q", commands)
	}
	for _, tool := range List() {
		if tool.Why == "" || Here().Remedy(&tool) == "" || macOS.Remedy(&tool) == "" {
			t.Errorf("%s has no reason, or no remedy", tool.Name)
		}
	}
}
