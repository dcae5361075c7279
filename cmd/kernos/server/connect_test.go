package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"kernos/client"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store/pebble"
)

// What a server sends for the first call that it gets.
const (
	acknowledged = `{"jsonrpc":"2.0","id":1,"result":"s"}`
	happened     = `{"jsonrpc":"2.0","method":"n","params":{"subscription":"s","result":{"type":"data","content_type":"test.happened","data":1,"seq":1}}}`
	refused      = `{"jsonrpc":"2.0","method":"n","params":{"subscription":"s","result":{"type":"error","error":"The daemon is shutting down","code":503,"seq":1}}}`
)

// newHome returns the daemon of a new home, which isn't running.
func newHome(t *testing.T) *Daemon {
	t.Helper()
	t.Setenv("KERNOS_HOME", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	d, err := findDaemon()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newKernel returns a kernel that is connected to a server, and is opened in this process once that is gone.
func newKernel(t *testing.T, to client.Target) *Kernel {
	t.Helper()
	d := newHome(t)
	k := &Kernel{server: &Server{Daemon: d, Target: d.target()}, opts: Options{InProcess: func() (*daemon.Daemon, error) {
		return daemon.Open(&daemon.Options{Home: d.Dir, Unrecorded: true})
	}}}
	var err error
	if k.conn, err = client.Dial(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhatWasNotBegunIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		frames []string
		code   websocket.StatusCode
		again  bool
	}{
		"it is shutting down":              {nil, websocket.StatusGoingAway, true},
		"it had begun":                     {[]string{acknowledged, happened}, websocket.StatusGoingAway, false},
		"something else":                   {nil, websocket.StatusInternalError, false},
		"it answers with an error of that": {[]string{acknowledged, refused}, websocket.StatusGoingAway, false},
	} {
		t.Run(name, func(t *testing.T) {
			var connected atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if connected.Swap(true) {
					http.Error(w, "once only", http.StatusGone)
					return
				}
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, _, _ = conn.Read(r.Context())
				for _, f := range c.frames {
					_ = conn.Write(r.Context(), websocket.MessageText, []byte(f))
				}
				_ = conn.Close(c.code, "")
			}))
			defer server.Close()
			k := newKernel(t, client.Target{URL: server.URL})
			data, err := k.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":7}`)}, func(json.RawMessage) error { return nil })
			if again := k.local != nil; again != c.again {
				t.Fatalf("asked again: %t, %v", again, err)
			}
			if c.again && (err != nil || string(data) != `{"payload":7}`) || !c.again && err == nil {
				t.Errorf("got %s, %v", data, err)
			}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A call whose kernel is gone in the middle of it fails, and the next call goes to the next kernel.
func TestAKernelThatIsGoneIsLeft(t *testing.T) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, _, _ = conn.Read(r.Context())
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(acknowledged))
		_ = server.Listener.Close()
		_ = conn.CloseNow()
	}))
	defer server.Close()
	k := newKernel(t, client.Target{URL: server.URL, Patience: 1})
	ping := message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":7}`)}
	if data, err := k.Call(t.Context(), ping, nil); exit.Status(err) != exit.Unreachable {
		t.Errorf("got %s, %v", data, err)
	}
	if data, err := k.Call(t.Context(), ping, nil); err != nil || string(data) != `{"payload":7}` {
		t.Errorf("got %s, %v", data, err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if data, err := k.Call(t.Context(), ping, nil); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a call after Close: got %s, %v", data, err)
	}
}

// A kernel that has gone after the connection was made is left for the next one.
func TestACallLeavesAKernelThatHasGone(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		<-gone
		_ = conn.Close(websocket.StatusGoingAway, "")
	}))
	k := newKernel(t, client.Target{URL: server.URL, Patience: time.Nanosecond})
	_ = server.Listener.Close()
	close(gone)
	server.Close()
	// Until the client has noticed, a call that it can't write may have happened, as far as it knows.
	testkit.Until(t, "the client knows that the kernel has gone", func() bool {
		_, err := k.conn.Call(t.Context(), "kernel_ping")
		_, unreachable := errors.AsType[*client.Unreachable](err)
		return unreachable
	})
	var data []string
	ping := client.Request{Method: "kernel_ping", Params: []any{map[string]any{"payload": 7}}}
	err := k.Stream(t.Context(), ping, func(item *client.Item) error {
		if item.Type == client.Data {
			data = append(data, string(item.Data))
		}
		return nil
	})
	if err != nil || len(data) != 1 || data[0] != `{"payload":7}` {
		t.Errorf("got %s, %v", data, err)
	}
	wrong := errors.New("wrong")
	if err := k.Stream(t.Context(), ping, func(*client.Item) error { return wrong }); err != wrong {
		t.Errorf("the error of the function is returned as %v", err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// Calls that run at once go to the next kernel together.
func TestCallsAtOnceFindTheNextKernel(t *testing.T) {
	const calls = 4
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for range calls {
			_, _, _ = conn.Read(r.Context())
		}
		_ = conn.Close(websocket.StatusGoingAway, "")
	}))
	defer server.Close()
	k, opened := newKernel(t, client.Target{URL: server.URL}), 0
	inProcess := k.opts.InProcess
	k.opts.InProcess = func() (*daemon.Daemon, error) {
		opened++
		return inProcess()
	}
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			data, err := k.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":7}`)}, nil)
			if err != nil || string(data) != `{"payload":7}` {
				t.Errorf("got %s, %v", data, err)
			}
		})
	}
	wg.Wait()
	if opened != 1 {
		t.Errorf("%d kernels were opened", opened)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// A kernel in this process is asked as a server is.
func TestAKernelInThisProcess(t *testing.T) {
	d, err := daemon.Open(&daemon.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	k := &Kernel{server: &Server{Daemon: &Daemon{}}, opts: Options{Alone: true, InProcess: func() (*daemon.Daemon, error) { return d, nil }}}
	if err := k.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := func(kind message.Kind, typ message.Type, data string) (string, error) {
		m := message.Message{Kind: kind, Type: typ, Data: []byte(data)}
		m.Metadata.Correlation = "W"
		reply, err := k.Call(context.Background(), m, nil)
		return string(reply), err
	}
	if _, err := call(message.KindCommand, "Memory.Set", `{"key":"k","value":1}`); err != nil {
		t.Error(err)
	}
	if got, err := call(message.KindCommand, "Message.Replay", `{"correlationId":"W","execute":true,"limit":1}`); err != nil || !strings.Contains(got, `"same":1`) {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := call(message.KindQuery, "Message.Replay", `{"correlationId":"W","execute":true}`); err == nil || !strings.Contains(err.Error(), "with kind command") {
		t.Errorf("a query: %v", err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// A store that another process has open is waited for. Any other 503 is the answer.
func TestWhatAKernelInThisProcessRepeats(t *testing.T) {
	home, err := daemon.FindHome(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(home.Store(), 0o700); err != nil {
		t.Fatal(err)
	}
	release, err := pebble.Lock(home.Store())
	if err != nil {
		t.Fatal(err)
	}
	calls, opened := 0, 0
	refuses := kerneltest.Module("test", kerneltest.Raw("Test.Refuse", func(_ context.Context, m message.Message, emit kernel.Emit) {
		calls++
		emit(m.Fail(message.Errorf(503, "Not now")))
	}))
	k := &Kernel{server: &Server{Daemon: &Daemon{}}, opts: Options{Alone: true, InProcess: func() (*daemon.Daemon, error) {
		if opened++; opened == 2 {
			release()
		}
		return daemon.Open(&daemon.Options{Home: home.Dir, Unrecorded: true, Modules: []kernel.Module{refuses}})
	}}}
	if err := k.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: []byte(`{"key":"k","value":1}`)}, nil); err != nil || opened != 2 {
		t.Errorf("the kernel was opened %d times: %v", opened, err)
	}
	if _, err := k.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Test.Refuse", Data: []byte(`{}`)}, nil); err == nil || calls != 1 || opened != 2 {
		t.Errorf("it was called %d times, the kernel was opened %d times: %v", calls, opened, err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartReports(t *testing.T) {
	var failure, serving bytes.Buffer
	ReportFailure(&failure, errors.New("no:\n  and why"))
	ReportServing(&serving, []string{"what has changed"})
	for printed, want := range map[string]string{
		"":                               "",
		"a warning\n" + failure.String(): "no:\n  and why",
		"panic: oh\nexit status 2\n\n":   "exit status 2",
		"{\"a\":1}\nnull\n":              "null",
	} {
		if text, serves, _ := readStart(strings.NewReader(printed)); serves || text != want {
			t.Errorf("%q: %q, %t", printed, text, serves)
		}
	}
	if text, serves, notes := readStart(strings.NewReader("a warning\n" + serving.String())); !serves || text != "" || len(notes) != 1 {
		t.Errorf("%q, %t, %q", text, serves, notes)
	}
}
