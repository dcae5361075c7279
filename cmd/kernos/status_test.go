package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/exit"
	"kernos/internal/testkit"
)

// A daemon that does not answer is not waited for.
func TestStatusOfADaemonThatIsSuspended(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the daemon (process %d) does not answer within 3s; it may have been suspended (kill -CONT %d wakes it up)", s.Process.Pid, s.Process.Pid)
	for _, line := range []string{"status --timeout 3s", "memory get a --timeout 1s", "call Memory.Get key=a --timeout=300ms"} {
		if _, notes, status := h.run("", strings.Fields(line)...); status != exit.Unreachable || !strings.Contains(notes, want) {
			t.Errorf("%s: status %d: %s", line, status, notes)
		}
	}
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it answers again", func() bool {
		_, _, status := h.run("", "status")
		return status == 0
	})
	// kernos stop knows it, too.
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, notes, status := h.run("", "stop", "--timeout", "3s"); status != exit.Unreachable || !strings.Contains(notes, want) {
		t.Errorf("stop: status %d: %s", status, notes)
	}
	if err := s.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, notes, status := h.run("", "status", "--timeout", "0s"); status != exit.Usage || !strings.Contains(notes, "--timeout: must be more than 0") {
		t.Errorf("status %d: %s", status, notes)
	}
}

func TestStatusOfADaemonThatEnds(t *testing.T) {
	h := newHouse(t)
	s := h.serve("--grace", "1h")
	h.work()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is stopping", func() bool {
		info, _, running := h.daemon()
		return running && info.Stopping
	})
	_, notes, status := h.run("", "status", "--timeout", "300ms")
	if status != exit.Unreachable || !strings.Contains(notes, fmt.Sprintf("the daemon (process %d) is about to end", s.Process.Pid)) {
		t.Errorf("status %d: %s", status, notes)
	}
}
