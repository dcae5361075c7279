package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/daemon/daemontest"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/storetest"
	"kernos/transport"
)

// engines are those that a kernel may stand on.
var engines = map[string]storetest.Engine{
	"pebble": {Open: func(dir string) (store.Store, error) { return pebble.Open(dir, nil) }},
}

// whole is a kernel with everything that the program has, in a directory.
type whole struct {
	*daemon.Daemon
	store   store.Store
	journal *journal.Journal
	kernel  *kernel.Kernel
}

// around is what a whole kernel finds around it.
type around struct {
	engine storetest.Engine
	files  string          // the directory that is the root of its files; "" is none
	agent  string          // the socket of an ssh-agent; "" is none
	log    io.Writer       // for the operator; nil means that nothing is logged
	more   []kernel.Module // that the test adds
}

func openWhole(dir string, a around) (*whole, error) {
	o := &daemon.Options{
		Home: dir, OpenStore: a.engine.Open, Modules: a.more,
		Keys:  daemon.Keys{Agent: a.agent},
		Fetch: daemon.Fetch{Allow: []string{"127.0.0.1"}}, // tokens, too, reach the servers of tests
	}
	if a.files != "" {
		o.Files.Mounts = []string{"/=" + a.files}
	}
	if a.log != nil {
		o.Log = slog.New(slog.NewTextHandler(a.log, nil))
	}
	d, err := daemontest.Open(o)
	if err != nil {
		return nil, err
	}
	return &whole{Daemon: d, store: d.Store(), journal: d.Journal(), kernel: d.Kernel()}, nil
}

// newWhole opens a whole kernel that is closed when the test ends.
func newWhole(t *testing.T, dir string, a around) *whole {
	t.Helper()
	w, err := openWhole(dir, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// serve serves the kernel, so that jobs and sessions run, until stop is called.
func (w *whole) serve(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// ask sends one message and returns its outcome.
func (w *whole) ask(m message.Message) message.Message {
	outcome, _ := w.Call(context.Background(), m, nil)
	return outcome
}

func (w *whole) query(t message.Type, format string, args ...any) message.Message {
	return w.ask(message.Message{Kind: message.KindQuery, Type: t, Data: fmt.Appendf(nil, format, args...)})
}

func (w *whole) command(t message.Type, format string, args ...any) message.Message {
	return w.ask(message.Message{Kind: message.KindCommand, Type: t, Data: fmt.Appendf(nil, format, args...)})
}

// line is a connection to a kernel on which one message at a time is in flight.
type line struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func (w *whole) connect() *line {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	go func() {
		_, err := transport.Serve(context.Background(), w.kernel, inRead, outWrite, nil)
		_ = outWrite.CloseWithError(err)
	}()
	return &line{inWrite, bufio.NewReader(outRead)}
}

// ask sends a text and returns the line that comes back.
func (l *line) ask(text string) (string, error) {
	if _, err := io.WriteString(l.in, text+"\n"); err != nil {
		return "", err
	}
	answer, err := l.out.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// everything is all of a store but what is in some keyspaces.
func everything(t *testing.T, r store.Reader, but string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range r.Scan(store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.ContainsRune(but, rune(e.Key[0])) {
			all[string(e.Key)] = fmt.Sprintf("%d %s", e.Revision, e.Value)
		}
	}
	return all
}

// failure is the code of an error message, 0 for any other.
func failure(m message.Message) int {
	if m.Kind != message.KindError {
		return 0
	}
	var e struct{ Code int }
	_ = json.Unmarshal(m.Data, &e)
	return e.Code
}
