package session_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/capability/session"
	"kernos/message"
	"kernos/store"
)

// kill lets the process end at the n-th write from now on: nothing that it does afterwards is
// stored. reached reports whether there was such a write.
func (w *world) kill(n int) (reached func() bool) {
	var mu sync.Mutex
	writes := 0
	w.store.Fail(func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		if call == "apply" {
			writes++
		}
		if writes >= n && (call == "apply" || call == "commit") {
			return &store.Error{Code: 503, Text: "The process has ended"}
		}
		return nil
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return writes >= n
	}
}

// restart opens what a killed process has left, after it was down for a while.
func (w *world) restart(down time.Duration) {
	w.t.Helper()
	w.stop()
	w.store.Fail(nil)
	w.store = w.store.Crash(0)
	time.Sleep(down)
	w.open()
}

// recorded is a turn with three calls side by side: in the store, outside of it, and a query.
func (w *world) recorded() string {
	w.script = func(in generateInput) answer {
		if in.Messages[len(in.Messages)-1].Type == "tool-results" {
			return answer{deltas: []string{"It ", "is ", "done."}}
		}
		return answer{text: "Let me act.", calls: []string{`Test.Count {"key":"in"}`, `Test.Outside {"key":"out"}`, `Test.Look {"key":"q"}`}}
	}
	return w.create(`{"tools":["Test.*"],"policy":[{"match":"Test.Outside","decide":"allow"}]}`)
}

// survived checks a turn that was killed: T1, T2, T3 and T4 hold, and the session goes on.
func (w *world) survived(id, where string, acknowledged bool) {
	w.t.Helper()
	i := w.get(id)
	if i.Status != "idle" {
		w.t.Errorf("%s: the session is %+v: %s", where, i, w.brief(id))
	}
	all := w.all(id)
	if acknowledged && (len(all) == 0 || all[0].Text != "go") {
		w.t.Errorf("%s: T3: the input is lost: %s", where, w.brief(id))
	}
	w.check(id)
	if n := w.counted("in"); n > 1 || acknowledged && n != 1 {
		w.t.Errorf("%s: T1: counted %d times: %s", where, n, w.brief(id))
	}
	if out := w.outside(); len(out) > 1 {
		w.t.Errorf("%s: T1: done outside %q", where, out)
	}
	if out := w.say(id, "and now?"); out.Status != "done" {
		w.t.Errorf("%s: it doesn't go on: %+v", where, out)
	}
	w.check(id)
}

func TestATurnIsKilledAtEveryWrite(t *testing.T) {
	for n, more := 1, true; more; n++ {
		test(t, fmt.Sprint(n), func(t *testing.T, w *world) {
			id := w.recorded()
			reached := w.kill(n)
			acknowledged := w.callAs(nil, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"go"}`, id), nil) == nil
			time.Sleep(time.Second)
			more = reached()
			if n == 1 && acknowledged {
				t.Error("a write that failed was acknowledged")
			}
			w.restart(48 * time.Hour) // longer than outcomes are kept
			time.Sleep(time.Minute)
			synctest.Wait()
			w.survived(id, fmt.Sprint("write ", n), acknowledged)
			if !more && n < 8 {
				t.Errorf("the turn has only %d writes", n)
			}
		})
		if n > 100 {
			t.Fatal("the turn never ends")
		}
	}
}

var kills = flag.Int("kills", 20, "how often a turn is killed")

func TestATurnIsKilledAgainAndAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	test(t, "", func(t *testing.T, w *world) {
		w.room = 500 // summaries are made meanwhile
		id := w.recorded()
		inputs, seen, summaries := 0, 0, 0
		for range *kills {
			w.kill(1 + random.IntN(12))
			if w.callAs(nil, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"go %d"}`, id, inputs), nil) == nil {
				inputs++
			}
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
			w.restart(time.Duration(random.IntN(100)) * time.Hour)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, m := range w.all(id) {
			if m.Type == "input" {
				seen++
			}
			if m.Type == "summary" {
				summaries++
			}
		}
		if summaries == 0 {
			t.Error("nothing was summarized")
		}
		if seen < inputs {
			t.Errorf("T3: %d inputs of %d are there: %s", seen, inputs, w.brief(id))
		}
		w.check(id)
		if i := w.get(id); i.Status != "idle" && i.Status != "running" {
			t.Errorf("got %+v", i)
		}
		done := 0
		for _, m := range w.all(id) {
			for _, r := range m.Results {
				if r.Error == nil && slices.Contains([]string{`{"key":"out"}`}, string(r.Output)) {
					done++
				}
			}
		}
		if out := len(w.outside()); out < done {
			t.Errorf("T1: %d results of %d effects", done, out)
		}
	})
}

// After a restore it isn't known what open turns have done since the backup: they wait.
func TestOpenTurnsWaitAfterARestore(t *testing.T) {
	test(t, "", func(t *testing.T, w *world) {
		id := w.recorded()
		w.script = func(generateInput) answer { return answer{hold: make(chan struct{})} }
		w.send(id, "go")
		synctest.Wait()
		w.stop()
		w.store = w.store.Crash(0)
		if open, err := session.Restored(w.store); err != nil || !open {
			t.Fatalf("got %v %v", open, err)
		}
		w.script = func(generateInput) answer { return answer{text: "gone on"} }
		w.open()
		time.Sleep(time.Hour)
		if i := w.get(id); i.Status != "waiting" || len(w.asked) != 1 {
			t.Errorf("got %+v", i)
		}
		if s, err := w.Stats(); err != nil || s.Waiting != 1 {
			t.Errorf("got %+v %v", s, err)
		}
		w.must("Session.Continue", fmt.Sprintf(`{"session":%q}`, id), nil)
		synctest.Wait()
		if got := w.brief(id); got != "input=go; reply=gone on" {
			t.Errorf("got %s", got)
		}
	})
}

// A kernel that ends with its caller runs no sessions.
func TestAKernelInProcessRunsNone(t *testing.T) {
	test(t, "", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		w.stop()
		for _, c := range []struct{ t, data string }{{"Session.Create", `{}`}, {"Session.Send", `{"session":%q,"text":"x"}`}, {"Session.Continue", `{"session":%q}`}, {"Agent.Ask", `{"text":"x"}`}} {
			if strings.Contains(c.data, "%") {
				c.data = fmt.Sprintf(c.data, id)
			}
			w.wants(503, w.callAs(nil, message.Type(c.t), c.data, nil), "kernos serve")
		}
		w.must("Session.Get", fmt.Sprintf(`{"session":%q}`, id), nil)
	})
}
