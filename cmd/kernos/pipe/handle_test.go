package pipe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/cmd/kernos/server"
	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/internal/testkit"
	"kernos/internal/testkit/tool"
	"kernos/message"
	"kernos/transport/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world has a daemon, which can be replaced, and a handler.
type world struct {
	t    *testing.T
	home string

	mu       sync.Mutex
	daemon   *daemontest.Daemon
	said     strings.Builder // what the handler reports, and what its processes print
	drain    chan struct{}
	finished chan error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := testkit.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	w := &world{t: t, home: filepath.Join(dir, "home")}
	w.open()
	return w
}

// open opens a daemon on the home.
func (w *world) open() {
	w.t.Helper()
	w.daemon = daemontest.Serve(w.t, &daemon.Options{Home: w.home, Unrecorded: true, Socket: &daemon.Socket{}})
}

// Write implements [io.Writer].
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(b)
}

func (w *world) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.said.String(), text)
}

// handle serves Test.Run with a script until the test ends, and waits until it is registered.
func (w *world) handle(script string, change func(*handler)) (kill func()) {
	w.t.Helper()
	tool.Need(w.t, "bash")
	socket, err := w.daemon.Home().Socket()
	if err != nil {
		w.t.Fatal(err)
	}
	h := &handler{
		Type:         "Test.Run",
		Registration: json.RawMessage(`{"name":"Test.Run","kind":"command","description":"Run.","inputSchema":{},"outputSchema":{},"handler":"connection"}`),
		Command:      []string{"bash", "-c", script}, Parallel: 2, Timeout: testkit.Patience, Stderr: w,
		Report: func(text string) { fmt.Fprintln(w, text) },
		Connect: func(ctx context.Context) (server.Lines, error) {
			conn, err := new(unix.Dialer).Dial(ctx, socket)
			if err != nil {
				return nil, nil // no daemon is running
			}
			return conn, nil
		},
	}
	if change != nil {
		change(h)
	}
	ctx, kill := context.WithCancel(context.Background())
	drain, finished := make(chan struct{}), make(chan error, 1)
	w.drain, w.finished = drain, finished
	go func() { finished <- h.serve(ctx, drain) }()
	w.t.Cleanup(func() {
		kill()
		<-finished
	})
	w.served(1)
	return kill
}

// served waits until the syscall was registered this many times.
func (w *world) served(times int) {
	w.t.Helper()
	testkit.Until(w.t, "Test.Run is served", func() bool { return w.count("Test.Run is served") == times })
}

// call calls Test.Run, and returns what came, one message per line.
func (w *world) call(ctx context.Context, data string) string {
	var lines []string
	brief := func(m message.Message) { lines = append(lines, fmt.Sprintf("%s %s %s", m.Kind, m.Type, m.Data)) }
	outcome, err := w.daemon.Call(ctx, message.Message{Kind: message.KindCommand, Type: "Test.Run", Data: json.RawMessage(data)}, brief)
	if err != nil {
		return err.Error()
	}
	brief(outcome)
	return strings.Join(lines, "\n")
}

func TestWhatAProgramPrintsIsTheAnswer(t *testing.T) {
	for _, c := range []struct{ name, script, data, want string }{
		{"a reply", `cat`, `{"b":1.0,"a":"ü"}`, `reply Test.Run {"b":1.0,"a":"ü"}`},
		{"over several lines", `printf '{\n  "a": [\n 1 ]\n}\n'`, `1`, `reply Test.Run {"a":[1]}`},
		{"nothing", `cat > /dev/null`, `1`, `reply Test.Run null`},
		{"input that isn't read", `echo 7`, `"` + strings.Repeat("x", 10000) + `"`, `reply Test.Run 7`},
		{"events before the reply", `echo '{"kind":"event","type":"Test.Begun","data":{"a": 1}} {"kind":"event","type":"Syscall.Progressed","data":{"message":"half","percentage":0.5}}'; echo 7`, `1`,
			"event Test.Begun {\"a\":1}\nevent Syscall.Progressed {\"message\":\"half\",\"percentage\":0.5}\nreply Test.Run 7"},
		{"an error of its own", `echo '{"code":404,"message":"No such note"}'; exit 3`, `1`, `error Test.Run {"code":404,"message":"No such note"}`},
		{"a status", `echo 7; echo 'the disk is gone' >&2; exit 3`, `1`, `error Test.Run {"code":500,"message":"bash has failed (exit status 3): the disk is gone"}`},
		{"a signal", `kill -9 $$`, `1`, `error Test.Run {"code":500,"message":"bash has failed (signal: killed)"}`},
		{"much on standard error", `printf 'x%.0s' {1..5000} >&2; echo end >&2; exit 1`, `1`, `error Test.Run {"code":500,"message":"bash has failed (exit status 1): x{996}end"}`},
		{"not JSON", `echo hello`, `1`, `error Test.Run {"code":502,"message":"bash has printed something that isn't JSON: .*"}`},
		{"half a value", `echo '{"a":'`, `1`, `error Test.Run {"code":502,"message":"bash has printed something that isn't JSON: .*"}`},
		{"two values", `echo 1 2`, `1`, `error Test.Run {"code":502,"message":"bash has printed more than one value .*"}`},
		{"a value that is too long", `printf '"%020000d"' 1`, `1`, `error Test.Run {"code":413,"message":"The reply of Test.Run takes 2[0-9]{4} bytes, and a message may have 16384.*"}`},
		{"an event that is too long", `printf '{"kind":"event","type":"Test.Begun","data":"%020000d"}' 1; echo 7`, `1`, `error Test.Run {"code":502,"message":"bash has printed an event that is too long","cause":{"code":413,.*}}`},
		{"a value without an end", `echo '"'; yes x | tr -d '\n'`, `1`, `error Test.Run {"code":502,"message":"bash has printed .*, and was killed"}`},
		{"values without an end", `yes 1`, `1`, `error Test.Run {"code":502,"message":"bash has printed more than one value .*, and was killed"}`},
		{"a child that keeps the output open", `sleep 1000 & echo 7`, `1`, `reply Test.Run 7`},
		{"the request's name", `echo "\"$KERNOS_REQUEST_TYPE\""`, `1`, `reply Test.Run "Test.Run"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.handle(c.script, nil)
			want := c.want
			if !strings.Contains(want, ".*") && !strings.Contains(want, "{996}") {
				want = regexp.QuoteMeta(want)
			} else {
				want = strings.NewReplacer("(", `\(`, ")", `\)`).Replace(want)
			}
			if got := w.call(t.Context(), c.data); !regexp.MustCompile("^(?s)" + want + "$").MatchString(got) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.name == "a status" && w.count("the disk is gone") != 1 {
				t.Error("standard error is not shown to the operator")
			}
		})
	}
}

// pipe makes a named pipe, for scripts that wait for the test, or are waited for.
func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// gone waits until no process has the pipe open for writing.
func gone(t *testing.T, opened *os.File) {
	t.Helper()
	if _, err := io.Copy(io.Discard, opened); err != nil {
		t.Error(err)
	}
}

// A process that the caller doesn't wait for any more is killed with its children.
func TestTheProcessGroupIsKilled(t *testing.T) {
	for name, end := range map[string]func(w *world, cancel, kill func()){
		"when it is cancelled":    func(_ *world, cancel, _ func()) { cancel() },
		"when the handler ends":   func(_ *world, _, kill func()) { kill() },
		"when the daemon is gone": func(w *world, _, _ func()) { w.daemon.Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path := pipe(t)
			kill := w.handle(`exec 5>`+path+`; sleep 1000 & sleep 1000`, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan string, 1)
			go func() { answered <- w.call(ctx, `{}`) }()
			opened, err := os.Open(path) // when the process has opened it
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = opened.Close() }()
			end(w, cancel, kill)
			gone(t, opened)
			<-answered
		})
	}
}

// A process that is late is killed with its children.
func TestTheProcessGroupIsKilledAtTheDeadline(t *testing.T) {
	w := newWorld(t)
	path := pipe(t)
	w.handle(`exec 5>`+path+`; sleep 1000 & sleep 1000`, func(h *handler) { h.Timeout = 200 * time.Millisecond })
	if got := w.call(t.Context(), `{}`); got != `error Test.Run {"code":504,"message":"bash has not answered within 200ms, and was killed"}` {
		t.Errorf("the answer is %s", got)
	}
	// A process that was killed before it opened the pipe doesn't open it any more, so this doesn't wait for one.
	opened, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	gone(t, opened)
}

// More requests than processes wait for their turn, and all are answered.
func TestProcessesAreBounded(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	// Each process sees how many others run beside it.
	w.handle(`f=$(mktemp `+dir+`/XXXXXX); ls `+dir+` | wc -l; rm $f`, nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range 8 {
		all.Go(func() {
			got := w.call(t.Context(), `{}`)
			mu.Lock()
			defer mu.Unlock()
			seen[got]++
		})
	}
	all.Wait()
	if n := seen["reply Test.Run 1"] + seen["reply Test.Run 2"]; n != 8 {
		t.Errorf("processes saw %v, and at most 2 may run at once", seen)
	}
}

// A drain lets running processes finish, and takes no new requests.
func TestADrainFinishesWhatRuns(t *testing.T) {
	w := newWorld(t)
	begun, release := pipe(t), pipe(t)
	w.handle(`read data; if [ "$data" = '"wait"' ]; then echo > `+begun+`; cat `+release+`; fi`, nil)
	answered := make(chan string, 1)
	go func() { answered <- w.call(t.Context(), `"wait"`) }()
	opened, err := os.Open(begun)
	if err != nil {
		t.Fatal(err)
	}
	gone(t, opened)
	_ = opened.Close()
	close(w.drain)
	testkit.Until(t, "new requests are refused", func() bool { return strings.Contains(w.call(t.Context(), `{}`), `"code":404`) })
	if err := os.WriteFile(release, []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "reply Test.Run 7" {
		t.Errorf("the answer is %s", got)
	}
	err = <-w.finished
	w.finished <- err // for the cleanup
	if err != nil {
		t.Errorf("the handler ended with %v", err)
	}
}

// The next daemon gets the registration too.
func TestAHandlerSurvivesTheDaemon(t *testing.T) {
	w := newWorld(t)
	w.handle(`cat`, nil)
	w.daemon.Stop()
	w.open()
	w.served(2)
	if got := w.call(t.Context(), `7`); got != "reply Test.Run 7" {
		t.Errorf("the answer is %s", got)
	}
}

// A registration that the kernel refuses ends the handler.
func TestARefusedRegistration(t *testing.T) {
	w := newWorld(t)
	socket, err := w.daemon.Home().Socket()
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{
		Type: "Memory.Get", Registration: json.RawMessage(`{"name":"Memory.Get","kind":"query","description":"x","inputSchema":{},"outputSchema":{},"handler":"connection"}`),
		Connect: func(ctx context.Context) (server.Lines, error) { return new(unix.Dialer).Dial(ctx, socket) },
	}
	if err := h.serve(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), "Memory.Get can't be served: name: Memory.Get is reserved") {
		t.Errorf("the error is %v", err)
	}
}

// away is a daemon that answers each message with a 503.
type away struct {
	*io.PipeReader
	answers *io.PipeWriter
}

func (a away) Write(line []byte) (int, error) {
	m, err := message.Decode(bytes.TrimSpace(line))
	if err != nil {
		return 0, err
	}
	no := m.Fail(message.Errorf(503, "No node owns this kernel at the moment"))
	no.Metadata.ID, no.Metadata.Timestamp = newID(), 1
	go func() { _, _ = a.answers.Write(append(message.Append(nil, &no), '\n')) }() // fails once it is closed
	return len(line), nil
}

func (a away) CloseWrite() error { return nil }

// A registration that can't be taken at the moment is tried again.
func TestAHandlerWaitsForAnOwner(t *testing.T) {
	w := newWorld(t)
	attempts := 0
	w.handle(`cat`, func(h *handler) {
		connect := h.Connect
		h.Connect = func(ctx context.Context) (server.Lines, error) {
			if attempts++; attempts > 2 {
				return connect(ctx)
			}
			r, answers := io.Pipe()
			return away{r, answers}, nil
		}
	})
	if got := w.call(t.Context(), `7`); got != "reply Test.Run 7" {
		t.Errorf("the answer is %s", got)
	}
	if n := w.count("can't be served at the moment"); n != 1 {
		t.Errorf("the wait is reported %d times", n)
	}
}
