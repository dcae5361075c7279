package history

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// newJournal returns a journal over a store in memory.
func newJournal(t *testing.T, opts *journal.Options) (*journal.Journal, store.Store) {
	t.Helper()
	s := storetest.NewMemory()
	j := journal.New(s, opts)
	t.Cleanup(func() {
		if err := errors.Join(j.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return j, s
}

// recordingKernel is a kernel that records into a journal, and has the module on it.
func recordingKernel(t *testing.T, blobs kernel.Blobs, more ...kernel.Syscall) *kernel.Kernel {
	t.Helper()
	j, s := newJournal(t, nil)
	return kerneltest.Of(t, &kernel.Options{Recorder: j, Store: s, Blobs: blobs}, Module(j, nil), kerneltest.Module("test", more...))
}

type loginInput struct {
	User     string `json:"user" jsonschema_description:"Who."`
	Password string `json:"password" jsonschema:"writeOnly=true" jsonschema_description:"The password."`
}

func TestSecretsDoNotComeBack(t *testing.T) {
	login := kernel.Command(kernel.Definition{Type: "Account.Login", Summary: "Log in."}, func(_ context.Context, in loginInput) (string, error) {
		return "welcome " + in.User, nil
	})
	k := recordingKernel(t, nil, login)
	send := func(kind message.Kind, name message.Type, id message.ID, data string) (all []message.Message) {
		m := message.Message{Kind: kind, Type: name, Data: json.RawMessage(data), Metadata: message.Metadata{ID: id, Timestamp: 7}}
		if name == "Message.Search" {
			m.Metadata.Correlation = "w" // queries that belong to no workflow aren't recorded
		}
		k.Handle(t.Context(), m, func(m message.Message) { all = append(all, m) })
		return all
	}
	reply := send("command", "Account.Login", "login", `{"user":"ada","password":"hunter2"}`)[0]
	const recorded = `{"kind":"command","type":"Account.Login","data":{"user":"ada","password":"[redacted]"},"metadata":{"id":"login","timestamp":7}}`
	if got := send("query", "Message.Get", "get", `{"id":"login"}`)[0]; string(got.Data) != recorded {
		t.Errorf("Get: %s", got.Data)
	}
	list := `{"messages":[` + recorded + `,` + string(message.Append(nil, &reply)) + `]}`
	if got := send("query", "Message.List", "list", `{"type":"Account.Login"}`)[0]; string(got.Data) != list {
		t.Errorf("List: %s", got.Data)
	}
	// Neither does what a caller looked for.
	for _, c := range []struct {
		name message.Type
		data string
	}{
		{"Message.Search", `{"query":"hunter2","limit":5}`}, {"Event.Search", `{"query":"hunter2"}`},
		{"Message.Graph", `{"correlationId":"login"}`}, {"Message.Replay", `{"correlationId":"login"}`}, {"Message.List", `{}`},
	} {
		for _, m := range send("query", c.name, "q", c.data) {
			if strings.Contains(string(m.Data), "hunter2") {
				t.Errorf("%s: %s", c.name, m.Data)
			}
		}
	}
	if got := send("query", "Message.List", "list", `{"type":"Message.Search","kind":"query"}`)[0]; !strings.Contains(string(got.Data), `"data":{"query":"[redacted]","limit":5}`) {
		t.Errorf("Search was recorded as %s", got.Data)
	}
	got := send("command", "Message.Replay", "replay", `{"correlationId":"login","execute":true}`)[0]
	if !strings.HasSuffix(string(got.Data), `"commands":0,"same":0,"different":[],"skipped":[{"id":"login","type":"Account.Login","why":"It has secrets that are not in the journal"}]}`) {
		t.Errorf("Replay: %s", answered(got))
	}
}

// A watch sees every message once, in order, however many are recorded meanwhile.
func TestAWatchHasNoGapAndNoRepeat(t *testing.T) {
	echo := kernel.Query(kernel.Definition{Type: "Test.Echo", Summary: "Give back."}, func(_ context.Context, n int) (int, error) { return n, nil })
	k := recordingKernel(t, nil, echo)
	const clients, each = 4, 100
	var senders sync.WaitGroup
	for c := range clients {
		senders.Go(func() {
			for i := range each {
				m := message.Message{Kind: message.KindQuery, Type: "Test.Echo", Data: fmt.Appendf(nil, "%d", i)}
				m.Metadata = message.Metadata{ID: message.ID(fmt.Sprintf("c%d-%d", c, i)), Timestamp: 1}
				k.Handle(t.Context(), m, func(message.Message) {})
			}
		})
	}
	seen := make(map[message.ID]bool)
	for next, total := uint64(1), 0; total < 2*clients*each; {
		m := message.Message{Kind: message.KindQuery, Type: "Message.Watch", Data: fmt.Appendf(nil, `{"from":%d,"limit":50,"type":"Test.Echo"}`, next)}
		m.Metadata = message.Metadata{ID: "watch", Timestamp: 1}
		last := next - 1
		k.Handle(t.Context(), m, func(m message.Message) {
			if m.Kind.Answers() {
				var reply struct{ Next uint64 }
				if err := json.Unmarshal(m.Data, &reply); err != nil || reply.Next != last+1 {
					t.Errorf("%v: %s after %d", err, m.Data, last)
				}
				next = reply.Next
				return
			}
			var e struct {
				Seq     uint64
				Message struct{ Metadata struct{ ID message.ID } }
			}
			if err := json.Unmarshal(m.Data, &e); err != nil || e.Seq <= last || seen[e.Message.Metadata.ID] {
				t.Errorf("%v: %s after %d", err, m.Data, last)
			}
			last = e.Seq
			seen[e.Message.Metadata.ID] = true
			total++
		})
		if t.Failed() {
			break
		}
	}
	senders.Wait()
	if len(seen) != 2*clients*each {
		t.Errorf("saw %d messages, want %d", len(seen), 2*clients*each)
	}
}

// namedBlobs keeps nothing, and names what it is given by its content.
type namedBlobs struct{ kerneltest.NoBlobs }

func (namedBlobs) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	return message.BlobPointer{Scheme: "file", Path: fmt.Sprintf("/blobs/%x", sha256.Sum256(data))}, nil
}

// A large answer is in the journal by pointer. Run again, it is the same if it is.
func TestReplayComparesLargeAnswers(t *testing.T) {
	last := "x"
	large := kernel.Command(kernel.Definition{Type: "Test.Large", Summary: "Test."}, func(context.Context, struct{}) (string, error) {
		return strings.Repeat("large ", 10_000) + last, nil
	})
	k := recordingKernel(t, namedBlobs{}, large)
	k.Handle(t.Context(), message.Message{Kind: message.KindCommand, Type: "Test.Large", Data: json.RawMessage(`{}`),
		Metadata: message.Metadata{ID: "large", Timestamp: 1}}, func(message.Message) {})
	const pointer = `{"kind":"reply","data":{"dataRef":{"scheme":"file","path":"/blobs/`
	_, got := kerneltest.Exchange(k, kerneltest.Command("ask", "Message.Replay", `{"correlationId":"large","execute":true}`))
	if !strings.Contains(string(got.Data), `"commands":1,"same":1,"different":[]`) {
		t.Errorf("run again, it is %.500s", got.Data)
	}
	last = "y"
	_, got = kerneltest.Exchange(k, kerneltest.Command("ask", "Message.Replay", `{"correlationId":"large","execute":true}`))
	if !strings.Contains(string(got.Data), `"commands":1,"same":0`) || strings.Count(string(got.Data), pointer) != 2 {
		t.Errorf("changed and run again, it is %.500s", got.Data)
	}
}
