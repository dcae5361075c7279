package kernel_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// outcomes is work that keeps the outcomes of its calls.
type outcomes struct{ all []string }

func (o *outcomes) Held() error { return nil }
func (o *outcomes) Applied()    {}
func (o *outcomes) Settle(b *store.Batch, m *message.Message) ([]message.Message, error) {
	b.Set([]byte("m/outcome"), m.Data)
	o.all = append(o.all, string(m.Data))
	return nil, nil
}

// callRules are rules that decide about calls, and let them reach everything.
type callRules func(session string, s *kernel.Syscall, m *message.Message, nested bool) error

func (r callRules) Call(session string, s *kernel.Syscall, m *message.Message, nested bool) error {
	return r(session, s, m, nested)
}

func (callRules) Reach(string, *kernel.Call, kernel.Reached) error { return nil }

// The rules of a session decide about a call that is a part of its work, about the syscall that
// Syscall.Call calls, and about what handlers call.
func TestRulesDecideAboutWhatIsFinallyCalled(t *testing.T) {
	var asked []string
	decide := func(session string, s *kernel.Syscall, _ *message.Message, nested bool) error {
		if nested {
			session += " nested"
		}
		asked = append(asked, session+" "+string(s.Type))
		if s.Type == "Test.Inner" {
			return message.Errorf(403, "The session may not call %s", s.Type)
		}
		return nil
	}
	through := kerneltest.AsCommand(kerneltest.Echo(kernel.ThroughType))
	k := kerneltest.New(t, &kernel.Options{Rules: callRules(decide), Store: storetest.NewMemory()},
		kerneltest.AsCommand(calling("Test.Outer", "Test.Inner")), kerneltest.Echo("Test.Inner"), kerneltest.Echo("Test.Free"), through)
	for _, c := range []struct {
		t    message.Type
		data string
		want []string
		fine bool
	}{
		{"Test.Free", `1`, []string{"s1 Test.Free"}, true},
		{"Test.Outer", `1`, []string{"s1 Test.Outer", "s1 nested Test.Inner"}, false},
		{kernel.ThroughType, `{"type":"Test.Inner","data":1}`, []string{"s1 Test.Inner"}, false},
	} {
		asked = nil
		out, _ := k.Do(t.Context(), kernel.WorkCall{Type: c.t, Data: []byte(c.data), Sender: kernel.Sender{}.In("s1"), Work: new(outcomes)})
		if !slices.Equal(asked, c.want) || (out.Kind == message.KindReply) != c.fine {
			t.Errorf("%s: asked about %q, got %s %s", c.t, asked, out.Kind, out.Data)
		}
	}
	asked = nil
	if kerneltest.Answer(t, k, kerneltest.Query("1", "Test.Free", `1`)); asked != nil {
		t.Errorf("asked about %q, which no session has caused", asked)
	}
}

// The key of a call that is a part of some work doesn't expire before the work has the outcome,
// and is forgotten then.
func TestTheKeyOfWorkLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		release := make(chan struct{})
		posts := 0
		post := outside("Test.Post", func(_ context.Context, m message.Message, emit kernel.Emit) {
			posts++
			<-release
			emit(m.Reply(m.Data))
		})
		k := kerneltest.New(t, &kernel.Options{Store: s}, post)
		do := func(k *kernel.Kernel) message.Message {
			out, _ := k.Do(context.Background(), kernel.WorkCall{Type: "Test.Post", Data: []byte(`1`), Metadata: message.Metadata{IdempotencyKey: "session/1/a"}, Work: new(outcomes)})
			return out
		}
		go do(k)
		synctest.Wait()
		crashed := s.Crash(0) // while it runs
		close(release)
		synctest.Wait()
		after := kerneltest.New(t, &kernel.Options{Store: crashed}, post)
		time.Sleep(48 * time.Hour)
		if _, err := after.Sweep(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if code, text := kerneltest.ReadError(t, do(after)); code != 409 || posts != 1 {
			t.Errorf("after two days: %d %s, done %d times", code, text, posts)
		}
		if e, err := store.First(crashed, store.Prefix([]byte{store.SpaceIdempotency, 'k'})); err != nil || e.Revision != 0 {
			t.Errorf("the key is there after the work has its outcome: %v %v", e, err)
		}
	})
}

// A handler that overstays the deadline of some work is answered for, and Do returns the outcome.
func TestWorkThatIsLate(t *testing.T) {
	for _, runs := range []kernel.RunMode{kernel.Inline, kernel.Slow} {
		synctest.Test(t, func(t *testing.T) {
			s := kerneltest.Echo("Test.Late")
			s.Runs = runs
			s.Handler = func(_ context.Context, m message.Message, emit kernel.Emit) {
				time.Sleep(time.Minute)
				emit(m.Reply(m.Data))
			}
			k := kerneltest.New(t, &kernel.Options{Store: storetest.NewMemory()}, s)
			var w outcomes
			out, _ := k.Do(t.Context(), kernel.WorkCall{Type: "Test.Late", Data: []byte(`1`), Timeout: time.Second, Work: &w})
			if code, text := kerneltest.ReadError(t, out); code != 504 || len(w.all) != 1 {
				t.Errorf("%v: %d %s, settled as %q", runs, code, text, w.all)
			}
			time.Sleep(time.Minute) // until the handler has returned
		})
	}
}
