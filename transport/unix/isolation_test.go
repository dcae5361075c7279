package unix

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// works does some work on a connection of its own and fails if anything is amiss.
func works(t *testing.T, d *daemon, name string) {
	t.Helper()
	p := d.dial()
	defer func() { _ = p.Close() }()
	for i := range 200 {
		id := fmt.Sprintf("%s-%d", name, i)
		p.say(ping(id))
		p.want(pong(id))
	}
}

// A peer that asks and never reads fills the buffers of its own connection and stops. What
// the server holds for it is bounded: it stops taking its messages.
func TestOneThatNeverReadsStopsAloneAndIsBounded(t *testing.T) {
	var handled atomic.Int64
	k := kerneltest.Around(t, nil, introspect.Module, kernel.Syscall{
		Definition: func() kernel.Definition {
			d := slow("Test.Large", message.KindQuery, nil).Definition
			d.Runs = kernel.Inline
			return d
		}(),
		Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
			handled.Add(1)
			emit(m.Reply([]byte(`"` + strings.Repeat("x", 10_000) + `"`)))
		},
	})
	d := start(t, k, nil)
	deaf := d.dial()
	sent := make(chan int, 1)
	go func() {
		n := 0
		for ; n < 100_000; n++ { // a gigabyte of answers
			if _, err := deaf.Write([]byte(ask(fmt.Sprint(n), message.KindQuery, "Test.Large", `1`))); err != nil {
				break
			}
		}
		sent <- n
	}()
	testkit.Until(t, "nothing more of it is taken while others work", func() bool {
		before := handled.Load()
		works(t, d, "during")
		return before > 0 && handled.Load() == before
	})
	// The writer's buffer, the socket's (a few hundred kilobytes), and nothing else.
	if bytes := handled.Load() * 10_000; bytes > 8<<20 {
		t.Errorf("%d bytes of answers wait for a peer that doesn't read", bytes)
	}
	// And when it goes, everything goes.
	_ = deaf.Close()
	if n := arrives(t, "it can't send any more", sent); n == 100_000 {
		t.Error("the server takes everything")
	}
	testkit.Until(t, "the connection is gone", func() bool { return d.s.Stats().Connections == 0 })
}

// One that floods takes turns with the others. How many of its messages are handled while
// another one waits for a single answer is a measure of that which does not depend on the
// speed of the machine: if a connection were served until it has nothing more to say, it
// would have no bound. What it means in time is for the benchmarks to say.
func TestOneThatFloodsDoesNotKeepOthersFromWorking(t *testing.T) {
	const rounds, most = 500, 20_000 // what a few buffers hold, for several turns of the scheduler
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil)
	flood := d.dial()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := []byte(strings.Repeat(ping("flood")+"garbage\n", 200))
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := flood.Write(lines); err != nil {
					return
				}
			}
		}
	}()
	var answered atomic.Int64 // of the flood
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		buf := make([]byte, 64<<10)
		for {
			n, err := flood.Read(buf)
			if err != nil {
				return
			}
			answered.Add(int64(bytes.Count(buf[:n], []byte("\n"))))
		}
	}()
	testkit.Until(t, "the flood has begun", func() bool { return answered.Load() > 1000 })
	other := d.dial()
	before := answered.Load()
	for i := range rounds {
		other.say(ping(fmt.Sprint(i)))
		other.want(pong(fmt.Sprint(i)))
	}
	each := (answered.Load() - before) / rounds
	select {
	case <-ended:
		t.Error("the test shows nothing: the flood has ended")
	default:
	}
	t.Logf("while one message was answered, %d of the flood were", each)
	if each > most {
		t.Errorf("while one message was answered, %d of the flood were", each)
	}
	close(stop)
	<-ended
	_ = flood.Close()
	<-heard
}

func TestOneThatDisconnectsInTheMiddleLeavesNothingBehind(t *testing.T) {
	begun, ended, syscalls := waiting(nil)
	d := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), nil)
	for i := range 20 {
		p := d.dial()
		p.say(ask(fmt.Sprint(i), message.KindQuery, "Test.Look", `1`) + `{"kind":"que`)
		arrives(t, "it runs", begun)
		_ = p.Close()
		if got := arrives(t, "it ends", ended); got != fmt.Sprintf("%d cancelled", i) {
			t.Errorf("got %s", got)
		}
	}
	works(t, d, "other")
	testkit.Until(t, "all are gone", func() bool { return d.s.Stats().Connections == 0 })
}

// perConnection is what one of many connections costs this process, in bytes: the heap and
// the stacks of the server's side.
func perConnection(t *testing.T, n int, use func(p *peer)) float64 {
	t.Helper()
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil)
	measure := func() uint64 {
		runtime.GC()
		runtime.GC() // what pools hold is let go by the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	peers := make([]*Conn, 0, n)
	before := measure()
	for range n {
		c, err := new(Dialer).Dial(t.Context(), d.path)
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, c)
		if use != nil {
			use(&peer{t: t, Conn: c, lines: nil})
		}
	}
	testkit.Until(t, "all are served", func() bool { return d.s.Stats().Connections == n })
	// What was done for them last takes a moment to end.
	last, still := 0, 0
	testkit.Until(t, "nothing moves", func() bool {
		if now := runtime.NumGoroutine(); now != last {
			last, still = now, 0
		}
		still++
		return still > 20
	})
	after := measure()
	for _, c := range peers {
		_ = c.Close()
	}
	testkit.Until(t, "all are gone", func() bool { return d.s.Stats().Connections == 0 })
	return (float64(after) - float64(before)) / float64(n)
}

// The figures include the client's side of every connection, which lies in this process.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const n = 400
	most := 24_000.0 // about 20,000, and less than a stack that has grown once more
	if testkit.Race {
		most *= 3 // the detector makes frames larger, and a stack grows by doubling
	}
	costs := func(what string, use func(p *peer)) {
		t.Helper()
		got := perConnection(t, n, use)
		t.Logf("%s costs %.0f bytes", what, got)
		if got > most {
			t.Errorf("%s costs more than %.0f bytes", what, most)
		}
	}
	costs("a connection that was never used", nil)
	once := func(p *peer) {
		p.say(ping("1"))
		buf := make([]byte, 4096)
		if n, err := p.Read(buf); err != nil || n == 0 {
			t.Fatal(err)
		}
	}
	costs("a connection that was used once", once)
	busy := func(p *peer) {
		lines := strings.Repeat(ping("1"), 1500)
		go p.say(lines)
		buf := make([]byte, 64<<10)
		for left := 1500; left > 0; {
			n, err := p.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			left -= strings.Count(string(buf[:n]), "\n")
		}
	}
	costs("a connection that was busy once", busy)
}
