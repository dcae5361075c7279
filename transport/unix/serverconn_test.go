package unix

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// large returns syscalls that answer with much, one of them slowly.
func large() []kernel.Syscall {
	much := func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply([]byte(`"` + strings.Repeat("x", 10_000) + `"`)))
	}
	atOnce := slow("Test.Large", message.KindQuery, much)
	atOnce.Runs = kernel.Inline
	return []kernel.Syscall{atOnce, slow("Test.LargeLater", message.KindQuery, much)}
}

// A peer that takes nothing is closed after a while, whether it is sending or waits, and its
// neighbours do not notice.
func TestThoseThatNeverReadAreClosed(t *testing.T) {
	log := new(testkit.Notes)
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module, large()...), &Options{Stall: time.Minute, Log: log.Logger()}, c.use)
	var deaf []*peer
	for i := range 4 {
		p := d.dial()
		deaf = append(deaf, p)
		name := message.Type("Test.Large")
		if i%2 == 1 {
			name = "Test.LargeLater"
		}
		go func() { // until the connection is closed
			for n := range 1000 {
				if _, err := io.WriteString(p, ask(fmt.Sprint(n), message.KindQuery, name, `1`)); err != nil {
					return
				}
			}
		}()
	}
	works(t, d, "during")
	c.until(t, "all of them are closed", time.Minute, func() bool { return d.s.Stats().Closed[closedStalled] == 4 && d.s.Stats().Connections == 0 })
	if !log.Has("a connection was closed: it did not take what was sent to it") {
		t.Error("the operator is not told")
	}
	works(t, d, "after")
	for _, p := range deaf { // what it was sent before it still gets, and no more
		_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
		if n, err := io.Copy(io.Discard, p); n == 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// The work of one that takes nothing is cancelled, as if it had left.
func TestTheQueriesOfOneThatNeverReadsAreCancelled(t *testing.T) {
	begun, ended, syscalls := waiting(nil)
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module, append(syscalls, large()...)...), &Options{Stall: time.Minute}, c.use)
	p := d.dial()
	p.say(ask("q", message.KindQuery, "Test.Look", `1`))
	arrives(t, "it runs", begun)
	go func() {
		for n := range 1000 {
			if _, err := io.WriteString(p, ask(fmt.Sprint(n), message.KindQuery, "Test.LargeLater", `1`)); err != nil {
				return
			}
		}
	}()
	c.until(t, "it is gone", time.Minute, func() bool { return d.s.Stats().Connections == 0 })
	if got := arrives(t, "it ends", ended); got != "q cancelled" {
		t.Errorf("got %s", got)
	}
}

// One that takes a little now and then gets everything, however long that takes.
func TestOneThatReadsSlowlyGetsEverything(t *testing.T) {
	// A socket that is full takes more when three quarters of it have been read. The time of a stall
	// passes while the peer reads a megabyte, which is several sockets full.
	const messages, stall = 400, time.Minute
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module, large()...), &Options{Stall: stall}, c.use)
	p := d.dial()
	go func() {
		for n := range messages {
			p.say(ask(fmt.Sprint(n), message.KindQuery, "Test.Large", `1`))
		}
	}()
	answers, buf := 0, make([]byte, 16<<10)
	for answers < messages {
		_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
		n, err := p.Read(buf)
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		answers += strings.Count(string(buf[:n]), "\n")
		c.advance(stall * time.Duration(n) >> 20)
	}
	if s := d.s.Stats(); s.Closed[closedStalled] != 0 {
		t.Errorf("got %+v", s)
	}
}

// A peer that has gone is noticed however much it had sent: its queries end.
func TestOneThatLeavesMoreThanItMayHave(t *testing.T) {
	for _, n := range []int{3, 100, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			begun, ended, syscalls := waiting(nil)
			d := start(t, kerneltest.Around(t, &kernel.Options{InFlight: 2}, introspect.Module, syscalls...), nil)
			p := d.dial()
			go func() { // not all of it is read, nor fits between
				for i := range n {
					if _, err := io.WriteString(p, ask(fmt.Sprint(i), message.KindQuery, "Test.Look", `1`)); err != nil {
						return
					}
				}
			}()
			arrives(t, "one runs", begun)
			arrives(t, "another one runs", begun)
			testkit.Until(t, "others wait", func() bool { return d.s.k.Stats().Queued >= min(n-2, 1000) })
			_ = p.Close()
			for range 2 {
				if got := arrives(t, "it ends", ended); !strings.HasSuffix(got, " cancelled") {
					t.Errorf("got %s", got)
				}
			}
			testkit.Until(t, "it is gone", func() bool { return d.s.Stats().Connections == 0 })
			if s := d.s.k.Stats(); s.InFlight != 0 || s.Queued != 0 || s.Held != 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// One that has sent more than it may have under way, and ends its input, gets it all.
func TestOneThatHalfClosesGetsWhatWaits(t *testing.T) {
	const messages = 3000
	k := kerneltest.Around(t, &kernel.Options{InFlight: 2}, introspect.Module, slow("Test.Echo", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(m.Data)) }))
	d := start(t, k, nil)
	p := d.dial()
	go func() {
		for i := range messages {
			p.say(ask(fmt.Sprint(i), message.KindQuery, "Test.Echo", `1`))
		}
		_ = p.CloseWrite()
	}()
	seen := make(map[string]bool)
	for {
		got := p.hear()
		if got == "EOF" {
			break
		}
		seen[got] = true
	}
	if len(seen) != messages {
		t.Errorf("%d answers", len(seen))
	}
}
