package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	nethttp "net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/capability/content"
	"kernos/capability/crypto"
	"kernos/capability/history"
	"kernos/capability/http"
	"kernos/capability/introspect"
	"kernos/capability/lifecycle"
	"kernos/capability/memory"
	"kernos/capability/register"
	"kernos/capability/vfs"
	"kernos/internal/jsonscan"
	"kernos/internal/outbound"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
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
	store   store.Store
	blobs   *blobs.Dir
	journal *journal.Journal
	kernel  *kernel.Kernel
	keys    *crypto.Keyring
	files   *vfs.Tree
	client  *nethttp.Client
}

// around is what a whole kernel finds around it.
type around struct {
	engine storetest.Engine
	files  string          // the directory that is the root of its files; "" is none
	agent  string          // the socket of an ssh-agent; "" is none
	log    io.Writer       // for the operator; nil is nobody
	more   []kernel.Module // that the test adds
}

func openWhole(dir string, a around) (w *whole, err error) {
	w = new(whole)
	if w.store, err = a.engine.Open(filepath.Join(dir, "store")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.store.Close())
		}
	}()
	if w.blobs, err = blobs.New(filepath.Join(dir, "blobs")); err != nil {
		return nil, err
	}
	if a.log == nil {
		a.log = io.Discard
	}
	log := slog.New(slog.NewTextHandler(a.log, nil))
	w.journal = journal.New(w.store, &journal.Options{Log: log})
	registry, err := kernel.NewRegistry(a.more...)
	if err != nil {
		return nil, err
	}
	modules, err := w.modules(dir, a, registry, log)
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		if err := registry.Add(m); err != nil {
			return nil, err
		}
	}
	w.kernel = kernel.New(registry, &kernel.Options{Store: w.store, Recorder: w.journal, Blobs: tempBlobs{w.blobs}, Log: log})
	return w, nil
}

// modules are those that cmd/kernos lists; a test holds the two against each other.
func (w *whole) modules(dir string, a around, registry *kernel.Registry, log *slog.Logger) ([]kernel.Module, error) {
	w.client = outbound.NewClient(outbound.Personal, nil)
	w.keys = crypto.New(&crypto.Options{Agent: crypto.Socket(a.agent), KeyFile: filepath.Join(dir, "key"), Log: log})
	process := &vfs.Process{Version: "0", Begun: time.Now(), Registry: registry,
		Stats: func() kernel.Stats { return w.kernel.Stats() }, Mounts: func() []vfs.Mount { return w.files.Mounts() }}
	values := memory.New(w.store, w.blobs, &memory.Options{Log: log, Proc: func(ctx context.Context, key string) (json.RawMessage, error) {
		compute, ok := process.Files()[strings.TrimPrefix(key, "proc/")]
		if !ok {
			return nil, nil
		}
		text, err := compute(ctx)
		return jsonscan.AppendQuoted(nil, string(text)), err
	}})
	mounts := []vfs.Mount{
		{Path: "/memory", Driver: vfs.Memory(values, tempBlobs{w.blobs})},
		{Path: "/sys", Driver: vfs.Sys(vfs.Variables{{Name: "test", Get: func() string { return "1" }, Set: func(string) error { return nil }}})},
		{Path: "/proc", Driver: vfs.Proc(process.Files)},
	}
	if a.files != "" {
		root, err := vfs.ParseMount("/="+a.files, nil)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, root)
	}
	var err error
	if w.files, err = vfs.New(&vfs.Options{Mounts: mounts, Blobs: tempBlobs{w.blobs}}); err != nil {
		return nil, err
	}
	return []kernel.Module{
		introspect.Module(registry),
		lifecycle.Module(lifecycle.Options{Registry: registry}),
		register.Module(registry, nil),
		values.Module(),
		history.Module(w.journal),
		w.files.Module(),
		content.New(contentFiles{w.files}, &content.Options{Fetch: content.Fetcher(w.client)}).Module(),
		http.Module(&http.Options{Client: w.client, Blobs: w.blobs, Open: w.keys.Open}),
		w.keys.Module(),
	}, nil
}

func (w *whole) close() error {
	w.client.CloseIdleConnections()
	w.keys.Close()
	return errors.Join(w.files.Close(), w.journal.Close(), w.store.Close())
}

// TestTheWholeKernelIsWhole holds the kernel of these tests against the program: what is
// shown of the one holds for the other.
func TestTheWholeKernelIsWhole(t *testing.T) {
	w, err := openWhole(t.TempDir(), around{engine: engines["pebble"]})
	if err != nil {
		t.Fatal(err)
	}
	var here []string
	for _, name := range w.kernel.Registry().Types() {
		here = append(here, string(name))
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	cmd := exec.Command(program(t), "pipe", "--inline")
	cmd.Env = append(os.Environ(), "KERNOS_HOME="+t.TempDir())
	cmd.Stdin = strings.NewReader(`{"kind":"query","type":"Syscall.List","data":{},"metadata":{"id":"a","timestamp":1}}` + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Data struct{ Syscalls []string } }
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if there := answer.Data.Syscalls; !slices.Equal(slices.Sorted(slices.Values(here)), slices.Sorted(slices.Values(there))) {
		t.Errorf("the kernel of these tests has %v\nthe program has %v", here, there)
	}
}

// ask sends one message and returns its outcome.
func (w *whole) ask(m message.Message) message.Message {
	w.kernel.Stamp(&m)
	var outcome message.Message
	w.kernel.Handle(context.Background(), m, func(m message.Message) {
		if m.Kind.Answers() {
			outcome = m
		}
	})
	return outcome
}

func (w *whole) query(t message.Type, format string, args ...any) message.Message {
	return w.ask(message.Message{Kind: message.KindQuery, Type: t, Data: fmt.Appendf(nil, format, args...)})
}

func (w *whole) command(t message.Type, format string, args ...any) message.Message {
	return w.ask(message.Message{Kind: message.KindCommand, Type: t, Data: fmt.Appendf(nil, format, args...)})
}

// line is a connection to a kernel on which one message at a time is on its way.
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
