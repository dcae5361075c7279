package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kernos/cmd/kernos/chat"
	"kernos/internal/exit"
	"kernos/internal/testkit"
	"kernos/transport/unix"
)

// A house is a home directory with a daemon that does not outlive the test.
type house struct {
	t       *testing.T
	home    string
	runtime string
	binary  string
	env     []string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	runtime, err := os.MkdirTemp("", "kernos") // its name is short, as those of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, home: filepath.Join(t.TempDir(), "home"), runtime: runtime, binary: "kernos"}
	h.env = append(os.Environ(), "KERNOS_HOME="+h.home, "XDG_RUNTIME_DIR="+runtime, "KERNOS_ORIGIN=", "SSH_AUTH_SOCK=",
		"GORACE=atexit_sleep_ms=10") // a process with the race detector would wait a second before it ends
	h.env = append(h.env, noModels()...)
	if err := noHTTP(h.home); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endDaemons(runtime)
		_ = os.RemoveAll(runtime)
	})
	return h
}

// noHTTP makes a home whose daemons serve no TCP address, unless they are told otherwise.
func noHTTP(home string) error {
	return errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "config.yaml"), []byte("no-http: true\n"), 0o600))
}

// noModels are variables for commands that find no models, wherever the tests run.
func noModels() []string {
	all := []string{chat.ServersVariable + "=none"}
	for _, p := range chat.Providers() {
		all = append(all, p.Variable+"=")
	}
	return all
}

// endDaemons kills the daemons whose sockets are in a directory, and waits for their ends.
func endDaemons(runtime string) {
	locks, _ := filepath.Glob(filepath.Join(runtime, "*", "*.sock.lock"))
	for _, lock := range locks {
		socket := strings.TrimSuffix(lock, ".lock")
		for {
			info, running := unix.Inspect(socket)
			if !running {
				break
			}
			if info.PID > 0 {
				_ = syscall.Kill(info.PID, syscall.SIGKILL)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func (h *house) command(args ...string) *exec.Cmd {
	c := exec.Command(h.binary, args...)
	c.Env = h.env
	return c
}

// run runs kernos and returns what it wrote and the status it left with.
func (h *house) run(in string, args ...string) (out, notes string, status int) {
	h.t.Helper()
	c := h.command(args...)
	var o, e bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &o, &e
	err := c.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		h.t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// must is run for a command that succeeds.
func (h *house) must(in string, args ...string) (out string) {
	h.t.Helper()
	out, notes, status := h.run(in, args...)
	if status != 0 {
		h.t.Fatalf("kernos %s: status %d: %s", strings.Join(args, " "), status, notes)
	}
	return out
}

// daemon returns the process that serves, if one does, and its socket.
func (h *house) daemon() (info unix.Info, socket string, running bool) {
	locks, _ := filepath.Glob(filepath.Join(h.runtime, "*", "*.sock.lock"))
	for _, lock := range locks {
		socket = strings.TrimSuffix(lock, ".lock")
		if info, running = unix.Inspect(socket); running {
			return info, socket, true
		}
	}
	return unix.Info{}, socket, false
}

// A server is kernos serve in the foreground.
type daemonProcess struct {
	*exec.Cmd
	notes  *bytes.Buffer // valid after wait
	ended  chan error
	waited bool
}

// serve starts kernos serve, and returns when it serves.
func (h *house) serve(args ...string) *daemonProcess {
	h.t.Helper()
	s := &daemonProcess{Cmd: h.command(append([]string{"serve"}, args...)...), notes: new(bytes.Buffer), ended: make(chan error, 1)}
	says, err := s.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		h.t.Fatal(err)
	}
	serving := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(says); lines.Scan(); {
			s.notes.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "or an interrupt, ends it") {
				close(serving)
			}
		}
		s.ended <- s.Cmd.Wait()
	}()
	h.t.Cleanup(func() {
		if !s.waited {
			_ = s.Process.Kill()
			<-s.ended
		}
	})
	select {
	case <-serving:
	case err := <-s.ended:
		s.waited = true
		h.t.Fatalf("it does not serve: %v: %s", err, s.notes)
	}
	return s
}

// wait returns the status that it leaves with.
func (s *daemonProcess) wait() int {
	<-s.ended
	s.waited = true
	return s.ProcessState.ExitCode()
}

const (
	ping  = `{"kind":"query","type":"Ping","data":{"payload":1},"metadata":{"id":"p","timestamp":1}}` + "\n"
	about = `{"kind":"query","type":"Kernel.Status","data":{},"metadata":{"id":"s","timestamp":1}}` + "\n"
	watch = `{"kind":"query","type":"Message.Watch","data":{},"metadata":{"id":"w","timestamp":1}}` + "\n"
)

// pidOf reads the answer to about.
func pidOf(t *testing.T, out string) int {
	t.Helper()
	var m struct{ Data struct{ PID int } }
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Data.PID == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return m.Data.PID
}

func TestClientsThatStartTogetherGetOneDaemon(t *testing.T) {
	const clients = 6
	h := newHouse(t)
	type result struct {
		out, notes string
		status     int
	}
	results := make(chan result, clients)
	for range clients {
		go func() {
			c := h.command() // standard input that is no terminal means pipe
			var o, e bytes.Buffer
			c.Stdin, c.Stdout, c.Stderr = strings.NewReader(about), &o, &e
			_ = c.Run()
			results <- result{o.String(), e.String(), c.ProcessState.ExitCode()}
		}()
	}
	daemons := make(map[int]bool)
	for range clients {
		r := <-results
		if r.status != 0 || r.notes != "" {
			t.Fatalf("status %d: %s", r.status, r.notes)
		}
		daemons[pidOf(t, r.out)] = true
	}
	info, _, running := h.daemon()
	if len(daemons) != 1 || !running || !daemons[info.PID] {
		t.Errorf("%v have answered, and %d runs: %t", daemons, info.PID, running)
	}
	// It is no child of the command: it has a session of its own.
	if sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(info.PID), 0, 0); errno != 0 || int(sid) != info.PID {
		t.Errorf("its session is %d, %v", sid, errno)
	}
}

func TestASecondDaemonSaysWhoRuns(t *testing.T) {
	h := newHouse(t)
	first := h.serve()
	_, notes, status := h.run("", "serve")
	if want := fmt.Sprintf("process %d", first.Process.Pid); status != 1 || !strings.Contains(notes, want) || !strings.Contains(notes, ".sock") || !strings.Contains(notes, "since ") {
		t.Errorf("status %d: %s", status, notes)
	}
	out, _, status := h.run(about)
	if status != 0 || pidOf(t, out) != first.Process.Pid {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestASocketThatWasLeftBehindIsTakenOver(t *testing.T) {
	h := newHouse(t)
	first := h.serve()
	_, socket, _ := h.daemon()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.wait()
	if _, err := os.Stat(socket); err != nil {
		t.Fatalf("the test shows nothing: %v", err)
	}
	out, notes, status := h.run(about)
	if status != 0 || pidOf(t, out) == first.Process.Pid {
		t.Errorf("status %d: %s %s", status, out, notes)
	}
}

func TestASignalEndsADaemonInOrder(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		h := newHouse(t)
		s := h.serve()
		h.run(ping)
		_, socket, _ := h.daemon()
		if err := s.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if status := s.wait(); status != 0 {
			t.Errorf("%v: status %d: %s", signal, status, s.notes)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("%v: the socket is still there: %v", signal, err)
		}
		if _, _, running := h.daemon(); running {
			t.Errorf("%v: the lock is held", signal)
		}
		if !strings.Contains(s.notes.String(), fmt.Sprintf("stopped (%v)", signal)) {
			t.Errorf("%v: it said %s", signal, s.notes)
		}
		// What it has recorded is there.
		if out, _, status := h.run("", "log", "--type", "Ping", "--json"); status != 0 || strings.Count(out, "\n") != 2 {
			t.Errorf("%v: status %d: %s", signal, status, out)
		}
	}
}

func TestASecondSignalEndsADaemonAtOnce(t *testing.T) {
	h := newHouse(t)
	s := h.serve("--grace", "1h")
	// A client that does not read its answers holds up the end.
	c := h.command("pipe")
	in, out := testkit.Piped(t, c)
	go func() {
		line := []byte(`{"kind":"query","type":"Ping","data":{"payload":"` + strings.Repeat("x", 8000) + `"},"metadata":{"id":"p","timestamp":1}}` + "\n")
		for {
			if _, err := in.Write(line); err != nil {
				return // the daemon is gone, and with it the pipe
			}
		}
	}()
	h.stalled()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the daemon is stopping", func() bool { return strings.Contains(h.log(), `"msg":"stopping"`) })
	select {
	case <-s.ended:
		t.Fatalf("it did not wait for its client: %s", s.notes)
	default:
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(); status != exit.Interrupted {
		t.Errorf("status %d: %s", status, s.notes)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = c.Wait()
	if status := c.ProcessState.ExitCode(); status != exit.Unreachable {
		t.Errorf("the client has left with %d", status)
	}
}

// stalled returns when messages have come, and no more do.
func (h *house) stalled() {
	h.t.Helper()
	last, same := uint64(0), 0
	testkit.Until(h.t, "the connection stands still", func() bool {
		out, _, status := h.run("", "status", "--json")
		var s struct{ Messages struct{ Total uint64 } }
		if status != 0 || json.Unmarshal([]byte(out), &s) != nil {
			return false
		}
		// Asking counts too.
		if s.Messages.Total < last+5 && last > 20 {
			same++
		} else {
			same = 0
		}
		last = s.Messages.Total
		return same == 3
	})
}

// log returns the log of the daemon.
func (h *house) log() string {
	h.t.Helper()
	names, _ := filepath.Glob(filepath.Join(h.home, "origins", "*", "log", "kernos.log"))
	if len(names) != 1 {
		return ""
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

func TestTheLogIsForItsOwner(t *testing.T) {
	h := newHouse(t)
	h.run(ping)
	h.must("", "stop")
	dirs, _ := filepath.Glob(filepath.Join(h.home, "origins", "*", "log"))
	if len(dirs) != 1 {
		t.Fatalf("there are %q", dirs)
	}
	for name, want := range map[string]os.FileMode{"": os.ModeDir | 0o700, "kernos.log": 0o600, "crash.log": 0o600} {
		info, err := os.Stat(filepath.Join(dirs[0], name))
		if err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
	lines := strings.Split(strings.TrimSpace(h.log()), "\n")
	var said []string
	for _, line := range lines {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" {
			t.Errorf("%v: %s", err, line)
		}
		said = append(said, entry.Msg)
	}
	if got := strings.Join(said, ", "); got != "serving, stopping, stopped" {
		t.Errorf("it says %s", got)
	}
}

// A log that can't be written keeps no client from being served: it goes to standard error.
func TestALogThatCanNotBeWritten(t *testing.T) {
	h := newHouse(t)
	h.must(ping)
	h.must("", "stop")
	dirs, _ := filepath.Glob(filepath.Join(h.home, "origins", "*", "log"))
	if len(dirs) != 1 {
		t.Fatalf("there are %q", dirs)
	}
	// A file is in the place of the directory, as good as a disk that is read-only.
	if err := errors.Join(os.RemoveAll(dirs[0]), os.WriteFile(dirs[0], nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	out, notes, status := h.run(ping) // starts a daemon
	if status != 0 || !strings.Contains(out, `"reply"`) {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if _, _, status := h.run("", "stop"); status != 0 {
		t.Errorf("status %d", status)
	}
	s := h.serve()
	if _, notes, status := h.run(ping); status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"The log can't be kept in a file", "  log       standard error\n", "msg=serving", "msg=stopped"} {
		if !strings.Contains(s.notes.String(), want) {
			t.Errorf("%q is not in %s", want, s.notes)
		}
	}
}

// hold makes another process have the store. What it returns is its process, and what lets it
// end, and with it the store go.
func (h *house) hold() (pid int, release func() error) {
	h.t.Helper()
	holder := h.command("pipe", "--inline", "--journal")
	in, out := testkit.Piped(h.t, holder)
	if _, err := io.WriteString(in, ping); err != nil {
		h.t.Fatal(err)
	}
	if _, err := out.ReadString('\n'); err != nil {
		h.t.Fatal(err)
	}
	return holder.Process.Pid, func() error { return errors.Join(in.Close(), holder.Wait()) }
}

// A daemon that can't start says why to the command that wanted it.
func TestWhyADaemonDoesNotStart(t *testing.T) {
	h := newHouse(t)
	// Another process has the store.
	pid, release := h.hold()
	_, notes, status := h.run(ping)
	if want := fmt.Sprintf("is in use by kernos pipe (process %d", pid); status != exit.Unreachable || !strings.HasPrefix(notes, "kernos: the daemon did not start: The store in ") || !strings.Contains(notes, want) {
		t.Errorf("status %d: %s", status, notes)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	// A mistake in the configuration.
	config := filepath.Join(h.home, "config.yaml")
	if err := os.WriteFile(config, []byte("# mine\nmax-conections: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, notes, status = h.run(ping)
	if want := "kernos: the daemon did not start: " + config + `:2: the setting "max-conections" does not exist: did you mean max-connections?`; status != exit.Unreachable || strings.TrimSpace(notes) != want {
		t.Errorf("status %d: %s", status, notes)
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if _, notes, status = h.run(ping); status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
}

func TestOneConnectionTooMany(t *testing.T) {
	h := newHouse(t)
	if err := os.MkdirAll(h.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.home, "config.yaml"), []byte("max-connections: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, answers := h.talk(ping)
	if answer, err := answers.ReadString('\n'); err != nil || !strings.Contains(answer, `"reply"`) {
		t.Fatalf("%v: %s", err, answer)
	}
	out, notes, status := h.run(ping)
	if status != exit.Unreachable || !strings.Contains(out, `"code":429`) || !strings.Contains(notes, "its last message says why") {
		t.Errorf("status %d: %s %s", status, out, notes)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
}

// talk starts kernos pipe, or another command, with these lines, and leaves its input open.
func (h *house) talk(lines string, args ...string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	h.t.Helper()
	if len(args) == 0 {
		args = []string{"pipe"}
	}
	c := h.command(args...)
	c.Stderr = new(bytes.Buffer)
	in, out := testkit.Piped(h.t, c)
	if _, err := io.WriteString(in, lines); err != nil {
		h.t.Fatal(err)
	}
	return c, in, out
}

// What a client was given is not held open by the daemon that it has started.
func TestADaemonHoldsNothingOfItsStarter(t *testing.T) {
	h := newHouse(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	c := h.command()
	c.Stdin = strings.NewReader(ping)
	c.ExtraFiles = []*os.File{writer}
	err = c.Run()
	_ = writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.SetReadDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := reader.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("a process has it: %d, %v", n, err)
	}
	if _, _, running := h.daemon(); !running {
		t.Error("the test shows nothing: no daemon runs")
	}
}

func TestAWatchIsLive(t *testing.T) {
	h := newHouse(t)
	h.run(ping)
	c := h.command("watch", "--json", "--type", "Ping", "-n", "2")
	out := new(bytes.Buffer)
	c.Stdout = out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var err error
	testkit.Until(t, "it has seen two", func() bool { // it may take a while to begin
		h.run(strings.ReplaceAll(ping, `"p"`, `"live"`))
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	if err != nil || strings.Count(out.String(), `"live"`) != 2 {
		t.Errorf("%v: %s", err, out)
	}
}
