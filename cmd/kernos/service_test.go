//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/cmd/kernos/service"
	"kernos/internal/exit"
	"kernos/internal/testkit"
)

// served is a house with a name that units have to quote, and a systemd.
func served(t *testing.T) (*house, *fakeSystemd) {
	t.Helper()
	h := newHouse(t)
	h.home = filepath.Join(t.TempDir(), `a home 100% $HOME "x"`)
	if err := errors.Join(noHTTP(h.home), os.Mkdir(filepath.Join(h.runtime, "notes"), 0o700)); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "KERNOS_HOME="+h.home)
	return h, h.systemd()
}

// statusOf returns what kernos service status --json prints.
func (h *house) statusOf() (now service.Status) {
	h.t.Helper()
	out, notes, _ := h.run("", "service", "status", "--json")
	if err := json.Unmarshal([]byte(out), &now); err != nil {
		h.t.Fatalf("%v: %s%s", err, out, notes)
	}
	return now
}

// The daemon that a command has started gives way to the service, which commands use from then on.
func TestAServiceTakesThePlaceOfTheDaemon(t *testing.T) {
	h, m := served(t)
	h.must("", "memory", "set", "notes/1", "--value", "milk")
	own, _, _ := h.daemon()
	if now := h.statusOf(); now.Installed || now.PID != 0 {
		t.Errorf("before it is installed: %+v", now)
	}
	out := h.must("", "service", "install", "--journal-age", "30d", "--mount", "/notes="+h.runtime+"/notes:ro")
	for _, want := range []string{"wrote ", ".service\nwrote ", ".socket\n", fmt.Sprintf("the daemon (process %d) has stopped\n", own.PID), fmt.Sprintf(" runs (process %d): systemd starts it at login", m.pid())} {
		if !strings.Contains(out, want) {
			t.Errorf("installing said %s, want %q", out, want)
		}
	}
	now := h.statusOf()
	if !now.Installed || !now.Enabled || !now.Listening || now.State != "active" || now.PID != m.pid() || now.PID == 0 || now.Text != "fine" || now.Manager != "systemd" || len(now.Files) != 2 {
		t.Errorf("it is %+v", now)
	}
	if got := h.must("", "memory", "get", "notes/1"); got != "\"milk\"\n" {
		t.Errorf("the state is another one: %s", got)
	}
	if got := h.must("", "config", "--jq", `.settings[] | select(.from == "flag") | .value`); got != "720h0m0s\n/notes="+h.runtime+"/notes:ro\n" {
		t.Errorf("its settings are %s", got)
	}
	if m.reported("READY=1") != 1 {
		t.Error("it hasn't reported that it is ready")
	}
	testkit.Until(t, "it gives signs of life", func() bool { return m.reported("WATCHDOG=1") > 2 })

	calls := m.takeCalls()
	name := strings.TrimSuffix(filepath.Base(now.Files[0]), ".service")
	units := " " + name + ".service " + name + ".socket"
	for _, want := range []string{"daemon-reload", "enable" + units, "start" + units} {
		if !slices.Contains(calls, want) {
			t.Errorf("systemctl was called with %q, want %q", calls, want)
		}
	}
	if out := h.must("", "service", "install", "--journal-age", "30d", "--mount", "/notes="+h.runtime+"/notes:ro"); !strings.HasPrefix(out, "the service was installed already, with these settings\n") || m.started() != 1 {
		t.Errorf("again: %s", out)
	}
	if _, notes, status := h.run("", "service", "install"); status != exit.Failure || !strings.Contains(notes, "--journal-age=720h0m0s") || !strings.Contains(notes, "--replace does so") || m.started() != 1 {
		t.Errorf("with other settings: status %d: %s", status, notes)
	}
	if out := h.must("", "service", "install", "--replace"); !strings.Contains(out, "has stopped\n") || m.started() != 2 {
		t.Errorf("replacing: %s", out)
	}
	if got := h.must("", "config", "--jq", `.settings[] | select(.from == "flag") | .value`); got != "" {
		t.Errorf("its settings are %s", got)
	}
}

// While the daemon of a service is stopped, what only asks about it doesn't start it, and the next command does.
func TestAConnectionStartsAService(t *testing.T) {
	h, m := served(t)
	h.must("", "service", "install")
	info, socket, _ := h.daemon()
	if out := h.must("", "stop"); out != fmt.Sprintf("the daemon (process %d) has stopped\n", info.PID) || m.reported("STOPPING=1") != 1 {
		t.Errorf("stopping said %s", out)
	}
	testkit.Until(t, "its process has ended", func() bool { return m.pid() == 0 })
	for path, want := range map[string]os.FileMode{socket: os.ModeSocket | 0o600, filepath.Dir(socket): os.ModeDir | 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if out := h.must("", "stop"); out != "no daemon is running\n" {
		t.Errorf("stopping again said %s", out)
	}
	if _, notes, status := h.run("", "status"); status != exit.Unreachable || !strings.Contains(notes, "no daemon is running") {
		t.Errorf("status %d: %s", status, notes)
	}
	h.must("", "ls")
	if out, _, _ := h.run("", "doctor"); !strings.Contains(out, "the service of "+h.home+" is installed, and its daemon isn't running") {
		t.Errorf("doctor says %s", out)
	}
	if now := h.statusOf(); now.State != "inactive" || !now.Listening || now.PID != 0 || m.started() != 1 {
		t.Errorf("after %d starts it is %+v", m.started(), now)
	}
	m.takeCalls()
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			if out, notes, status := h.run(ping); status != 0 || notes != "" || !strings.Contains(out, `"payload":1`) {
				t.Errorf("status %d: %s%s", status, out, notes)
			}
		})
	}
	clients.Wait()
	if calls := m.takeCalls(); m.started() != 2 || m.pid() == 0 || len(calls) != 0 {
		t.Errorf("after %d starts, process %d runs, and systemctl was called with %q", m.started(), m.pid(), calls)
	}
}

// A command starts a service whose socket is stopped too, and no daemon of its own.
func TestACommandStartsAService(t *testing.T) {
	h, m := served(t)
	h.must("", "service", "install")
	name := strings.TrimSuffix(filepath.Base(h.statusOf().Files[0]), ".service")
	if err := m.stop([]string{name + ".service", name + ".socket"}); err != nil {
		t.Fatal(err)
	}
	m.takeCalls()
	h.must("", "memory", "set", "notes/1", "--value", "milk")
	info, _, running := h.daemon()
	if calls := m.takeCalls(); !running || info.PID != m.pid() || !slices.Contains(calls, "start "+name+".service "+name+".socket") {
		t.Errorf("process %d serves, and the service is %d; systemctl was called with %q", info.PID, m.pid(), calls)
	}
	backup := filepath.Join(t.TempDir(), "b")
	h.must("", "backup", backup)
	for _, command := range [][]string{{"restart"}, {"restore", "--replace", backup}} {
		before := m.pid()
		out, notes, status := h.run("", command...)
		if want := fmt.Sprintf("the daemon runs again (process %d), as the service %s\n", m.pid(), name); status != 0 || !strings.Contains(out+notes, want) || m.pid() == before {
			t.Errorf("%s: status %d: %s%s, want %s", command, status, out, notes, want)
		}
	}
	if got := h.must("", "memory", "get", "notes/1"); got != "\"milk\"\n" {
		t.Errorf("the restored state has %s", got)
	}
	if err := m.stop([]string{name + ".service", name + ".socket"}); err != nil {
		t.Fatal(err)
	}
	m.fail("start")
	_, notes, status := h.run("", "memory", "get", "notes/1")
	if _, _, running := h.daemon(); status != exit.Unreachable || !strings.Contains(notes, "the service "+name+": systemctl") || !strings.Contains(notes, "Job for start failed.; kernos service status") || running {
		t.Errorf("a service that doesn't start: status %d: %s; a daemon runs: %t", status, notes, running)
	}
}

func TestAServiceIsUninstalled(t *testing.T) {
	h, m := served(t)
	for _, verb := range []string{"uninstall", "logs"} {
		if _, notes, status := h.run("", "service", verb); status != exit.Failure || !strings.Contains(notes, "no service is installed for this home; kernos service install makes one") {
			t.Errorf("%s: status %d: %s", verb, status, notes)
		}
	}
	h.must("", "service", "install", "--journal-age", "30d")
	files := h.statusOf().Files
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "PATH="+bin+":"+os.Getenv("PATH"))
	if out, want := h.must("", "service", "logs", "-n", "7", "--follow"), "--unit "+filepath.Base(files[0])+" --output cat --no-pager --lines 7 --follow\n"; !strings.HasSuffix(out, want) {
		t.Errorf("logs are those of journalctl %s, want %s", out, want)
	}
	out := h.must("", "service", "uninstall")
	if !strings.Contains(out, "has stopped, and doesn't start again\nremoved "+files[0]+"\nremoved "+files[1]+"\n") || m.pid() != 0 {
		t.Errorf("uninstalling said %s", out)
	}
	for _, path := range files {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	h.must("", "memory", "set", "notes/1", "--value", "milk")
	if info, _, running := h.daemon(); !running || info.PID == 0 || m.pid() != 0 || m.started() != 1 {
		t.Errorf("no daemon of the command's own runs: %+v", info)
	}
	if got := h.must("", "config", "--jq", `.settings[] | select(.name == "journal-age") | .value`); got != "720h0m0s\n" {
		t.Errorf("its settings are not those of the service: %s", got)
	}
}

// What can't be installed leaves nothing behind.
func TestAnInstallationThatFailsIsUndone(t *testing.T) {
	h, m := served(t)
	leaves := func(what string) {
		t.Helper()
		if units, _ := filepath.Glob(filepath.Join(m.dir, "*")); len(units) > 0 || m.pid() != 0 {
			t.Errorf("%s leaves %q, and process %d", what, units, m.pid())
		}
	}
	m.fail("enable")
	if _, notes, status := h.run("", "service", "install"); status != exit.Failure || !strings.Contains(notes, "Job for enable failed.; nothing is installed") {
		t.Errorf("status %d: %s", status, notes)
	}
	leaves("a failure")
	m.fail("")
	for _, c := range []struct {
		flag, want string
	}{
		{"--fetch-retries=99", "--fetch-retries: expected a number from 0 to 10"},
		{"--mount=/a=https://ada:swordfish@a.example/", "--mount has a credential"},
	} {
		if _, notes, status := h.run("", "service", "install", c.flag); status != exit.Usage || !strings.Contains(notes, c.want) {
			t.Errorf("%s: status %d: %s", c.flag, status, notes)
		}
		leaves(c.flag)
	}
	// The service ends at once: its mount doesn't exist.
	if _, notes, status := h.run("", "service", "install", "--mount=/a=/nosuch"); status != exit.Failure || !strings.Contains(notes, "/nosuch") || !strings.Contains(notes, "nothing is installed") {
		t.Errorf("status %d: %s", status, notes)
	}
	leaves("a service that ends")
	h.env = append(h.env, managerVariable+"=/nowhere")
	if _, notes, status := h.run("", "service", "install"); status != exit.Failure || !strings.Contains(notes, "Failed to connect to bus") || !strings.Contains(notes, "loginctl enable-linger") {
		t.Errorf("status %d: %s", status, notes)
	}
	leaves("no session")
}

// A daemon in the foreground says that the service has the socket.
func TestServeBesideAService(t *testing.T) {
	h, _ := served(t)
	h.must("", "service", "install")
	if _, notes, status := h.run("", "serve"); status != exit.Failure || !strings.Contains(notes, "is installed, and kernos service uninstall removes it") {
		t.Errorf("status %d: %s", status, notes)
	}
}
