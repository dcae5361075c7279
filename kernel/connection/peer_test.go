package connection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// asking is a slow syscall that asks a peer, and passes
// its events and its outcome on.
func asking(t message.Type, peer func() *connection.Peer) kernel.Syscall {
	s := kerneltest.Slow(kerneltest.Raw(t, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		outcome, err := peer().Ask(ctx, t, m.Data, func(e message.Message) { emit(m.Event(e.Type, e.Data)) })
		switch {
		case err != nil:
			kernel.Fail(ctx, m, emit, err)
		case outcome.Kind == message.KindError:
			e, err := message.ParseError(outcome.Data)
			if err != nil {
				e = message.Errorf(502, "%v", err)
			}
			emit(m.Fail(e))
		default:
			emit(m.Reply(outcome.Data))
		}
	}))
	s.Provider = kernel.Program
	return s
}

// A desk is a kernel with a connection that can be asked, and one that calls.
type desk struct {
	k              *kernel.Kernel
	server, caller *kerneltest.Wire
	peer           *connection.Peer
}

// newDesk must be called in a bubble.
func newDesk(t *testing.T, opts *kernel.Options) *desk {
	t.Helper()
	d := new(desk)
	offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		d.peer, _ = connection.PeerOf(ctx)
		emit(m.Reply(nil))
	})
	nested := kerneltest.Slow(kerneltest.Raw("Test.Nested", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		data, err := kernel.Invoke(ctx, "Test.Ask", m.Data)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
	d.k = kerneltest.New(t, opts, offer, nested, kerneltest.Within(time.Minute, asking("Test.Ask", func() *connection.Peer { return d.peer })))
	d.server, d.caller = kerneltest.Connect(d.k), kerneltest.Connect(d.k)
	d.server.In <- kerneltest.Query("offer", "Test.Offer", `1`)
	synctest.Wait()
	if d.peer == nil {
		t.Fatal("no peer")
	}
	return d
}

// asked returns the last request that the server was sent.
func (d *desk) asked(t *testing.T) message.Message {
	t.Helper()
	synctest.Wait()
	all := d.server.Messages()
	m := all[len(all)-1]
	if !m.Kind.Asks() {
		t.Fatalf("not a request: %s", kerneltest.Texts(all))
	}
	return m
}

func (d *desk) answer(kind message.Kind, t message.Type, data string, request message.Message) {
	d.server.In <- message.Message{Kind: kind, Type: t, Data: []byte(data), Metadata: message.Metadata{ID: "answer", Timestamp: 1, Causation: request.Metadata.ID}}
}

func (d *desk) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	// The outcomes of two slow calls may come in any order.
	if got := d.caller.SoFar(t); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the caller got %q, want %q", got, want)
	}
}

func (d *desk) end(t *testing.T) {
	t.Helper()
	for _, c := range []*kerneltest.Wire{d.caller, d.server} {
		if err := c.End(); err != nil {
			t.Error(err)
		}
	}
}

func TestAPeerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.caller.In <- kerneltest.Command("q1", "Test.Ask", `{"n":1}`)
		d.caller.In <- kerneltest.Query("q2", "Test.Nested", `2`)
		synctest.Wait()
		requests := d.server.Messages()[1:]
		if len(requests) != 2 {
			t.Fatalf("asked: %s", kerneltest.Texts(requests))
		}
		if string(requests[0].Data) == `2` {
			requests[0], requests[1] = requests[1], requests[0]
		}
		if m := requests[0]; m.Kind != "command" || m.Type != "Test.Ask" || m.Metadata.Causation != "q1" || m.Metadata.Correlation != "q1" || m.Metadata.ID == "q1" {
			t.Errorf("asked: %s", kerneltest.Texts(requests))
		}
		if m := requests[1]; m.Metadata.Correlation != "q2" || m.Metadata.Causation == "q2" {
			t.Errorf("a nested call asked: %s", kerneltest.Texts(requests))
		}
		d.answer("event", "Test.Happened", `"e"`, requests[0])
		d.answer("reply", "Test.Ask", `"r"`, requests[0])
		d.answer("reply", "Test.Ask", `"twice"`, requests[0])
		d.answer("error", "Test.Ask", `{"code":418,"message":"no"}`, requests[1])
		d.answer("reply", "Test.Ask", `"not asked for"`, message.Message{Metadata: message.Metadata{ID: "else"}})
		d.expect(t, `q1 "e"`, `q1 "r"`, `q2 418`)
		d.end(t)
	})
}

// A program that serves sees the extensions of the request's metadata, and what it sends because of the request has its trace.
func TestAPeerSeesExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trace = `"traceparent":"00-1-2-01"`
		d := newDesk(t, nil)
		q := kerneltest.Command("q1", "Test.Ask", `1`)
		q.Metadata.Extra = `"x-tenant":"acme",` + trace
		d.caller.In <- q
		first := d.asked(t)
		if first.Metadata.Extra != q.Metadata.Extra {
			t.Errorf("asked with %q", first.Metadata.Extra)
		}
		because := kerneltest.Query("s1", "Test.Nested", `2`)
		because.Metadata.Causation = first.Metadata.ID
		d.server.In <- because
		second := d.asked(t)
		if second.Metadata.Extra != trace {
			t.Errorf("asked with %q because of it", second.Metadata.Extra)
		}
		d.answer("reply", "Test.Ask", `"s"`, second)
		d.answer("reply", "Test.Ask", `"r"`, first)
		d.expect(t, `q1 "r"`)
		for _, m := range d.caller.Messages() {
			if m.Metadata.Extra != q.Metadata.Extra {
				t.Errorf("answered with %q", m.Metadata.Extra)
			}
		}
		d.end(t)
	})
}

func TestAPeerThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		var order []string
		if !d.peer.WhenGone(func() {
			order = append(order, fmt.Sprint("farewell, answered ", len(d.caller.Messages())))
		}) {
			t.Error("it is said to have gone")
		}
		d.caller.In <- kerneltest.Query("q", "Test.Ask", `1`)
		d.asked(t)
		if err := d.server.End(); err != nil {
			t.Error(err)
		}
		d.expect(t, "q 502")
		if !slices.Equal(order, []string{"farewell, answered 0"}) {
			t.Error(order)
		}
		if d.peer.WhenGone(func() { t.Error("called") }) {
			t.Error("a farewell after the end")
		}
		d.caller.In <- kerneltest.Query("late", "Test.Ask", `1`)
		d.expect(t, "q 502", "late 502")
		if err := d.caller.End(); err != nil {
			t.Error(err)
		}
	})
}

func TestAQuestionThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.caller.In <- kerneltest.Query("q", "Test.Ask", `1`)
		request := d.asked(t)
		time.Sleep(2 * time.Minute)
		d.expect(t, "q 504")
		all := d.server.Messages()
		told := all[len(all)-1]
		if told.Type != "Syscall.Cancelled" || string(told.Data) != fmt.Sprintf(`{"id":%q}`, request.Metadata.ID) || told.Metadata.Causation != request.Metadata.ID {
			t.Errorf("the peer was told %s", kerneltest.Texts(all))
		}
		d.answer("reply", "Test.Ask", `"late"`, request)
		d.expect(t, "q 504")
		if left := d.k.Services(); len(left) != 0 {
			t.Errorf("%v are left", left)
		}
		d.end(t)
	})
}

// A peer gets at most maxOutgoing requests at a time, and none that does not fit into a line.
func TestWhatAPeerIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &kernel.Options{InFlight: maxOutgoing + 10})
		for i := range maxOutgoing {
			d.caller.In <- kerneltest.Query(message.ID(fmt.Sprint(i)), "Test.Ask", `1`)
			if i%500 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		d.caller.In <- kerneltest.Query("full", "Test.Ask", `1`)
		d.expect(t, "full 503")
		d.answer("reply", "Test.Ask", `1`, d.server.Messages()[1])
		synctest.Wait()
		d.caller.In <- kerneltest.Query("room", "Test.Ask", `1`)
		if synctest.Wait(); len(d.server.Messages()) != maxOutgoing+2 {
			t.Errorf("%d requests", len(d.server.Messages())-1)
		}
		if err := d.server.End(); err != nil {
			t.Error(err)
		}
		if err := d.caller.End(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		if err := d.caller.End(); err != nil {
			t.Error(err)
		}
		d.caller = kerneltest.NewWire(10, 2*message.MaxLine)
		d.caller.Serve(d.k)
		for _, n := range []int{message.MaxLine - 300, message.MaxLine - 10} {
			d.caller.In <- kerneltest.Query(message.ID(fmt.Sprint(n)), "Test.Ask", `"`+strings.Repeat("x", n-2)+`"`)
			synctest.Wait()
		}
		d.expect(t, fmt.Sprint(message.MaxLine-10, " 413"))
		d.answer("reply", "Test.Ask", `1`, d.asked(t))
		d.end(t)
	})
}

// Events that no handler takes do not pile up, and hold up nothing else.
func TestEventsWithoutAReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *connection.Peer
		stuck := make(chan struct{})
		got := 0
		var outcome message.Message
		offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			peer, _ = connection.PeerOf(ctx)
			emit(m.Reply(nil))
		})
		ask := kerneltest.Slow(kerneltest.Raw("Test.Ask", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			outcome, _ = peer.Ask(ctx, "Test.Ask", m.Data, func(message.Message) {
				<-stuck
				got++
			})
			emit(m.Reply(nil))
		}))
		k := kerneltest.New(t, nil, offer, ask, kerneltest.Echo("Test.Echo"))
		server, caller := kerneltest.Connect(k), kerneltest.Connect(k)
		server.In <- kerneltest.Query("offer", "Test.Offer", `1`)
		synctest.Wait()
		caller.In <- kerneltest.Query("q", "Test.Ask", `1`)
		synctest.Wait()
		request := server.Messages()[1]
		event := message.Message{Kind: "event", Type: "Test.Happened", Data: []byte(`1`), Metadata: message.Metadata{ID: "e", Timestamp: 1, Causation: request.Metadata.ID}}
		server.In <- event
		synctest.Wait() // the caller is stuck with it
		for range maxUnread + 5 {
			server.In <- event
		}
		server.In <- kerneltest.Query("other", "Test.Echo", `"goes on"`)
		synctest.Wait()
		if all := server.SoFar(t); all[len(all)-1] != `other "goes on"` {
			t.Errorf("the connection is held up: %v", all)
		}
		close(stuck)
		synctest.Wait()
		if got != 1+maxUnread || outcome.Err == nil || outcome.Err.Code != 503 {
			t.Errorf("%d events, then %s", got, outcome.Data)
		}
		all := server.Messages()
		if last := all[len(all)-1]; last.Type != "Syscall.Cancelled" {
			t.Errorf("the peer was not told: %s", kerneltest.Texts(all[len(all)-1:]))
		}
		for _, c := range []*kerneltest.Wire{caller, server} {
			if err := c.End(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWhoHasAPeer(t *testing.T) {
	var ids []uint64
	who := kerneltest.Raw("Test.Who", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		p, ok := connection.PeerOf(ctx)
		if ok {
			ids = append(ids, p.ID())
		}
		emit(m.Reply(fmt.Appendf(nil, "%v", ok)))
	})
	k := kerneltest.New(t, nil, who)
	if a := kerneltest.Answer(t, k, kerneltest.Query("q", "Test.Who", `1`)); string(a.Data) != "false" {
		t.Error("a call without a connection has a peer")
	}
	if _, ok := connection.PeerOf(t.Context()); ok {
		t.Error("no call has a peer")
	}
	for range 2 {
		c := kerneltest.Connect(k)
		c.In <- kerneltest.Query("a", "Test.Who", `1`)
		c.In <- kerneltest.Query("b", "Test.Who", `1`)
		if err := c.End(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 4 || ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] {
		t.Errorf("ids %v", ids)
	}
	var p connection.Peer
	if _, err := p.Ask(t.Context(), "Test.Ask", nil, nil); err == nil || !strings.Contains(err.Error(), "belongs to no call") {
		t.Errorf("got %v", err)
	}
}

// The outcome of a slow call does not wait for others: the loop is waiting for input.
func TestASlowOutcomeIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kerneltest.Connect(kerneltest.New(t, nil, kerneltest.Slow(kerneltest.Echo("Test.Slow"))))
		c.In <- kerneltest.Query("q", "Test.Slow", `1`)
		synctest.Wait()
		if got := c.SoFar(t); !slices.Equal(got, []string{"q 1"}) || c.Flushed() != 1 {
			t.Errorf("flushed %d of %v", c.Flushed(), got)
		}
		if err := c.End(); err != nil {
			t.Error(err)
		}
	})
}

func TestSyscallsComeAndGo(t *testing.T) {
	r, err := kernel.NewRegistry(kerneltest.Module("test", kerneltest.Echo("Test.Echo")))
	if err != nil {
		t.Fatal(err)
	}
	before := r.All().Hash()
	other := kerneltest.Module("other")
	add := func(m kernel.Module, s kernel.Syscall) error { return r.AddSyscall(m, s) }
	for _, err := range []error{add(kerneltest.Module("test"), kerneltest.Echo("Test.More")), add(other, kerneltest.Echo("Other.One")), add(other, kerneltest.Echo("Other.Two"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(r.All().Types()); got != "[Other.One Other.Two Test.Echo Test.More]" || len(r.All().Modules()) != 2 || r.All().Hash() == before {
		t.Errorf("there are %s in %d modules", got, len(r.All().Modules()))
	}
	during := r.All().Hash()
	for want, err := range map[string]error{
		"Other.One is registered already":               add(other, kerneltest.Echo("Other.One")),
		"Test.Echo is registered already":               add(other, kerneltest.Echo("Test.Echo")),
		`"nope": a type must be Domain.Action`:          add(other, kerneltest.Echo("nope")),
		"the name must be in lower case, and not empty": add(kerneltest.Module("Third"), kerneltest.Echo("Third.One")),
		"a module needs a version and a summary":        add(kernel.Module{Name: "third"}, kerneltest.Echo("Third.One")),
		"a syscall needs a handler":                     add(other, kerneltest.Raw("Other.Three", nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if r.All().Hash() != during {
		t.Error("what failed changed something")
	}
	if n := r.RemoveSyscall("Other.One", "Other.Nope", "Test.More"); n != 2 {
		t.Errorf("removed %d", n)
	}
	if n := r.RemoveSyscall("Other.One"); n != 0 {
		t.Errorf("removed %d", n)
	}
	if n := r.RemoveSyscall("Other.Two"); n != 1 || len(r.All().Modules()) != 1 || r.All().Hash() != before {
		t.Errorf("removed %d; left are %v", n, r.All().Types())
	}
}

// Readers see one state or another while syscalls come and go.
func TestSyscallsComeAndGoUnderReaders(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a := kerneltest.Ask(k, kerneltest.Query("q", "Test.Echo", `1`)); len(a) != 1 || a[0].Kind != message.KindReply {
					t.Errorf("got %s", kerneltest.Texts(a))
					return
				}
				if a := kerneltest.Ask(k, kerneltest.Query("q", "Other.One", `1`)); len(a) != 1 {
					t.Errorf("got %s", kerneltest.Texts(a))
					return
				}
			}
		})
	}
	for range 200 {
		if err := k.Registry().AddSyscall(kerneltest.Module("other"), kerneltest.Echo("Other.One")); err != nil {
			t.Error(err)
		}
		if k.Registry().RemoveSyscall("Other.One") != 1 {
			t.Error("it was not there")
		}
	}
	close(stop)
	all.Wait()
}
