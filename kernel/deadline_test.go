package kernel

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/message"
)

// cooperative waits for its context.
func cooperative(t message.Type) Syscall {
	return raw(t, func(ctx context.Context, m message.Message, emit Emit) {
		<-ctx.Done()
		Fail(ctx, m, emit, ctx.Err())
	})
}

// stubborn ignores its context and answers with its data when it is let go.
func stubborn(t message.Type, release <-chan struct{}) Syscall {
	return raw(t, func(_ context.Context, m message.Message, emit Emit) {
		<-release
		emit(m.Reply(m.Data))
	})
}

func TestServeAnswersForHandlersThatOverstay(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(release <-chan struct{}) Syscall
		slow bool
	}{
		{"cooperative and inline", func(<-chan struct{}) Syscall { return cooperative("Test.Wait") }, false},
		{"cooperative and slow", func(<-chan struct{}) Syscall { return slow(cooperative("Test.Wait")) }, true},
		{"stubborn and inline", func(r <-chan struct{}) Syscall { return stubborn("Test.Wait", r) }, false},
		{"stubborn and slow", func(r <-chan struct{}) Syscall { return slow(stubborn("Test.Wait", r)) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				k := newKernel(t, nil, within(time.Second, c.make(release)), echo("Test.Echo"))
				conn := connect(k)
				conn.in <- query("wait", "Test.Wait", `1`)
				conn.in <- query("next", "Test.Echo", `2`)

				time.Sleep(time.Second - 1)
				synctest.Wait()
				before := []string(nil)
				if c.slow {
					before = []string{"next 2"}
				}
				if got := conn.soFar(t); !slices.Equal(got, before) {
					t.Errorf("before the deadline: %v", got)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				after := []string{"wait 504", "next 2"}
				if c.slow {
					after = []string{"next 2", "wait 504"}
				}
				if got := conn.soFar(t); !slices.Equal(got, after) {
					t.Errorf("at the deadline: %v", got)
				}
				if err := conn.end(); err != nil {
					t.Error(err)
				}
				close(release)
				synctest.Wait()
				if got := conn.soFar(t); !slices.Equal(got, after) {
					t.Errorf("the late answer is not dropped: %v", got)
				}
			})
		})
	}
}

func TestServeGoesOnAfterManyStubbornHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, nil, within(time.Second, stubborn("Test.Wait", release)), echo("Test.Echo"))
		conn := connect(k)
		var want []string
		for _, id := range []message.ID{"a", "b", "c"} {
			conn.in <- query(id, "Test.Wait", `1`)
			conn.in <- query(id+"-next", "Test.Echo", `2`)
			want = append(want, string(id)+" 504", string(id)+"-next 2")
		}
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
		for i, at := range []time.Duration{1, 1, 2, 2, 3, 3} {
			if conn.times[i] != at*time.Second {
				t.Errorf("answer %d came at %v", i, conn.times[i])
			}
		}
		close(release)
	})
}

// The timer that watches a connection serves one call after another, with deadlines
// that are near after ones that are far.
func TestServeKeepsNearDeadlinesAfterFarOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, nil,
			within(time.Hour, echo("Test.Far")), within(time.Second, stubborn("Test.Near", release)),
			within(3*time.Second, stubborn("Test.Later", release)))
		conn := connect(k)
		conn.in <- query("1", "Test.Far", `1`)
		conn.in <- query("2", "Test.Near", `1`)
		conn.in <- query("3", "Test.Later", `1`)
		conn.in <- query("4", "Test.Near", `1`)
		if err := conn.end(); err != nil {
			t.Error(err)
		}
		if got := conn.soFar(t); !slices.Equal(got, []string{"1 1", "2 504", "3 504", "4 504"}) {
			t.Errorf("got %v", got)
		}
		for i, at := range []time.Duration{0, 1, 4, 5} {
			if conn.times[i] != at*time.Second {
				t.Errorf("answer %d came at %v", i, conn.times[i])
			}
		}
		close(release)
	})
}

// The watch looks at a call that is about to end while the next call, with a nearer
// deadline, sets the timer. Whoever is last must not move the timer away.
func TestWatchIsNeverPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &session{k: newKernel(t, nil), ctx: context.Background(), begun: start}
		s.watchUntil(start.Add(time.Second)) // by the next call
		s.watchUntil(start.Add(time.Hour))   // by the watch, for the call before
		if due := time.Duration(s.wake.Load()); due > time.Second {
			t.Errorf("the timer fires after %v", due)
		}
		s.stopWatch()
	})
}

func TestHandleAnswersForHandlersThatOverstay(t *testing.T) {
	for _, willing := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			s := stubborn("Test.Wait", release)
			if willing {
				s = cooperative("Test.Wait")
			}
			var log testkit.Notes
			k := newKernel(t, &Options{Log: log.Logger()}, within(time.Minute, s))
			start := time.Now()
			code, text := failure(t, k, query("1", "Test.Wait", `1`))
			if code != 504 || time.Since(start) != time.Minute {
				t.Errorf("got %d after %v", code, time.Since(start))
			}
			if !willing && text != "Test.Wait was not done within 1m0s" {
				t.Errorf("got %q", text)
			}
			if !willing && !log.Has("not done in time", "Test.Wait") {
				t.Errorf("the log has %q", &log)
			}
			close(release)
		})
	}
}

func TestTimeoutComesFromTheDefinitionThenTheKernel(t *testing.T) {
	for _, c := range []struct {
		kernel, definition, want time.Duration
	}{
		{0, 0, DefaultTimeout},
		{time.Minute, 0, time.Minute},
		{time.Minute, time.Second, time.Second},
		{time.Second, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			k := newKernel(t, &Options{Timeout: c.kernel}, within(c.definition, stubborn("Test.Wait", release)))
			start := time.Now()
			failure(t, k, query("1", "Test.Wait", `1`))
			if took := time.Since(start); took != c.want {
				t.Errorf("%+v took %v", c, took)
			}
			close(release)
		})
	}
}

func TestCallEndsWithTheContextOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := newKernel(t, nil, cooperative("Test.Wait"), stubborn("Test.Stay", release))
		handle := func(ctx context.Context, name message.Type) (int, string, time.Duration) {
			start := time.Now()
			var got message.Message
			k.Handle(ctx, query("1", name, `1`), func(m message.Message) { got = m })
			code, text := read(t, got)
			return code, text, time.Since(start)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if code, _, took := handle(ctx, "Test.Wait"); code != 504 || took != 3*time.Second {
			t.Errorf("got %d after %v", code, took)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		code, text, took := handle(ctx, "Test.Stay")
		if code != 504 || took != 3*time.Second {
			t.Errorf("got %d after %v", code, took)
		}
		if strings.Contains(text, "30s") {
			t.Errorf("it waited for 3s and says %q", text)
		}
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if code, _, took := handle(ctx, "Test.Wait"); code != 499 || took != time.Second {
			t.Errorf("got %d after %v", code, took)
		}
		close(release)
	})
}

// A connection reads into memory that it uses again, but not while a handler that
// was left behind may still look at it.
func TestStubbornHandlerKeepsItsData(t *testing.T) {
	for name, change := range map[string]func(Syscall) Syscall{
		"inline": func(s Syscall) Syscall { return s }, "slow": slow,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release, seen := make(chan struct{}), make(chan string, 1)
				k := newKernel(t, nil, within(time.Second, change(raw("Test.Wait", func(_ context.Context, m message.Message, _ Emit) {
					<-release
					seen <- string(m.Data)
				}))), echo("Test.Echo"))
				conn := connect(k)
				conn.in <- query("1", "Test.Wait", `"mine, and nobody else's"`)
				conn.in <- query("2", "Test.Echo", `"something else entirely!!!"`)
				conn.in <- query("3", "Test.Echo", `"and something else again"`)
				if err := conn.end(); err != nil {
					t.Error(err)
				}
				close(release)
				if got := <-seen; got != `"mine, and nobody else's"` {
					t.Errorf("its data has become %s", got)
				}
				if want := map[string]int{"inline": 1, "slow": 0}[name]; conn.detached != want {
					t.Errorf("the source was detached %d times", conn.detached)
				}
			})
		})
	}
}
