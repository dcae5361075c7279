package kernel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// inside runs f as the handler of a call with a timeout of a second. The caller's
// context has a deadline that is further off.
func inside(t *testing.T, f func(t *testing.T, ctx context.Context, stop context.CancelCauseFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent, stop := context.WithCancelCause(context.WithValue(t.Context(), key{}, "from the caller"))
		defer stop(nil)
		k := kerneltest.New(t, nil, kerneltest.Within(time.Second, kerneltest.Raw("Test.Do", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			if ctx.Value(key{}) != "from the caller" {
				t.Errorf("the caller's value is %v", ctx.Value(key{}))
			}
			f(t, ctx, stop)
			emit(m.Reply(nil))
		})))
		k.Handle(parent, kerneltest.Query("1", "Test.Do", `1`), func(message.Message) {})
		synctest.Wait()
	})
}

func TestContextOfACallEndsAtItsDeadline(t *testing.T) {
	inside(t, func(t *testing.T, ctx context.Context, _ context.CancelCauseFunc) {
		start := time.Now()
		if d, ok := ctx.Deadline(); !ok || d.Sub(start) != time.Second {
			t.Errorf("the deadline is %v, %v", d, ok)
		}
		if err := ctx.Err(); err != nil {
			t.Errorf("it begins with %v", err)
		}
		select {
		case <-ctx.Done():
			t.Error("it begins done")
		default:
		}
		if a, b := ctx.Done(), ctx.Done(); a != b {
			t.Error("Done gives two channels")
		}
		<-ctx.Done()
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// Err must tell the time although the channel wasn't asked for.
func TestContextOfACallIsOverWithoutAChannel(t *testing.T) {
	inside(t, func(t *testing.T, ctx context.Context, _ context.CancelCauseFunc) {
		time.Sleep(time.Second)
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		select {
		case <-ctx.Done():
		default:
			t.Error("Err says that it is over, Done does not")
		}
	})
}

func TestContextOfACallEndsWithItsCaller(t *testing.T) {
	reason := errors.New("the caller hung up")
	inside(t, func(t *testing.T, ctx context.Context, stop context.CancelCauseFunc) {
		done := ctx.Done()
		stop(reason)
		<-done
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := context.Cause(ctx); !errors.Is(err, reason) {
			t.Errorf("the cause is %v", err)
		}
	})
	inside(t, func(t *testing.T, ctx context.Context, stop context.CancelCauseFunc) {
		stop(reason) // the channel wasn't asked for yet
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		<-ctx.Done()
	})
}

func TestContextOfACallHasChildren(t *testing.T) {
	inside(t, func(t *testing.T, ctx context.Context, _ context.CancelCauseFunc) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		other, cancelOther := context.WithCancel(ctx)
		cancelOther()
		<-other.Done()
		if ctx.Err() != nil {
			t.Error("a child's end is the call's")
		}
		called := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { close(called) })
		defer stop()
		short, cancelShort := context.WithTimeout(ctx, time.Minute)
		defer cancelShort()
		if d, _ := short.Deadline(); time.Until(d) != time.Second {
			t.Errorf("a child's deadline is in %v", time.Until(d))
		}
		start := time.Now()
		<-child.Done()
		<-called
		<-short.Done()
		if time.Since(start) != time.Second || !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("a child ends after %v with %v", time.Since(start), child.Err())
		}
	})
}

func TestContextOfACallEndsWithItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan context.Context, 3)
		k := kerneltest.New(t, nil,
			kerneltest.Raw("Test.Asked", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				ctx.Done()
				seen <- ctx
				emit(m.Reply(nil))
			}),
			kerneltest.Raw("Test.Unasked", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				seen <- ctx
				emit(m.Reply(nil))
			}),
		)
		for _, name := range []message.Type{"Test.Asked", "Test.Unasked"} {
			kerneltest.Answer(t, k, kerneltest.Query("1", name, `1`))
			ctx := <-seen
			select {
			case <-ctx.Done():
			default:
				t.Errorf("%s: the context of a call that is over is not done", name)
			}
			if err := ctx.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

// A handler that waits for the call's end must not be left waiting, nor its timer be left
// running: the bubble would not end.
func TestContextOfACallReleasesItsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		k := kerneltest.New(t, &kernel.Options{Timeout: 1000 * time.Hour}, kerneltest.Raw("Test.Do", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			context.AfterFunc(ctx, func() { close(released) })
			emit(m.Reply(nil))
		}))
		start := time.Now()
		kerneltest.Answer(t, k, kerneltest.Query("1", "Test.Do", `1`))
		<-released
		if time.Since(start) != 0 {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}

// A context that is derived from a call ends with it, and costs no goroutine.
func TestContextsDerivedFromACallEndWithIt(t *testing.T) {
	var ended, fired atomic.Bool
	inside(t, func(t *testing.T, ctx context.Context, _ context.CancelCauseFunc) {
		const waiting = "context.(*cancelCtx).propagateCancel"
		before := testkit.Goroutines(waiting)
		derived, cancel := context.WithCancel(ctx)
		context.AfterFunc(derived, func() {
			ended.Store(true)
			cancel()
		})
		if n := testkit.Goroutines(waiting); n > before {
			t.Errorf("%d goroutines, were %d", n, before)
		}
		stop := context.AfterFunc(ctx, func() { fired.Store(true) })
		if !stop() || stop() {
			t.Error("what is stopped is stopped once")
		}
	})
	if !ended.Load() || fired.Load() {
		t.Errorf("ended: %t, fired: %t", ended.Load(), fired.Load())
	}
}
