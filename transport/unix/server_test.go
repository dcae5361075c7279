package unix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kernos/capability/introspect"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/transport"
)

func TestServeAnswersEverythingBeforeItClosesAHalfClosedConnection(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil)
	p := d.dial()
	const n = 5000
	go func() {
		var all strings.Builder
		for i := range n {
			all.WriteString(ping(fmt.Sprint(i)))
		}
		p.say(strings.TrimSuffix(all.String(), "\n")) // the last line needs no end
		_ = p.CloseWrite()
	}()
	for i := range n {
		p.want(pong(fmt.Sprint(i)))
	}
	p.want("EOF")
}

func TestServeTakesOptions(t *testing.T) {
	p := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{Lenient: true}).dial()
	p.say(`{"kind":"query","type":"Ping","data":{"payload":1}}` + "\n")
	if got := p.hear(); !strings.HasSuffix(got, ` {"payload":1}`) {
		t.Errorf("got %s", got)
	}
}

// waiting is a pair of slow syscalls that say when they begin, wait for leave, and say how
// they ended.
func waiting(leave <-chan struct{}) (begun, ended chan string, syscalls []kernel.Syscall) {
	begun, ended = make(chan string, 16), make(chan string, 16)
	wait := func(ctx context.Context, m message.Message, emit kernel.Emit) {
		id := string(m.Metadata.ID)
		begun <- id
		select {
		case <-leave:
			ended <- id + " done"
			emit(m.Reply(m.Data))
		case <-ctx.Done():
			ended <- id + " cancelled"
			kernel.Fail(ctx, m, emit, ctx.Err())
		}
	}
	return begun, ended, []kernel.Syscall{slow("Test.Look", message.KindQuery, wait), slow("Test.Change", message.KindCommand, wait)}
}

// A recorder keeps the ids of what was answered.
type recorder struct {
	kernel.Recorder
	mu  sync.Mutex
	out []string
}

func (r *recorder) Record(rec kernel.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Way == kernel.Out {
		r.out = append(r.out, fmt.Sprintf("%s %s", rec.Message.Kind, rec.Message.Metadata.Causation))
	}
}

func (r *recorder) has(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.out {
		if o == what {
			return true
		}
	}
	return false
}

func TestServeFinishesForAPeerThatOnlyHalfCloses(t *testing.T) {
	leave := make(chan struct{})
	begun, _, syscalls := waiting(leave)
	p := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), nil).dial()
	p.say(ask("q", message.KindQuery, "Test.Look", `"seen"`))
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	arrives(t, "the query runs", begun)
	close(leave)
	p.want(`q "seen"`, "EOF")
}

func TestServeCancelsQueriesAndCompletesCommandsOfAPeerThatLeaves(t *testing.T) {
	leave := make(chan struct{})
	begun, ended, syscalls := waiting(leave)
	kept := new(recorder)
	d := start(t, kerneltest.Around(t, &kernel.Options{Recorder: kept}, introspect.Module, syscalls...), nil)
	p, other := d.dial(), d.dial()
	p.say(ask("q", message.KindQuery, "Test.Look", `1`), ask("c", message.KindCommand, "Test.Change", `1`))
	arrives(t, "the query runs", begun)
	arrives(t, "the command runs", begun)
	_ = p.Close()
	if got := arrives(t, "one ends", ended); got != "q cancelled" {
		t.Errorf("got %s", got)
	}
	other.say(ping("1"))
	other.want(pong("1"))
	close(leave)
	if got := arrives(t, "the other ends", ended); got != "c done" {
		t.Errorf("got %s", got)
	}
	testkit.Until(t, "the command is in the journal", func() bool { return kept.has("reply c") })
	testkit.Until(t, "the connection is forgotten", func() bool { return d.s.Stats().Connections == 1 })
}

// What a peer has sent before it left is read to its end, although it takes no answers.
func TestServeCompletesCommandsThatWereSentBeforeAPeerLeft(t *testing.T) {
	var commands atomic.Int64
	change := slow("Test.Change", message.KindCommand, func(_ context.Context, m message.Message, emit kernel.Emit) {
		commands.Add(1)
		emit(m.Reply(m.Data))
	})
	change.Runs = kernel.Inline
	d := start(t, kerneltest.Around(t, nil, introspect.Module, change), nil)
	const rounds, each = 20, 500
	for range rounds {
		var lines strings.Builder
		for i := range each {
			lines.WriteString(ask(fmt.Sprint(i), message.KindCommand, "Test.Change", `1`))
			if i%10 == 0 {
				lines.WriteString(ping(fmt.Sprint("q", i)) + "what is this\n")
			}
		}
		p := d.dial()
		p.say(lines.String())
		_ = p.Close()
	}
	testkit.Until(t, "all have come and gone", func() bool { return d.s.Stats().Accepted == rounds && d.s.Stats().Connections == 0 })
	if n := commands.Load(); n != rounds*each {
		t.Errorf("%d of %d commands were completed", n, rounds*each)
	}
}

func TestServeRefusesOtherUsers(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module), nil, func(s *Server) {
		s.peer = func(*net.UnixConn) (int, error) { return os.Geteuid() + 1, nil }
	})
	p := d.dial()
	p.want("disconnected 403", "EOF")
	if s := d.s.Stats(); s.Refused[refusedForeign] != 1 || s.Accepted != 0 || s.Connections != 0 {
		t.Errorf("got %+v", s)
	}
	unknown := start(t, kerneltest.Around(t, nil, introspect.Module), nil, func(s *Server) {
		s.peer = func(*net.UnixConn) (int, error) { return os.Geteuid(), errors.New("it isn't known") }
	})
	unknown.dial().want("disconnected 403", "EOF")
}

func TestServeRefusesMoreConnectionsThanThereMayBe(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{MaxConnections: 2})
	one, two := d.dial(), d.dial()
	for _, p := range []*peer{one, two} {
		p.say(ping("1"))
		p.want(pong("1"))
	}
	three := d.dial()
	line, err := three.lines.ReadString('\n')
	if err != nil || !strings.Contains(line, `"code":429`) || !strings.Contains(line, "2 connections") {
		t.Errorf("got %s, %v", line, err)
	}
	three.want("EOF")
	_ = one.Close()
	testkit.Until(t, "there is room again", func() bool { return d.s.Stats().Connections == 1 })
	four := d.dial()
	four.say(ping("4"))
	four.want(pong("4"))
	if s := d.s.Stats(); s.Refused[transport.TooMany] != 1 || s.Accepted != 3 || s.Connections != 2 {
		t.Errorf("got %+v", s)
	}
}

// The end of half a line is the clock: by then others have been silent for longer.
func TestServeClosesAConnectionThatDoesNotEndALine(t *testing.T) {
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{Line: time.Minute}, c.use)
	silent, half := d.dial(), d.dial()
	silent.say(ping("1"))
	silent.want(pong("1"))
	half.say(ping("1") + `{"kind":`)
	half.want(pong("1"))
	c.until(t, "it is closed", time.Minute, func() bool { return d.s.Stats().Closed[closedUnfinished] == 1 })
	half.want("disconnected 408")
	silent.say(ping("2"))
	silent.want(pong("2"))
}

// A peer that keeps sending, and never a newline.
func TestServeClosesAConnectionWhoseLineNeverEnds(t *testing.T) {
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{Line: time.Minute}, c.use)
	p := d.dial()
	sending := make(chan struct{})
	var sent atomic.Int64
	go func() {
		defer close(sending)
		chunk := []byte(strings.Repeat("x", 100))
		for {
			n, err := p.Write(chunk)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	// More than the socket holds, so that the server has read more than a line may have.
	testkit.Until(t, "much is sent", func() bool { return sent.Load() > maxDiscarded })
	c.until(t, "it is closed", time.Minute, func() bool { return d.s.Stats().Closed[closedUnfinished] == 1 })
	p.want(" 413", "disconnected 408")
	arrives(t, "the peer notices", sending)
}

// A line that comes in pieces has its time to itself: those before it do not count.
func TestServeGivesEveryLineItsTime(t *testing.T) {
	s := NewServer(kerneltest.Around(t, nil, introspect.Module), &Options{Line: time.Minute})
	l := &serverConn{s: s}
	for _, c := range []struct {
		came    string
		partial bool
		spent   time.Duration
	}{
		{"{}\n", false, 0}, {"{}\n{", true, 0}, {`"a"`, true, time.Second}, {"}\n{", true, 0}, {"}\n", false, 0}, {"{", true, 0},
	} {
		if l.saw([]byte(c.came)); l.partial != c.partial || l.spent != c.spent {
			t.Errorf("after %q: %t, %v", c.came, l.partial, l.spent)
		}
		if l.partial {
			l.spent = time.Second
		}
	}
}

func TestServeClosesAnIdleConnection(t *testing.T) {
	leave := make(chan struct{})
	begun, _, syscalls := waiting(leave)
	var c clock
	d := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), &Options{Idle: time.Minute}, c.use)
	closed := func(n uint64) {
		t.Helper()
		c.until(t, "it is closed", time.Minute, func() bool { return d.s.Stats().Closed[transport.Idle] == n })
	}
	busy := d.dial()
	busy.say(ask("q", message.KindQuery, "Test.Look", `"late"`))
	arrives(t, "the query runs", begun)
	for n := range 2 { // in the meantime
		idle := d.dial()
		idle.say(ping("1"))
		idle.want(pong("1"))
		closed(uint64(n + 1))
		idle.want("disconnected 408", "EOF")
	}
	close(leave)
	busy.want(`q "late"`)
	closed(3)
	busy.want("disconnected 408", "EOF")
}

// Messages beyond the rate wait, and are answered also if the server stops meanwhile. How long they wait is the pacer's
// matter.
func TestServeDelaysWhatComesTooFast(t *testing.T) {
	d := start(t, kerneltest.Around(t, nil, introspect.Module), &Options{FrameRate: 0.001})
	fast, other := d.dial(), d.dial()
	fast.say(ping("1") + ping("2"))
	fast.want(pong("1"))
	testkit.Until(t, "it is held up", func() bool { return d.s.Stats().Throttled == 1 })
	other.say(ping("1")) // has its own bucket
	other.want(pong("1"))
	d.stop()
	fast.want(pong("2"), "disconnected 503", "EOF")
	if n := d.s.Stats().Throttled; n != 0 {
		t.Errorf("%d connections are held up", n)
	}
}

func TestServeDrains(t *testing.T) {
	leave := make(chan struct{})
	begun, _, syscalls := waiting(leave)
	d := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), nil)
	busy, idle, half := d.dial(), d.dial(), d.dial()
	busy.say(ask("q", message.KindQuery, "Test.Look", `"seen"`), ask("c", message.KindCommand, "Test.Change", `"done"`))
	half.say(ping("1") + `{"kind":"query",`)
	half.want(pong("1"))
	arrives(t, "the query runs", begun)
	arrives(t, "the command runs", begun)
	d.stop()
	idle.want("disconnected 503", "EOF")
	half.want("disconnected 503", "EOF") // and no other complaint about the line that it could not end
	if _, err := new(Dialer).Dial(t.Context(), d.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, ok := Inspect(d.path); !ok {
		t.Error("another daemon could start while this one ends")
	}
	d.stopping()
	busy.say(ping("late")) // is not read
	close(leave)
	got := map[string]bool{busy.hear(): true, busy.hear(): true}
	if !got[`q "seen"`] || !got[`c "done"`] {
		t.Errorf("got %v", got)
	}
	busy.want("disconnected 503", "EOF") // although it has said something that wasn't read
	if err := d.ended(); err != nil {
		t.Errorf("got %v", err)
	}
	if _, ok := Inspect(d.path); ok {
		t.Error("a daemon still listens")
	}
}

func TestServeEndsWhatIsEndless(t *testing.T) {
	begun := make(chan struct{}, 1)
	endless := slow("Test.Watch", message.KindQuery, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		begun <- struct{}{}
		<-ctx.Done()
		emit(m.Reply([]byte(`"over"`)))
	})
	endless.Runs = kernel.Endless
	d := start(t, kerneltest.Around(t, nil, introspect.Module, endless), &Options{Grace: time.Hour})
	p := d.dial()
	p.say(ask("w", message.KindQuery, "Test.Watch", `1`))
	arrives(t, "it runs", begun)
	d.stop()
	p.want(`w "over"`, "disconnected 503", "EOF")
	if err := d.ended(); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestServeCutsWhatDoesNotEndInTime(t *testing.T) {
	begun, ended, syscalls := waiting(nil)
	d := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), &Options{Grace: time.Nanosecond})
	p := d.dial()
	p.say(ask("c", message.KindCommand, "Test.Change", `1`))
	arrives(t, "it runs", begun)
	d.stop()
	if got := arrives(t, "it ends", ended); got != "c cancelled" {
		t.Errorf("got %s", got)
	}
	if err := d.ended(); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestServeDoesNotWaitForAHandlerThatNeverEnds(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	begun := make(chan struct{}, 1)
	d := start(t, kerneltest.Around(t, nil, introspect.Module, slow("Test.Hang", message.KindCommand, func(_ context.Context, m message.Message, emit kernel.Emit) {
		begun <- struct{}{}
		<-release
	})), &Options{Grace: time.Nanosecond})
	d.dial().say(ask("c", message.KindCommand, "Test.Hang", `1`))
	arrives(t, "it runs", begun)
	d.stop()
	if err := d.ended(); err == nil || !strings.Contains(err.Error(), "1 connections have handlers that still run") {
		t.Errorf("got %v", err)
	}
}

// A peer that has said everything, and has all its answers, is not told of an end that does
// not concern it; one with something left to say is.
func TestServeTellsThoseOfTheEndWhomItConcerns(t *testing.T) {
	leave := make(chan struct{})
	begun, _, syscalls := waiting(leave)
	for i := range syscalls {
		syscalls[i].Runs = kernel.Inline // nothing is read while it runs
	}
	d := start(t, kerneltest.Around(t, nil, introspect.Module, syscalls...), nil)
	done, open, more := d.dial(), d.dial(), d.dial()
	for _, p := range []*peer{done, open, more} {
		p.say(ask("c", message.KindCommand, "Test.Change", `"done"`))
		arrives(t, "the command runs", begun)
	}
	if err := done.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	more.say(strings.Repeat(ping("late"), 1000))
	if err := more.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	d.stop()
	d.stopping()
	close(leave)
	done.want(`c "done"`, "EOF")
	open.want(`c "done"`, "disconnected 503", "EOF")
	more.want(`c "done"`, "disconnected 503", "EOF")
	if err := d.ended(); err != nil {
		t.Error(err)
	}
}

// Who has connected when the server stops, and was not accepted yet, is told.
func TestServeTurnsAwayWhoCameAtTheEnd(t *testing.T) {
	l, err := Listen(shortDir(t)+"/s", Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	d := &daemon{t: t, path: l.Path(), s: NewServer(kerneltest.Around(t, nil, introspect.Module), nil)}
	p, q := d.dial(), d.dial()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := d.s.Serve(ctx, l); err != nil {
		t.Errorf("got %v", err)
	}
	p.want("disconnected 503", "EOF")
	q.want("disconnected 503", "EOF")
	if s := d.s.Stats(); s.Refused[transport.Stopping] != 2 {
		t.Errorf("got %+v", s)
	}
	if err := d.s.Serve(ctx, l); err == nil || !strings.Contains(err.Error(), "serves once") {
		t.Errorf("serving again: %v", err)
	}
}

func TestServeSaysThatItsListenerWasClosed(t *testing.T) {
	l, err := Listen(shortDir(t)+"/s", Info{})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := NewServer(kerneltest.Around(t, nil, introspect.Module), nil).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
