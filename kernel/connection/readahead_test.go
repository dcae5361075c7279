package connection_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// waiting is a slow query that waits until release is closed, or is cancelled.
func waiting(t message.Type, release <-chan struct{}) kernel.Syscall {
	return kerneltest.Slow(kerneltest.Raw(t, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		select {
		case <-release:
			emit(m.Reply(m.Data))
		case <-ctx.Done():
			kernel.Fail(ctx, m, emit, ctx.Err())
		}
	}))
}

// working is waiting as a command.
func working(t message.Type, release <-chan struct{}) kernel.Syscall {
	s := waiting(t, release)
	s.Kind = message.KindCommand
	return s
}

// cancelling is Syscall.Cancel: its data is the id.
func cancelling() kernel.Syscall {
	s := kerneltest.Raw(kernel.CancelType, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		peer, _ := connection.PeerOf(ctx)
		id, err := strconv.Unquote(string(m.Data))
		emit(m.Reply(fmt.Appendf(nil, "%v", err == nil && peer.Cancel(message.ID(id)))))
	})
	s.Kind = message.KindCommand
	return s
}

func expect(t *testing.T, c *kerneltest.Wire, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := c.SoFar(t); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What calls a request off goes ahead of the requests that wait for it to end, and calls off
// those as well.
func TestCancelGoesAheadOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{InFlight: 2}, waiting("Test.Wait", release), kerneltest.Echo("Test.Echo"), cancelling())
		conn := kerneltest.Connect(k)
		for i := range 5 {
			conn.In <- kerneltest.Query(message.ID(fmt.Sprint("w", i)), "Test.Wait", `1`)
		}
		conn.In <- kerneltest.Query("e", "Test.Echo", `1`)
		conn.In <- kerneltest.Command("c0", kernel.CancelType, `"absent"`)
		conn.In <- kerneltest.Command("c1", kernel.CancelType, `"w4"`) // in the queue
		conn.In <- kerneltest.Command("c2", kernel.CancelType, `"w2"`) // the first that waits
		expect(t, conn, "c0 false", "w4 499", "c1 true", "c2 true", "w2 499")
		conn.In <- kerneltest.Command("c3", kernel.CancelType, `"e"`)
		conn.In <- kerneltest.Command("c4", kernel.CancelType, `"w0"`) // runs; w3 has its place
		synctest.Wait()
		if got := conn.SoFar(t)[5:]; !slices.Equal(got, []string{"e 499", "c3 true", "c4 true", "w0 499"}) && !slices.Equal(got, []string{"e 499", "c3 true", "w0 499", "c4 true"}) {
			t.Errorf("got %q", got)
		}
		if stats := k.Stats(); stats.InFlight != 2 || stats.Held != 0 || stats.Queued != 0 || k.Connections().ReadAhead.Load() != 0 {
			t.Errorf("got %+v", stats)
		}
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t)[9:]; len(got) != 2 {
			t.Errorf("got %q", got)
		}
	})
}

// Messages that waited are done in the order in which they came, among themselves and with
// those that come when no message waits.
func TestWhatWaitsKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var order []string
		note := kerneltest.Raw("Test.Note", func(_ context.Context, m message.Message, emit kernel.Emit) {
			order = append(order, string(m.Data))
			emit(m.Reply(m.Data))
		})
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, waiting("Test.Wait", release), note)
		conn := kerneltest.Connect(k)
		var want []string
		id := 0
		send := func(n int) {
			for range n {
				id++
				conn.In <- kerneltest.Query(message.ID(fmt.Sprint("n", id)), "Test.Note", strconv.Itoa(id))
				want = append(want, strconv.Itoa(id))
			}
		}
		send(3)
		for i := range 5 {
			conn.In <- kerneltest.Query(message.ID(fmt.Sprint("w", i)), "Test.Wait", `1`)
			send(3)
		}
		synctest.Wait()
		if !slices.Equal(order, want[:6]) {
			t.Errorf("done are %v", order)
		}
		for range 5 {
			release <- struct{}{}
			synctest.Wait()
			send(2)
		}
		synctest.Wait()
		if !slices.Equal(order, want) {
			t.Errorf("done are %v, want %v", order, want)
		}
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

// No more messages are read ahead than the limits allow, and none is lost.
func TestWhatWaitsIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		messages, size, most int
	}{
		"messages": {1500, 10, maxQueued},
		"bytes":    {800, 4000, maxQueuedBytes / 4000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				k := kerneltest.New(t, &kernel.Options{InFlight: 2}, waiting("Test.Wait", release), kerneltest.Echo("Test.Echo"))
				conn := kerneltest.NewWire(c.messages+10, c.size)
				conn.Serve(k)
				data := `"` + strings.Repeat("x", c.size-2) + `"`
				for i := range c.messages {
					conn.In <- kerneltest.Query(message.ID(fmt.Sprint(i)), "Test.Wait", data)
				}
				conn.In <- kerneltest.Query("last", "Test.Echo", `1`)
				synctest.Wait()
				// Two run, one waits for a place, and one for room.
				if stats := k.Stats(); stats.Queued != c.most+1 || len(conn.In) != c.messages+1-c.most-4 || k.Connections().ReadAhead.Load() != int64(c.most*c.size) {
					t.Errorf("got %+v, and %d are not read", stats, len(conn.In))
				}
				close(release)
				if err := conn.End(); err != nil {
					t.Error(err)
				}
				got := conn.SoFar(t)
				slices.Sort(got)
				if len(slices.Compact(got)) != c.messages+1 || k.Connections().ReadAhead.Load() != 0 {
					t.Errorf("%d answers, %d bytes left", len(got), k.Connections().ReadAhead.Load())
				}
			})
		})
	}
}

// A connection that waits for room has one message, whatever others have.
func TestWhatAllWaitForIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, waiting("Test.Wait", release))
		k.Connections().ReadAhead.Add(maxQueuedAll + 1) // others
		conn := kerneltest.Connect(k)
		for i := range 10 {
			conn.In <- kerneltest.Query(message.ID(fmt.Sprint(i)), "Test.Wait", `1`)
		}
		synctest.Wait()
		if stats := k.Stats(); stats.Queued != 2 || len(conn.In) != 6 {
			t.Errorf("got %+v, and %d are not read", stats, len(conn.In))
		}
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); len(got) != 10 {
			t.Errorf("got %q", got)
		}
	})
}

// A leaving connection is one that can tell that its peer has gone, whether it is read or not.
type leaving struct {
	*kerneltest.Wire
	gone chan struct{}
	asks atomic.Int64 // how many goroutines ask at the moment
}

func newLeaving(k *kernel.Kernel, messages int) *leaving {
	l := &leaving{Wire: kerneltest.NewWire(messages, 16), gone: make(chan struct{})}
	l.Away = l.left
	l.Serve(k)
	return l
}

func (l *leaving) left(finished <-chan struct{}) bool {
	l.asks.Add(1)
	defer l.asks.Add(-1)
	select {
	case <-l.gone:
		return true
	case <-finished:
		return false
	}
}

// The work of a peer that has left is cancelled if it is a query and completed if it is a
// command, however much of it there is.
func TestAPeerThatLeavesMoreThanItMayHave(t *testing.T) {
	for _, n := range []int{1, 3, 2 * maxQueued} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, release := make(chan struct{}), make(chan struct{})
				k := kerneltest.New(t, &kernel.Options{InFlight: 2}, kerneltest.Within(time.Hour, waiting("Test.Wait", release)), kerneltest.Within(time.Hour, working("Test.Work", work)))
				l := newLeaving(k, 2*n+10)
				for i := range n {
					l.In <- kerneltest.Query(message.ID(fmt.Sprint("q", i)), "Test.Wait", `1`)
					l.In <- kerneltest.Command(message.ID(fmt.Sprint("c", i)), "Test.Work", `1`)
				}
				synctest.Wait()
				if n <= 3 {
					close(l.In) // it is at the end of what was read
				} else if len(l.In) == 0 || l.asks.Load() != 1 {
					t.Errorf("%d messages are not read, and %d ask whether the peer is there", len(l.In), l.asks.Load())
				}
				synctest.Wait()
				if got := l.SoFar(t); len(got) != 0 {
					t.Errorf("got %q", got)
				}
				close(l.gone)
				synctest.Wait()
				if n > 3 {
					close(l.In)
				}
				close(work)
				if err := l.Wait(); err != nil {
					t.Error(err)
				}
				got := l.SoFar(t)
				slices.Sort(got)
				var want []string
				for i := range n {
					want = append(want, fmt.Sprintf("q%d 499", i), fmt.Sprintf("c%d 1", i))
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("got %d answers, %.200q", len(got), got)
				}
			})
		})
	}
}

// A connection that has half-closed is still there: everything that it has sent is answered.
func TestTheEndOfTheInputIsNotTheEndOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, waiting("Test.Wait", release), kerneltest.Echo("Test.Echo"))
		l := newLeaving(k, 100)
		for i := range 10 {
			l.In <- kerneltest.Query(message.ID(fmt.Sprint("w", i)), "Test.Wait", `1`)
			l.In <- kerneltest.Query(message.ID(fmt.Sprint("e", i)), "Test.Echo", `1`)
		}
		close(l.In)
		synctest.Wait()
		if l.Ended() {
			t.Error("it has ended")
		}
		close(release)
		if err := l.Wait(); err != nil {
			t.Error(err)
		}
		if got := l.SoFar(t); len(got) != 20 {
			t.Errorf("got %q", got)
		}
	})
}

// When the kernel's time is over, what waits is told so.
func TestWhatWaitsIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cut := context.WithCancel(context.Background())
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, working("Test.Work", nil))
		conn := kerneltest.ConnectWith(ctx, k)
		for i := range 3 {
			conn.In <- kerneltest.Command(message.ID(fmt.Sprint("c", i)), "Test.Work", `1`)
		}
		synctest.Wait()
		cut()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		got := conn.SoFar(t)
		slices.Sort(got)
		if !slices.Equal(got, []string{"c0 499", "c1 503", "c2 503"}) {
			t.Errorf("got %q", got)
		}
	})
}

// If nothing ends for a long time, what waits is refused, one message after the other.
func TestWhatWaitsTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, kerneltest.Within(time.Hour, waiting("Test.Long", release)), kerneltest.Within(time.Minute, kerneltest.Slow(kerneltest.Echo("Test.Short"))), kerneltest.Echo("Test.Echo"))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("long", "Test.Long", `1`)
		conn.In <- kerneltest.Query("short", "Test.Short", `1`)
		conn.In <- kerneltest.Query("echo", "Test.Echo", `1`)
		time.Sleep(119 * time.Second)
		expect(t, conn)
		time.Sleep(2 * time.Second)
		expect(t, conn, "short 429", "echo 1")
		if _, text := kerneltest.ReadError(t, conn.Messages()[0]); !strings.HasPrefix(text, "1 slow requests of this connection are in flight, and none has ended for 2m0s") {
			t.Error(text)
		}
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

// A handler that overstays or ends its goroutine is left behind while something waits, too,
// and what it was given stays as it is.
func TestHandlersThatOverstayWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, stuck := make(chan struct{}), make(chan struct{})
		var given string
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, kerneltest.Within(time.Hour, waiting("Test.Wait", release)), kerneltest.Echo("Test.Echo"),
			kerneltest.Within(time.Second, kerneltest.Raw("Test.Stuck", func(_ context.Context, m message.Message, emit kernel.Emit) {
				<-stuck
				given = string(m.Data)
			})),
			kerneltest.Raw("Test.End", func(context.Context, message.Message, kernel.Emit) { runtime.Goexit() }))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("w1", "Test.Wait", `1`)
		conn.In <- kerneltest.Query("w2", "Test.Wait", `1`)
		conn.In <- kerneltest.Query("stuck", "Test.Stuck", `"mine"`)
		conn.In <- kerneltest.Query("end", "Test.End", `1`)
		conn.In <- kerneltest.Query("e", "Test.Echo", `"echo"`)
		synctest.Wait()
		release <- struct{}{}
		time.Sleep(2 * time.Second)
		expect(t, conn, "w1 1", "stuck 504", "end 500", `e "echo"`)
		conn.In <- kerneltest.Query("later", "Test.Echo", `"again"`)
		expect(t, conn, "w1 1", "stuck 504", "end 500", `e "echo"`, `later "again"`)
		if conn.Detached() != 0 {
			t.Error("memory was left to a message that has its own")
		}
		close(stuck)
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if given != `"mine"` {
			t.Errorf("it was given %s", given)
		}
	})
}

// A connection that others wait for is read, however much it has sent itself.
func TestAPeerThatServesIsReadWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var peer *connection.Peer
		offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			peer, _ = connection.PeerOf(ctx)
			emit(m.Reply(nil))
		})
		k := kerneltest.New(t, &kernel.Options{InFlight: 1}, offer, waiting("Test.Wait", release), kerneltest.Echo("Test.Echo"),
			kerneltest.Within(time.Minute, asking("Test.Ask", func() *connection.Peer { return peer })))
		server, caller := kerneltest.NewWire(2*maxQueued, 16), kerneltest.Connect(k)
		server.Serve(k)
		server.In <- kerneltest.Query("offer", "Test.Offer", `1`)
		synctest.Wait()
		caller.In <- kerneltest.Query("q", "Test.Ask", `1`)
		synctest.Wait()
		request := server.Messages()[1]
		for i := range maxQueued + 4 {
			server.In <- kerneltest.Query(message.ID(fmt.Sprint(i)), "Test.Wait", `1`)
		}
		server.In <- message.Message{Kind: message.KindEvent, Type: "Test.Happened", Data: []byte("1"), Metadata: message.Metadata{ID: "e", Timestamp: 1}}
		server.In <- message.Message{Kind: message.KindReply, Type: "Test.Ask", Data: []byte(`"done"`), Metadata: message.Metadata{ID: "r", Timestamp: 1, Causation: request.Metadata.ID}}
		expect(t, caller, `q "done"`)
		refused := server.SoFar(t)[2:]
		if want := []string{fmt.Sprint(maxQueued+2, " 429"), fmt.Sprint(maxQueued+3, " 429")}; !slices.Equal(refused, want) {
			t.Errorf("got %q, want %q", refused, want)
		}
		close(release)
		for _, c := range []*kerneltest.Wire{caller, server} {
			if err := c.End(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Whatever comes, in whatever order: everything that asks is answered once.
// Invariants: S3.
func TestEverythingThatWaitsIsAnsweredOnce(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		k := kerneltest.New(t, &kernel.Options{InFlight: 1 + r.IntN(3)}, cancelling(), kerneltest.Echo("Test.Echo"), kerneltest.Slow(kerneltest.Echo("Test.Slow")),
			kerneltest.Slow(kerneltest.Raw("Test.Yield", func(_ context.Context, m message.Message, emit kernel.Emit) {
				runtime.Gosched()
				emit(m.Reply(m.Data))
			})))
		conn := kerneltest.NewWire(100, 64)
		conn.Serve(k)
		n := 200 + r.IntN(2000)
		for i := range n {
			id := message.ID(fmt.Sprint(i))
			switch r.IntN(8) {
			case 0:
				conn.In <- kerneltest.Command(id, kernel.CancelType, strconv.Quote(fmt.Sprint(r.IntN(i+1))))
			case 1, 2, 3:
				conn.In <- kerneltest.Query(id, "Test.Echo", strconv.Itoa(i))
			case 4, 5:
				conn.In <- kerneltest.Query(id, "Test.Slow", strconv.Itoa(i))
			default:
				conn.In <- kerneltest.Query(id, "Test.Yield", strconv.Itoa(i))
			}
		}
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		seen := make(map[message.ID]bool)
		for _, a := range conn.Messages() {
			if !a.Kind.Answers() || seen[a.Metadata.Causation] {
				t.Errorf("seed %d: %s a second time", seed, kerneltest.Texts([]message.Message{a}))
			}
			seen[a.Metadata.Causation] = true
			if a.Kind == message.KindReply && a.Type != kernel.CancelType && string(a.Data) != string(a.Metadata.Causation) {
				t.Errorf("seed %d: %s", seed, kerneltest.Texts([]message.Message{a}))
			}
		}
		if len(seen) != n || k.Connections().ReadAhead.Load() != 0 || k.InFlight() != 0 {
			t.Errorf("seed %d: %d answers to %d messages; %d bytes wait, %d calls run", seed, len(seen), n, k.Connections().ReadAhead.Load(), k.InFlight())
		}
	}
}
