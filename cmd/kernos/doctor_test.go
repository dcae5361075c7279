package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/daemon"
)

func TestTheDoctorLooksAtTheHome(t *testing.T) {
	for _, c := range []struct {
		name        string
		there, kept bool
		err         error
		want        finding
	}{
		{"all is well", true, true, nil, finding{OK: true, Text: "/h can be written"}},
		{"nothing yet", false, false, nil, finding{OK: true, Text: "/h is made when it is needed"}},
		{"read-only, with state", true, true, syscall.EROFS, finding{OK: true, Text: "/h can only be read, so nothing there changes: read-only file system"}},
		{"read-only, and empty", true, false, syscall.EROFS, finding{Text: "/h can't be written: read-only file system"}},
		{"in a place of others", false, false, syscall.EACCES, finding{Text: "/h is not there and can't be made: permission denied"}},
	} {
		d := &doctor{Server: &connect.Server{Daemon: &connect.Daemon{Home: daemon.Home{Dir: "/h"}}}, quiet: true}
		goOn := d.judgeHome(c.there, c.kept, c.err)
		got := d.findings[0]
		if got.OK != c.want.OK || got.Text != c.want.Text || (got.Advice == "") != (c.err == nil) || goOn != c.want.OK || d.unreachable == goOn {
			t.Errorf("%s: %+v, %t", c.name, got, goOn)
		}
	}
}

// The doctor looks after the directory of a daemon's socket, and after no other.
func TestTheDoctorLeavesDirectoriesOfOthersAlone(t *testing.T) {
	h := newHouse(t)
	open := filepath.Join(h.runtime, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	out, _, status := h.run("", "doctor", "unix://"+open+"/none.sock")
	if status != exit.Unreachable || strings.Contains(out, "chmod") || !strings.Contains(out, "start the server, or say the right path") {
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
