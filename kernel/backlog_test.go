package kernel

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

	"kernos/message"
)

// waiting is a slow query that waits until release is closed, or is cancelled.
func waiting(t message.Type, release <-chan struct{}) Syscall {
	return slow(raw(t, func(ctx context.Context, m message.Message, emit Emit) {
		select {
		case <-release:
			emit(m.Reply(m.Data))
		case <-ctx.Done():
			Fail(ctx, m, emit, ctx.Err())
		}
	}))
}

// working is waiting as a command.
func working(t message.Type, release <-chan struct{}) Syscall {
	s := waiting(t, release)
	s.Kind = message.KindCommand
	return s
}

// cancelling is Syscall.Cancel: its data is the id.
func cancelling() Syscall {
	s := raw(CancelType, func(ctx context.Context, m message.Message, emit Emit) {
		peer, _ := PeerOf(ctx)
		id, err := strconv.Unquote(string(m.Data))
		emit(m.Reply(fmt.Appendf(nil, "%v", err == nil && peer.Cancel(message.ID(id)))))
	})
	s.Kind = message.KindCommand
	return s
}

func expect(t *testing.T, c *connection, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := c.soFar(t); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What calls a request off goes ahead of the requests that wait for it to end, and calls off
// those as well.
func TestCancelGoesAheadOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, &Options{InFlight: 2}, waiting("Test.Wait", release), echo("Test.Echo"), cancelling())
		conn := connect(k)
		for i := range 5 {
			conn.in <- query(message.ID(fmt.Sprint("w", i)), "Test.Wait", `1`)
		}
		conn.in <- query("e", "Test.Echo", `1`)
		conn.in <- command("c0", CancelType, `"nobody"`)
		conn.in <- command("c1", CancelType, `"w4"`) // in the queue
		conn.in <- command("c2", CancelType, `"w2"`) // the first that waits
		expect(t, conn, "c0 false", "w4 499", "c1 true", "c2 true", "w2 499")
		conn.in <- command("c3", CancelType, `"e"`)
		conn.in <- command("c4", CancelType, `"w0"`) // runs; w3 has its place
		synctest.Wait()
		if got := conn.soFar(t)[5:]; !slices.Equal(got, []string{"e 499", "c3 true", "c4 true", "w0 499"}) && !slices.Equal(got, []string{"e 499", "c3 true", "w0 499", "c4 true"}) {
			t.Errorf("got %q", got)
		}
		if stats := k.Stats(); stats.InFlight != 2 || stats.Held != 0 || stats.Queued != 0 || k.queued.Load() != 0 {
			t.Errorf("got %+v", stats)
		}
		close(release)
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t)[9:]; len(got) != 2 {
			t.Errorf("got %q", got)
		}
	})
}

// Messages that waited are done in the order in which they came, among themselves and with
// those that come when nothing waits any more.
func TestWhatWaitsKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var order []string
		note := raw("Test.Note", func(_ context.Context, m message.Message, emit Emit) {
			order = append(order, string(m.Data))
			emit(m.Reply(m.Data))
		})
		k := newKernel(t, &Options{InFlight: 1}, waiting("Test.Wait", release), note)
		conn := connect(k)
		var want []string
		id := 0
		send := func(n int) {
			for range n {
				id++
				conn.in <- query(message.ID(fmt.Sprint("n", id)), "Test.Note", strconv.Itoa(id))
				want = append(want, strconv.Itoa(id))
			}
		}
		send(3)
		for i := range 5 {
			conn.in <- query(message.ID(fmt.Sprint("w", i)), "Test.Wait", `1`)
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
		if err := conn.end(); err != nil {
			t.Error(err)
		}
	})
}

// More than so many messages are not read, and none is lost.
func TestWhatWaitsIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		messages, size, most int
	}{
		"messages": {1500, 10, maxBacklog},
		"bytes":    {800, 4000, maxBacklogBytes / 4000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				k := newKernel(t, &Options{InFlight: 2}, waiting("Test.Wait", release), echo("Test.Echo"))
				conn := newConnection(c.messages+10, c.size)
				conn.serve(k)
				data := `"` + strings.Repeat("x", c.size-2) + `"`
				for i := range c.messages {
					conn.in <- query(message.ID(fmt.Sprint(i)), "Test.Wait", data)
				}
				conn.in <- query("last", "Test.Echo", `1`)
				synctest.Wait()
				// Two run, one waits for a place, and one for room.
				if stats := k.Stats(); stats.Queued != c.most+1 || len(conn.in) != c.messages+1-c.most-4 || k.queued.Load() != int64(c.most*c.size) {
					t.Errorf("got %+v, and %d are not read", stats, len(conn.in))
				}
				close(release)
				if err := conn.end(); err != nil {
					t.Error(err)
				}
				got := conn.soFar(t)
				slices.Sort(got)
				if len(slices.Compact(got)) != c.messages+1 || k.queued.Load() != 0 {
					t.Errorf("%d answers, %d bytes left", len(got), k.queued.Load())
				}
			})
		})
	}
}

// A connection that waits for room has one message, whatever others have.
func TestWhatAllWaitForIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, &Options{InFlight: 1}, waiting("Test.Wait", release))
		k.queued.Add(maxBacklogAll + 1) // others
		conn := connect(k)
		for i := range 10 {
			conn.in <- query(message.ID(fmt.Sprint(i)), "Test.Wait", `1`)
		}
		synctest.Wait()
		if stats := k.Stats(); stats.Queued != 2 || len(conn.in) != 6 {
			t.Errorf("got %+v, and %d are not read", stats, len(conn.in))
		}
		close(release)
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); len(got) != 10 {
			t.Errorf("got %q", got)
		}
	})
}

// A leaving connection is one that can tell that its peer has gone, whether it is read or not.
type leaving struct {
	*connection
	gone chan struct{}
	asks atomic.Int64 // how often somebody asks at the moment
}

func (l *leaving) Left(finished <-chan struct{}) bool {
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
	for _, n := range []int{1, 3, 2 * maxBacklog} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, release := make(chan struct{}), make(chan struct{})
				k := newKernel(t, &Options{InFlight: 2}, within(time.Hour, waiting("Test.Wait", release)), within(time.Hour, working("Test.Work", work)))
				l := &leaving{connection: newConnection(2*n+10, 16), gone: make(chan struct{})}
				go func() { l.ended <- k.Serve(context.Background(), l) }()
				for i := range n {
					l.in <- query(message.ID(fmt.Sprint("q", i)), "Test.Wait", `1`)
					l.in <- command(message.ID(fmt.Sprint("c", i)), "Test.Work", `1`)
				}
				synctest.Wait()
				if n <= 3 {
					close(l.in) // it is at the end of what was read
				} else if len(l.in) == 0 || l.asks.Load() != 1 {
					t.Errorf("%d messages are not read, and %d ask whether anybody is there", len(l.in), l.asks.Load())
				}
				synctest.Wait()
				if got := l.soFar(t); len(got) != 0 {
					t.Errorf("got %q", got)
				}
				close(l.gone)
				synctest.Wait()
				if n > 3 {
					close(l.in)
				}
				close(work)
				if err := <-l.ended; err != nil {
					t.Error(err)
				}
				got := l.soFar(t)
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
		k := newKernel(t, &Options{InFlight: 1}, waiting("Test.Wait", release), echo("Test.Echo"))
		l := &leaving{connection: newConnection(100, 16), gone: make(chan struct{})}
		go func() { l.ended <- k.Serve(context.Background(), l) }()
		for i := range 10 {
			l.in <- query(message.ID(fmt.Sprint("w", i)), "Test.Wait", `1`)
			l.in <- query(message.ID(fmt.Sprint("e", i)), "Test.Echo", `1`)
		}
		close(l.in)
		synctest.Wait()
		select {
		case <-l.ended:
			t.Error("it has ended")
		default:
		}
		close(release)
		if err := <-l.ended; err != nil {
			t.Error(err)
		}
		if got := l.soFar(t); len(got) != 20 {
			t.Errorf("got %q", got)
		}
	})
}

// When the kernel's time is over, what waits is told so.
func TestWhatWaitsIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cut := context.WithCancel(context.Background())
		k := newKernel(t, &Options{InFlight: 1}, working("Test.Work", nil))
		conn := connectWith(ctx, k)
		for i := range 3 {
			conn.in <- command(message.ID(fmt.Sprint("c", i)), "Test.Work", `1`)
		}
		synctest.Wait()
		cut()
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		got := conn.soFar(t)
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
		k := newKernel(t, &Options{InFlight: 1}, within(time.Hour, waiting("Test.Long", release)), within(time.Minute, slow(echo("Test.Short"))), echo("Test.Echo"))
		conn := connect(k)
		conn.in <- query("long", "Test.Long", `1`)
		conn.in <- query("short", "Test.Short", `1`)
		conn.in <- query("echo", "Test.Echo", `1`)
		time.Sleep(119 * time.Second)
		expect(t, conn)
		time.Sleep(2 * time.Second)
		expect(t, conn, "short 429", "echo 1")
		if _, text := read(t, conn.messages()[0]); !strings.HasPrefix(text, "1 slow requests of this connection are in flight, and none has ended for 2m0s") {
			t.Error(text)
		}
		close(release)
		if err := conn.end(); err != nil {
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
		k := newKernel(t, &Options{InFlight: 1}, within(time.Hour, waiting("Test.Wait", release)), echo("Test.Echo"),
			within(time.Second, raw("Test.Stuck", func(_ context.Context, m message.Message, emit Emit) {
				<-stuck
				given = string(m.Data)
			})),
			raw("Test.End", func(context.Context, message.Message, Emit) { runtime.Goexit() }))
		conn := connect(k)
		conn.in <- query("w1", "Test.Wait", `1`)
		conn.in <- query("w2", "Test.Wait", `1`)
		conn.in <- query("stuck", "Test.Stuck", `"mine"`)
		conn.in <- query("end", "Test.End", `1`)
		conn.in <- query("e", "Test.Echo", `"echo"`)
		synctest.Wait()
		release <- struct{}{}
		time.Sleep(2 * time.Second)
		expect(t, conn, "w1 1", "stuck 504", "end 500", `e "echo"`)
		conn.in <- query("later", "Test.Echo", `"again"`)
		expect(t, conn, "w1 1", "stuck 504", "end 500", `e "echo"`, `later "again"`)
		if conn.detached != 0 {
			t.Error("memory was left to a message that has its own")
		}
		close(stuck)
		close(release)
		if err := conn.end(); err != nil {
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
		var peer *Peer
		offer := raw("Test.Offer", func(ctx context.Context, m message.Message, emit Emit) {
			peer, _ = PeerOf(ctx)
			emit(m.Reply(nil))
		})
		k := newKernel(t, &Options{InFlight: 1}, offer, waiting("Test.Wait", release), echo("Test.Echo"),
			within(time.Minute, asking("Test.Ask", func() *Peer { return peer })))
		server, caller := newConnection(2*maxBacklog, 16), connect(k)
		server.serve(k)
		server.in <- query("offer", "Test.Offer", `1`)
		synctest.Wait()
		caller.in <- query("q", "Test.Ask", `1`)
		synctest.Wait()
		request := server.messages()[1]
		for i := range maxBacklog + 4 {
			server.in <- query(message.ID(fmt.Sprint(i)), "Test.Wait", `1`)
		}
		server.in <- message.Message{Kind: message.KindEvent, Type: "Test.Happened", Data: []byte("1"), Metadata: message.Metadata{ID: "e", Timestamp: 1}}
		server.in <- message.Message{Kind: message.KindReply, Type: "Test.Ask", Data: []byte(`"done"`), Metadata: message.Metadata{ID: "r", Timestamp: 1, Causation: request.Metadata.ID}}
		expect(t, caller, `q "done"`)
		refused := server.soFar(t)[2:]
		if want := []string{fmt.Sprint(maxBacklog+2, " 429"), fmt.Sprint(maxBacklog+3, " 429")}; !slices.Equal(refused, want) {
			t.Errorf("got %q, want %q", refused, want)
		}
		close(release)
		for _, c := range []*connection{caller, server} {
			if err := c.end(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Whatever comes, in whatever order: everything that asks is answered once.
func TestEverythingThatWaitsIsAnsweredOnce(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		k := newKernel(t, &Options{InFlight: 1 + r.IntN(3)}, cancelling(), echo("Test.Echo"), slow(echo("Test.Slow")),
			slow(raw("Test.Yield", func(_ context.Context, m message.Message, emit Emit) {
				runtime.Gosched()
				emit(m.Reply(m.Data))
			})))
		conn := newConnection(100, 64)
		conn.serve(k)
		n := 200 + r.IntN(2000)
		for i := range n {
			id := message.ID(fmt.Sprint(i))
			switch r.IntN(8) {
			case 0:
				conn.in <- command(id, CancelType, strconv.Quote(fmt.Sprint(r.IntN(i+1))))
			case 1, 2, 3:
				conn.in <- query(id, "Test.Echo", strconv.Itoa(i))
			case 4, 5:
				conn.in <- query(id, "Test.Slow", strconv.Itoa(i))
			default:
				conn.in <- query(id, "Test.Yield", strconv.Itoa(i))
			}
		}
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		seen := make(map[message.ID]bool)
		for _, a := range conn.messages() {
			if !a.Kind.Answers() || seen[a.Metadata.Causation] {
				t.Errorf("seed %d: %s a second time", seed, texts([]message.Message{a}))
			}
			seen[a.Metadata.Causation] = true
			if a.Kind == message.KindReply && a.Type != CancelType && string(a.Data) != string(a.Metadata.Causation) {
				t.Errorf("seed %d: %s", seed, texts([]message.Message{a}))
			}
		}
		if len(seen) != n || k.queued.Load() != 0 || k.InFlight() != 0 {
			t.Errorf("seed %d: %d answers to %d messages; %d bytes wait, %d calls run", seed, len(seen), n, k.queued.Load(), k.InFlight())
		}
	}
}
