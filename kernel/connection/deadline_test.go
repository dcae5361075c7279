package connection_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestServeAnswersForHandlersThatOverstay(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(release <-chan struct{}) kernel.Syscall
		slow bool
	}{
		{"cooperative and inline", func(<-chan struct{}) kernel.Syscall { return kerneltest.Cooperative("Test.Wait") }, false},
		{"cooperative and slow", func(<-chan struct{}) kernel.Syscall { return kerneltest.Slow(kerneltest.Cooperative("Test.Wait")) }, true},
		{"stubborn and inline", func(r <-chan struct{}) kernel.Syscall { return kerneltest.Stubborn("Test.Wait", r) }, false},
		{"stubborn and slow", func(r <-chan struct{}) kernel.Syscall { return kerneltest.Slow(kerneltest.Stubborn("Test.Wait", r)) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				k := kerneltest.New(t, nil, kerneltest.Within(time.Second, c.make(release)), kerneltest.Echo("Test.Echo"))
				conn := kerneltest.Connect(k)
				conn.In <- kerneltest.Query("wait", "Test.Wait", `1`)
				conn.In <- kerneltest.Query("next", "Test.Echo", `2`)

				time.Sleep(time.Second - 1)
				synctest.Wait()
				before := []string(nil)
				if c.slow {
					before = []string{"next 2"}
				}
				if got := conn.SoFar(t); !slices.Equal(got, before) {
					t.Errorf("before the deadline: %v", got)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				after := []string{"wait 504", "next 2"}
				if c.slow {
					after = []string{"next 2", "wait 504"}
				}
				if got := conn.SoFar(t); !slices.Equal(got, after) {
					t.Errorf("at the deadline: %v", got)
				}
				if err := conn.End(); err != nil {
					t.Error(err)
				}
				close(release)
				synctest.Wait()
				if got := conn.SoFar(t); !slices.Equal(got, after) {
					t.Errorf("the late answer is not dropped: %v", got)
				}
			})
		})
	}
}

func TestServeGoesOnAfterManyStubbornHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, nil, kerneltest.Within(time.Second, kerneltest.Stubborn("Test.Wait", release)), kerneltest.Echo("Test.Echo"))
		conn := kerneltest.Connect(k)
		var want []string
		for _, id := range []message.ID{"a", "b", "c"} {
			conn.In <- kerneltest.Query(id, "Test.Wait", `1`)
			conn.In <- kerneltest.Query(id+"-next", "Test.Echo", `2`)
			want = append(want, string(id)+" 504", string(id)+"-next 2")
		}
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
		for i, at := range []time.Duration{1, 1, 2, 2, 3, 3} {
			if conn.Times()[i] != at*time.Second {
				t.Errorf("answer %d came at %v", i, conn.Times()[i])
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
		k := kerneltest.New(t, nil,
			kerneltest.Within(time.Hour, kerneltest.Echo("Test.Far")), kerneltest.Within(time.Second, kerneltest.Stubborn("Test.Near", release)),
			kerneltest.Within(3*time.Second, kerneltest.Stubborn("Test.Later", release)))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("1", "Test.Far", `1`)
		conn.In <- kerneltest.Query("2", "Test.Near", `1`)
		conn.In <- kerneltest.Query("3", "Test.Later", `1`)
		conn.In <- kerneltest.Query("4", "Test.Near", `1`)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		if got := conn.SoFar(t); !slices.Equal(got, []string{"1 1", "2 504", "3 504", "4 504"}) {
			t.Errorf("got %v", got)
		}
		for i, at := range []time.Duration{0, 1, 4, 5} {
			if conn.Times()[i] != at*time.Second {
				t.Errorf("answer %d came at %v", i, conn.Times()[i])
			}
		}
		close(release)
	})
}

func TestHandleAnswersForHandlersThatOverstay(t *testing.T) {
	for _, willing := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			s := kerneltest.Stubborn("Test.Wait", release)
			if willing {
				s = kerneltest.Cooperative("Test.Wait")
			}
			var log testkit.Notes
			k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, kerneltest.Within(time.Minute, s))
			start := time.Now()
			code, text := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Wait", `1`))
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
		{0, 0, kernel.DefaultTimeout},
		{time.Minute, 0, time.Minute},
		{time.Minute, time.Second, time.Second},
		{time.Second, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			k := kerneltest.New(t, &kernel.Options{Timeout: c.kernel}, kerneltest.Within(c.definition, kerneltest.Stubborn("Test.Wait", release)))
			start := time.Now()
			kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Wait", `1`))
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
		k := kerneltest.New(t, nil, kerneltest.Cooperative("Test.Wait"), kerneltest.Stubborn("Test.Stay", release))
		handle := func(ctx context.Context, name message.Type) (int, string, time.Duration) {
			start := time.Now()
			var got message.Message
			k.Handle(ctx, kerneltest.Query("1", name, `1`), func(m message.Message) { got = m })
			code, text := kerneltest.ReadError(t, got)
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
	for name, change := range map[string]func(kernel.Syscall) kernel.Syscall{
		"inline": func(s kernel.Syscall) kernel.Syscall { return s }, "slow": kerneltest.Slow,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release, seen := make(chan struct{}), make(chan string, 1)
				k := kerneltest.New(t, nil, kerneltest.Within(time.Second, change(kerneltest.Raw("Test.Wait", func(_ context.Context, m message.Message, _ kernel.Emit) {
					<-release
					seen <- string(m.Data)
				}))), kerneltest.Echo("Test.Echo"))
				conn := kerneltest.Connect(k)
				conn.In <- kerneltest.Query("1", "Test.Wait", `"mine alone"`)
				conn.In <- kerneltest.Query("2", "Test.Echo", `"something else entirely!!!"`)
				conn.In <- kerneltest.Query("3", "Test.Echo", `"and something else again"`)
				if err := conn.End(); err != nil {
					t.Error(err)
				}
				close(release)
				if got := <-seen; got != `"mine alone"` {
					t.Errorf("its data has become %s", got)
				}
				if want := map[string]int{"inline": 1, "slow": 0}[name]; conn.Detached() != want {
					t.Errorf("the source was detached %d times", conn.Detached())
				}
			})
		})
	}
}
