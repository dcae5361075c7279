package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kernos/cmd/kernos/settings"
	"kernos/internal/testkit/tty"
	"kernos/transport/unix"
)

const (
	setFirst   = `{"kind":"command","type":"Memory.Set","data":{"key":"/note","value":"first"},"metadata":{"id":"s1","timestamp":1}}` + "\n"
	setSecond  = `{"kind":"command","type":"Memory.Set","data":{"key":"/note","value":"second"},"metadata":{"id":"s2","timestamp":1}}` + "\n"
	getNote    = `{"kind":"query","type":"Memory.Get","data":{"key":"/note"},"metadata":{"id":"g","timestamp":1}}` + "\n"
	getTimeout = `{"kind":"query","type":"VFS.Read","data":{"uri":"os://sys/timeout"},"metadata":{"id":"t","timestamp":1}}` + "\n"
)

// saved sets a note, writes a backup, and changes the note.
func (h *house) saved() (file string) {
	h.t.Helper()
	file = filepath.Join(h.t.TempDir(), "backup")
	h.answers(setFirst, `"reply"`)
	h.must("", "backup", file)
	h.answers(setSecond, `"reply"`)
	return file
}

// answers wants a message to be answered with a text.
func (h *house) answers(in, want string) {
	h.t.Helper()
	if out, notes, _ := h.run(in); !strings.Contains(out, want) {
		h.t.Errorf("%s is answered with %s%s, want %s", in, out, notes, want)
	}
}

// runsAgain wants a daemon to have followed another, and the notes to say how.
func (h *house) runsAgain(before unix.Info, notes, how string) {
	h.t.Helper()
	now, _, running := h.daemon()
	if !running || now.PID == before.PID {
		h.t.Errorf("after %d, %d runs: %v", before.PID, now.PID, running)
	}
	for _, want := range []string{
		fmt.Sprintf("the daemon (process %d) has stopped\n", before.PID),
		fmt.Sprintf("the daemon runs again (process %d), %s\n", now.PID, how),
	} {
		if !strings.Contains(notes, want) {
			h.t.Errorf("it says %q, want %q", notes, want)
		}
	}
}

// A daemon in the background is followed by one like it, whatever the settings of who restores.
func TestRestoreWhileADaemonRuns(t *testing.T) {
	h := newHouse(t)
	plain := h.env
	h.serve("--timeout", "45s")
	h.must("", "stop")
	file := h.saved()
	before, _, _ := h.daemon()
	h.env = append(plain[:len(plain):len(plain)], "KERNOS_TIMEOUT=50s", "KERNOS_MAX_CONNECTIONS=7")

	_, notes, status := h.run("", "restore", file)
	if want := fmt.Sprintf("and the daemon (process %d) serves it; --replace", before.PID); status != 1 || !strings.Contains(notes, want) {
		t.Errorf("status %d: %s", status, notes)
	}
	h.answers(getNote, `"data":"second"`)
	_, notes, status = h.run("", "restore", "--replace", file)
	if status != 0 || !strings.Contains(notes, "what was there is now in ") {
		t.Errorf("status %d: %s", status, notes)
	}
	h.runsAgain(before, notes, "with the settings that it had")
	h.answers(getNote, `"data":"first"`)
	h.answers(getTimeout, `"content":"45s"`)
	now, _, _ := h.daemon()
	if strings.Join(now.Args, " ") != strings.Join(before.Args, " ") || strings.Join(now.Env, " ") != strings.Join(before.Env, " ") || now.Dir != before.Dir {
		t.Errorf("it was started as %v, and then as %v", before, now)
	}
}

// A daemon of another origin than the one that is restored goes on.
func TestRestoreEndsNoOtherDaemon(t *testing.T) {
	h := newHouse(t)
	file := h.saved()
	h.must("", "stop")
	plain := h.env
	h.env = append(h.env[:len(h.env):len(h.env)], "KERNOS_ORIGIN=other")
	h.answers(ping, `"reply"`)
	before, _, _ := h.daemon()
	h.env = plain
	if _, notes, status := h.run("", "restore", "--replace", file); status != 0 || strings.Contains(notes, "daemon") {
		t.Errorf("status %d: %s", status, notes)
	}
	if now, _, running := h.daemon(); !running || now.PID != before.PID {
		t.Errorf("after %d, %d runs: %v", before.PID, now.PID, running)
	}
}

// One in the foreground is followed by one in the background, with its flags.
func TestRestoreWhileADaemonRunsInTheForeground(t *testing.T) {
	h := newHouse(t)
	s := h.serve("--timeout", "45s")
	file := h.saved()
	before, _, _ := h.daemon()
	_, notes, status := h.run("", "restore", "--replace", file)
	if status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
	if status := s.wait(); status != 0 {
		t.Errorf("it has left with %d: %s", status, s.notes)
	}
	h.runsAgain(before, notes, "in the background now, with the settings that it had")
	h.answers(getNote, `"data":"first"`)
	h.answers(getTimeout, `"content":"45s"`)
}

// What fails before the daemon is ended leaves it alone; what fails later starts it again with
// the state that it had.
func TestARestoreThatFailsWhileADaemonRuns(t *testing.T) {
	h := newHouse(t)
	file := h.saved()
	before, _, _ := h.daemon()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	twice := file + ".twice"
	if err := os.WriteFile(twice, append(text, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, notes, status := h.run("", "restore", "--replace", twice); status != 1 || !strings.Contains(notes, "nothing was changed") {
		t.Errorf("status %d: %s", status, notes)
	}
	if now, _, running := h.daemon(); !running || now.PID != before.PID {
		t.Errorf("after %d, %d runs: %v", before.PID, now.PID, running)
	}

	origins, err := filepath.Glob(filepath.Join(h.home, "origins", "*"))
	if err != nil || len(origins) != 1 {
		t.Fatal(origins, err)
	}
	if err := os.Mkdir(filepath.Join(origins[0], "key"), 0o700); err != nil { // a key that can't be kept
		t.Fatal(err)
	}
	_, notes, status := h.run("", "restore", "--replace", file)
	if status != 1 || !strings.Contains(notes, "the key file can't be kept") || !strings.Contains(notes, "nothing was changed") {
		t.Errorf("status %d: %s", status, notes)
	}
	h.runsAgain(before, notes, "with the settings that it had")
	h.answers(getNote, `"data":"second"`)
}

// A daemon that does not say how it was started is followed by one such as clients start.
func TestADaemonWhoseStartIsNotKnown(t *testing.T) {
	h := newHouse(t)
	h.env = append(h.env, "KERNOS_FETCH_ALLOW="+strings.Repeat("a.example,", settings.MaxStart/10)+"b.example")
	h.serve()
	file := h.saved()
	before, _, _ := h.daemon()
	if len(before.Args) > 0 {
		t.Fatalf("it was started as %q", before.Args)
	}
	_, notes, status := h.run("", "restore", "--replace", file)
	if status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
	h.runsAgain(before, notes, "with the settings of the last kernos serve, since it is not known which ones it had")
	h.answers(getNote, `"data":"first"`)
	if !regexp.MustCompile(`^the daemon .* has stopped\nwhat was there is now in .*\n.*: \d+ entries .*\nkernos: the daemon runs again, without --fetch-allow.*\nthe daemon runs again`).MatchString(notes) {
		t.Errorf("it says %q", notes)
	}
}

// An interrupt ends a backup or a restore that asks for a passphrase.
func TestAnInterruptEndsTheQuestionForAPassphrase(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	passphrase, file := filepath.Join(dir, "passphrase"), filepath.Join(dir, "file")
	if err := os.WriteFile(passphrase, []byte("correct horse"), 0o600); err != nil {
		t.Fatal(err)
	}
	// There are state and a key.
	h.must(setFirst+`{"kind":"command","type":"Crypto.Seal","data":{"plaintext":"a"},"metadata":{"id":"c","timestamp":1}}`, "pipe", "--inline")
	h.must("", "backup", "--passphrase-file", passphrase, file)
	for _, args := range [][]string{{"backup", "--with-key", file}, {"restore", "--replace", file}} {
		x := tty.Start(t, h.command(args...), 80, 24)
		x.Until("Passphrase of the sealing key:")
		x.Type(tty.CtrlC)
		if status := x.Wait(); status != 130 {
			t.Errorf("%s: status %d: %s", args[0], status, x.Screen())
		}
	}
}
