package main

import (
	"strings"
	"syscall"
	"testing"

	"kernos/internal/exit"
)

// What a daemon says that it serves is what can be called.
func TestTheModulesThatAreNamedCanBeCalled(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	listed := h.must("", "call")
	var modules []string
	for line := range strings.Lines(listed) {
		if name := strings.Fields(line)[0]; name != "MODULE" {
			modules = append(modules, name)
		}
	}
	all := ": " + strings.Join(modules, ", ")
	if out, _, _ := h.run("", "status"); !strings.Contains(out, all+" (hash ") {
		t.Errorf("there are%s, and the status is %s", all, out)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(); status != 0 || !strings.Contains(s.notes.String(), all+"\n") {
		t.Errorf("status %d: there are%s, and it says %s", status, all, s.notes)
	}
}

// A start that fails is told once, and the log has it for later.
func TestAStartThatFailsIsToldOnce(t *testing.T) {
	h := newHouse(t)
	_, notes, status := h.run("", "serve", "--mount", "foo")
	if status != exit.Usage || !strings.HasPrefix(notes, "kernos: --mount: a mount is PATH=TARGET") || strings.Count(notes, "\n") != 1 {
		t.Errorf("status %d: %s", status, notes)
	}
	if log := h.log(); !strings.Contains(log, `"msg":"can't start"`) || !strings.Contains(log, "a mount is PATH=TARGET") {
		t.Errorf("the log is %s", log)
	}
}

// The help says where a limit does not hold.
func TestHelpOfLimits(t *testing.T) {
	privately(t)
	out, _, status := foreign(t, "", "serve", "--help")
	out = strings.Join(strings.Fields(out), " ") // lines are broken anywhere
	for _, want := range []string{"; a WebSocket may have 1000, one for each of its streams (default 64)", " run at once, except for watches (default 4096)"} {
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the help has no %q", want)
		}
	}
}
