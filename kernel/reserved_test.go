package kernel_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
)

// A notebook is a Recorder that keeps what kind of messages it is given, and of what type.
type notebook struct {
	mu  sync.Mutex
	all []string
}

func (n *notebook) Record(r kernel.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, string(r.Message.Kind)+" "+string(r.Message.Type))
}

func (n *notebook) RecordWith(*store.Batch, []kernel.Record, func() error) error { return nil }

// A watcher has to be able to believe what the kernel says of itself.
func TestEventsOfTheKernelAreNotTakenFromOutside(t *testing.T) {
	emits := func(s kernel.Syscall, e message.Type) kernel.Syscall {
		s.Emits = []kernel.EventDefinition{{Type: e, Summary: "Something happened."}}
		return s
	}
	served := emits(kerneltest.Echo("Text.Count"), "Text.Counted")
	served.Provider = kernel.Program
	seen := new(notebook)
	k := kerneltest.New(t, &kernel.Options{Recorder: seen}, emits(kerneltest.Echo("Test.Set"), "Test.Changed"), served)
	event := func(id message.ID, name message.Type) message.Message {
		m := kerneltest.Query(id, name, `1`)
		m.Kind = message.KindEvent
		return m
	}
	conn := kerneltest.Connect(k)
	for i, name := range []message.Type{"Syscall.Registered", "Sys.Anything", "Kernel.Stopped", "SysCall.Registered", "Test.Changed"} {
		conn.In <- event(message.ID(rune('a'+i)), name)
	}
	for i, name := range []message.Type{"Test.Other", "Text.Counted", "Memory.Synchronized", "Echo"} {
		conn.In <- event(message.ID(rune('p'+i)), name)
	}
	if err := conn.End(); err != nil {
		t.Error(err)
	}
	if got := conn.SoFar(t); !slices.Equal(got, []string{"a 403", "b 403", "c 403", "d 403", "e 403"}) {
		t.Errorf("got %q", got)
	}
	all := conn.Messages()
	for i, want := range map[int]string{
		0: "The event Syscall.Registered can't be sent from outside: Syscall.*, Sys.* and Kernel.* are reserved; choose another name",
		4: "Test.Changed is an event of Test.Set, which is built in, and can't be sent from outside; choose another name",
	} {
		if _, text := kerneltest.ReadError(t, all[i]); text != want {
			t.Errorf("got %s", text)
		}
	}
	events := slices.DeleteFunc(seen.all, func(s string) bool { return !strings.HasPrefix(s, "event") })
	if !slices.Equal(events, []string{"event Test.Other", "event Text.Counted", "event Memory.Synchronized", "event Echo"}) {
		t.Errorf("recorded were %q", events)
	}

	// The program that runs the kernel may say what it likes.
	if got := kerneltest.Ask(k, event("x", "Kernel.Stopped")); len(got) != 0 {
		t.Errorf("got %s", kerneltest.Texts(got))
	}
}

// A program can't know that no caller waits for how far it has come any more.
func TestProgressThatComesLateIsDropped(t *testing.T) {
	seen := new(notebook)
	offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		peer, _ := connection.PeerOf(ctx)
		peer.Offer("Text.Count", func() bool { return false })
		emit(m.Reply(m.Data))
	})
	k := kerneltest.New(t, &kernel.Options{Recorder: seen}, offer)
	progress := kerneltest.Query("p", kernel.Progressed, `{"message":"half"}`)
	progress.Kind, progress.Metadata.Causation = message.KindEvent, "long-gone"
	conn := kerneltest.Connect(k)
	conn.In <- progress
	conn.In <- kerneltest.Query("offer", "Test.Offer", `1`)
	conn.In <- progress
	if err := conn.End(); err != nil {
		t.Error(err)
	}
	if got := conn.SoFar(t); !slices.Equal(got, []string{"p 403", "offer 1"}) {
		t.Errorf("got %q", got)
	}
	if slices.Contains(seen.all, "event Syscall.Progressed") {
		t.Errorf("recorded were %q", seen.all)
	}
}
