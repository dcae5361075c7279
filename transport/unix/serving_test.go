package unix

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
)

// offering returns syscalls by which a connection offers to be asked, under a name, and is,
// and withdraws.
func offering(names ...string) (all []kernel.Syscall) {
	for _, name := range names {
		var peer atomic.Pointer[connection.Peer]
		t := message.Type("Test.Ask" + name)
		var withdraw func()
		offer := slow(message.Type("Test.Offer"+name), message.KindQuery, func(ctx context.Context, m message.Message, emit kernel.Emit) {
			p, _ := connection.PeerOf(ctx)
			withdraw = p.Offer(t, func() bool { return false })
			peer.Store(p)
			emit(m.Reply(nil))
		})
		end := slow(message.Type("Test.Withdraw"+name), message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
			withdraw()
			emit(m.Reply(nil))
		})
		offer.Runs, end.Runs = kernel.Inline, kernel.Inline
		all = append(all, offer, end, slow(t, message.KindQuery, func(ctx context.Context, m message.Message, emit kernel.Emit) {
			outcome, err := peer.Load().Ask(ctx, t, m.Data, func(message.Message) {})
			if err != nil || outcome.Kind != message.KindReply {
				emit(m.Fail(message.Errorf(502, "%v", err)))
				return
			}
			emit(m.Reply(outcome.Data))
		}))
	}
	return all
}

// asked waits for a request and returns the line that answers it.
func (p *peer) asked(data string) string {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(testkit.Patience))
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := message.Decode([]byte(strings.TrimSuffix(line, "\n")))
	if err != nil || !m.Kind.Asks() {
		p.t.Fatalf("%s: %v", line, err)
	}
	return fmt.Sprintf(`{"kind":"reply","type":%q,"data":%s,"metadata":{"id":"a","timestamp":1735000000000,"causation":%q}}`+"\n", m.Type, data, m.Metadata.ID)
}

// Two programs that serve, of which one waits for the other: both are read until it is
// answered.
func TestServeDrainsWhatServersAskOneAnother(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module, offering("A", "B")...), nil)
	a, b := d.dial(), d.dial()
	a.say(ask("o", message.KindQuery, "Test.OfferA", `1`))
	b.say(ask("o", message.KindQuery, "Test.OfferB", `1`))
	a.want("o null")
	b.want("o null")
	b.say(ask("first", message.KindQuery, "Test.AskA", `1`))
	a.say(a.asked(`"first"`))
	b.want(`first "first"`)
	a.say(ask("q", message.KindQuery, "Test.AskB", `1`))
	answer := b.asked(`"late"`)
	d.stop()
	d.stopping()
	b.say(answer)
	a.want(`q "late"`)
	if err := d.ended(); err != nil {
		t.Error(err)
	}
}

// A connection that serves is silent until it is asked, and while it works.
func TestServeLetsServersBeSilent(t *testing.T) {
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module, offering("A")...), &Options{Idle: time.Minute}, c.use)
	a := d.dial()
	a.say(ask("o", message.KindQuery, "Test.OfferA", `1`))
	a.want("o null")
	c.silence(t, time.Minute)
	caller := d.dial()
	caller.say(ask("q", message.KindQuery, "Test.AskA", `1`))
	answer := a.asked(`"late"`)
	c.silence(t, time.Minute)
	a.say(answer)
	caller.want(`q "late"`)
}

// One that serves no more is like any other: it may be silent while it has something to
// answer, and then only for so long.
func TestServeDoesNotLetThoseBeSilentThatHaveServed(t *testing.T) {
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module, offering("A")...), &Options{Idle: time.Minute}, c.use)
	a, caller := d.dial(), d.dial()
	a.say(ask("o", message.KindQuery, "Test.OfferA", `1`))
	a.want("o null")
	caller.say(ask("q", message.KindQuery, "Test.AskA", `1`))
	answer := a.asked(`"late"`)
	a.say(ask("w", message.KindQuery, "Test.WithdrawA", `1`))
	a.want("w null")
	c.silence(t, time.Minute)
	a.say(answer)
	caller.want(`q "late"`)
	c.until(t, "both are closed", time.Minute, func() bool { return d.s.Stats().Closed[transport.Idle] == 2 })
	a.want("disconnected 408", "EOF")
	caller.want("disconnected 408", "EOF")
}
