package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kernos/internal/testkit"
)

// managerVariable names the socket of a fakeSystemd for systemctl.
const managerVariable = "KERNOS_TEST_SYSTEMD"

// An answer is what systemctl prints, and its status.
type answer struct {
	Out, Err string
	Status   int
}

// systemctl is the program of this name on the PATH of tests: it asks the fakeSystemd that its environment names.
func systemctl() {
	conn, err := net.Dial("unix", os.Getenv(managerVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, "Failed to connect to bus: No medium found")
		os.Exit(1)
	}
	_ = json.NewEncoder(conn).Encode(os.Args[1:])
	var a answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		a = answer{Err: "the manager is gone", Status: 1}
	}
	fmt.Print(a.Out)
	fmt.Fprint(os.Stderr, a.Err)
	os.Exit(a.Status)
}

// A fakeSystemd does what kernos service asks of systemd: it reads units, listens for their sockets, and starts their
// services, as systemd does, when it is told to or when a client connects.
type fakeSystemd struct {
	t   *testing.T
	dir string // of the units
	env []string

	mu       sync.Mutex
	calls    []string            // the verbs, with the units
	reports  []string            // what services have reported
	enabled  map[string]bool     // by the name of a unit
	sockets  map[string]*os.File // of services, by their names without the end
	services map[string]*exec.Cmd
	starts   int    // how many services were started
	fails    string // the verb that fails
	ending   bool
	running  sync.WaitGroup
}

// systemd starts a manager for a house.
func (h *house) systemd() *fakeSystemd {
	h.t.Helper()
	config := h.t.TempDir()
	m := &fakeSystemd{
		t: h.t, dir: filepath.Join(config, "systemd", "user"), enabled: make(map[string]bool), sockets: make(map[string]*os.File), services: make(map[string]*exec.Cmd),
		env: []string{"HOME=" + os.Getenv("HOME"), "PATH=/nowhere", "GORACE=atexit_sleep_ms=10", "XDG_RUNTIME_DIR=/nowhere"},
	}
	path := filepath.Join(h.runtime, "manager")
	h.env = append(h.env, "XDG_CONFIG_HOME="+config, managerVariable+"="+path)
	l, err := net.Listen("unix", path)
	if err != nil {
		h.t.Fatal(err)
	}
	m.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.running.Go(func() { m.serve(conn) })
		}
	})
	h.t.Cleanup(func() {
		_ = l.Close()
		m.mu.Lock()
		m.ending = true
		for _, c := range m.services {
			_ = c.Process.Kill()
		}
		m.mu.Unlock()
		m.running.Wait()
	})
	return m
}

func (m *fakeSystemd) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var args []string
	if err := json.NewDecoder(conn).Decode(&args); err != nil {
		return
	}
	var verb string
	var units []string
	now, failed := false, false
	for _, arg := range args {
		switch {
		case arg == "--now":
			now = true
		case strings.HasPrefix(arg, "--"):
		case verb == "":
			verb = arg
		default:
			units = append(units, arg)
		}
	}
	m.mu.Lock()
	m.calls = append(m.calls, strings.Join(append([]string{verb}, units...), " "))
	failed = m.fails == verb
	m.mu.Unlock()
	a := answer{}
	if failed {
		a = answer{Err: "Job for " + verb + " failed.", Status: 1}
	} else if out, err := m.do(verb, units, now); err != nil {
		a = answer{Err: err.Error(), Status: 1}
	} else {
		a.Out = out
	}
	_ = json.NewEncoder(conn).Encode(a)
}

// do does what a verb means for units.
func (m *fakeSystemd) do(verb string, units []string, now bool) (printed string, err error) {
	switch verb {
	case "show-environment", "daemon-reload", "reset-failed":
		return "", nil
	case "show":
		return m.show(units[0]), nil
	case "enable", "disable":
		m.mu.Lock()
		for _, u := range units {
			m.enabled[u] = verb == "enable"
		}
		m.mu.Unlock()
		if !now {
			return "", nil
		}
		return "", m.stop(units)
	case "start":
		for _, u := range slices.Backward(units) { // sockets are ordered before their services
			if err := m.start(u); err != nil {
				return "", err
			}
		}
		return "", nil
	case "stop":
		return "", m.stop(units)
	}
	return "", fmt.Errorf("Unknown command verb %s.", verb)
}

func (m *fakeSystemd) show(u string) string {
	name, isService := strings.CutSuffix(u, ".service")
	m.mu.Lock()
	defer m.mu.Unlock()
	state, pid := "inactive", 0
	if c := m.services[name]; isService && c != nil {
		state, pid = "active", c.Process.Pid
	}
	if m.sockets[strings.TrimSuffix(u, ".socket")] != nil && !isService {
		state = "active"
	}
	file := "disabled"
	if m.enabled[u] {
		file = "enabled"
	}
	return fmt.Sprintf("ActiveState=%s\nUnitFileState=%s\nMainPID=%d\nStatusText=fine\nResult=success\n", state, file, pid)
}

func (m *fakeSystemd) start(u string) error {
	if name, ok := strings.CutSuffix(u, ".socket"); ok {
		return m.listen(name)
	}
	return m.launch(strings.TrimSuffix(u, ".service"))
}

// listen listens on the socket of a unit, and starts its service when a client connects.
func (m *fakeSystemd) listen(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sockets[name] != nil {
		return nil
	}
	settings, err := readUnit(filepath.Join(m.dir, name+".socket"))
	if err != nil {
		return err
	}
	path := strings.ReplaceAll(settings["ListenStream"][0], "%%", "%")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	if err = errors.Join(err, l.Close(), os.Chmod(path, 0o600)); err != nil {
		return err
	}
	m.sockets[name] = file
	fd := int32(file.Fd()) // makes the socket block, for the service too: not while that runs
	m.running.Go(func() { m.activate(name, file, fd) })
	return nil
}

// activate starts a service whenever a client waits and it doesn't run, until its socket is stopped.
func (m *fakeSystemd) activate(name string, file *os.File, fd int32) {
	defer func() { _ = file.Close() }()
	for {
		m.mu.Lock()
		listening, idle := m.sockets[name] == file && !m.ending, m.services[name] == nil
		waiting := []unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
		if !idle {
			waiting = nil
		}
		m.mu.Unlock()
		if !listening {
			return
		}
		if n, err := unix.Poll(waiting, 5); n > 0 && err == nil {
			if err := m.launch(name); err != nil {
				m.t.Errorf("the service %s doesn't start: %v", name, err)
				return
			}
		}
	}
}

// launch starts a service as systemd does, and waits until it reports that it is ready.
func (m *fakeSystemd) launch(name string) error {
	m.mu.Lock()
	if m.services[name] != nil || m.ending {
		m.mu.Unlock()
		return nil
	}
	settings, err := readUnit(filepath.Join(m.dir, name+".service"))
	if err != nil || m.sockets[name] == nil {
		m.mu.Unlock()
		return errors.Join(err, fmt.Errorf("%s has no socket", name))
	}
	words := unquoted(settings["ExecStart"][0])
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "$$", "$")
	}
	notify := filepath.Join(testkit.ShortDir(m.t), "n")
	reports, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		m.mu.Unlock()
		return err
	}
	c := exec.Command("sh", append([]string{"-c", `export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@"`, "sh"}, words...)...)
	c.ExtraFiles = []*os.File{m.sockets[name]} // the first one is descriptor 3
	c.Env = append(slices.Clone(m.env), "LISTEN_FDS=1", "LISTEN_FDNAMES="+name+".socket", "NOTIFY_SOCKET="+notify, "WATCHDOG_USEC=20000")
	for _, line := range settings["Environment"] {
		c.Env = append(c.Env, unquoted(line)...)
	}
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		m.mu.Unlock()
		return errors.Join(err, reports.Close())
	}
	m.services[name] = c
	m.starts++
	m.mu.Unlock()
	ready, ended := make(chan struct{}), make(chan struct{})
	m.running.Go(func() {
		var once sync.Once
		buffer := make([]byte, 4096)
		for {
			n, err := reports.Read(buffer)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.reports = append(m.reports, string(buffer[:n]))
			m.mu.Unlock()
			if strings.HasPrefix(string(buffer[:n]), "READY=1\n") {
				once.Do(func() { close(ready) })
			}
		}
	})
	m.running.Go(func() {
		_ = c.Wait()
		_ = reports.Close()
		m.mu.Lock()
		delete(m.services, name)
		m.mu.Unlock()
		close(ended)
	})
	select {
	case <-ready:
		return nil
	case <-ended:
		return fmt.Errorf("Job for %s.service failed: %s", name, said.String())
	}
}

// stop stops units, services first.
func (m *fakeSystemd) stop(units []string) error {
	for _, u := range units {
		name, isService := strings.CutSuffix(u, ".service")
		m.mu.Lock()
		if !isService {
			name = strings.TrimSuffix(u, ".socket")
			if settings, err := readUnit(filepath.Join(m.dir, u)); err == nil && m.sockets[name] != nil {
				_ = os.Remove(strings.ReplaceAll(settings["ListenStream"][0], "%%", "%"))
			}
			m.sockets[name] = nil // its goroutine ends, and closes it
		} else if c := m.services[name]; c != nil {
			_ = c.Process.Signal(syscall.SIGTERM)
		}
		m.mu.Unlock()
	}
	testkit.Until(m.t, "the services have stopped", func() bool { return m.pid() == 0 })
	return nil
}

// pid returns the process of the one service; 0 if none runs.
func (m *fakeSystemd) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.services {
		return c.Process.Pid
	}
	return 0
}

// started returns how many services were started.
func (m *fakeSystemd) started() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starts
}

// fail makes a verb fail; "" means none.
func (m *fakeSystemd) fail(verb string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = verb
}

// takeCalls returns the calls since the last time.
func (m *fakeSystemd) takeCalls() (calls []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, m.calls = m.calls, nil
	return calls
}

// reported returns how often services have reported what begins like this.
func (m *fakeSystemd) reported(prefix string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.reports {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// readUnit returns the settings of a unit, whose names don't depend on their sections here.
func readUnit(path string) (map[string][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("Unit %s not found.", filepath.Base(path))
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(f)
	settings := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = append(settings[name], value)
		}
	}
	return settings, err
}

// unquoted splits a value into words, as systemd does: quotes, backslashes and %% are resolved.
func unquoted(value string) (words []string) {
	var word strings.Builder
	inWord, quoted := false, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			quoted, inWord = !quoted, true
		case c == '\\' && i+1 < len(value):
			i++
			word.WriteByte(value[i])
		case c == '%' && strings.HasPrefix(value[i:], "%%"):
			i++
			word.WriteByte('%')
		case c == '%':
			word.WriteString("(" + strconv.Quote(value[i:]) + " is a specifier)")
		case c == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
