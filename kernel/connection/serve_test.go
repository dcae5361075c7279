package connection_test

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

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestServeAnswersInlineMessagesInOrder(t *testing.T) {
	var n int // no lock: one message is done before the next begins
	k := kerneltest.New(t, nil, kerneltest.Raw("Counter.Add", func(_ context.Context, m message.Message, emit kernel.Emit) {
		n++
		emit(m.Reply(strconv.AppendInt(nil, int64(n), 10)))
	}))
	conn := kerneltest.Connect(k)
	var want []string
	for i := 1; i <= 500; i++ {
		conn.In <- kerneltest.Query(message.ID(fmt.Sprint("m", i)), "Counter.Add", `0`)
		want = append(want, fmt.Sprintf("m%d %d", i, i))
	}
	if err := conn.End(); err != nil {
		t.Error(err)
	}
	if got := conn.SoFar(t); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestServeRunsSlowMessagesAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := map[string]chan struct{}{`"a"`: make(chan struct{}), `"b"`: make(chan struct{})}
		k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"), kerneltest.Slow(kerneltest.Raw("Test.Wait", func(_ context.Context, m message.Message, emit kernel.Emit) {
			<-release[string(m.Data)]
			emit(m.Reply(m.Data))
		})))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("1", "Test.Wait", `"a"`)
		conn.In <- kerneltest.Query("2", "Test.Wait", `"b"`)
		conn.In <- kerneltest.Query("3", "Test.Echo", `"c"`)
		synctest.Wait()
		close(release[`"b"`])
		synctest.Wait()
		if got := conn.SoFar(t); !slices.Equal(got, []string{`3 "c"`, `2 "b"`}) {
			t.Errorf("got %v", got)
		}
		close(conn.In)
		synctest.Wait()
		if conn.Ended() {
			t.Error("the end of the input does not wait for what is under way")
		}
		close(release[`"a"`])
		if err := conn.Wait(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, []string{`3 "c"`, `2 "b"`, `1 "a"`}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestServeHoldsBackMoreThan64SlowMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var running atomic.Int64
		k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"), kerneltest.Slow(kerneltest.Raw("Test.Wait", func(_ context.Context, m message.Message, emit kernel.Emit) {
			running.Add(1)
			<-release
			emit(m.Reply(m.Data))
		})))
		conn := kerneltest.Connect(k)
		for i := range 200 {
			conn.In <- kerneltest.Query(message.ID(fmt.Sprint(i)), "Test.Wait", strconv.Itoa(i))
		}
		conn.In <- kerneltest.Query("last", "Test.Echo", `1`)
		synctest.Wait()
		if n := running.Load(); n != 64 {
			t.Errorf("%d run at once", n)
		}
		if stats := k.Stats(); stats.Held != 1 || stats.Queued != 200-64+1 || stats.InFlight != 64 {
			t.Errorf("got %+v", stats)
		}
		if got := conn.SoFar(t); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		release <- struct{}{}
		synctest.Wait()
		if n := running.Load(); n != 65 {
			t.Errorf("a free place is not taken: %d", n)
		}
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if stats := k.Stats(); stats.Held != 0 || stats.Queued != 0 || k.Connections().ReadAhead.Load() != 0 {
			t.Errorf("got %+v", stats)
		}
		got := conn.SoFar(t)
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
		k := kerneltest.New(t, nil, kerneltest.Within(time.Second, kerneltest.Slow(kerneltest.Stubborn("Test.Wait", release))), kerneltest.Slow(kerneltest.Echo("Test.Echo")))
		conn := kerneltest.Connect(k)
		for i := range 64 {
			conn.In <- kerneltest.Query(message.ID(fmt.Sprint(i)), "Test.Wait", `1`)
		}
		conn.In <- kerneltest.Query("last", "Test.Echo", `2`)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); len(got) != 65 || !slices.Contains(got, "last 2") {
			t.Errorf("got %v", got)
		}
		close(release)
	})
}

func TestServeAnswersOnlyWhatAsks(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"))
	conn := kerneltest.Connect(k)
	event := kerneltest.Query("1", "Test.Happened", `1`)
	event.Kind = message.KindEvent
	reply := kerneltest.Query("2", "Test.Echo", `1`)
	reply.Kind, reply.Metadata.Causation = message.KindReply, "0"
	conn.In <- event
	conn.In <- reply
	conn.In <- kerneltest.Query("3", "Test.Ecko", `1`)
	conn.In <- kerneltest.Query("4", "Test.Echo", `4`)
	if err := conn.End(); err != nil {
		t.Error(err)
	}
	if got := conn.SoFar(t); !slices.Equal(got, []string{"3 404", "4 4"}) {
		t.Errorf("got %v", got)
	}
}

// Clauses: M24-4.7.1-2
func TestServeSurvivesHandlersThatPanicOrEndTheirGoroutine(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("x") }, "exit": runtime.Goexit} {
		for _, aside := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " slow=", aside), func(t *testing.T) {
				s := kerneltest.Raw("Test.End", func(context.Context, message.Message, kernel.Emit) { end() })
				if aside {
					s.Runs = kernel.Slow
				}
				k := kerneltest.New(t, nil, s, kerneltest.Echo("Test.Echo"))
				conn := kerneltest.Connect(k)
				conn.In <- kerneltest.Query("1", "Test.End", `1`)
				conn.In <- kerneltest.Query("2", "Test.Echo", `2`)
				conn.In <- kerneltest.Query("3", "Test.End", `3`)
				conn.In <- kerneltest.Query("4", "Test.Echo", `4`)
				if err := conn.End(); err != nil {
					t.Error(err)
				}
				got := conn.SoFar(t)
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

// A handler that ends its goroutine after it was left behind has no loop to pass on.
// Invariants: S2.
func TestServeSurvivesAGoroutineThatEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"), kerneltest.Within(time.Second, kerneltest.Raw("Test.End", func(context.Context, message.Message, kernel.Emit) {
			<-release
			runtime.Goexit()
		})))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("1", "Test.End", `1`)
		time.Sleep(2 * time.Second)
		close(release)
		conn.In <- kerneltest.Query("2", "Test.Echo", `2`)
		synctest.Wait()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, []string{"1 504", "2 2"}) {
			t.Errorf("got %v", got)
		}
	})
}

// Nor may it take the loop from the goroutine that runs it by then (S1).
func TestServeGivesNoLoopToAGoroutineThatEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, running, most := make(chan struct{}), 0, 0
		k := kerneltest.New(t, nil,
			kerneltest.Within(time.Second, kerneltest.Raw("Test.End", func(context.Context, message.Message, kernel.Emit) {
				<-release
				runtime.Goexit()
			})),
			kerneltest.Raw("Test.Work", func(_ context.Context, m message.Message, emit kernel.Emit) {
				running++
				most = max(most, running)
				time.Sleep(5 * time.Second)
				running--
				emit(m.Reply(m.Data))
			}))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("1", "Test.End", `1`)
		conn.In <- kerneltest.Query("2", "Test.Work", `2`)
		conn.In <- kerneltest.Query("3", "Test.Work", `3`)
		time.Sleep(2 * time.Second) // 2 is at work
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); most != 1 || !slices.Equal(got, []string{"1 504", "2 2", "3 3"}) {
			t.Errorf("got %v, %d at a time", got, most)
		}
	})
}

type brokenSource struct{ err error }

func (s brokenSource) Next() (*message.Message, kernel.Emit, error) {
	return nil, nil, s.err
}
func (brokenSource) Detach()                   {}
func (brokenSource) Flush()                    {}
func (brokenSource) Writable(wait bool) bool   { return wait }
func (brokenSource) Left(<-chan struct{}) bool { return false }

func TestServeReturnsTheErrorOfItsSource(t *testing.T) {
	k, broken := kerneltest.New(t, nil), errors.New("the wire broke")
	if err := connection.New(k, brokenSource{broken}, nil).Serve(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, nil, kerneltest.Stubborn("Test.Wait", release), kerneltest.Echo("Test.Echo"))
		stuck, free := kerneltest.Connect(k), kerneltest.Connect(k)
		stuck.In <- kerneltest.Query("1", "Test.Wait", `1`)
		free.In <- kerneltest.Query("2", "Test.Echo", `2`)
		synctest.Wait()
		if got := free.SoFar(t); !slices.Equal(got, []string{"2 2"}) {
			t.Errorf("got %v", got)
		}
		close(release)
		if err := errors.Join(stuck.End(), free.End()); err != nil {
			t.Error(err)
		}
	})
}

// A call does not wait for those that do not end by themselves.
func TestServeRefusesMoreEndlessMessagesThanThereMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := kerneltest.Slow(kerneltest.Raw("Test.Watch", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			<-ctx.Done()
			emit(m.Reply(m.Data))
		}))
		endless.Runs = kernel.Endless
		k := kerneltest.New(t, &kernel.Options{InFlight: 2}, kerneltest.Echo("Test.Echo"), kerneltest.Slow(kerneltest.Echo("Test.Slow")), kerneltest.Within(24*time.Hour, endless))
		conn := kerneltest.Connect(k)
		for _, id := range []message.ID{"w1", "w2", "w3"} {
			conn.In <- kerneltest.Query(id, "Test.Watch", `1`)
		}
		conn.In <- kerneltest.Query("slow", "Test.Slow", `1`)
		conn.In <- kerneltest.Query("last", "Test.Echo", `1`)
		synctest.Wait()
		if got := conn.SoFar(t); !slices.Equal(got, []string{"w3 429", "slow 429", "last 1"}) {
			t.Errorf("got %q", got)
		}
		k.Stop()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

// A peer that does not read takes up places of its own, not those of all.
func TestServeFreesTheSharedPlaceOfACallWhoseCallerDoesNotRead(t *testing.T) {
	k := kerneltest.New(t, &kernel.Options{InFlightAll: 1}, kerneltest.Within(20*time.Millisecond, kerneltest.Slow(kerneltest.Echo("Test.Echo"))), kerneltest.Slow(kerneltest.Echo("Test.Other")))
	stuck := kerneltest.NewWire(1, 1024)
	stuck.Stuck = make(chan struct{})
	stuck.Serve(k)
	stuck.In <- kerneltest.Query("1", "Test.Echo", `1`)
	testkit.Until(t, "the place is free", func() bool { return k.Stats().Messages > 0 && k.InFlight() == 0 })
	conn := kerneltest.Connect(k)
	conn.In <- kerneltest.Query("2", "Test.Other", `2`)
	if err := conn.End(); err != nil {
		t.Error(err)
	}
	if got := conn.SoFar(t); !slices.Equal(got, []string{"2 2"}) {
		t.Errorf("got %q", got)
	}
	close(stuck.Stuck)
	if err := stuck.End(); err != nil {
		t.Error(err)
	}
}
