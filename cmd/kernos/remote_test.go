package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/exit"
)

// remote is a server of another home, which h reaches as the contexts that are named, with the rights
// that they are given.
func remote(t *testing.T, h *house, contexts map[string][]string) (far *house, s *daemonProcess) {
	t.Helper()
	far = newHouse(t)
	far.env = append(far.env, "KERNOS_NO_HTTP=false")
	s = far.serve("--addr", "127.0.0.1:0")
	for name, rights := range contexts {
		h.addContext(name, far, far.reached()["http"], rights...)
	}
	return far, s
}

// addContext makes a context for a server, with a token that has some rights.
func (h *house) addContext(name string, far *house, address string, rights ...string) {
	h.t.Helper()
	secret := far.must("", append([]string{"token", "create", name}, rights...)...)
	file := filepath.Join(h.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.must("", "context", "add", name, "ws://"+address+"/", "--token-file", file)
}

// lacks wants a secret to be in no file of the home.
func (h *house) lacks(secret string) {
	h.t.Helper()
	files := 0
	err := filepath.WalkDir(h.home, func(name string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(name)
		if files++; strings.Contains(string(text), secret) {
			h.t.Errorf("%s has the secret", name)
		}
		return err
	})
	if err != nil || files == 0 {
		h.t.Errorf("%d files, %v", files, err)
	}
}

// The state of a server elsewhere is backed up by a token that may, and comes back here.
func TestABackupOfAServerElsewhere(t *testing.T) {
	h := newHouse(t)
	far, _ := remote(t, h, map[string][]string{
		"saves": {"--preset", "viewer", "--allow", "Kernel.Backup"}, "views": {"--preset", "viewer"}, "rules": {"--preset", "console"},
		"part": {"--preset", "viewer", "--allow", "Kernel.Backup", "--memory", "notes"},
	})
	large := strings.Repeat("0123456789abcdef", 1<<16) // a blob of 1 MB
	for _, args := range [][]string{{"memory", "set", "note", "--value", "milk"}, {"memory", "set", "large", "value=@-"}, {"crypto", "seal", "--plaintext", "s3cret"}} {
		far.must(large, args...)
	}
	file := filepath.Join(t.TempDir(), "b")
	for _, c := range []struct {
		status int
		text   string
		args   []string
	}{
		{exit.Forbidden, "its preset viewer doesn't include it; the owner can allow it: kernos token update views --allow Kernel.Backup", []string{"--context", "views"}},
		{exit.Forbidden, "its preset console doesn't include it", []string{"--context", "rules"}},
		{exit.Forbidden, "use a token without --memory and --files", []string{"--context", "part"}},
		{exit.Usage, "never sends its sealing key; run kernos backup --with-key on its machine", []string{"--context", "saves", "--with-key"}},
		{0, "/key of the server, or run kernos backup --with-key there", []string{"--context", "saves"}},
	} {
		_, notes, status := h.run("", append([]string{"backup", file}, c.args...)...)
		if _, err := os.Stat(file); status != c.status || !strings.Contains(notes, c.text) || (err == nil) != (c.status == 0) {
			t.Fatalf("%v: status %d, %v: %s", c.args, status, err, notes)
		}
	}
	key, err := filepath.Glob(filepath.Join(far.home, "origins", "*", "key"))
	if err != nil || len(key) != 1 {
		t.Fatal(key, err)
	}
	secret, err := os.ReadFile(key[0])
	if err != nil {
		t.Fatal(err)
	}
	h.must("", "restore", file)
	for name, want := range map[string]string{"note": "milk", "large": large} {
		if out, notes, status := h.run("", "cat", name); status != 0 || strings.TrimSuffix(out, "\n") != want {
			t.Errorf("%s: status %d, %d bytes: %s", name, status, len(out), notes)
		}
	}
	h.lacks(strings.TrimSpace(string(secret))) // the sealing key of the server
}

// A server elsewhere is ended by a token that may, and the command waits for its end.
func TestStopOfAServerElsewhere(t *testing.T) {
	h := newHouse(t)
	_, s := remote(t, h, map[string][]string{"ends": {"--preset", "viewer", "--allow", "Syscall.Shutdown"}, "rules": {"--preset", "console"}})
	_, notes, status := h.run("", "stop", "--context", "rules")
	if status != exit.Forbidden || !strings.Contains(notes, "its preset console doesn't include it; the owner can allow it: kernos token update rules --allow Syscall.Shutdown") {
		t.Errorf("status %d: %s", status, notes)
	}
	_, notes, status = h.run("", "call", "Memory.Set", "--context", "rules", "--data", `{"key":"vault/x","value":1}`)
	if status == exit.Unknown {
		t.Errorf("a method that the token may not call is unknown: %s", notes)
	}
	_, notes, status = h.run("", "call", "Syscall.Shutdown", "--context", "rules")
	if status != exit.Forbidden || !strings.Contains(notes, "its preset console doesn't include it") {
		t.Errorf("status %d: %s", status, notes)
	}
	// Of a syscall that a server doesn't list to a token, kernos knows the parameters itself.
	_, notes, status = h.run("", "token", "create", "ci", "--expires", "30d", "--context", "rules")
	if status != exit.Forbidden || !strings.Contains(notes, "may not call Token.Create") {
		t.Errorf("status %d: %s", status, notes)
	}
	if out, notes, status := h.run("", "token", "create", "--help", "--context", "rules"); status != 0 || !strings.Contains(out, "kernos token create NAME") {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "stop", "--context", "ends"); status != 0 || out != "the server of context ends has stopped\n" {
		t.Fatalf("status %d: %s%s", status, out, notes)
	}
	if status := s.wait(); status != 0 {
		t.Errorf("it has left with %d: %s", status, s.notes)
	}
	if _, notes, status := h.run("", "stop", "--context", "ends"); status != exit.Unreachable || !strings.Contains(notes, "kernos doctor --context ends") {
		t.Errorf("status %d: %s", status, notes)
	}
}

// Messages go to a server elsewhere too, and a program here serves a syscall there. A server that goes away is reported.
func TestLinesToAServerElsewhere(t *testing.T) {
	h := newHouse(t)
	far, s := remote(t, h, map[string][]string{"calls": {"--preset", "agent"}, "serves": {"--preset", "handler"}})
	out, notes, status := h.run(ping+strings.Replace(ping, "Ping", "Memory.Nothing", 1), "pipe", "--context", "calls")
	if status != exit.Failure || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, `{"kind":"reply","type":"Ping"`) || !strings.Contains(out, `{"kind":"error","type":"Memory.Nothing"`) {
		t.Errorf("status %d: %s%s", status, out, notes)
	}

	serve := func() (handler *exec.Cmd, report *bufio.Reader) {
		handler = h.command("handle", "Text.Twice", "--context", "serves", "--", "sed", "s/.*/[&,&]/")
		reports, err := handler.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := handler.Start(); err != nil {
			t.Fatal(err)
		}
		report = bufio.NewReader(reports)
		if text, err := report.ReadString('\n'); err != nil || text != "kernos: Text.Twice is served; an interrupt ends it\n" {
			t.Fatalf("%v: %s", err, text)
		}
		return handler, report
	}
	handler, report := serve()
	for _, house := range []*house{h, far} {
		args := []string{"call", "Text.Twice", "x=1"}
		if house == h {
			args = append(args, "--context", "calls")
		}
		if out, notes, status := house.run("", args...); status != 0 || out != `[{"x":"1"},{"x":"1"}]`+"\n" {
			t.Errorf("status %d: %s%s", status, out, notes)
		}
	}
	if err := handler.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, report)
	if err := handler.Wait(); err != nil {
		t.Error(err)
	}
	handler, report = serve()
	if _, notes, status := far.run("", "token", "revoke", "serves"); status != 0 {
		t.Fatal(notes)
	}
	text, _ := io.ReadAll(report)
	_ = handler.Wait()
	if status := handler.ProcessState.ExitCode(); status != exit.Forbidden || !strings.Contains(string(text), "This isn't a token of the daemon, or is no longer one") {
		t.Errorf("a handler without a token ends with %d: %s", status, text)
	}

	pipe, _, answers := h.talk(ping, "pipe", "--context", "calls")
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	info, _, _ := far.daemon()
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wait()
	_, _ = io.Copy(io.Discard, answers)
	_ = pipe.Wait()
	if status := pipe.ProcessState.ExitCode(); status != exit.Unreachable || !strings.Contains(fmt.Sprint(pipe.Stderr), "went away before everything was answered") {
		t.Errorf("status %d: %s", status, pipe.Stderr)
	}
	if _, notes, status := h.run(ping, "pipe", "--inline", "--context", "calls"); status != exit.Usage || !strings.Contains(notes, "doesn't go with --context") {
		t.Errorf("status %d: %s", status, notes)
	}
}

// What a token may not see is left out, and each command notes that once, beside its output.
func TestNarrowedAnswersOfAServerElsewhere(t *testing.T) {
	h := newHouse(t)
	remote(t, h, map[string][]string{"part": {"--preset", "agent", "--memory", "notes"}})
	h.must("", "memory", "set", "notes/1", "--value", "milk", "--context", "part")
	for _, args := range []string{
		"job list", "job list -o table", "job list --jq .jobs", "session list", "memory list", "memory search milk", "vfs list os://memory", "syscall list", "kernel modules",
		"log", "log -n 0 --json", "log -f -n 1 --timeout 1s", "watch --from 1 -n 1", "search milk", "message list -o pretty",
	} {
		_, notes, status := h.run("", strings.Fields(args+" --context part")...)
		if strings.Count(notes, "kernos: only what token part may see\n") != 1 {
			t.Errorf("%s: status %d: %s", args, status, notes)
		}
	}
	for _, args := range []string{"job list", "memory list", "log"} {
		if _, notes, status := h.run("", strings.Fields(args)...); status != 0 || strings.Contains(notes, "may see") {
			t.Errorf("%s: status %d: %s", args, status, notes)
		}
	}
}
