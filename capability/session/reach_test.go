package session_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"kernos/kernel"
	"kernos/message"
)

// reaching is a query that reaches what its data names, one thing after the other, and notes what it got.
func (w *world) reaching(ctx context.Context, in keyData) (out keyData, err error) {
	for _, target := range strings.Fields(in.Key) {
		e := kernel.Reaching(ctx, kernel.ToNetwork, target)
		if e != nil {
			err = e
			continue
		}
		w.mu.Lock()
		w.seen = append(w.seen, target)
		w.mu.Unlock()
	}
	return in, err
}

func TestWhatACallReachesAsks(t *testing.T) {
	once := func(calls ...string) func(generateInput) answer {
		return func(in generateInput) answer {
			if in.Messages[len(in.Messages)-1].Type == "input" {
				return answer{calls: calls}
			}
			return answer{text: "fine"}
		}
	}
	test(t, "a call waits with all that it reaches, and is made again when it is allowed", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Reach.*"]}`)
		w.script = once(`Reach.Query {"key":"https://a https://b"}`, `Reach.Command {"key":"https://a"}`)
		w.send(id, "go")
		synctest.Wait()
		if i := w.get(id); i.Status != "waiting" || len(i.Pending) != 2 || len(w.outside()) != 0 {
			t.Fatalf("got %+v, reached %q", i, w.outside())
		}
		w.restart(0)
		synctest.Wait()
		for _, m := range w.all(id) {
			if m.Type != "approval-request" {
				continue
			}
			if m.Name == "Reach.Query" && (len(m.Reached) != 2 || m.Reached[1] != (kernel.Reached{Reach: kernel.ToNetwork, Target: "https://b"}) || !strings.Contains(m.Rule, "it reaches network https://a, network https://b")) {
				t.Errorf("the approval-request is %+v", m)
			}
			w.must("Session.Decide", decision(id, m.Call, `"decision":"allow"`), nil)
		}
		synctest.Wait()
		if got := w.outside(); len(got) != 3 || w.get(id).Status != "idle" {
			t.Errorf("reached %q, %+v", got, w.get(id))
		}
		w.check(id)
	})
	test(t, "a denial is final, and a canceled turn reaches nothing", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Reach.*"]}`)
		w.script = once(`Reach.Query {"key":"https://a"}`)
		w.send(id, "go")
		synctest.Wait()
		w.must("Session.Decide", decision(id, w.request(id).Call, `"decision":"deny"`), nil)
		synctest.Wait()
		w.send(id, "again")
		synctest.Wait()
		w.must("Session.Cancel", `{"session":"`+id+`"}`, nil)
		synctest.Wait()
		if got := w.outside(); len(got) != 0 || w.get(id).Status != "idle" {
			t.Errorf("reached %q, %+v", got, w.get(id))
		}
		w.check(id)
	})
	test(t, "an approval is remembered for its target", func(t *testing.T, w *world) {
		for _, remember := range []string{"session", "always"} {
			w.seen = nil
			id := w.create(`{"tools":["Reach.*"]}`)
			w.script = once(`Reach.Query {"key":"https://` + remember + `"}`)
			w.send(id, "go")
			synctest.Wait()
			w.must("Session.Decide", decision(id, w.request(id).Call, `"decision":"allow","remember":"`+remember+`"`), nil)
			synctest.Wait()
			if out := w.say(id, "again"); out.Status != "done" || len(w.outside()) != 2 {
				t.Errorf("%s: got %+v, reached %q", remember, out, w.outside())
			}
			w.script = once(`Reach.Query {"key":"https://other"}`)
			w.send(id, "go")
			synctest.Wait()
			if i := w.get(id); i.Status != "waiting" || len(w.outside()) != 2 {
				t.Errorf("%s: another target: %+v, reached %q", remember, i, w.outside())
			}
		}
	})
	for _, c := range []struct{ call, policy, want string }{
		{`Reach.Query {"key":"https://a"}`, `[{"match":"*","decide":"allow"}]`, "waiting"},
		{`Reach.Query {"key":"https://a"}`, `[{"match":"*","reach":"network","decide":"allow"}]`, "reached"},
		{`Reach.Query {"key":"https://a"}`, `[{"match":"*","reach":"*","decide":"allow"}]`, "reached"},
		{`Reach.Query {"key":"https://a"}`, `[{"match":"*","reach":"file","decide":"allow"}]`, "waiting"},
		{`Reach.Query {"key":"https://a"}`, `[{"match":"*","reach":"network","decide":"deny"},{"match":"*","decide":"allow"}]`, "403"},
		{`Reach.Purpose {"key":"https://a"}`, `[]`, "waiting"},
		{`Reach.Purpose {"key":"https://a"}`, `[{"match":"Reach.*","decide":"allow"}]`, "reached"},
		{`Reach.Purpose {"key":"https://a"}`, `[{"match":"*","reach":"network","decide":"allow"}]`, "reached"},
		{`Reach.Purpose {"key":"https://a"}`, `[{"match":"*","reach":"network","decide":"deny"},{"match":"Reach.*","decide":"allow"}]`, "403"},
		{`Test.Code {"key":"Reach.Query"}`, `[]`, "403"}, // nothing can wait there
		{`Syscall.Call {"type":"Reach.Query","data":{"key":"https://a"}}`, `[]`, "waiting"},
	} {
		test(t, c.call+" "+c.policy, func(t *testing.T, w *world) {
			id := w.create(`{"tools":["Test.*","Reach.*","Syscall.Call"],"policy":` + c.policy + `}`)
			w.script = once(c.call)
			w.send(id, "go")
			synctest.Wait()
			got := w.get(id).Status
			if got == "idle" {
				for _, m := range w.all(id) {
					for _, r := range m.Results {
						if got = "reached"; r.Error != nil {
							got = "403"
						}
					}
				}
			}
			if got != c.want || (got == "reached") != (len(w.outside()) == 1) {
				t.Errorf("got %s, reached %q", got, w.outside())
			}
		})
	}
}

// A command that goes on although it may not reach something isn't made again.
func TestACommandThatSucceedsIsNotMadeAgain(t *testing.T) {
	test(t, "", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Reach.*"]}`)
		w.scripted(answer{calls: []string{`Reach.Stubborn {"key":"https://a"}`}}, answer{text: "done"})
		if out := w.say(id, "go"); out.Status != "done" || w.counted("stubborn") != 1 {
			t.Errorf("got %+v, counted %d", out, w.counted("stubborn"))
		}
	})
}

// A message of an earlier version may point to a file: nothing reads it, also for the owner, who may read all files.
func TestAStoredPointerReachesNothing(t *testing.T) {
	test(t, "", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		w.must("Session.Append", `{"session":"`+id+`","message":{"type":"input","text":"Look.","files":[{"dataRef":{"scheme":"file","path":"/etc/shadow"}}]}}`, nil)
		if m := w.callAs(nil, "Session.Compact", `{"session":"`+id+`"}`, nil); m == nil || m.Code != 403 || !strings.Contains(m.Message, "what was stored") {
			t.Errorf("Session.Compact: %v", m)
		}
		if out := w.say(id, "go"); out.Status != "failed" || out.Error == nil || out.Error.Code != 403 {
			t.Errorf("the turn: %+v", out)
		}
		w.check(id)
	})
}

// reachers are syscalls that reach the addresses which their keys name.
func (w *world) reachers() []kernel.Syscall {
	of := func(t message.Type, purpose ...kernel.Reach) kernel.Definition {
		return kernel.Definition{Type: t, Summary: "Reach.", Behavior: kernel.Behavior{Reaches: purpose}}
	}
	command := of("Reach.Command")
	return []kernel.Syscall{
		kernel.Query(of("Reach.Query"), w.reaching),
		kernel.Command(command, w.reaching),
		kernel.Query(of("Reach.Purpose", kernel.ToNetwork), w.reaching),
		kernel.Command(of("Reach.Stubborn"), func(ctx context.Context, in keyData) (keyData, error) {
			_ = kernel.Reaching(ctx, kernel.ToNetwork, in.Key)
			return w.count(ctx, keyData{Key: "stubborn"})
		}),
	}
}
