package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/history"
	"kernos/capability/introspect"
	"kernos/capability/memory"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
	"kernos/transport"
)

// whole is a kernel with everything that is durable, in a directory.
type whole struct {
	store   *pebble.Engine
	blobs   *blobs.Dir
	journal *journal.Journal
	kernel  *kernel.Kernel
}

func openWhole(dir string, more ...kernel.Module) (*whole, error) {
	engine, err := pebble.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	w := &whole{store: engine}
	if w.blobs, err = blobs.New(filepath.Join(dir, "blobs")); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	w.journal = journal.New(engine, nil)
	registry, err := kernel.NewRegistry(append(more, memory.Module(engine, w.blobs, nil), history.Module(w.journal))...)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	if err := registry.Add(introspect.Module(registry)); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	w.kernel = kernel.New(registry, &kernel.Options{Store: engine, Recorder: w.journal, Blobs: tempBlobs{w.blobs}})
	return w, nil
}

func (w *whole) close() error { return errors.Join(w.journal.Close(), w.store.Close()) }

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
