package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// open returns a journal that ends with the test.
func open(t testing.TB, s store.Store, opts *Options) *Journal {
	t.Helper()
	if opts == nil {
		opts = new(Options)
	}
	if opts.Log == nil {
		opts.Log = quiet
	}
	j := New(s, opts)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func memory(t testing.TB) *storetest.Memory {
	s := storetest.NewMemory()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// query is a message as a caller sends it.
func query(id message.ID, typ message.Type, data string) message.Message {
	return message.Message{Kind: message.KindQuery, Type: typ, Data: json.RawMessage(data),
		Metadata: message.Metadata{ID: id, Timestamp: 1735000000000}}
}

func command(id message.ID, typ message.Type, data string) message.Message {
	m := query(id, typ, data)
	m.Kind = message.KindCommand
	return m
}

// made gives an answer the id and the time that the kernel would.
func made(m message.Message) message.Message {
	m.Metadata.ID = message.ID(ulid.Make().String())
	m.Metadata.Timestamp = time.Now().UnixMilli()
	return m
}

func in(m message.Message) kernel.Record     { return kernel.Record{Message: &m, Way: kernel.In} }
func out(m message.Message) kernel.Record    { return kernel.Record{Message: &m, Way: kernel.Out} }
func within(m message.Message) kernel.Record { return kernel.Record{Message: &m, Way: kernel.Within} }

// exchange records a query and its reply.
func exchange(j *Journal, m message.Message, answer string) message.Message {
	j.Record(in(m))
	reply := made(m.Reply(json.RawMessage(answer)))
	j.Record(out(reply))
	return reply
}

// list returns all messages that a query asks for, page by page.
func list(t testing.TB, j *Journal, q Query) []Entry {
	t.Helper()
	var all []Entry
	for {
		entries, next, err := j.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entries...)
		if next == 0 {
			return all
		}
		q.After = next
	}
}

// ids lists entries as "seq id".
func ids(entries []Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%d %s", e.Seq, e.Message.Metadata.ID))
	}
	return all
}

func check(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
}
