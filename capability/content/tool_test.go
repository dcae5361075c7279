//go:build unix

package content

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// agentOf is an agent that has one tool.
func agentOf(tool string) string { return "---\ntools: [" + tool + "]\n---\n" }

// Clauses: H20-6.2-1
func TestWhatToolsSay(t *testing.T) {
	long := strings.Repeat("é", maxDescription)
	for _, test := range []struct{ name, script, want string }{
		{"description", "#!/bin/sh\n[ \"$1\" = --description ] && echo 'Counts words'\n", "Counts words"},
		{"lines", "#!/bin/sh\nprintf '\\n  One.\\r\\n\\nTwo.\\n\\n'\n", "One.\n\nTwo."},
		{"as long as allowed", "#!/bin/sh\necho '" + long + "'\n", long},
		{"too long", "#!/bin/sh\necho '" + long + "é'\n", long},
		{"help if refused", "#!/bin/sh\nif [ \"$1\" = --help ]; then printf 'Cites.\\nReads.\\n\\nOptions:\\n'; else echo usage; exit 2; fi\n", "Cites.\nReads."},
		{"help if silent", "#!/bin/sh\n[ \"$1\" = --help ] && echo Shelves || exit 0\n", "Shelves"},
		{"help after blank lines", "#!/bin/sh\n[ \"$1\" = --help ] && printf '\\n\\nA\\r\\n\\r\\nB' || exit 1\n", "A"},
		{"silent", "#!/bin/sh\nexit 0\n", "ERROR: NO_OUTPUT"},
		{"blank", "#!/bin/sh\necho '  '\n", "ERROR: NO_OUTPUT"},
		{"failing", "#!/bin/sh\necho no >&2\nexit 1\n", "ERROR: EXECUTION_FAILED"},
		{"failing with words", "#!/bin/sh\necho no\nexit 1\n", "ERROR: EXECUTION_FAILED"},
		{"killed", "#!/bin/sh\nkill -9 $$\n", "ERROR: EXECUTION_FAILED"},
		{"no interpreter", "#!/no/such/interpreter\n", "ERROR: EXECUTION_FAILED"},
		{"not UTF-8", "#!/bin/sh\nprintf 'a\\377b'\n", "a\uFFFDb"},
		{"no input", "#!/bin/sh\nread line && echo got it || echo nothing to read\n", "nothing to read"},
		{"beside itself", "#!/bin/sh\nbasename \"$(pwd)\"\n", "tools"},
		{"not executable", "#/bin/sh\necho no\n", "ERROR: PERMISSION_DENIED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files, _ := directory(t, map[string]string{"agent.md": agentOf("tools/it"), "tools/it": test.script})
			if got := tool1(t, New(files, nil), "os://agent.md"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLongHelpEndsWithAHint(t *testing.T) {
	files, _ := directory(t, map[string]string{
		"agent.md": agentOf("it"),
		"it":       "#!/bin/sh\n[ \"$1\" = --help ] && echo '" + strings.Repeat("wörd ", 300) + "' || exit 1\n",
	})
	got := tool1(t, New(files, nil), "os://agent.md")
	if n := utf8.RuneCountInString(got); n > maxDescription || !strings.HasSuffix(got, "wörd… (more with --help)") && !strings.HasSuffix(got, hint) {
		t.Errorf("%d characters: …%s", n, got[len(got)-60:])
	}
}

func TestToolsThatAreNotThere(t *testing.T) {
	files, dir := directory(t, map[string]string{
		"agent.md": "---\ntools: [absent.sh, ./folder, out.sh, 'https://example.com/tool.sh', 'ftp://a/b']\n---\n",
		"folder/x": "",
	})
	if err := os.Symlink("/bin/true", filepath.Join(dir, "out.sh")); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(hydrated(t, New(files, nil), "os://agent.md").Metadata.Dependencies.Tools)
	if got != "[{ftp://a/b ERROR: UNSUPPORTED_SCHEME } {https://example.com/tool.sh ERROR: EXECUTION_SKIPPED } {os://absent.sh ERROR: NOT_FOUND } {os://folder ERROR: FETCH_FAILED } {os://out.sh ERROR: PERMISSION_DENIED }]" {
		t.Errorf("got %s", got)
	}
}

// Clauses: H20-10.3-3
func TestPolicyThatExecutesNothing(t *testing.T) {
	files, dir := directory(t, map[string]string{"agent.md": agentOf("it"), "it": "#!/bin/sh\ntouch ran\necho it\n"})
	if got := tool1(t, New(files, &Options{Execute: ExecuteNone}), "os://agent.md"); got != "ERROR: EXECUTION_SKIPPED" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the tool has run")
	}
}

func TestToolRunsAgainWhenItHasChanged(t *testing.T) {
	script := "#!/bin/sh\necho run >>count\necho %s\n"
	files, dir := directory(t, map[string]string{"agent.md": agentOf("it"), "it": fmt.Sprintf(script, "one")})
	c := New(files, nil)
	for range 3 {
		if got := tool1(t, c, "os://agent.md"); got != "one" {
			t.Errorf("got %q", got)
		}
	}
	runs := func() int {
		text, err := os.ReadFile(filepath.Join(dir, "count"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "run")
	}
	if n := runs(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	put(t, dir, map[string]string{"it": fmt.Sprintf(script, "other")})
	if got := tool1(t, c, "os://agent.md"); got != "other" {
		t.Errorf("got %q", got)
	}
}

// A failure may pass, so it is not kept.
func TestToolThatFailedIsAskedAgain(t *testing.T) {
	files, dir := directory(t, map[string]string{"agent.md": agentOf("it"), "it": "#!/bin/sh\n[ -e ready ] && echo ready\n"})
	c := New(files, nil)
	if got := tool1(t, c, "os://agent.md"); got != "ERROR: EXECUTION_FAILED" {
		t.Errorf("got %q", got)
	}
	put(t, dir, map[string]string{"ready": ""})
	if got := tool1(t, c, "os://agent.md"); got != "ready" {
		t.Errorf("got %q", got)
	}
}

// Clauses: H20-10.3-2
func TestToolSeesNoSecrets(t *testing.T) {
	t.Setenv("KERNOS_TOKEN", "hunter2")
	t.Setenv("SSH_AUTH_SOCK", "/tmp/agent")
	t.Setenv("LC_ALL", "C")
	files, _ := directory(t, map[string]string{"agent.md": agentOf("it"), "it": "#!/bin/sh\nenv\n"})
	got := tool1(t, New(files, nil), "os://agent.md")
	if strings.Contains(got, "KERNOS_TOKEN") || strings.Contains(got, "SSH_AUTH_SOCK") || strings.Contains(got, "hunter2") {
		t.Errorf("it sees %s", got)
	}
	for _, name := range []string{"PATH=", "LC_ALL=C", "TERM=dumb"} {
		if !strings.Contains(got, name) {
			t.Errorf("it does not see %s: %s", name, got)
		}
	}
}

// A tool that never ends is killed with all that it has started, once its time is over.
//
// Clauses: H20-6.2-3
func TestTimeoutKillsTheWholeGroup(t *testing.T) {
	files, dir := directory(t, map[string]string{
		"agent.md": agentOf("it"),
		"it":       "#!/bin/sh\n(exec 3>alive; echo up >&3; sleep 600) &\nsleep 600\n",
	})
	alive, others := fifo(t, filepath.Join(dir, "alive"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := New(files, nil)
	done := make(chan problem, 1)
	path, _ := files.Program("os://it")
	go func() {
		_, problem := c.describe(ctx, path)
		done <- problem
	}()
	buffer := make([]byte, 16)
	if n, err := alive.Read(buffer); err != nil || string(buffer[:n]) != "up\n" {
		t.Fatalf("%q, %v", buffer[:n], err)
	}
	others()
	cancel()
	if problem := <-done; problem != timedOut {
		t.Errorf("got %q", problem)
	}
	if n, err := alive.Read(buffer); n != 0 || err != io.EOF { // no process holds the other end
		t.Errorf("read %q, %v", buffer[:n], err)
	}
}

// fifo makes a named pipe and opens it for reading. It is at its end when all who have
// written to it are gone, and before that one writer was there: the test itself, until the
// first who writes has come.
func fifo(t *testing.T, path string) (r *os.File, others func()) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), own.Close() })
	return r, func() { _ = own.Close() }
}

// What a tool leaves running may hold on to its output: the tool has ended all the same.
func TestLeftoverDoesNotHoldUp(t *testing.T) {
	for _, test := range []struct{ name, start string }{
		{"in its group", "sleep 600 &"},
		{"in a session of its own", "setsid sh -c 'echo $$ >pid; exec sleep 600' & while [ ! -s pid ]; do :; done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files, dir := directory(t, map[string]string{"agent.md": agentOf("it"), "it": "#!/bin/sh\n" + test.start + "\necho done\n"})
			t.Cleanup(func() {
				if text, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
					if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			})
			if got := tool1(t, New(files, nil), "os://agent.md"); got != "done" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Clauses: H20-10.3-2
func TestEndlessOutputIsCut(t *testing.T) {
	files, _ := directory(t, map[string]string{"agent.md": agentOf("it"), "it": "#!/bin/sh\ntrap '' PIPE\nwhile :; do echo yes 2>&-; done\n"})
	got := tool1(t, New(files, nil), "os://agent.md")
	if !strings.HasPrefix(got, "yes\nyes\n") || utf8.RuneCountInString(got) != maxDescription {
		t.Errorf("got %d characters", len(got))
	}
}

func TestScriptsRunWithWhatIsInstalled(t *testing.T) {
	says := func(program string) string { return "#!/bin/sh\necho " + program + " \"$@\"\n" }
	oldNode := "#!/bin/sh\ncase $1 in --experimental*) exit 9;; esac\necho node \"$@\"\n"
	for _, test := range []struct {
		name, tool, script string
		programs           map[string]string
		want               string
	}{
		{"js with node", "it.js", "", map[string]string{"node": oldNode, "deno": says("deno")}, "node IT --description"},
		{"js with deno", "it.mjs", "", map[string]string{"deno": says("deno")}, "deno run --quiet --no-prompt --allow-all IT --description"},
		{"js with bun", "it.cjs", "", map[string]string{"bun": says("bun")}, "bun IT --description"},
		{"js with nothing", "it.js", "", nil, "ERROR: NO_RUNTIME"},
		{"ts with deno", "it.ts", "", map[string]string{"node": says("node"), "deno": says("deno")}, "deno run --quiet --no-prompt --allow-all IT --description"},
		{"ts with bun", "it.ts", "", map[string]string{"node": says("node"), "bun": says("bun")}, "bun IT --description"},
		{"ts with node", "it.TS", "", map[string]string{"node": says("node")}, "node --experimental-strip-types IT --description"},
		{"ts with an old node", "it.ts", "", map[string]string{"node": oldNode}, "ERROR: NO_RUNTIME"},
		{"ts with nothing", "it.ts", "", nil, "ERROR: NO_RUNTIME"},
		{"by itself", "it.ts", "#!/bin/sh\necho itself \"$1\"\n", map[string]string{"deno": says("deno")}, "itself --description"},
		{"not executable", "it.py", "", nil, "ERROR: PERMISSION_DENIED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := t.TempDir()
			put(t, bin, test.programs)
			t.Setenv("PATH", bin)
			files, _ := directory(t, map[string]string{"agent.md": agentOf(test.tool), test.tool: test.script})
			path, _ := files.Program("os://" + test.tool)
			if got := strings.ReplaceAll(tool1(t, New(files, nil), "os://agent.md"), path, "IT"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
