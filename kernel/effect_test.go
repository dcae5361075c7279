package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// counter is a command that adds one to a key of a store, and replies with the new number.
func counter(s store.Store) kernel.Syscall {
	return kerneltest.AsCommand(kerneltest.Raw("Counter.Add", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		e, err := s.Get([]byte("mcount"))
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		n, _ := strconv.Atoi(string(e.Value))
		next := strconv.AppendInt(nil, int64(n+1), 10)
		var b store.Batch
		b.IfRevision([]byte("mcount"), e.Revision)
		b.Set([]byte("mcount"), next)
		if err := kernel.Stage(ctx, &b); err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(next))
	}))
}

func reading(s store.Store) kernel.Syscall {
	return kerneltest.Raw("Counter.Get", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		e, err := s.Get([]byte("mcount"))
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(append([]byte("0"[:1-min(1, len(e.Value))]), e.Value...)))
	})
}

func TestAnOutcomeWaitsForItsCommitAndTheNextMessageDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s), reading(s))
		conn := kerneltest.Connect(k)
		for i := 1; i <= 3; i++ {
			conn.In <- kerneltest.Command(message.ID(fmt.Sprint("add", i)), "Counter.Add", `0`)
			conn.In <- kerneltest.Query(message.ID(fmt.Sprint("get", i)), "Counter.Get", `0`)
		}
		conn.In <- kerneltest.Query("odd", "Absent.Type", `0`)
		synctest.Wait()
		if got := conn.SoFar(t); len(got) != 0 {
			t.Fatalf("before anything is durable there is %v", got)
		}
		if n := s.Pending(); n != 3 {
			t.Fatalf("%d commits are pending, want 3", n)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := conn.SoFar(t)
		want := []string{"add1 1", "get1 1", "add2 2", "get2 2", "add3 3", "get3 3"}
		if len(got) != 7 || !slices.Equal(got[:6], want) {
			t.Errorf("got %v", got)
		}
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheEndOfTheInputWaitsForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Command("a", "Counter.Add", `0`)
		close(conn.In)
		synctest.Wait()
		if conn.Ended() {
			t.Fatal("ended before its commit was decided")
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := conn.Wait(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, []string{"a 1"}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestACommitThatFailsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s), reading(s))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Command("a", "Counter.Add", `0`)
		synctest.Wait()
		s.Fail(func(call string) error {
			if call == "commit" || call == "apply" {
				return store.Errorf(507, errors.New("no space"), "The disk is full")
			}
			return nil
		})
		_ = s.Sync()
		conn.In <- kerneltest.Command("b", "Counter.Add", `0`)
		conn.In <- kerneltest.Query("c", "Counter.Get", `0`)
		synctest.Wait()
		got := conn.Messages()
		if len(got) != 3 || got[0].Kind != message.KindError || got[1].Kind != message.KindError || got[2].Kind != message.KindReply {
			t.Fatalf("got %v", got)
		}
		for _, m := range got[:2] {
			if m.Err == nil || m.Err.Code != 507 {
				t.Errorf("got %s", m.Data)
			}
		}
		s.Fail(nil)
		conn.In <- kerneltest.Command("d", "Counter.Add", `0`)
		synctest.Wait()
		_ = s.Sync()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.Messages(); len(got) != 4 || got[3].Kind != message.KindReply {
			t.Errorf("after the disk is well: %v", got)
		}
	})
}

func TestAHandlerThatFailsChangesNothing(t *testing.T) {
	s := storetest.NewMemory()
	k := kerneltest.New(t, &kernel.Options{Store: s}, kerneltest.AsCommand(kerneltest.Raw("Test.Fail", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var b store.Batch
		b.Set([]byte("mx"), []byte("1"))
		if err := kernel.Stage(ctx, &b); err != nil {
			t.Error(err)
		}
		emit(m.Fail(message.Errorf(418, "no")))
	})), kerneltest.AsCommand(kerneltest.Raw("Test.Panic", func(ctx context.Context, m message.Message, _ kernel.Emit) {
		var b store.Batch
		b.Set([]byte("mx"), []byte("1"))
		_ = kernel.Stage(ctx, &b)
		panic("no")
	})), kerneltest.Raw("Test.Query", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var b store.Batch
		b.Set([]byte("mx"), []byte("1"))
		err := kernel.Stage(ctx, &b)
		kernel.Fail(ctx, m, emit, err)
	}))
	for _, m := range []message.Message{kerneltest.Command("a", "Test.Fail", `0`), kerneltest.Command("b", "Test.Panic", `0`), kerneltest.Query("c", "Test.Query", `0`), kerneltest.Command("d", "Test.Query", `0`)} {
		if got := kerneltest.Ask(k, m); len(got) != 1 || got[0].Kind != message.KindError {
			t.Errorf("%s: %v", m.Type, got)
		}
	}
	if e, err := s.Get([]byte("mx")); err != nil || e.Revision != 0 {
		t.Errorf("something was changed: %v %v", e, err)
	}
}

func TestWithoutAStoreAChangeIsRefused(t *testing.T) {
	k := kerneltest.New(t, nil, counter(storetest.NewMemory()))
	if got := kerneltest.Ask(k, kerneltest.Command("a", "Counter.Add", `0`)); got[0].Err == nil || got[0].Err.Code != 503 {
		t.Errorf("got %v", got)
	}
}

func TestEventsOfAChangeWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		sys := kerneltest.AsCommand(kerneltest.Raw("Test.Set", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Event("Test.Begun", []byte(`1`)))
			var b store.Batch
			b.Set([]byte("mx"), []byte("1"))
			_ = kernel.Stage(ctx, &b)
			emit(m.Event("Test.Changed", []byte(`2`)))
			emit(m.Reply([]byte(`3`)))
		}))
		sys.Emits = []kernel.EventDefinition{{Type: "Test.Begun", Summary: "x"}, {Type: "Test.Changed", Summary: "x"}}
		k := kerneltest.New(t, &kernel.Options{Store: s}, sys)
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Command("a", "Test.Set", `0`)
		synctest.Wait()
		if got := conn.SoFar(t); !slices.Equal(got, []string{"a 1"}) {
			t.Errorf("before the commit: %v", got)
		}
		_ = s.Sync()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, []string{"a 1", "a 2", "a 3"}) {
			t.Errorf("after the commit: %v", got)
		}
	})
}

func TestACallerWaitsForTheCommitsOfTheCallsItMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s), kerneltest.AsCommand(kerneltest.Raw("Test.Twice", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			for range 2 {
				if _, err := kernel.Invoke(ctx, "Counter.Add", []byte(`0`)); err != nil {
					kernel.Fail(ctx, m, emit, err)
					return
				}
			}
			emit(m.Reply([]byte(`"done"`)))
		})))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Command("a", "Test.Twice", `0`)
		synctest.Wait()
		if got := conn.SoFar(t); len(got) != 0 || s.Pending() != 2 {
			t.Errorf("before the commits: %v, %d pending", got, s.Pending())
		}
		_ = s.Sync()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, []string{`a "done"`}) {
			t.Errorf("got %v", got)
		}
	})
}

// recorder keeps what it is told as text.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) Record(x kernel.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	way := map[kernel.Way]string{kernel.In: "in", kernel.Out: "out", kernel.Within: "within"}[x.Way]
	line := fmt.Sprintf("%s %s %s %s %s", way, x.Message.Kind, x.Message.Type, x.Message.Metadata.Causation, x.Message.Data)
	if x.Refused {
		line += " refused"
	}
	r.all = append(r.all, line)
}

func (r *recorder) RecordWith(b *store.Batch, rs []kernel.Record, apply func() error) error {
	if err := apply(); err != nil {
		return err
	}
	for _, x := range rs[1:] {
		r.Record(x)
	}
	return nil
}

func TestEverythingIsRecorded(t *testing.T) {
	s := storetest.NewMemory()
	rec := new(recorder)
	publishing := kerneltest.AsCommand(kerneltest.Raw("Test.Set", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var b store.Batch
		b.Set([]byte("mx"), []byte("1"))
		_ = kernel.Stage(ctx, &b)
		if err := kernel.Publish(ctx, "Test.Changed", []byte(`{"x":1}`)); err != nil {
			t.Error(err)
		}
		emit(m.Reply([]byte(`true`)))
	}))
	publishing.Emits = []kernel.EventDefinition{{Type: "Test.Changed", Summary: "x"}}
	k := kerneltest.New(t, &kernel.Options{Store: s, Recorder: rec}, publishing, calling("Test.Call", "Test.Echo"), kerneltest.Echo("Test.Echo"))
	var sent []message.Message
	for _, m := range []message.Message{
		kerneltest.Command("set", "Test.Set", `0`), kerneltest.Command("call", "Test.Call", `7`), kerneltest.Query("odd", "Absent.Type", `"secret"`),
		{Kind: message.KindEvent, Type: "Sky.Fallen", Data: []byte(`1`), Metadata: message.Metadata{ID: "sky", Timestamp: 1}},
	} {
		sent = append(sent, kerneltest.Ask(k, m)...)
	}
	if len(sent) != 3 {
		t.Errorf("%d answers: what is published is not for the caller", len(sent))
	}
	want := []string{
		`in command Test.Set  0`,
		`within event Test.Changed set {"x":1}`,
		`out reply Test.Set set true`,
		`in command Test.Call  7`,
		`within query Test.Echo call 7`,
		`within reply Test.Echo $ 7`,
		`out reply Test.Call call 7`,
		`in query Absent.Type  "secret" refused`,
		`out error Absent.Type odd $ refused`,
		`in event Sky.Fallen  1`,
	}
	if len(rec.all) != len(want) {
		t.Fatalf("recorded %q", rec.all)
	}
	for i, line := range rec.all {
		if !wild(want[i], line) {
			t.Errorf("%d: recorded %s, want %s", i, line, want[i])
		}
	}
}

// What is refused for its envelope is recorded too, as far as it could be read, and without
// what it says.
func TestWhatIsRefusedIsRecorded(t *testing.T) {
	rec := new(recorder)
	k := kerneltest.New(t, &kernel.Options{Recorder: rec}, kerneltest.Echo("Test.Echo"))
	bad := func(change func(*message.Message)) {
		m := kerneltest.Query("a", "Test.Echo", `"secret"`)
		m.Metadata.Correlation = "flow"
		change(&m)
		kerneltest.Ask(k, m)
	}
	bad(func(m *message.Message) { m.Metadata.Timestamp = -1 })
	bad(func(m *message.Message) { m.Data = []byte(`{"no JSON`) })
	bad(func(m *message.Message) {
		m.Kind, m.Metadata.IdempotencyKey = message.KindCommand, strings.Repeat("x", 300)
	})
	known := len(rec.all)
	bad(func(m *message.Message) { m.Kind = "shout" }) // there is no such kind in a journal
	bad(func(m *message.Message) { m.Metadata.ID = "" })
	bad(func(m *message.Message) { m.Type = "no type" })
	want := []string{
		`in query Test.Echo  "[refused]" refused`, `out error Test.Echo a $ refused`,
		`in query Test.Echo  "[refused]" refused`, `out error Test.Echo a $ refused`,
		`in command Test.Echo  "[refused]" refused`, `out error Test.Echo a $ refused`,
		`out error Test.Echo a $ refused`, `out error Test.Echo  $ refused`, `out error no type a $ refused`,
	}
	if len(rec.all) != len(want) || known != 6 {
		t.Fatalf("recorded %s", strings.Join(rec.all, "\n"))
	}
	for i, line := range rec.all {
		if !wild(want[i], line) || strings.Contains(line, "secret") {
			t.Errorf("%d: recorded %s, want %s", i, line, want[i])
		}
	}
}
