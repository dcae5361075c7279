package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"kernos/cluster/clustertest"
	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/replicated"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// patient returns a context that lasts longer than anything takes.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens a stream for a test, with a name of its own.
func open(t testing.TB, s *clustertest.Servers, nc *nats.Conn, o Options) *Stream {
	t.Helper()
	o.Name = strings.ToUpper(token(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	stream, err := Open(patient(t), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// alone opens a stream on one server.
func alone(t testing.TB, o Options) *Stream {
	t.Helper()
	s := clustertest.Shared(t, 1)
	return open(t, s, s.Connect(t), o)
}

func mustAppend(t testing.TB, l replicated.Log, after uint64, e replicated.Entry) uint64 {
	t.Helper()
	sequence, err := l.Append(patient(t), after, e)
	if err != nil {
		t.Fatalf("Append of %d: %v", e.First, err)
	}
	return sequence
}

// entry makes an entry with groups that are told apart.
func entry(epoch, first uint64, count int) replicated.Entry {
	e := replicated.Entry{Epoch: epoch, First: first}
	for i := range count {
		e.Groups = append(e.Groups, fmt.Appendf(nil, "group %d", first+uint64(i)))
	}
	return e
}

var errEnough = errors.New("enough")

// take reads a number of entries after a sequence.
func take(t testing.TB, l replicated.Log, after uint64, count int) []replicated.Entry {
	t.Helper()
	var entries []replicated.Entry
	if count == 0 {
		return nil
	}
	err := l.Follow(patient(t), after, func(e replicated.Entry) error {
		for i, g := range e.Groups {
			e.Groups[i] = append([]byte(nil), g...)
		}
		if entries = append(entries, e); len(entries) == count {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("Follow after %d: %v, with %d entries", after, err, len(entries))
	}
	return entries
}

const origin = store.DefaultOrigin

// rollup makes a message that replaces all others of its subject.
func rollup(subject, data string) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{headerRollup: {"sub"}}, Data: []byte(data)}
}
