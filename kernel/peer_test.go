package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
)

// asking is a slow syscall that asks a peer, and passes
// its events and its outcome on.
func asking(t message.Type, peer func() *Peer) Syscall {
	s := slow(raw(t, func(ctx context.Context, m message.Message, emit Emit) {
		outcome, err := peer().Ask(ctx, t, m.Data, func(e message.Message) { emit(m.Event(e.Type, e.Data)) })
		switch {
		case err != nil:
			Fail(ctx, m, emit, err)
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
	s.Provider = Program
	return s
}

// A desk is a kernel with a connection that can be asked, and one that calls.
type desk struct {
	k              *Kernel
	server, caller *connection
	peer           *Peer
}

// newDesk must be called in a bubble.
func newDesk(t *testing.T, opts *Options) *desk {
	t.Helper()
	d := new(desk)
	offer := raw("Test.Offer", func(ctx context.Context, m message.Message, emit Emit) {
		d.peer, _ = PeerOf(ctx)
		emit(m.Reply(nil))
	})
	nested := slow(raw("Test.Nested", func(ctx context.Context, m message.Message, emit Emit) {
		data, err := Call(ctx, "Test.Ask", m.Data)
		if err != nil {
			Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
	d.k = newKernel(t, opts, offer, nested, within(time.Minute, asking("Test.Ask", func() *Peer { return d.peer })))
	d.server, d.caller = connect(d.k), connect(d.k)
	d.server.in <- query("offer", "Test.Offer", `1`)
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
	all := d.server.messages()
	m := all[len(all)-1]
	if !m.Kind.Asks() {
		t.Fatalf("not a request: %s", texts(all))
	}
	return m
}

func (d *desk) answer(kind message.Kind, t message.Type, data string, request message.Message) {
	d.server.in <- message.Message{Kind: kind, Type: t, Data: []byte(data), Metadata: message.Metadata{ID: "answer", Timestamp: 1, Causation: request.Metadata.ID}}
}

func (d *desk) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	// The outcomes of two slow calls may come in any order.
	if got := d.caller.soFar(t); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the caller got %q, want %q", got, want)
	}
}

func (d *desk) end(t *testing.T) {
	t.Helper()
	for _, c := range []*connection{d.caller, d.server} {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
}

func TestAPeerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.caller.in <- command("q1", "Test.Ask", `{"n":1}`)
		d.caller.in <- query("q2", "Test.Nested", `2`)
		synctest.Wait()
		requests := d.server.messages()[1:]
		if len(requests) != 2 {
			t.Fatalf("asked: %s", texts(requests))
		}
		if string(requests[0].Data) == `2` {
			requests[0], requests[1] = requests[1], requests[0]
		}
		if m := requests[0]; m.Kind != "command" || m.Type != "Test.Ask" || m.Metadata.Causation != "q1" || m.Metadata.Correlation != "q1" || m.Metadata.ID == "q1" {
			t.Errorf("asked: %s", texts(requests))
		}
		if m := requests[1]; m.Metadata.Correlation != "q2" || m.Metadata.Causation == "q2" {
			t.Errorf("a nested call asked: %s", texts(requests))
		}
		d.answer("event", "Test.Happened", `"e"`, requests[0])
		d.answer("reply", "Test.Ask", `"r"`, requests[0])
		d.answer("reply", "Test.Ask", `"twice"`, requests[0])
		d.answer("error", "Test.Ask", `{"code":418,"message":"no"}`, requests[1])
		d.answer("reply", "Test.Ask", `"nobody asked"`, message.Message{Metadata: message.Metadata{ID: "else"}})
		d.expect(t, `q1 "e"`, `q1 "r"`, `q2 418`)
		d.end(t)
	})
}

func TestAPeerThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		var order []string
		if !d.peer.WhenGone(func() {
			select {
			case <-d.peer.Gone():
				order = append(order, "gone was told first")
			default:
				order = append(order, fmt.Sprint("farewell, answered ", len(d.caller.messages())))
			}
		}) {
			t.Error("it is said to have gone")
		}
		d.caller.in <- query("q", "Test.Ask", `1`)
		d.asked(t)
		if err := d.server.end(); err != nil {
			t.Error(err)
		}
		<-d.peer.Gone()
		d.expect(t, "q 502")
		if !slices.Equal(order, []string{"farewell, answered 0"}) {
			t.Error(order)
		}
		if d.peer.WhenGone(func() { t.Error("called") }) {
			t.Error("a farewell after the end")
		}
		d.caller.in <- query("late", "Test.Ask", `1`)
		d.expect(t, "q 502", "late 502")
		if err := d.caller.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAQuestionThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.caller.in <- query("q", "Test.Ask", `1`)
		request := d.asked(t)
		time.Sleep(2 * time.Minute)
		d.expect(t, "q 504")
		all := d.server.messages()
		told := all[len(all)-1]
		if told.Type != Cancelled || string(told.Data) != fmt.Sprintf(`{"id":%q}`, request.Metadata.ID) || told.Metadata.Causation != request.Metadata.ID {
			t.Errorf("the peer was told %s", texts(all))
		}
		d.answer("reply", "Test.Ask", `"late"`, request)
		d.expect(t, "q 504")
		if n := d.peer.s.inquiries.n.Load(); n != 0 || len(d.peer.s.inquiries.all) != 0 {
			t.Errorf("%d are left", n)
		}
		d.end(t)
	})
}

// A peer gets so many requests and no more, and none that does not fit into a line.
func TestWhatAPeerIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, &Options{InFlight: maxInquiries + 10})
		for i := range maxInquiries {
			d.caller.in <- query(message.ID(fmt.Sprint(i)), "Test.Ask", `1`)
			if i%500 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		d.caller.in <- query("full", "Test.Ask", `1`)
		d.expect(t, "full 503")
		d.answer("reply", "Test.Ask", `1`, d.server.messages()[1])
		synctest.Wait()
		d.caller.in <- query("room", "Test.Ask", `1`)
		if synctest.Wait(); len(d.server.messages()) != maxInquiries+2 {
			t.Errorf("%d requests", len(d.server.messages())-1)
		}
		if err := d.server.end(); err != nil {
			t.Error(err)
		}
		if err := d.caller.end(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.caller.buf = make([]byte, 2*message.MaxLine)
		for _, n := range []int{message.MaxLine - 300, message.MaxLine - 10} {
			d.caller.in <- query(message.ID(fmt.Sprint(n)), "Test.Ask", `"`+strings.Repeat("x", n-2)+`"`)
			synctest.Wait()
		}
		d.expect(t, fmt.Sprint(message.MaxLine-10, " 413"))
		d.answer("reply", "Test.Ask", `1`, d.asked(t))
		d.end(t)
	})
}

// Events that nobody takes do not pile up, and hold up nothing else.
func TestEventsThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *Peer
		stuck := make(chan struct{})
		got := 0
		var outcome message.Message
		offer := raw("Test.Offer", func(ctx context.Context, m message.Message, emit Emit) {
			peer, _ = PeerOf(ctx)
			emit(m.Reply(nil))
		})
		ask := slow(raw("Test.Ask", func(ctx context.Context, m message.Message, emit Emit) {
			outcome, _ = peer.Ask(ctx, "Test.Ask", m.Data, func(message.Message) {
				<-stuck
				got++
			})
			emit(m.Reply(nil))
		}))
		k := newKernel(t, nil, offer, ask, echo("Test.Echo"))
		server, caller := connect(k), connect(k)
		server.in <- query("offer", "Test.Offer", `1`)
		synctest.Wait()
		caller.in <- query("q", "Test.Ask", `1`)
		synctest.Wait()
		request := server.messages()[1]
		event := message.Message{Kind: "event", Type: "Test.Happened", Data: []byte(`1`), Metadata: message.Metadata{ID: "e", Timestamp: 1, Causation: request.Metadata.ID}}
		server.in <- event
		synctest.Wait() // whoever asked is stuck with it
		for range maxUnread + 5 {
			server.in <- event
		}
		server.in <- query("other", "Test.Echo", `"goes on"`)
		synctest.Wait()
		if all := server.soFar(t); all[len(all)-1] != `other "goes on"` {
			t.Errorf("the connection is held up: %v", all)
		}
		close(stuck)
		synctest.Wait()
		if got != 1+maxUnread || outcome.Err == nil || outcome.Err.Code != 503 {
			t.Errorf("%d events, then %s", got, outcome.Data)
		}
		all := server.messages()
		if last := all[len(all)-1]; last.Type != Cancelled {
			t.Errorf("the peer was not told: %s", texts(all[len(all)-1:]))
		}
		for _, c := range []*connection{caller, server} {
			if err := c.end(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWhoHasAPeer(t *testing.T) {
	var ids []uint64
	who := raw("Test.Who", func(ctx context.Context, m message.Message, emit Emit) {
		p, ok := PeerOf(ctx)
		if ok {
			ids = append(ids, p.ID())
		}
		emit(m.Reply(fmt.Appendf(nil, "%v", ok)))
	})
	k := newKernel(t, nil, who)
	if a := answer(t, k, query("q", "Test.Who", `1`)); string(a.Data) != "false" {
		t.Error("a call without a connection has a peer")
	}
	if _, ok := PeerOf(t.Context()); ok {
		t.Error("no call has a peer")
	}
	for range 2 {
		c := connect(k)
		c.in <- query("a", "Test.Who", `1`)
		c.in <- query("b", "Test.Who", `1`)
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 4 || ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] {
		t.Errorf("ids %v", ids)
	}
	var p Peer
	if _, err := p.Ask(t.Context(), "Test.Ask", nil, nil); err == nil || !strings.Contains(err.Error(), "belongs to no call") {
		t.Errorf("got %v", err)
	}
}

// A flushing connection counts how often it is told that nothing more is ready.
type flushing struct {
	*connection
	flushed chan struct{}
}

func (f flushing) Flush() {
	select {
	case f.flushed <- struct{}{}:
	default:
	}
}

// The outcome of a slow call does not wait for others: nobody reads meanwhile.
func TestASlowOutcomeIsFlushed(t *testing.T) {
	k := newKernel(t, nil, slow(echo("Test.Slow")))
	c := &connection{in: make(chan message.Message, 1), ended: make(chan error, 1), start: time.Now(), buf: make([]byte, 64)}
	f := flushing{c, make(chan struct{}, 1)}
	go func() { c.ended <- k.Serve(context.Background(), f) }()
	c.in <- query("q", "Test.Slow", `1`)
	<-f.flushed
	if got := c.soFar(t); !slices.Equal(got, []string{"q 1"}) {
		t.Errorf("flushed after %v", got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func TestSyscallsComeAndGo(t *testing.T) {
	r, err := NewRegistry(module("test", echo("Test.Echo")))
	if err != nil {
		t.Fatal(err)
	}
	before := r.Hash()
	other := module("other")
	add := func(m Module, s Syscall) error { return r.AddSyscall(m, s) }
	for _, err := range []error{add(module("test"), echo("Test.More")), add(other, echo("Other.One")), add(other, echo("Other.Two"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(r.Types()); got != "[Other.One Other.Two Test.Echo Test.More]" || len(r.Modules()) != 2 || r.Hash() == before {
		t.Errorf("there are %s in %d modules", got, len(r.Modules()))
	}
	during := r.Hash()
	for want, err := range map[string]error{
		"Other.One is registered already":               add(other, echo("Other.One")),
		"Test.Echo is registered already":               add(other, echo("Test.Echo")),
		`"nope": a type must be Domain.Action`:          add(other, echo("nope")),
		"the name must be in lower case, and not empty": add(module("Third"), echo("Third.One")),
		"a module needs a version and a summary":        add(Module{Name: "third"}, echo("Third.One")),
		"a syscall needs a handler":                     add(other, raw("Other.Three", nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if r.Hash() != during {
		t.Error("what failed changed something")
	}
	if n := r.RemoveSyscall("Other.One", "Other.Nope", "Test.More"); n != 2 {
		t.Errorf("removed %d", n)
	}
	if n := r.RemoveSyscall("Other.One"); n != 0 {
		t.Errorf("removed %d", n)
	}
	if n := r.RemoveSyscall("Other.Two"); n != 1 || len(r.Modules()) != 1 || r.Hash() != before {
		t.Errorf("removed %d; left are %v", n, r.Types())
	}
}

// Readers see one state or another while syscalls come and go.
func TestSyscallsComeAndGoUnderReaders(t *testing.T) {
	k := newKernel(t, &Options{Middleware: []Middleware{func(h Handler) Handler { return h }}}, echo("Test.Echo"))
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
				if a := ask(k, query("q", "Test.Echo", `1`)); len(a) != 1 || a[0].Kind != message.KindReply {
					t.Errorf("got %s", texts(a))
					return
				}
				if a := ask(k, query("q", "Other.One", `1`)); len(a) != 1 {
					t.Errorf("got %s", texts(a))
					return
				}
			}
		})
	}
	for range 200 {
		if err := k.Registry().AddSyscall(module("other"), echo("Other.One")); err != nil {
			t.Error(err)
		}
		if k.Registry().RemoveSyscall("Other.One") != 1 {
			t.Error("it was not there")
		}
	}
	close(stop)
	all.Wait()
}
