package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
)

func TestServeAnswersInlineMessagesInOrder(t *testing.T) {
	var n int // no lock: one message is done before the next begins
	k := newKernel(t, nil, raw("Counter.Add", func(_ context.Context, m message.Message, emit Emit) {
		n++
		emit(m.Reply(strconv.AppendInt(nil, int64(n), 10)))
	}))
	conn := connect(k)
	var want []string
	for i := 1; i <= 500; i++ {
		conn.in <- query(message.ID(fmt.Sprint("m", i)), "Counter.Add", `0`)
		want = append(want, fmt.Sprintf("m%d %d", i, i))
	}
	if err := conn.end(); err != nil {
		t.Error(err)
	}
	if got := conn.soFar(t); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestServeRunsSlowMessagesAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := map[string]chan struct{}{`"a"`: make(chan struct{}), `"b"`: make(chan struct{})}
		k := newKernel(t, nil, echo("Test.Echo"), slow(raw("Test.Wait", func(_ context.Context, m message.Message, emit Emit) {
			<-release[string(m.Data)]
			emit(m.Reply(m.Data))
		})))
		conn := connect(k)
		conn.in <- query("1", "Test.Wait", `"a"`)
		conn.in <- query("2", "Test.Wait", `"b"`)
		conn.in <- query("3", "Test.Echo", `"c"`)
		synctest.Wait()
		close(release[`"b"`])
		synctest.Wait()
		if got := conn.soFar(t); !slices.Equal(got, []string{`3 "c"`, `2 "b"`}) {
			t.Errorf("got %v", got)
		}
		close(conn.in)
		synctest.Wait()
		select {
		case <-conn.ended:
			t.Error("the end of the input does not wait for what is under way")
		default:
		}
		close(release[`"a"`])
		if err := <-conn.ended; err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); !slices.Equal(got, []string{`3 "c"`, `2 "b"`, `1 "a"`}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestServeHoldsBackMoreThan64SlowMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var running atomic.Int64
		k := newKernel(t, nil, echo("Test.Echo"), slow(raw("Test.Wait", func(_ context.Context, m message.Message, emit Emit) {
			running.Add(1)
			<-release
			emit(m.Reply(m.Data))
		})))
		conn := connect(k)
		for i := range 200 {
			conn.in <- query(message.ID(fmt.Sprint(i)), "Test.Wait", strconv.Itoa(i))
		}
		conn.in <- query("last", "Test.Echo", `1`)
		synctest.Wait()
		if n := running.Load(); n != 64 {
			t.Errorf("%d run at once", n)
		}
		if stats := k.Stats(); stats.Held != 1 || stats.Queued != 200-64+1 || stats.InFlight != 64 {
			t.Errorf("got %+v", stats)
		}
		if got := conn.soFar(t); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		release <- struct{}{}
		synctest.Wait()
		if n := running.Load(); n != 65 {
			t.Errorf("a free place is not taken: %d", n)
		}
		close(release)
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if stats := k.Stats(); stats.Held != 0 || stats.Queued != 0 || k.queued.Load() != 0 {
			t.Errorf("got %+v", stats)
		}
		got := conn.soFar(t)
		slices.Sort(got)
		if len(slices.Compact(got)) != 201 {
			t.Errorf("%d messages of 201 are answered", len(slices.Compact(got)))
		}
	})
}

// A stubborn handler must not keep its place for good: sixty-four of them would close
// the connection to slow calls.
func TestServeFreesThePlaceOfSlowHandlersThatOverstay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, nil, within(time.Second, slow(stubborn("Test.Wait", release))), slow(echo("Test.Echo")))
		conn := connect(k)
		for i := range 64 {
			conn.in <- query(message.ID(fmt.Sprint(i)), "Test.Wait", `1`)
		}
		conn.in <- query("last", "Test.Echo", `2`)
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); len(got) != 65 || !slices.Contains(got, "last 2") {
			t.Errorf("got %v", got)
		}
		close(release)
	})
}

func TestServeAnswersOnlyWhatAsks(t *testing.T) {
	k := newKernel(t, nil, echo("Test.Echo"))
	conn := connect(k)
	event := query("1", "Test.Happened", `1`)
	event.Kind = message.KindEvent
	reply := query("2", "Test.Echo", `1`)
	reply.Kind, reply.Metadata.Causation = message.KindReply, "0"
	conn.in <- event
	conn.in <- reply
	conn.in <- query("3", "Test.Ecko", `1`)
	conn.in <- query("4", "Test.Echo", `4`)
	if err := conn.end(); err != nil {
		t.Error(err)
	}
	if got := conn.soFar(t); !slices.Equal(got, []string{"3 404", "4 4"}) {
		t.Errorf("got %v", got)
	}
}

func TestServeSurvivesHandlersThatPanicOrEndTheirGoroutine(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("x") }, "exit": runtime.Goexit} {
		for _, aside := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " slow=", aside), func(t *testing.T) {
				s := raw("Test.End", func(context.Context, message.Message, Emit) { end() })
				if aside {
					s.Runs = Slow
				}
				k := newKernel(t, nil, s, echo("Test.Echo"))
				conn := connect(k)
				conn.in <- query("1", "Test.End", `1`)
				conn.in <- query("2", "Test.Echo", `2`)
				conn.in <- query("3", "Test.End", `3`)
				conn.in <- query("4", "Test.Echo", `4`)
				if err := conn.end(); err != nil {
					t.Error(err)
				}
				got := conn.soFar(t)
				if aside {
					slices.Sort(got)
				}
				if !slices.Equal(got, []string{"1 500", "2 2", "3 500", "4 4"}) {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}

// A handler that ends its goroutine after it was left behind has no turn to pass on.
func TestServeSurvivesAGoroutineThatEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, nil, echo("Test.Echo"), within(time.Second, raw("Test.End", func(context.Context, message.Message, Emit) {
			<-release
			runtime.Goexit()
		})))
		conn := connect(k)
		conn.in <- query("1", "Test.End", `1`)
		time.Sleep(2 * time.Second)
		close(release)
		conn.in <- query("2", "Test.Echo", `2`)
		synctest.Wait()
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); !slices.Equal(got, []string{"1 504", "2 2"}) {
			t.Errorf("got %v", got)
		}
	})
}

// Nor may it take the turn from the call that has it by then (S1).
func TestServeGivesNoTurnToAGoroutineThatEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, running, most := make(chan struct{}), 0, 0
		k := newKernel(t, nil,
			within(time.Second, raw("Test.End", func(context.Context, message.Message, Emit) {
				<-release
				runtime.Goexit()
			})),
			raw("Test.Work", func(_ context.Context, m message.Message, emit Emit) {
				running++
				most = max(most, running)
				time.Sleep(5 * time.Second)
				running--
				emit(m.Reply(m.Data))
			}))
		conn := connect(k)
		conn.in <- query("1", "Test.End", `1`)
		conn.in <- query("2", "Test.Work", `2`)
		conn.in <- query("3", "Test.Work", `3`)
		time.Sleep(2 * time.Second) // 2 is at work
		close(release)
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); most != 1 || !slices.Equal(got, []string{"1 504", "2 2", "3 3"}) {
			t.Errorf("got %v, %d at a time", got, most)
		}
	})
}

type brokenSource struct{ err error }

func (s brokenSource) Next() (message.Message, Emit, error) { return message.Message{}, nil, s.err }
func (brokenSource) Detach()                                {}

func TestServeReturnsTheErrorOfItsSource(t *testing.T) {
	k, broken := newKernel(t, nil), errors.New("the wire broke")
	if err := k.Serve(t.Context(), brokenSource{broken}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, nil, stubborn("Test.Wait", release), echo("Test.Echo"))
		stuck, free := connect(k), connect(k)
		stuck.in <- query("1", "Test.Wait", `1`)
		free.in <- query("2", "Test.Echo", `2`)
		synctest.Wait()
		if got := free.soFar(t); !slices.Equal(got, []string{"2 2"}) {
			t.Errorf("got %v", got)
		}
		close(release)
		if err := errors.Join(stuck.end(), free.end()); err != nil {
			t.Error(err)
		}
	})
}

// A call does not wait for those that do not end by themselves.
func TestServeRefusesMoreEndlessMessagesThanThereMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := slow(raw("Test.Watch", func(ctx context.Context, m message.Message, emit Emit) {
			<-ctx.Done()
			emit(m.Reply(m.Data))
		}))
		endless.Runs = Endless
		k := newKernel(t, &Options{InFlight: 2}, echo("Test.Echo"), slow(echo("Test.Slow")), within(24*time.Hour, endless))
		conn := connect(k)
		for _, id := range []message.ID{"w1", "w2", "w3"} {
			conn.in <- query(id, "Test.Watch", `1`)
		}
		conn.in <- query("slow", "Test.Slow", `1`)
		conn.in <- query("last", "Test.Echo", `1`)
		synctest.Wait()
		if got := conn.soFar(t); !slices.Equal(got, []string{"w3 429", "slow 429", "last 1"}) {
			t.Errorf("got %q", got)
		}
		k.Stop()
		if err := conn.end(); err != nil {
			t.Error(err)
		}
	})
}

// A peer that does not read takes up places of its own, not those of all.
func TestServeFreesTheSharedPlaceOfACallWhoseCallerDoesNotRead(t *testing.T) {
	k := newKernel(t, &Options{InFlightAll: 1}, within(20*time.Millisecond, slow(echo("Test.Echo"))))
	stuck := &connection{in: make(chan message.Message, 1), ended: make(chan error, 1), buf: make([]byte, 1024), stuck: make(chan struct{})}
	go func() { stuck.ended <- k.Serve(t.Context(), stuck) }()
	stuck.in <- query("1", "Test.Echo", `1`)
	for k.Stats().Messages == 0 || k.InFlight() > 0 {
		if time.Since(k.begun) > 10*time.Second {
			t.Error("the place is not free")
			break
		}
		time.Sleep(time.Millisecond)
	}
	conn := connect(k)
	conn.in <- query("2", "Test.Echo", `2`)
	if err := conn.end(); err != nil {
		t.Error(err)
	}
	if got := conn.soFar(t); !slices.Equal(got, []string{"2 2"}) {
		t.Errorf("got %q", got)
	}
	close(stuck.stuck)
	if err := stuck.end(); err != nil {
		t.Error(err)
	}
}
