package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/internal/exit"
)

// notRun are the methods whose examples are right and are not run here, and why.
var notRun = map[string]string{
	"blob_read":        "the blobs that there are have names that only replies know",
	"http_fetch":       "it asks a server elsewhere",
	"mcp_add":          "it asks a server elsewhere",
	"message_watch":    "it goes on until it is interrupted",
	"syscall_register": "it is for programs on a connection; a call has none to be asked over",
	"syscall_shutdown": "it ends the daemon that the others need",
	"token_create":     "it prints a secret",
	"token_rotate":     "it prints a secret, and ends that of the token",
	"token_revoke":     "it ends a token",
}

// The help of every method shows an example, also of methods of a module whose name is that of
// a command of kernos. A user who runs it on a kernel that is not set
// up may learn that there is no such thing yet, but not that the example itself is wrong.
func TestTheExampleOfEveryMethodRuns(t *testing.T) {
	r, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	h, dir := newCaller(t), t.TempDir()
	run := func(line string) (string, int) {
		t.Helper()
		c := exec.Command("sh", "-c", line)
		c.Env, c.Dir = h.env, dir
		out, err := c.CombinedOutput()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	known := 0
	for _, n := range r.All().Namespaces() {
		for _, route := range n.Methods {
			help, status := run("kernos call " + route.Namespace + " " + route.Method + " --help")
			_, rest, ok := strings.Cut(help, "\nExample:\n  ")
			if status != 0 || !ok {
				t.Errorf("%s: status %d, and no example in %s", route.Name(), status, help)
				continue
			}
			if notRun[route.Name()] != "" {
				known++
				continue
			}
			example, _, _ := strings.Cut(rest, "\n")
			out, status := run(example)
			// Hydration says what it could not get in its answer. The journal has such answers of other examples.
			if status != 0 && status != exit.Failure || n.Name != "message" && strings.Contains(out, `"ERROR: `) {
				t.Errorf("%s: status %d: %.300s", example, status, out)
			}
		}
	}
	if known != len(notRun) {
		t.Errorf("%d methods are not run, and %d are named", known, len(notRun))
	}
}
