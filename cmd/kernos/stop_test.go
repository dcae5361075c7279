package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kernos/internal/exit"
	"kernos/internal/testkit"
)

// A daemon that has as many connections as it may can still be looked after.
func TestAFullDaemonCanBeLookedAfter(t *testing.T) {
	h := newHouse(t)
	s := h.serve("--max-connections", "1")
	c, in, answers := h.talk(ping)
	if answer, err := answers.ReadString('\n'); err != nil || !strings.Contains(answer, `"reply"`) {
		t.Fatalf("%v: %s", err, answer)
	}
	if out, notes, status := h.run("", "status"); status != 0 || !strings.Contains(out, fmt.Sprintf("process      %d", s.Process.Pid)) {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run(ping); status != exit.Unreachable || !strings.Contains(out, `"code":429`) || !strings.Contains(out, "There are 1 connections") {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	out, notes, status := h.run("", "stop")
	if want := fmt.Sprintf("the daemon (process %d) has stopped\n", s.Process.Pid); status != 0 || out != want {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if status := s.wait(); status != 0 {
		t.Errorf("status %d: %s", status, s.notes)
	}
	// Who was connected is told why that is over.
	rest, err := io.ReadAll(answers)
	if err != nil || !strings.Contains(string(rest), `"type":"Syscall.Disconnected"`) || !strings.Contains(string(rest), "The daemon is shutting down") {
		t.Errorf("%v: %s", err, rest)
	}
	_ = in.Close()
	_ = c.Wait()
	if status := c.ProcessState.ExitCode(); status != exit.Unreachable {
		t.Errorf("it has left with %d: %s", status, c.Stderr)
	}
}

// A client of kernos mcp outlives the daemon: the next message that needs one starts another, which the client talks
// to as if it were the same.
func TestMCPOutlivesTheDaemon(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	c, in, answers := h.talk("", "mcp")
	send := func(format string, values ...any) {
		if _, err := fmt.Fprintf(in, format+"\n", values...); err != nil {
			t.Fatal(err)
		}
	}
	until := func(texts ...string) {
		t.Helper()
		for len(texts) > 0 {
			line, err := answers.ReadString('\n')
			if err != nil {
				t.Fatalf("%v before %s: %s", err, texts, c.Stderr)
			}
			texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(line, text) })
		}
	}
	stateless := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	until(`"id":1,"result"`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"memory://watched"}}`)
	until(`"id":2,"result"`)
	send(`{"jsonrpc":"2.0","id":"listens","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["memory://other"]},%s}}`, stateless)
	until("subscriptions/acknowledged")
	watched, other := `"method":"notifications/resources/updated","params":{"uri":"memory://watched"}`, `subscriptionId":"listens"},"uri":"memory://other"`
	all := []string{`"method":"notifications/tools/list_changed"}`, `"method":"notifications/prompts/list_changed"`, `subscriptionId":"listens"}}`, watched, other}

	// It is stopped, and doesn't come back before it is needed.
	h.must("", "stop")
	_ = s.wait()
	if _, _, running := h.daemon(); running {
		t.Error("a client that waits for nothing has started the daemon")
	}
	send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"Memory_Set","arguments":{"key":"a","value":"door"}}}`)
	until(append(all, `"id":3,"result"`)...)

	// It dies in the middle of a call; what only waited for news needs no daemon, and hears of the next one.
	send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"Message_Watch","arguments":{"type":["Door.*"]},"_meta":{"progressToken":1}}}`)
	send(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	until(`"id":5,"result"`)
	info, _, _ := h.daemon()
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(`"id":4,"error":{"code":-32603,"message":"The kernel has stopped or lost the connection before it answered`)
	testkit.Until(t, "the killed daemon has let go of its lock", func() bool {
		_, _, running := h.daemon()
		return !running
	})
	h.serve()
	until(all...)
	if out, notes, status := h.run("", "memory", "set", "watched", "--value", "news"); status != 0 {
		t.Fatal(out, notes)
	}
	until(watched)
	send(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"Memory_Get","arguments":{"key":"a"},%s}}`, stateless)
	until(`"id":6,"result":{"resultType":"complete","content":[{"type":"text","text":"door"}]`)

	// The log of the client has the reason why its server is gone.
	h.must("", "token", "revoke", "mcp")
	_ = c.Wait()
	if status, text := c.ProcessState.ExitCode(), fmt.Sprint(c.Stderr); status != exit.Unreachable || !strings.Contains(text, "the daemon has closed the connection: it has stopped, or the token was revoked") {
		t.Errorf("status %d: %s", status, text)
	}
	_ = in.Close()
	if _, notes, status := h.run("", "mcp", "--as", "nosuch"); status == 0 || !strings.Contains(notes, "kernos token create nosuch makes it") {
		t.Errorf("status %d: %s", status, notes)
	}
}

// A daemon whose socket no client finds is told by a signal.
func TestADaemonThatCantBeAskedIsTold(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	_, socket, _ := h.daemon()
	// Something that it can't replace is in the place of its socket.
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(socket, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, notes, status := h.run("", "stop")
	if want := fmt.Sprintf("the daemon (process %d) has stopped; it could not be asked (", s.Process.Pid); status != 0 || !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "was sent SIGTERM\n") {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if status := s.wait(); status != 0 || !strings.Contains(s.notes.String(), "stopped (terminated)") {
		t.Errorf("status %d: %s", status, s.notes)
	}
}

// A daemon whose socket is swept away is found again.
func TestASocketThatIsSweptAwayComesBack(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	_, socket, _ := h.daemon()
	if err := os.RemoveAll(filepath.Dir(socket)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is found again", func() bool {
		info, _, running := h.daemon()
		return running && info.PID == s.Process.Pid
	})
	out, notes, status := h.run(about)
	if status != 0 || pidOf(t, out) != s.Process.Pid {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "call", "Ping", "payload:=1"); status != 0 {
		t.Errorf("over HTTP: status %d: %s%s", status, out, notes)
	}
	if !strings.Contains(h.log(), "it was made again") {
		t.Errorf("the log says %s", h.log())
	}
}

// work makes the daemon run something that has no end, and returns when it does.
func (h *house) work() {
	h.t.Helper()
	const register = `{"kind":"command","type":"Syscall.Register","data":{"name":"Test.Work","kind":"command","description":"Work.","inputSchema":{},"outputSchema":{},"handler":"connection","timeout":3600000},"metadata":{"id":"r","timestamp":1}}` + "\n"
	const ask = `{"kind":"command","type":"Test.Work","data":{},"metadata":{"id":"w","timestamp":1}}` + "\n"
	heard := func(answers *bufio.Reader, what string) {
		h.t.Helper()
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, what) {
			h.t.Fatalf("%v: %s", err, line)
		}
	}
	server, _, requests := h.talk(register)
	heard(requests, `"registered":true`)
	caller, _, _ := h.talk(ask)
	heard(requests, `"type":"Test.Work"`)
	h.t.Cleanup(func() {
		for _, c := range []*exec.Cmd{server, caller} {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
}

// A daemon that finishes what runs is not cut by those who want it to stop, however many
// they are; a signal insists, and one is enough.
func TestASignalInsistsThatADaemonEnds(t *testing.T) {
	h := newHouse(t)
	s := h.serve("--grace", "1h")
	h.work()
	for range 2 {
		out, notes, status := h.run("", "stop", "--timeout", "300ms")
		if want := fmt.Sprintf("kill %d insists", s.Process.Pid); status != exit.Failure || out != "" || !strings.Contains(notes, want) {
			t.Errorf("status %d: %s%s", status, out, notes)
		}
		select {
		case <-s.ended:
			t.Fatalf("it was cut: %s", s.notes)
		default:
		}
	}
	if info, _, running := h.daemon(); !running || !info.Stopping {
		t.Errorf("got %+v, %t", info, running)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(); status != exit.Interrupted {
		t.Errorf("status %d: %s", status, s.notes)
	}
}

// elsewhere is the same home as a caller sees it whose runtime directory is another one, as
// that of cron or ssh may be.
func (h *house) elsewhere() *house {
	h.t.Helper()
	other := newHouse(h.t)
	other.home = h.home
	other.env = append(other.env, "KERNOS_HOME="+h.home)
	return other
}

// A daemon is found by those who have another runtime directory than it.
func TestADaemonWithAnotherRuntimeDirectoryIsFound(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	other := h.elsewhere()
	if out, notes, status := other.run("", "status"); status != 0 || !strings.Contains(out, fmt.Sprintf("process      %d", s.Process.Pid)) {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if out, notes, status := other.run(about); status != 0 || pidOf(t, out) != s.Process.Pid {
		t.Errorf("pipe: status %d: %s%s", status, out, notes)
	}
	if out, notes, status := other.run("", "call", "Ping", "payload:=1"); status != 0 {
		t.Errorf("call: status %d: %s%s", status, out, notes)
	}
	if out, _, status := other.run("", "doctor"); status != 0 || !strings.Contains(out, fmt.Sprintf("process %d, ", s.Process.Pid)) || !strings.Contains(out, "serves this home from another XDG_RUNTIME_DIR") {
		t.Errorf("doctor: status %d: %s", status, out)
	}
	if _, notes, status := other.run("", "serve"); status != exit.Failure || !strings.Contains(notes, fmt.Sprintf("already: process %d", s.Process.Pid)) {
		t.Errorf("serve: status %d: %s", status, notes)
	}
	out, notes, status := other.run("", "stop")
	if want := fmt.Sprintf("the daemon (process %d) has stopped\n", s.Process.Pid); status != 0 || out != want {
		t.Fatalf("status %d: %s%s", status, out, notes)
	}
	if status := s.wait(); status != 0 {
		t.Errorf("status %d: %s", status, s.notes)
	}
	// The next one is started where its clients look for it.
	if out, notes, status := other.run(about); status != 0 || pidOf(t, out) == s.Process.Pid {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
	if _, _, running := other.daemon(); !running {
		t.Error("no daemon runs there")
	}
}

// A daemon that can't be reached is not taken for none.
func TestADaemonThatIsNotSeenIsNamed(t *testing.T) {
	h := newHouse(t)
	s := h.serve()
	if err := s.Process.Signal(syscall.SIGSTOP); err != nil { // it does not make its socket again
		t.Fatal(err)
	}
	if err := os.RemoveAll(h.runtime); err != nil {
		t.Fatal(err)
	}
	other := h.elsewhere()
	want := fmt.Sprintf("kernos serve (process %d, since ", s.Process.Pid)
	advice := fmt.Sprintf("use its XDG_RUNTIME_DIR, or end it with kill %d", s.Process.Pid)
	for _, command := range []string{"stop", "status", "doctor"} {
		out, notes, status := other.run("", command)
		if said := out + notes; status != exit.Unreachable || !strings.Contains(said, want) || !strings.Contains(said, advice) {
			t.Errorf("%s: status %d: %s", command, status, said)
		}
	}
}

// A command that has the store is no daemon, and is left alone.
func TestStopLeavesOtherCommandsAlone(t *testing.T) {
	h := newHouse(t)
	_, release := h.hold()
	for _, caller := range []*house{h, h.elsewhere()} {
		if out, notes, status := caller.run("", "stop"); status != 0 || out != "no daemon is running\n" {
			t.Errorf("status %d: %s%s", status, out, notes)
		}
	}
	if err := release(); err != nil {
		t.Errorf("it was stopped: %v", err)
	}
}
