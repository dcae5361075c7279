package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// outside is a command whose effect is not in the store.
func outside(t message.Type, h kernel.Handler) kernel.Syscall {
	s := kerneltest.Slow(kerneltest.AsCommand(kerneltest.Raw(t, h)))
	s.Effect = kernel.External
	return s
}

// A process that ends between an effect outside and its outcome leaves an intent. The retry
// is told so, and does not run.
//
// Clauses: M24-4.2.1-1
func TestAnEffectOutsideIsNotRepeatedAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		release := make(chan struct{})
		posts := 0
		post := outside("Test.Post", func(_ context.Context, m message.Message, emit kernel.Emit) {
			posts++
			<-release
			emit(m.Reply([]byte(`"posted"`)))
		})
		conn := kerneltest.Connect(kerneltest.New(t, &kernel.Options{Store: s}, post))
		conn.In <- keyed("a", "Test.Post", `{"n":1}`, "k")
		synctest.Wait()
		crashed := s.Crash(0) // while it runs
		close(release)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		after := kerneltest.New(t, &kernel.Options{Store: crashed}, post)
		for range 2 {
			code, text := kerneltest.Failure(t, after, keyed("b", "Test.Post", `{"n":1}`, "k"))
			if code != 409 || !strings.Contains(text, "may have happened") {
				t.Errorf("the retry got %d %s", code, text)
			}
		}
		if code, _ := kerneltest.Failure(t, after, keyed("c", "Test.Post", `{"n":2}`, "k")); code != 422 {
			t.Errorf("another command got %d", code)
		}
		if posts != 1 {
			t.Errorf("it ran %d times", posts)
		}
		// Where nothing crashes, the outcome takes the place of the intent.
		for range 2 {
			if got := kerneltest.Ask(after, keyed("d", "Test.Post", `{"n":1}`, "another")); string(got[0].Data) != `"posted"` || posts != 2 {
				t.Errorf("with another key it got %s after %d runs", got[0].Data, posts)
			}
		}
	})
}

// The intent is on disk before the handler begins: a crash that forgets it finds no effect.
func TestNothingHappensOutsideBeforeTheIntentIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		s.Manual()
		began := false
		conn := kerneltest.Connect(kerneltest.New(t, &kernel.Options{Store: s}, outside("Test.Post", func(_ context.Context, m message.Message, emit kernel.Emit) {
			began = true
			emit(m.Reply(nil))
		})))
		conn.In <- keyed("a", "Test.Post", `0`, "k")
		synctest.Wait()
		if began {
			t.Error("it began before its intent was durable")
		}
		_ = s.Sync()
		synctest.Wait()
		if !began {
			t.Error("it did not begin")
		}
		_ = s.Sync()
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

// What may be tried again leaves no intent behind. A command that was not done in time may have
// happened, and is not run again, unless it is safe to repeat.
func TestAFailureTakesItsIntentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		runs := 0
		fail := func(_ context.Context, m message.Message, emit kernel.Emit) {
			runs++
			emit(m.Fail(message.Errorf(502, "try %d", runs)))
		}
		hang := func(ctx context.Context, m message.Message, emit kernel.Emit) {
			runs++
			<-ctx.Done()
			kernel.Fail(ctx, m, emit, ctx.Err())
		}
		safe := outside("Test.Safe", hang)
		safe.Repeat = kernel.Retried
		k := kerneltest.New(t, &kernel.Options{Store: s, Timeout: time.Second},
			outside("Test.Fail", fail),
			outside("Test.Panic", func(context.Context, message.Message, kernel.Emit) { runs++; panic("no") }),
			outside("Test.Hang", hang), safe,
			outside("Test.Upstream", func(_ context.Context, m message.Message, emit kernel.Emit) {
				runs++
				emit(m.Fail(&message.Error{Code: 502, Message: "Fetch failed", Cause: message.Errorf(504, "The timeout passed")}))
			}),
			outside("Test.Refuse", func(_ context.Context, m message.Message, emit kernel.Emit) {
				runs++
				emit(m.Fail(message.Errorf(403, "no")))
			}))
		for _, c := range []struct {
			t          message.Type
			code, then int
			runs       int
		}{{"Test.Fail", 502, 502, 2}, {"Test.Panic", 500, 500, 2}, {"Test.Hang", 504, 409, 1}, {"Test.Upstream", 502, 409, 1}, {"Test.Safe", 504, 504, 2}, {"Test.Refuse", 403, 403, 1}} {
			runs = 0
			for _, want := range []int{c.code, c.then} {
				if code, text := kerneltest.Failure(t, k, keyed("a", c.t, `0`, string(c.t))); code != want {
					t.Errorf("%s got %d %s, want %d", c.t, code, text, want)
				}
			}
			if runs != c.runs {
				t.Errorf("%s ran %d times", c.t, runs)
			}
		}
		synctest.Wait()
		left := 0
		for e := range s.Scan(store.Prefix([]byte{store.SpaceIdempotency})) {
			for _, gone := range []string{"Test.Fail", "Test.Panic", "Test.Safe"} {
				if strings.Contains(string(e.Key), gone) {
					t.Errorf("%q is left", e.Key)
				}
			}
			left++
		}
		if left != 1+3*2 { // the key of fingerprints; an outcome and two intents with their expiries
			t.Errorf("%d entries are left", left)
		}
	})
}

// Without a place for the intent nothing runs.
func TestAnIntentThatCanNotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		runs := 0
		k := kerneltest.New(t, &kernel.Options{Store: s, Timeout: time.Second}, outside("Test.Post", func(_ context.Context, m message.Message, emit kernel.Emit) {
			runs++
			emit(m.Reply(nil))
		}))
		kerneltest.Ask(k, keyed("first", "Test.Post", `0`, "first")) // the key of fingerprints is there now
		full := store.Errorf(507, errors.New("no space"), "The disk is full")
		s.Fail(func(call string) error {
			if call == "apply" {
				return full
			}
			return nil
		})
		if code, text := kerneltest.Failure(t, k, keyed("a", "Test.Post", `0`, "k")); code != 507 || !strings.Contains(text, "full") {
			t.Errorf("got %d %s", code, text)
		}
		s.Fail(nil)
		s.Manual() // the disk takes longer than there is time
		if code, _ := kerneltest.Failure(t, k, keyed("b", "Test.Post", `0`, "k")); code != 504 {
			t.Errorf("got %d", code)
		}
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
		_ = s.Sync()
		done := make(chan []message.Message)
		go func() { done <- kerneltest.Ask(k, keyed("c", "Test.Post", `0`, "k")) }()
		for range 3 {
			synctest.Wait()
			_ = s.Sync()
		}
		if got := <-done; got[0].Kind != message.KindReply || runs != 2 {
			t.Errorf("then it got %v after %d runs", kerneltest.Texts(got), runs)
		}
	})
}

// The deadline ends the wait of a call for its intent, and the call itself, on two goroutines. The one that is answered first
// is enough, and no answer is lost while the other gives an outcome to the store.
func TestTheDeadlineOfAnIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		applying, answered := make(chan struct{}), make(chan struct{})
		log := slog.New(&holding{until: applying}) // the first goroutine that finds the call late
		k := kerneltest.New(t, &kernel.Options{Store: s, Timeout: time.Second, Log: log}, outside("Test.Post", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(nil))
		}))
		kerneltest.Ask(k, keyed("first", "Test.Post", `0`, "first")) // the key of fingerprints is there now
		s.Manual()
		applies := 0
		s.Fail(func(call string) error {
			if call == "apply" {
				if applies++; applies == 2 { // the intent was the first
					close(applying)
					<-answered
				}
			}
			return nil
		})
		k.Handle(t.Context(), keyed("a", "Test.Post", `0`, "k"), func(m message.Message) {
			if code, text := kerneltest.ReadError(t, m); code != 504 {
				t.Errorf("got %d %s", code, text)
			}
			close(answered) // a second answer would panic
		})
		<-answered
		synctest.Wait()
	})
}

// holding is a log that holds what first writes to it.
type holding struct {
	until chan struct{}
	held  atomic.Bool
}

func (h *holding) Enabled(context.Context, slog.Level) bool { return true }

func (h *holding) Handle(context.Context, slog.Record) error {
	if h.held.CompareAndSwap(false, true) {
		<-h.until
	}
	return nil
}

func (h *holding) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *holding) WithGroup(string) slog.Handler { return h }

// A key that has expired is free again, for an intent too, and a sweep in the middle does not
// make the command run again.
func TestIntentsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		var k *kernel.Kernel
		runs := 0
		k = kerneltest.New(t, &kernel.Options{Store: s, IdempotencyTTL: time.Second, Timeout: time.Hour}, outside("Test.Post", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			runs++
			time.Sleep(2 * time.Second)
			if _, err := k.Sweep(ctx, time.Now()); err != nil {
				t.Error(err)
			}
			emit(m.Reply(fmt.Append(nil, runs)))
		}))
		for want := 1; want <= 3; want++ {
			if got := kerneltest.Ask(k, keyed("a", "Test.Post", `0`, "k")); string(got[0].Data) != fmt.Sprint(want) {
				t.Errorf("run %d got %s", want, got[0].Data)
			}
			if got := kerneltest.Ask(k, keyed("b", "Test.Post", `0`, "k")); string(got[0].Data) != fmt.Sprint(want) {
				t.Errorf("the retry of run %d got %s", want, got[0].Data)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
