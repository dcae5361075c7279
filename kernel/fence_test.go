package kernel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// undecided is a store that holds changes back, and counts what the calls of a test have done outside.
type undecided struct {
	*kerneltest.Held
	out atomic.Int64
}

// shared returns a kernel whose store holds changes back, with syscalls that read and change one key.
func shared(t testing.TB) (*kernel.Kernel, *undecided) {
	held := &undecided{Held: kerneltest.NewHeld()}
	key := []byte("key")
	define := func(kind message.Kind, t message.Type, b kernel.Behavior, emits ...kernel.EventDefinition) kernel.Definition {
		return kernel.Definition{Type: t, Kind: kind, Summary: "A syscall of a test.", Input: schema.Any, Output: schema.Any, Emits: emits, Behavior: b}
	}
	get := func(ctx context.Context, m message.Message, emit kernel.Emit) {
		e, err := held.Get(key)
		if err != nil || e.Revision == 0 {
			kernel.Fail(ctx, m, emit, message.Errorf(404, "No value"))
			return
		}
		emit(m.Reply(e.Value))
	}
	k := kerneltest.New(t, held.Options(),
		define(message.KindCommand, "Test.Set", kernel.Behavior{}).BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
			var b store.Batch
			b.Set(key, slices.Clone(m.Data))
			if err := kernel.Stage(ctx, &b); err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			emit(m.Reply(m.Data))
		}),
		define(message.KindQuery, "Test.Get", kernel.Behavior{}).BindHandler(get),
		define(message.KindQuery, "Test.Nested", kernel.Behavior{}).BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
			value, err := kernel.Invoke(ctx, "Test.Get", nil)
			if err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			emit(m.Reply(value))
		}),
		define(message.KindQuery, "Test.Ping", kernel.Behavior{Stateless: true}).BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(m.Data))
		}),
		define(message.KindCommand, "Test.Outside", kernel.Behavior{Effect: kernel.External}).BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
			if err := kernel.Reaching(ctx, kernel.ToNetwork, "there"); err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			held.out.Add(1)
			emit(m.Reply(nil))
		}),
		define(message.KindCommand, "Test.Declared", kernel.Behavior{Effect: kernel.External, Reaches: []kernel.Reach{kernel.ToProgram}}).
			BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) {
				held.out.Add(1)
				emit(m.Reply(nil))
			}),
		define(message.KindQuery, "Test.Watch", kernel.Behavior{Runs: kernel.Endless}, kernel.EventDefinition{Type: "Test.Changed", Summary: "The value has changed."}).
			BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
				w := held.Watch(key)
				defer w.Stop()
				for {
					e, _ := held.Get(key)
					if e.Revision > 0 {
						emit(m.Event("Test.Changed", e.Value))
					}
					if ctx.Err() != nil || string(e.Value) == `"last"` {
						emit(m.Reply(nil))
						return
					}
					select {
					case <-w.C:
					case <-ctx.Done():
					}
				}
			}),
	)
	return k, held
}

// ask sends a request within the process, and returns where its answer comes.
func ask(k *kernel.Kernel, m message.Message) <-chan message.Message {
	answer := make(chan message.Message, 1)
	go k.Handle(context.Background(), m, func(m message.Message) { answer <- m.Clone() })
	return answer
}

// pendingSet changes the value on a connection of its own, and returns when readers see the change, which is held back.
func pendingSet(t *testing.T, k *kernel.Kernel, held *undecided) *kerneltest.Wire {
	t.Helper()
	held.Manual()
	w := kerneltest.Connect(k)
	w.In <- kerneltest.Command("set", "Test.Set", `"new"`)
	testkit.Until(t, "the change is visible", func() bool {
		e, _ := held.Get([]byte("key"))
		return string(e.Value) == `"new"`
	})
	return w
}

// O3: what another connection has changed and may still lose isn't shown: a read of it is answered with the commit, and with 503
// if that fails.
func TestReadsWaitForWhatTheySaw(t *testing.T) {
	for _, lost := range []bool{false, true} {
		k, held := shared(t)
		writer := pendingSet(t, k, held)
		readers := []*kerneltest.Wire{kerneltest.Connect(k), kerneltest.Connect(k)}
		before := held.Barriers()
		// The first reader asks several things, and gets its answers in order.
		for _, m := range []message.Message{
			kerneltest.Query("get", "Test.Get", `{}`), kerneltest.Query("nested", "Test.Nested", `{}`),
			kerneltest.Query("ping", "Test.Ping", `1`), kerneltest.Query("unknown", "Test.Nothing", `{}`),
		} {
			readers[0].In <- m
		}
		// The second one asks what reads nothing.
		readers[1].In <- kerneltest.Query("ping", "Test.Ping", `2`)
		inProcess := ask(k, kerneltest.Query("call", "Test.Get", `{}`))
		testkit.Until(t, "the stateless call is answered", func() bool { return len(readers[1].Messages()) == 1 })
		testkit.Until(t, "the reads are done", func() bool { return held.Barriers() == before+4 || len(readers[0].Messages()) > 0 })
		if all := readers[0].SoFar(t); len(all) > 0 || len(inProcess) > 0 || len(writer.Messages()) > 0 {
			t.Errorf("answers before the commit: %q", all)
		}
		want := `get "new", nested "new", ping 1, unknown 404`
		if lost {
			held.Depose()
			want = `get 503, nested 503, ping 1, unknown 503`
		} else if err := held.Sync(); err != nil {
			t.Fatal(err)
		}
		for _, w := range append(readers, writer) {
			if err := w.End(); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(readers[0].SoFar(t), ", "); got != want {
			t.Errorf("lost %t: the answers are %s, want %s", lost, got, want)
		}
		answer := <-inProcess
		if lost {
			if code, text := kerneltest.ReadError(t, answer); code != 503 || !strings.Contains(text, "Test.Get can't be answered") {
				t.Errorf("the call in process failed with %d %s", code, text)
			}
		} else if string(answer.Data) != `"new"` {
			t.Errorf("the call in process answered %s", answer.Data)
		}
	}
}

// A read is checked after it was done: a node that may not answer any more gives 503, also if nothing is pending.
func TestReadsOfADeposedNode(t *testing.T) {
	k, held := shared(t)
	kerneltest.Answer(t, k, kerneltest.Command("set", "Test.Set", `"old"`))
	held.Depose()
	for _, name := range []message.Type{"Test.Get", "Test.Nested", "Test.Nothing"} {
		if code, text := kerneltest.Failure(t, k, kerneltest.Query("1", name, `{}`)); code != 503 || !strings.Contains(text, "try again") {
			t.Errorf("%s failed with %d %s", name, code, text)
		}
	}
	for _, name := range []message.Type{"Test.Outside", "Test.Declared"} {
		if code, _ := kerneltest.Failure(t, k, kerneltest.Command("1", name, `{}`)); code != 503 || held.out.Load() > 0 {
			t.Errorf("%s failed with %d, and has acted %d times", name, code, held.out.Load())
		}
	}
	if a := kerneltest.Answer(t, k, kerneltest.Query("1", "Test.Ping", `1`)); a.Kind != message.KindReply {
		t.Error("what reads nothing failed")
	}
}

// The outcome of a call that has changed something waits for its own commit, and not for later ones.
func TestChangesWaitForTheirOwnCommit(t *testing.T) {
	k, held := shared(t)
	before := held.Barriers()
	kerneltest.Answer(t, k, kerneltest.Command("set", "Test.Set", `"new"`))
	if held.Barriers() != before {
		t.Error("a change has asked for a fence, too")
	}
}

// What acts outside begins when nothing that it has read can be lost.
func TestReachesWait(t *testing.T) {
	k, held := shared(t)
	writer := pendingSet(t, k, held)
	before := held.Barriers()
	answers := []<-chan message.Message{ask(k, kerneltest.Command("out", "Test.Outside", `{}`)), ask(k, kerneltest.Command("declared", "Test.Declared", `{}`))}
	testkit.Until(t, "the calls reach out", func() bool { return held.Barriers() >= before+2 || held.out.Load() > 0 })
	if held.out.Load() > 0 {
		t.Error("they have acted before the commit")
	}
	if err := held.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, answer := range answers {
		if a := <-answer; a.Kind != message.KindReply {
			t.Errorf("it failed: %s", a.Data)
		}
	}
	if err := writer.End(); err != nil {
		t.Error(err)
	}
}

// Events of a watch wait, on a connection and in process; what is lost isn't shown, and the watch ends with the reason.
func TestEventsWait(t *testing.T) {
	for _, lost := range []bool{false, true} {
		k, held := shared(t)
		kerneltest.Answer(t, k, kerneltest.Command("old", "Test.Set", `"old"`))
		watcher := kerneltest.Connect(k)
		watcher.In <- kerneltest.Query("w", "Test.Watch", `{}`)
		events := make(chan string, 10)
		go func() {
			k.Handle(context.Background(), kerneltest.Query("w", "Test.Watch", `{}`), func(m message.Message) {
				events <- fmt.Sprintf("%s %s", m.Kind, m.Data)
			})
			close(events)
		}()
		testkit.Until(t, "the first events are shown", func() bool { return len(watcher.Messages()) == 1 && len(events) == 1 })
		before := held.Barriers()
		writer := pendingSet(t, k, held)
		testkit.Until(t, "the watches have seen the change", func() bool { return held.Barriers() == before+2 })
		if len(watcher.Messages()) != 1 || len(events) != 1 {
			t.Error("an event has come before its commit")
		}
		if lost {
			held.Depose()
		} else {
			if err := held.Sync(); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, "the next events are shown", func() bool { return len(watcher.Messages()) == 2 && len(events) == 2 })
			writer.In <- kerneltest.Command("last", "Test.Set", `"last"`)
			testkit.Until(t, "the last change is visible", func() bool { return held.Pending() == 1 })
			testkit.Until(t, "the watches end", func() bool { _ = held.Sync(); return len(events) == 4 })
		}
		var all []string
		for e := range events {
			all = append(all, e)
		}
		got := strings.Join(all, ", ")
		if !lost && got != `event "old", event "new", event "last", reply null` {
			t.Errorf("in process there were %s", got)
		}
		if lost && (len(all) != 2 || !strings.Contains(got, `"code":503`)) {
			t.Errorf("after a loss, in process there were %s", got)
		}
		if lost {
			kernelStop(t, k, watcher)
		} else if err := watcher.End(); err != nil {
			t.Error(err)
		}
		for _, m := range watcher.Messages() {
			if lost && m.Kind == message.KindEvent && string(m.Data) != `"old"` {
				t.Errorf("the lost change was shown: %s", m.Data)
			}
		}
		if err := writer.End(); err != nil {
			t.Error(err)
		}
	}
}

// kernelStop ends a watch whose next event can't be shown.
func kernelStop(t *testing.T, k *kernel.Kernel, watcher *kerneltest.Wire) {
	t.Helper()
	k.Stop()
	if err := watcher.End(); err != nil {
		t.Error(err)
	}
	all := watcher.SoFar(t)
	if all[len(all)-1] != "w 503" {
		t.Errorf("the watch ended with %q", all)
	}
}

// A call that is a part of some work answers within the kernel, and asks for no fence.
func TestWorkDoesNotWait(t *testing.T) {
	k, held := shared(t)
	writer := pendingSet(t, k, held)
	before := held.Barriers()
	outcome, commit := k.Do(context.Background(), kernel.WorkCall{Type: "Test.Get", Data: []byte(`{}`), Sender: kernel.SenderIn(context.Background()), Work: new(heldWork)})
	if string(outcome.Data) != `"new"` || commit != nil || held.Barriers() != before {
		t.Errorf("the work got %s", outcome.Data)
	}
	if err := held.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := writer.End(); err != nil {
		t.Error(err)
	}
}

// heldWork is a work that changes nothing.
type heldWork struct{ kernel.Settlement }

func (*heldWork) Held() error { return nil }

func (*heldWork) Settle(*store.Batch, *message.Message) ([]message.Message, error) { return nil, nil }

// What is sent to a program that serves a syscall has left the kernel.
func TestRequestsToProgramsWait(t *testing.T) {
	held := kerneltest.NewHeld()
	var peer *connection.Peer
	k := kerneltest.New(t, held.Options(),
		kerneltest.Raw("Test.Serve", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			peer, _ = connection.PeerOf(ctx)
			emit(m.Reply(nil))
		}),
		kerneltest.Slow(kerneltest.Raw("Test.Served", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			answer, err := peer.Ask(ctx, m.Type, m.Data, func(message.Message) {})
			if err != nil {
				kernel.Fail(ctx, m, emit, err)
				return
			}
			emit(m.Reply(answer.Data))
		})))
	program, caller := kerneltest.Connect(k), kerneltest.Connect(k)
	program.In <- kerneltest.Query("serve", "Test.Serve", `{}`)
	testkit.Until(t, "the program serves", func() bool { return len(program.Messages()) == 1 })
	held.Manual()
	var b store.Batch
	b.Set([]byte("key"), []byte("1"))
	if _, err := held.Apply(&b); err != nil {
		t.Fatal(err)
	}
	before := held.Barriers()
	caller.In <- kerneltest.Query("ask", "Test.Served", `{}`)
	testkit.Until(t, "the request waits", func() bool { return held.Barriers() > before })
	if len(program.Messages()) != 1 {
		t.Error("the program was asked before the commit")
	}
	if err := held.Sync(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the program is asked", func() bool { return len(program.Messages()) == 2 })
	request := program.Messages()[1]
	program.In <- request.Reply([]byte("1"))
	if err := caller.End(); err != nil {
		t.Error(err)
	}
	if got := caller.SoFar(t); len(got) != 1 || got[0] != "ask 1" {
		t.Errorf("the caller got %q", got)
	}
	if err := program.End(); err != nil {
		t.Error(err)
	}
}

// A fence that is always reached costs no allocation.
func TestFenceAllocatesNothing(t *testing.T) {
	reached := store.Committed(0)
	count := func(opts *kernel.Options) float64 {
		k := kerneltest.New(t, opts, kerneltest.Echo("Test.Echo"))
		m := kerneltest.Query("1", "Test.Echo", `{}`)
		return testing.AllocsPerRun(100, func() { k.Handle(context.Background(), m, func(message.Message) {}) })
	}
	without, with := count(nil), count(&kernel.Options{Fence: func() *store.Commit { return reached }})
	if with > without {
		t.Errorf("%g allocations with a fence, and %g without", with, without)
	}
}
