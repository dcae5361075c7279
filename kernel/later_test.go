package kernel

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// prompt is a connection that can be sent something without waiting, if it is not full.
type prompt struct {
	*connection
	begun  chan struct{} // closed when Prompt is called, if it is not nil; then that waits
	resume chan struct{} // for this, and can't
	full   bool
	pushed atomic.Int64
}

func (p *prompt) Prompts(*message.Message) bool { return !p.full }

func (p *prompt) Prompt(send Emit, m message.Message) bool {
	if p.begun != nil {
		close(p.begun)
		<-p.resume
		return false
	}
	if !p.full {
		send(m)
	}
	return !p.full
}

func (p *prompt) Push() { p.pushed.Add(1) }

// serve connects it.
func (p *prompt) serve(k *Kernel) *prompt {
	p.connection = newConnection(100, 1024)
	go func() { p.ended <- k.Serve(context.Background(), p) }()
	return p
}

// teller passes on to the caller what comes to it.
type teller struct {
	m    message.Message
	emit Emit
	done *atomic.Int64 // how often Done was called, of all of them
}

func (l *teller) Event(m message.Message) { l.emit(l.m.Event(m.Type, m.Data)) }

func (l *teller) Done(outcome message.Message, err error) {
	l.done.Add(1)
	switch {
	case err != nil:
		l.emit(l.m.Fail(message.Errorf(504, "%v", err)))
	case outcome.Kind == message.KindError:
		l.emit(l.m.Fail(message.Errorf(502, "it went away")))
	default:
		l.emit(l.m.Reply(outcome.Data))
	}
}

// askingLater is a kernel with a syscall Test.Ask that asks whoever has called Test.Offer.
func askingLater(t *testing.T, opts *Options) (k *Kernel, done, handled *atomic.Int64) {
	t.Helper()
	var peer *Peer
	done, handled = new(atomic.Int64), new(atomic.Int64)
	offer := raw("Test.Offer", func(ctx context.Context, m message.Message, emit Emit) {
		peer, _ = PeerOf(ctx)
		emit(m.Reply(nil))
	})
	s := within(time.Second, slow(raw("Test.Ask", func(_ context.Context, m message.Message, emit Emit) {
		handled.Add(1)
		emit(m.Reply([]byte(`"by the handler"`)))
	})))
	s.Emits = []EventDefinition{{Type: "Test.Happened", Summary: "It happened."}}
	s.Later = func(ctx context.Context, m message.Message, emit Emit) bool {
		return peer.AskLater(ctx, "Test.Ask", m.Data, &teller{m, emit, done})
	}
	return newKernel(t, opts, offer, s), done, handled
}

// asked is the request that a connection got last.
func (p *prompt) asked(t *testing.T) message.Message {
	t.Helper()
	all := p.messages()
	if m := all[len(all)-1]; m.Kind.Asks() {
		return m
	}
	t.Fatalf("it was asked nothing: %v", all)
	return message.Message{}
}

func answering(m message.Message, kind message.Kind, data string) message.Message {
	m.Metadata = message.Metadata{ID: "a" + m.Metadata.ID, Timestamp: 1, Causation: m.Metadata.ID}
	m.Kind, m.Data = kind, []byte(data)
	if kind == message.KindEvent {
		m.Type = "Test.Happened"
	}
	return m
}

func TestACallThatIsAnsweredLater(t *testing.T) {
	for _, c := range []struct {
		name string
		say  func(server *prompt, q message.Message)
		want string
	}{
		{"by the peer", func(server *prompt, q message.Message) {
			server.in <- answering(q, message.KindReply, `2`)
		}, "[1 2]"},
		{"after an event", func(server *prompt, q message.Message) {
			server.in <- answering(q, message.KindEvent, `"soon"`)
			server.in <- answering(q, message.KindReply, `2`)
		}, `[1 "soon" 1 2]`},
		{"not at all", func(*prompt, message.Message) { time.Sleep(2 * time.Second) }, "[1 504]"},
		{"after an event, not at all", func(server *prompt, q message.Message) {
			server.in <- answering(q, message.KindEvent, `"soon"`)
			time.Sleep(2 * time.Second)
		}, `[1 "soon" 1 504]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, done, handled := askingLater(t, nil)
				server, caller := new(prompt).serve(k), new(prompt).serve(k)
				server.in <- query("o", "Test.Offer", `1`)
				synctest.Wait()
				caller.in <- query("1", "Test.Ask", `1`)
				synctest.Wait()
				c.say(server, server.asked(t))
				synctest.Wait()
				if got := fmt.Sprint(caller.soFar(t)); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if done.Load() != 1 || handled.Load() != 0 {
					t.Errorf("Done was called %d times, and the handler %d times", done.Load(), handled.Load())
				}
				if n := k.InFlight(); n != 0 {
					t.Errorf("%d calls are in flight", n)
				}
				if err := caller.end(); err != nil {
					t.Error(err)
				}
				if err := server.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Calls that are answered later have one timer. Each is late when it is.
func TestLateCallsThatAreAnsweredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _, _ := askingLater(t, nil)
		server, caller := new(prompt).serve(k), new(prompt).serve(k)
		server.in <- query("o", "Test.Offer", `1`)
		for i := range 4 {
			synctest.Wait()
			caller.in <- query(message.ID(fmt.Sprint(i)), "Test.Ask", `1`)
			time.Sleep(300 * time.Millisecond)
		}
		for i := range 4 {
			synctest.Wait()
			if got := len(caller.soFar(t)); got != i+1 {
				t.Errorf("%d are answered, want %d", got, i+1)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if err := caller.end(); err != nil {
			t.Error(err)
		}
		if err := server.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPeerThatIsFullIsAskedByTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, done, handled := askingLater(t, nil)
		server, caller := (&prompt{full: true}).serve(k), connect(k)
		server.in <- query("o", "Test.Offer", `1`)
		synctest.Wait()
		caller.in <- query("1", "Test.Ask", `1`)
		synctest.Wait()
		if got := fmt.Sprint(caller.soFar(t)); got != `[1 "by the handler"]` || handled.Load() != 1 || done.Load() != 0 {
			t.Errorf("got %s; Done was called %d times", got, done.Load())
		}
		if err := caller.end(); err != nil {
			t.Error(err)
		}
		if err := server.end(); err != nil {
			t.Error(err)
		}
	})
}

// A request whose server goes away at the very moment that it is sent is answered for once,
// and is not given to the handler too.
func TestAPeerThatGoesWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, done, handled := askingLater(t, nil)
		server := (&prompt{begun: make(chan struct{}), resume: make(chan struct{})}).serve(k)
		server.in <- query("o", "Test.Offer", `1`)
		synctest.Wait()
		caller := connect(k)
		caller.in <- query("1", "Test.Ask", `1`)
		<-server.begun
		if err := server.end(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		close(server.resume)
		synctest.Wait()
		if got := fmt.Sprint(caller.soFar(t)); got != "[1 502]" || done.Load() != 1 || handled.Load() != 0 {
			t.Errorf("got %s; Done was called %d times, and the handler %d times", got, done.Load(), handled.Load())
		}
		if err := caller.end(); err != nil {
			t.Error(err)
		}
	})
}

// What a peer is asked is recorded before it is sent: recording may wait, and nothing that is
// meant for the peer waits with it.
func TestWhatAPeerIsAskedIsRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := make(chan struct{})
		var server *prompt
		k, _, _ := askingLater(t, &Options{Recorder: recording(func(r Record) {
			if r.Way == Out && r.Message.Kind.Asks() {
				if n := len(server.messages()); n != 1 {
					t.Errorf("it was sent %d messages", n)
				}
				<-full
			}
		})})
		server = new(prompt).serve(k)
		server.in <- query("o", "Test.Offer", `1`)
		synctest.Wait()
		caller := connect(k)
		caller.in <- query("1", "Test.Ask", `1`)
		synctest.Wait()
		close(full)
		synctest.Wait()
		server.in <- answering(server.asked(t), message.KindReply, `2`)
		synctest.Wait()
		if got := fmt.Sprint(caller.soFar(t)); got != "[1 2]" {
			t.Errorf("got %s", got)
		}
		if err := caller.end(); err != nil {
			t.Error(err)
		}
		if err := server.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestALaterThatDoesNotReturn(t *testing.T) {
	for name, later := range map[string]func(context.Context, message.Message, Emit) bool{
		"it panics":             func(context.Context, message.Message, Emit) bool { panic("no") },
		"it ends the goroutine": func(context.Context, message.Message, Emit) bool { runtime.Goexit(); return true },
		"it answers, and panics": func(_ context.Context, m message.Message, emit Emit) bool {
			emit(m.Fail(message.Errorf(500, "no")))
			panic("no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := slow(echo("Test.Later"))
				s.Later = later
				k := newKernel(t, nil, s, echo("Test.Echo"))
				c := connect(k)
				c.in <- query("1", "Test.Later", `1`)
				c.in <- query("2", "Test.Echo", `2`)
				synctest.Wait()
				if got := fmt.Sprint(c.soFar(t)); got != "[1 500 2 2]" {
					t.Errorf("got %s", got)
				}
				if n := k.InFlight(); n != 0 {
					t.Errorf("%d calls are in flight", n)
				}
				if err := c.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A Later that takes its time and then can't is too late for the handler.
func TestALaterThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		s := within(time.Second, slow(raw("Test.Later", func(_ context.Context, m message.Message, emit Emit) {
			handled++
			emit(m.Reply(m.Data))
		})))
		s.Later = func(context.Context, message.Message, Emit) bool {
			time.Sleep(2 * time.Second)
			return false
		}
		k := newKernel(t, nil, s)
		c := connect(k)
		c.in <- query("1", "Test.Later", `1`)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(c.soFar(t)); got != "[1 504]" || handled != 0 {
			t.Errorf("got %s; the handler ran %d times", got, handled)
		}
		if n := k.InFlight(); n != 0 {
			t.Errorf("%d calls are in flight", n)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

// A change that hangs on its way to the store is answered for, and the answer is sent.
func TestAChangeOfALaterCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := within(time.Second, slow(asCommand(echo("Test.Change"))))
		s.Later = func(ctx context.Context, m message.Message, emit Emit) bool {
			var b store.Batch
			b.Set([]byte("mx"), []byte("1"))
			if err := Stage(ctx, &b); err != nil {
				t.Error(err)
			}
			go emit(m.Reply(m.Data))
			return true
		}
		h := &hanging{Memory: storetest.NewMemory(), release: make(chan struct{})}
		k := newKernel(t, &Options{Store: h}, s)
		caller := new(prompt).serve(k)
		caller.in <- command("1", "Test.Change", `1`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(caller.soFar(t)); got != "[1 504]" {
			t.Errorf("got %s", got)
		}
		if caller.pushed.Load() == 0 {
			t.Error("nobody has pushed it")
		}
		close(h.release)
		synctest.Wait()
		if got := strings.Join(caller.soFar(t), " "); got != "1 504" {
			t.Errorf("got %s", got)
		}
		if err := caller.end(); err != nil {
			t.Error(err)
		}
	})
}
