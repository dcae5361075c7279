package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/internal/exit"
)

// The doctor looks after the directory of a daemon's socket, and after no other.
func TestTheDoctorLeavesDirectoriesOfOthersAlone(t *testing.T) {
	h := newHouse(t)
	open := filepath.Join(h.runtime, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	out, _, status := h.run("", "doctor", "unix://"+open+"/none.sock")
	if status != exit.Unreachable || strings.Contains(out, "chmod") || !strings.Contains(out, "start the server, or give the right path") {
		t.Errorf("no socket: status %d: %s", status, out)
	}
	h.serve()
	_, socket, _ := h.daemon()
	link := filepath.Join(open, "d.sock")
	if err := os.Symlink(strings.TrimPrefix(h.reached()["http+unix"], "//"), link); err != nil {
		t.Fatal(err)
	}
	if out, _, status := h.run("", "doctor", "unix://"+link); status != 0 || strings.Contains(out, "chmod") {
		t.Errorf("a directory of others: status %d: %s", status, out)
	}
	// A client makes the directory where it looks private by itself.
	if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, _, status := h.elsewhere().run("", "doctor"); status != 0 || !strings.Contains(out, "chmod 700 "+filepath.Dir(socket)) {
		t.Errorf("the daemon's own: status %d: %s", status, out)
	}
}
