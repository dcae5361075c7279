package main

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kernos/cmd/kernos/exit"
	"kernos/internal/testkit"
)

// logFiles returns the log and those that were replaced.
func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "kernos*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// entries reads the log and returns how many there are of each number.
func entries(t *testing.T, names []string) map[int]int {
	t.Helper()
	seen := make(map[int]int)
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 || info.Size() > (maxLogSize+1)<<20 {
			t.Errorf("%s has mode %v and %d bytes", name, info.Mode(), info.Size())
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var entry struct {
				Msg string
				N   int
			}
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || entry.Msg != "it happened" {
				t.Fatalf("%v: %.200s", err, lines.Bytes())
			}
			seen[entry.N]++
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

// A log that is large is replaced, nothing of it is lost on the way, and what is old goes.
func TestTheLogIsReplacedWhenItIsLarge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	file := openLog(filepath.Join(dir, "kernos.log"), slog.LevelInfo, nil)
	if file.place != filepath.Join(dir, "kernos.log") {
		t.Fatalf("the log is at %s", file.place)
	}
	text := strings.Repeat("x", 10_000)
	n := 0
	write := func(megabytes int) {
		for range megabytes << 20 / len(text) {
			file.Info("it happened", "n", n, "text", text)
			n++
		}
	}
	write(maxLogSize * 5 / 2)
	names := logFiles(t, dir)
	if len(names) != 3 {
		t.Errorf("there are %q", names)
	}
	seen := entries(t, names)
	for i := range n {
		if seen[i] != 1 {
			t.Fatalf("entry %d is there %d times", i, seen[i])
		}
	}
	write(maxLogSize * (maxOldLogs + 1))
	testkit.Until(t, "the oldest are gone", func() bool { return len(logFiles(t, dir)) == 1+maxOldLogs })
	seen = entries(t, logFiles(t, dir))
	if seen[0] != 0 || seen[n-1] != 1 {
		t.Errorf("the oldest entry is there %d times, the newest %d", seen[0], seen[n-1])
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What a daemon says that it serves is what can be called.
func TestTheModulesThatAreNamedCanBeCalled(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	listed, notes, status := h.run("", "call")
	if status != 0 {
		t.Fatalf("status %d: %s", status, notes)
	}
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
