// Package kerneltest is for tests: kernels with a few syscalls, the messages that call them,
// and connections that a test feeds. Only tests import it.
package kerneltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
)

// New returns a kernel of these syscalls. Nil options mean defaults.
func New(t testing.TB, opts *kernel.Options, syscalls ...kernel.Syscall) *kernel.Kernel {
	t.Helper()
	if len(syscalls) == 0 {
		return Of(t, opts)
	}
	return Of(t, opts, Module("test", syscalls...))
}

// Of returns a kernel of these modules. Nil options mean defaults.
func Of(t testing.TB, opts *kernel.Options, modules ...kernel.Module) *kernel.Kernel {
	t.Helper()
	r, err := kernel.NewRegistry(modules...)
	if err != nil {
		t.Fatal(err)
	}
	return kernel.New(r, opts)
}

// Around returns a kernel of a module that describes its registry, and of these syscalls.
func Around(t testing.TB, opts *kernel.Options, module func(*kernel.Registry) kernel.Module, syscalls ...kernel.Syscall) *kernel.Kernel {
	t.Helper()
	k := New(t, opts, syscalls...)
	if err := k.Registry().Add(module(k.Registry())); err != nil {
		t.Fatal(err)
	}
	return k
}

// Principal returns the principal of a token.
func Principal(t testing.TB, id principal.ID, name string, g principal.Grant) *principal.Principal {
	t.Helper()
	p, err := principal.New(id, name, g)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// NoBlobs is the rest of [kernel.Blobs] for a test that needs a part of it: no blob has owners, is shared, or can be
// read.
type NoBlobs struct{}

// Put implements [kernel.Blobs].
func (NoBlobs) Put(context.Context, []byte) (message.BlobPointer, error) {
	return message.BlobPointer{}, errors.New("no blobs are kept")
}

// Refer implements [kernel.Blobs].
func (NoBlobs) Refer(*store.Batch, []byte, []byte) {}

// Unrefer implements [kernel.Blobs].
func (NoBlobs) Unrefer(*store.Batch, []byte, []byte) {}

// Share implements [kernel.Blobs].
func (NoBlobs) Share(context.Context, []byte, []byte, *principal.Principal, *principal.Principal) error {
	return nil
}

// Beginning implements [kernel.Blobs].
func (NoBlobs) Beginning(context.Context, message.BlobPointer, int) ([]byte, int64, error) {
	return nil, 0, errors.New("no blobs are kept")
}

// Blobs keeps blobs in a directory. No blob has owners or is shared.
type Blobs struct {
	NoBlobs
	Dir *blobs.Dir
}

// NewBlobs returns a place for blobs until the test ends.
func NewBlobs(t testing.TB) Blobs {
	t.Helper()
	dir, err := blobs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Blobs{Dir: dir}
}

// Put implements [kernel.Blobs].
func (b Blobs) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	blob, err := b.Dir.Put(data)
	return blob.Pointer(), err
}

// Module returns a module of these syscalls.
func Module(name string, syscalls ...kernel.Syscall) kernel.Module {
	return kernel.Module{Name: name, Version: "1.0.0", Summary: "A module of a test.", Syscalls: syscalls}
}

// Raw returns a query of any data with a handler of its own.
func Raw(t message.Type, h kernel.Handler) kernel.Syscall {
	return kernel.Definition{
		Type: t, Kind: message.KindQuery, Summary: "A syscall of a test.", Input: schema.Any, Output: schema.Any,
	}.BindHandler(h)
}

// Echo answers with what it was given.
func Echo(t message.Type) kernel.Syscall {
	return Raw(t, func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(m.Data)) })
}

// Cooperative waits for the end of its context.
func Cooperative(t message.Type) kernel.Syscall {
	return Raw(t, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		<-ctx.Done()
		kernel.Fail(ctx, m, emit, ctx.Err())
	})
}

// Stubborn ignores its context and answers with its data when it is let go.
func Stubborn(t message.Type, release <-chan struct{}) kernel.Syscall {
	return Raw(t, func(_ context.Context, m message.Message, emit kernel.Emit) {
		<-release
		emit(m.Reply(m.Data))
	})
}

// AsCommand makes a command of a syscall.
func AsCommand(s kernel.Syscall) kernel.Syscall {
	s.Kind = message.KindCommand
	return s
}

// Slow makes a syscall slow.
func Slow(s kernel.Syscall) kernel.Syscall {
	s.Runs = kernel.Slow
	return s
}

// Within gives a syscall a deadline.
func Within(d time.Duration, s kernel.Syscall) kernel.Syscall {
	s.Timeout = d
	return s
}

// Request returns a message of a kind.
func Request(kind message.Kind, id message.ID, t message.Type, data string) message.Message {
	return message.Message{Kind: kind, Type: t, Data: json.RawMessage(data), Metadata: message.Metadata{ID: id, Timestamp: 1735000000000}}
}

// Query returns a query.
func Query(id message.ID, t message.Type, data string) message.Message {
	return Request(message.KindQuery, id, t, data)
}

// Command returns a command.
func Command(id message.ID, t message.Type, data string) message.Message {
	return Request(message.KindCommand, id, t, data)
}

// Ask returns everything that a message is answered with.
func Ask(k *kernel.Kernel, m message.Message) []message.Message {
	return askIn(context.Background(), k, m)
}

func askIn(ctx context.Context, k *kernel.Kernel, m message.Message) []message.Message {
	var mu sync.Mutex
	var all []message.Message
	k.Handle(ctx, m, func(m message.Message) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m.Clone())
	})
	mu.Lock()
	defer mu.Unlock()
	return all
}

// Outcome returns the outcome of a message that is handled in a context.
func Outcome(ctx context.Context, k *kernel.Kernel, m message.Message) (outcome message.Message) {
	for _, a := range askIn(ctx, k, m) {
		if a.Kind.Answers() {
			outcome = a
		}
	}
	return outcome
}

// Exchange returns the events that come for a message, and its outcome.
func Exchange(k *kernel.Kernel, m message.Message) (events []message.Message, outcome message.Message) {
	for _, a := range Ask(k, m) {
		if a.Kind.Answers() {
			outcome = a
		} else {
			events = append(events, a)
		}
	}
	return events, outcome
}

// Answer returns the one answer to a message, and checks its form.
func Answer(t testing.TB, k *kernel.Kernel, m message.Message) message.Message {
	t.Helper()
	all := Ask(k, m)
	if len(all) != 1 {
		t.Fatalf("%s got %d answers: %s", m.Type, len(all), Texts(all))
	}
	a := all[0]
	if err := a.Validate(); err != nil {
		t.Errorf("the answer is not a valid message: %v", err)
	}
	if !a.Kind.Answers() || a.Type != m.Type || a.Metadata.Causation != m.Metadata.ID || a.Metadata.Correlation != m.Metadata.Correlation {
		t.Errorf("the answer is not one to %s %s: %s", m.Type, m.Metadata.ID, Texts(all))
	}
	return a
}

// Failure returns the code and the text of the one answer, which must be an error.
func Failure(t testing.TB, k *kernel.Kernel, m message.Message) (int, string) {
	t.Helper()
	a := Answer(t, k, m)
	if a.Kind != message.KindError {
		t.Fatalf("%s succeeded: %s", m.Type, a.Data)
	}
	return ReadError(t, a)
}

// ReadError parses the data of an error, as its receiver would.
func ReadError(t testing.TB, a message.Message) (int, string) {
	t.Helper()
	if a.Kind != message.KindError {
		t.Errorf("%s is not an error", Texts([]message.Message{a}))
		return 0, ""
	}
	e, err := message.ParseError(a.Data)
	if err != nil {
		t.Fatal(err)
	}
	return e.Code, e.Error()
}

// Texts are messages as lines.
func Texts(all []message.Message) string {
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, "\n\t%s", message.Append(nil, &all[i]))
	}
	return b.String()
}
