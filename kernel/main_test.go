package kernel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// These tests look inside; they can't use kerneltest, which imports this package.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func query(id message.ID, t message.Type, data string) message.Message {
	return message.Message{Kind: message.KindQuery, Type: t, Data: []byte(data), Metadata: message.Metadata{ID: id, Timestamp: 1735000000000}}
}

func command(id message.ID, t message.Type, data string) message.Message {
	m := query(id, t, data)
	m.Kind = message.KindCommand
	return m
}

func raw(t message.Type, h Handler) Syscall {
	return Definition{Type: t, Kind: message.KindQuery, Summary: "A syscall of a test.", Input: schema.Any, Output: schema.Any}.BindHandler(h)
}

func echo(t message.Type) Syscall {
	return raw(t, func(_ context.Context, m message.Message, emit Emit) { emit(m.Reply(m.Data)) })
}

func asCommand(s Syscall) Syscall {
	s.Kind = message.KindCommand
	return s
}

func newKernel(t testing.TB, opts *Options, syscalls ...Syscall) *Kernel {
	t.Helper()
	r, err := NewRegistry(Module{Name: "test", Version: "1.0.0", Summary: "A module of a test.", Syscalls: syscalls})
	if err != nil {
		t.Fatal(err)
	}
	return New(r, opts)
}

func ask(k *Kernel, m message.Message) (all []message.Message) {
	k.Handle(context.Background(), m, func(m message.Message) { all = append(all, m) })
	return all
}

func answer(t *testing.T, k *Kernel, m message.Message) message.Message {
	t.Helper()
	all := ask(k, m)
	if len(all) != 1 {
		t.Fatalf("%d answers", len(all))
	}
	return all[0]
}

// recorder keeps what it is told as text.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) Record(x Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	way := map[Way]string{In: "in", Out: "out", Within: "within"}[x.Way]
	line := fmt.Sprintf("%s %s %s %s %s", way, x.Message.Kind, x.Message.Type, x.Message.Metadata.Causation, x.Message.Data)
	if x.Refused {
		line += " refused"
	}
	r.all = append(r.all, line)
}

func (r *recorder) RecordWith(b *store.Batch, rs []Record, apply func() error) error {
	if err := apply(); err != nil {
		return err
	}
	for _, x := range rs[1:] {
		r.Record(x)
	}
	return nil
}

// wild compares a text with a pattern in which $ stands for anything.
func wild(pattern, s string) bool {
	head, tail, any := strings.Cut(pattern, "$")
	if !any {
		return s == pattern
	}
	return strings.HasPrefix(s, head) && strings.HasSuffix(s, tail) && len(s) >= len(head)+len(tail)
}

func keyed(id message.ID, t message.Type, data, key string) message.Message {
	m := command(id, t, data)
	m.Metadata.IdempotencyKey = key
	return m
}
