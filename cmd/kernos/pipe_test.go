package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"kernos/internal/exit"
	"kernos/internal/testkit"
)

// What is piped through the daemon. The defaults are enough to fill every buffer on the way
// many times; make soak pipes more.
var (
	pipes  = flag.Int("pipes", 10, "how often to pipe one message and a thousand through the daemon")
	floods = flag.Int("floods", 1, "how often to pipe many messages")
	many   = flag.Int("many", 100_000, "how many messages are many: 13 MB of input")
)

// pings writes n requests.
func pings(w io.Writer, n int) error {
	var b []byte
	for i := range n {
		b = strconv.AppendInt(append(b, `{"kind":"query","type":"Ping","data":{"payload":`...), int64(i), 10)
		b = strconv.AppendInt(append(b, `},"metadata":{"id":"i`...), int64(i), 10)
		b = append(b, `","timestamp":1}}`+"\n"...)
		if len(b) > 64<<10 || i == n-1 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// answered reads replies to pings, and says what is wrong with them.
func answered(r io.Reader, n int) error {
	came := make([]bool, n)
	total := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var m struct {
			Kind     string
			Data     struct{ Payload int }
			Metadata struct{ Causation string }
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("%w: %s", err, lines.Bytes())
		}
		i := m.Data.Payload
		if m.Kind != "reply" || i < 0 || i >= n || came[i] || m.Metadata.Causation != fmt.Sprintf("i%d", i) {
			return fmt.Errorf("it is no answer, or one that came before: %s", lines.Bytes())
		}
		came[i] = true
		total++
	}
	if total != n {
		return fmt.Errorf("%d of %d answers came", total, n)
	}
	return lines.Err()
}

func TestNoAnswerIsLost(t *testing.T) {
	h := newHouse(t)
	for range *pipes {
		for _, n := range []int{1, 1000} {
			var in bytes.Buffer
			if err := pings(&in, n); err != nil {
				t.Fatal(err)
			}
			out, notes, status := h.run(in.String())
			if err := answered(strings.NewReader(out), n); err != nil || status != 0 || notes != "" {
				t.Fatalf("%d: status %d: %v: %s", n, status, err, notes)
			}
		}
	}
	if out, notes, status := h.run(""); out != "" || notes != "" || status != 0 {
		t.Errorf("nothing at all: status %d: %s%s", status, out, notes)
	}
}

// A reader may take as long as it likes, also of many answers.
func TestNoAnswerOfManyIsLost(t *testing.T) {
	h := newHouse(t)
	h.binary = testkit.Program(t, "kernos/cmd/kernos")
	for range *floods {
		h.pipeMany(*many, func() {})
		h.pipeMany(*many, h.stalled) // others are served in the meantime
	}
}

// pipeMany pipes n messages, and reads nothing before first has returned.
func (h *house) pipeMany(n int, first func()) {
	t := h.t
	t.Helper()
	c := h.command()
	in, out := testkit.Piped(t, c)
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(pings(in, n), in.Close()) }()
	first()
	if err := manyAnswered(out, n); err != nil {
		t.Error(err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// manyAnswered is answered for many messages: it decodes only what it must.
func manyAnswered(r io.Reader, n int) error {
	came := make([]bool, n)
	total := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Bytes()
		var i int
		at := bytes.LastIndex(line, []byte(`"causation":"i`))
		if at < 0 || !bytes.HasPrefix(line, []byte(`{"kind":"reply","type":"Ping"`)) {
			return fmt.Errorf("it is no answer: %s", line)
		}
		for _, d := range line[at+len(`"causation":"i`):] {
			if d < '0' || d > '9' {
				break
			}
			i = 10*i + int(d-'0')
		}
		if i >= n || came[i] {
			return fmt.Errorf("it answers nothing, or something that is answered: %s", line)
		}
		came[i] = true
		total++
	}
	if total != n {
		return fmt.Errorf("%d of %d answers came", total, n)
	}
	return lines.Err()
}

func TestErrorsInBothDialectsMakeTheStatus(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		line   string
		status int
		out    string
	}{
		{`{"kind":"command","type":"Echo","data":{"message":"\"kind\":\"error\""},"metadata":{"id":"a","timestamp":1}}`, 0, `{"kind":"reply"`},
		{`{"type":"command","name":"Echo","payload":{"message":"{\"type\":\"error\""},"metadata":{"id":"a","timestamp":1}}`, 0, `{"type":"response"`},
		{`{"kind":"query","type":"Memory.Get","data":{"key":"/none"},"metadata":{"id":"a","timestamp":1}}`, 1, `{"kind":"error"`},
		{`{"type":"query","name":"Memory.Get","payload":{"key":"/none"},"metadata":{"id":"a","timestamp":1}}`, 1, `{"type":"error"`},
		{`not a message`, 1, `{"kind":"error"`},
		{`{"kind":"event","type":"Test.Happened","data":{},"metadata":{"id":"a","timestamp":1}}`, 0, ""},
	} {
		out, notes, status := h.run(c.line + "\n")
		if status != c.status || !strings.HasPrefix(out, c.out) || notes != "" {
			t.Errorf("%s: status %d: %s%s", c.line, status, out, notes)
		}
		// The last line may have no end.
		if again, _, status := h.run(c.line); status != c.status || !strings.HasPrefix(again, c.out) {
			t.Errorf("%s without an end: status %d: %s", c.line, status, again)
		}
	}
}

func TestLenientIsTheClients(t *testing.T) {
	h := newHouse(t)
	const bare = `{"kind":"query","type":"Ping","data":{"payload":[1.0]}}`
	if out, _, status := h.run(bare); status != 1 || !strings.Contains(out, "Missing required field: metadata") {
		t.Errorf("status %d: %s", status, out)
	}
	out, notes, status := h.run(bare+"\nnonsense\n"+`{"type":"query","name":"Ping","payload":{"payload":2}}`+"\n", "pipe", "--lenient")
	lines := strings.Split(out, "\n")
	if status != 1 || notes != "" || len(lines) != 4 || !strings.Contains(lines[0], `"data":{"payload":[1.0]}`) ||
		!strings.Contains(lines[1], `"code":400`) || !strings.HasPrefix(lines[2], `{"type":"response","name":"Ping","payload":{"payload":2}`) {
		t.Errorf("status %d: %s%s", status, out, notes)
	}
}

// A line that lacks metadata and is wrong otherwise gets the same error in both modes: what is wrong
// with it otherwise.
func TestALenientPipeReportsWhatElseIsWrong(t *testing.T) {
	h := newHouse(t)
	lines := []string{
		`{"kind":"querry","type":"Ping","data":1}`, `{"kind":"query","type":"ping","data":1}`, `{"kind":"query","type":"Ping"}`,
		`{"kind":"query","type":"Ping","data":1,"extra":1}`, `{"kind":"query","typ":"Ping","data":1,"metadata":{"correlation":"c"}}`,
		`{"kind":"query","type":"Ping","data":1,"metadata":{"id":7}}`, `{"kind":"query","type":"Ping","data":1,"metadata":7}`,
		`{"kind":"reply","type":"Ping","data":1}`, `{}`, `[]`, `7`, `{"type":"query","name":"Ping","payload":1,"x":1}`, `{"type":"querry","name":"Ping","payload":1}`,
	}
	data := func(args ...string) (all []string) {
		out, notes, status := h.run(strings.Join(lines, "\n")+"\n", append([]string{"pipe", "--lenient"}, args...)...)
		if status != 1 {
			t.Fatalf("status %d: %s%s", status, out, notes)
		}
		for line := range strings.Lines(out) {
			var m struct{ Data, Payload json.RawMessage }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, string(m.Data)+string(m.Payload))
		}
		return all
	}
	inline, through := data("--inline"), data()
	if len(inline) != len(lines) || len(through) != len(lines) {
		t.Fatalf("%d lines have %d and %d answers", len(lines), len(inline), len(through))
	}
	for i, line := range lines {
		if inline[i] != through[i] {
			t.Errorf("%s\n  inline:  %s\n  through: %s", line, inline[i], through[i])
		}
	}
}

// Each answer comes before the next question.
func TestAProgramTalksToTheDaemon(t *testing.T) {
	h := newHouse(t)
	c, in, answers := h.talk("")
	for i := range 100 {
		if _, err := fmt.Fprintf(in, `{"kind":"query","type":"Ping","data":{"payload":%d},"metadata":{"id":"a","timestamp":1}}`+"\n", i); err != nil {
			t.Fatal(err)
		}
		if answer, err := answers.ReadString('\n'); err != nil || !strings.Contains(answer, fmt.Sprintf(`"data":{"payload":%d}`, i)) {
			t.Fatalf("%v: %s", err, answer)
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAReaderThatGoesAwayIsNoError(t *testing.T) {
	h := newHouse(t)
	c := h.command()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	notes := new(bytes.Buffer)
	c.Stdout, c.Stderr = writer, notes
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	if _, err := io.WriteString(in, ping); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(reader).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = reader.Close() // kernos pipe | head -1
	for pings(in, 100) == nil {
		// It finds out when it writes.
	}
	if err := c.Wait(); err != nil || notes.Len() > 0 {
		t.Errorf("%v: %s", err, notes)
	}
}

// The same with answers that fill every buffer on the way.
func TestASlowReaderGetsEverything(t *testing.T) {
	const n = 5000
	h := newHouse(t)
	c, in, answers := h.talk("")
	go func() {
		b := bufio.NewWriter(in)
		for i := range n {
			fmt.Fprintf(b, `{"kind":"query","type":"Ping","data":{"payload":"%d %s"},"metadata":{"id":"i%d","timestamp":1}}`+"\n", i, strings.Repeat("x", 4000), i)
		}
		_ = b.Flush()
		_ = in.Close()
	}()
	h.stalled() // others are served in the meantime
	for i := range n {
		answer, err := answers.ReadString('\n')
		if err != nil || !strings.Contains(answer, fmt.Sprintf(`"payload":"%d x`, i)) {
			t.Fatalf("%d: %v: %s", i, err, answer)
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

func TestADaemonThatGoesAwayIsToldOf(t *testing.T) {
	kill := func(h *house) {
		info, _, _ := h.daemon()
		if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
			h.t.Fatal(err)
		}
	}
	left := func(h *house, c *exec.Cmd, answers *bufio.Reader) {
		h.t.Helper()
		_, _ = io.Copy(io.Discard, answers)
		_ = c.Wait()
		if status := c.ProcessState.ExitCode(); status != exit.Unreachable || !strings.Contains(fmt.Sprint(c.Stderr), "the daemon") {
			h.t.Errorf("status %d: %s", status, c.Stderr)
		}
	}
	t.Run("while there is input", func(t *testing.T) {
		h := newHouse(t)
		c, _, answers := h.talk(ping)
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		kill(h)
		left(h, c, answers)
	})
	t.Run("when there is no more", func(t *testing.T) {
		h := newHouse(t)
		c, in, answers := h.talk(watch + ping)
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the watch is alone", func() bool {
			out, _, status := h.run("", "status", "--json")
			return status == 0 && strings.Contains(out, `"inFlight": 1`)
		})
		kill(h)
		left(h, c, answers)
	})
}

func TestAnInterruptEndsAPipe(t *testing.T) {
	h := newHouse(t)
	c, _, answers := h.talk(ping)
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answers)
	_ = c.Wait()
	if status := c.ProcessState.ExitCode(); status != exit.Interrupted {
		t.Errorf("status %d: %s", status, c.Stderr)
	}
	if _, _, running := h.daemon(); !running {
		t.Error("the daemon has ended with it")
	}
}

func TestAnswersAreForThoseWhoCanSign(t *testing.T) {
	private, public := testkit.Key(t)
	h := newCaller(t)
	if err := os.MkdirAll(h.home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.home, "config.yaml"), []byte("auth-key: keys\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.home, "keys"), ssh.MarshalAuthorizedKey(public), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, notes, status := h.run(ping); status != exit.Unreachable || !strings.Contains(notes, "SSH_AUTH_SOCK is not set") {
		t.Errorf("without an agent: status %d: %s", status, notes)
	}
	env := h.env
	other, _ := testkit.Key(t)
	h.env = append(env, "SSH_AUTH_SOCK="+testkit.ServeAgent(t, testkit.Keyring(t, other)))
	if _, notes, status := h.run(ping); status != exit.Unreachable || !strings.Contains(notes, "ssh-add") {
		t.Errorf("with another key: status %d: %s", status, notes)
	}
	h.env = append(env, "SSH_AUTH_SOCK="+testkit.ServeAgent(t, testkit.Keyring(t, other, private)))
	if out, notes, status := h.run(ping); status != 0 || !strings.HasPrefix(out, `{"kind":"reply"`) {
		t.Errorf("with the key: status %d: %s%s", status, out, notes)
	}
	// What tidies temporary directories may take away the file that says so.
	info, socket, _ := h.daemon()
	if err := os.Remove(socket + ".lock"); err != nil {
		t.Fatal(err)
	}
	if out, notes, status := h.run(about); status != 0 || pidOf(t, out) != info.PID {
		t.Errorf("without the lock: status %d: %s%s", status, out, notes)
	}
	if err := os.Remove(socket + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have been made again
		t.Fatal(err)
	}
	if out, notes, status := h.run("", "call", "Ping", "payload:=1"); status != 0 || out != `{"payload":1}`+"\n" {
		t.Errorf("a call without the lock: status %d: %s%s", status, out, notes)
	}
	if out, notes, status := h.run("", "stop"); status != 0 || !strings.Contains(out, "has stopped") {
		t.Errorf("with the key: status %d: %s%s", status, out, notes)
	}
	testkit.Until(t, "nothing answers", func() bool { return !accepts(t.Context(), socket) })
}

// A daemon that ends finishes what runs. Who comes then waits until it is gone, and gets the
// next one.
func TestAPipeWaitsForTheNextDaemon(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer slow.Close()
	h := newHouse(t)
	old := h.serve("--grace", "1m")
	c, in, answers := h.talk(`{"kind":"command","type":"Http.Fetch","data":{"url":"` + slow.URL + `","timeout":30000},"metadata":{"id":"f","timestamp":1}}` + "\n")
	<-asked
	if err := old.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, socket, _ := h.daemon()
	testkit.Until(t, "it accepts nothing any more", func() bool { return !accepts(t.Context(), socket) })
	type result struct {
		out, notes string
		status     int
	}
	done := make(chan result, 2)
	for range 2 {
		go func() {
			out, notes, status := h.run(about)
			done <- result{out, notes, status}
		}()
	}
	close(release)
	if answer, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(answer, `{"kind":"reply"`) {
		t.Errorf("what ran: %v: %s", err, answer)
	}
	for range 2 {
		r := <-done
		if r.status != 0 || pidOf(t, r.out) == old.Process.Pid {
			t.Errorf("status %d: %s%s", r.status, r.out, r.notes)
		}
	}
	_ = in.Close()
	_ = c.Wait()
	if status := old.wait(); status != 0 {
		t.Errorf("it has left with %d: %s", status, old.notes)
	}
}

// accepts reports whether a server accepts connections on a socket.
func accepts(ctx context.Context, path string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
