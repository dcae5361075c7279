package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/exit"
	"kernos/internal/testkit"
)

// newCaller returns a house whose calls keep nothing outside of it.
func newCaller(t *testing.T) *house {
	h := newHouse(t)
	h.env = append(h.env, "XDG_CACHE_HOME="+filepath.Join(h.home, "cache"), "XDG_CONFIG_HOME="+filepath.Join(h.home, "config"), "KERNOS_CONTEXT=")
	return h
}

// TestCallIsInterrupted lets a call run that has no end, and interrupts it.
func TestCallIsInterrupted(t *testing.T) {
	h := newCaller(t)
	h.must("", "memory", "set", "--key", "a", "--value", "1")
	watch := h.command("message", "watch")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	watch.Stderr = os.Stderr
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	seen := false
	testkit.Until(t, "the watcher sees a message", func() bool {
		h.must("", "memory", "set", "--key", "a", "--value", "2")
		select {
		case line := <-lines:
			seen = strings.Contains(line, "Memory.Set") || seen
		default:
		}
		return seen
	})
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for range lines { // until it has ended
	}
	_ = watch.Wait() // its status says it
	if got := watch.ProcessState.ExitCode(); got != exit.Interrupted {
		t.Errorf("status %d", got)
	}
}

// TestCallsStartOneDaemon makes many first calls at once.
func TestCallsStartOneDaemon(t *testing.T) {
	h := newCaller(t)
	const many = 8
	failures := make(chan string, many)
	for range many {
		go func() {
			out, notes, status := h.run("", "call", "Ping", "payload:=1")
			if status != 0 || out != "{\"payload\":1}\n" {
				failures <- out + notes
				return
			}
			failures <- ""
		}()
	}
	for range many {
		if text := <-failures; text != "" {
			t.Error(text)
		}
	}
}
