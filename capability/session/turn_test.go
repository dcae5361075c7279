package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kernos/kernel"
	"kernos/message"
	"kernos/store/blobs"
)

func TestTurns(t *testing.T) {
	test(t, "a turn with calls", func(t *testing.T, w *world) {
		id := w.create(`{"system":"Be brief.","policy":[{"match":"Test.Outside","decide":"allow"}],"tools":["Test.*"]}`)
		w.scripted(answer{text: "Let me look.", calls: []string{`Test.Count {"key":"a"}`, `Test.Outside {"key":"b"}`, `Test.Look {"key":"c"}`, `Test.Nothing {}`, `Memory.Get {}`}}, answer{deltas: []string{"It ", "is ", "done."}})
		if out := w.say(id, "go"); out.Status != "done" || out.Text != "It is done." {
			t.Errorf("got %+v", out)
		}
		w.check(id)
		got := w.brief(id)
		for _, want := range []string{"system=Be brief.; input=go; reply=Let me look.; tool-calls Test.Count Test.Outside Test.Look Test.Nothing Memory.Get; ", `tool-results {"key":"a","n":1}`, `tool-results {"key":"b"}`, `tool-results {"key":"c"}`, "tool-results 404", "tool-results 403", "; reply=It is done."} {
			if !strings.Contains(got, want) {
				t.Errorf("%q isn't in %s", want, got)
			}
		}
		if w.counted("a") != 1 || len(w.outside()) != 1 {
			t.Errorf("counted %d, done outside %q", w.counted("a"), w.outside())
		}
		last := w.asked[1]
		if last.System != "Be brief." || len(last.Messages) != 4 || len(last.Messages[3].Results) != 5 || last.Messages[3].Type != "tool-results" {
			t.Errorf("the model was asked %+v", last)
		}
		if i := w.get(id); i.Used.Steps != 2 || i.Used.Tokens != 30 || i.Used.Calls != 5 || i.Status != "idle" {
			t.Errorf("got %+v", i)
		}
	})
	test(t, "the calls of a turn are as remote as its input", func(t *testing.T, w *world) {
		id := w.create(`{"policy":[{"match":"Test.Outside","decide":"allow"}],"tools":["Test.*"]}`)
		hold := make(chan struct{})
		w.scripted(answer{hold: hold, calls: []string{`Test.Outside {"key":"a"}`}}, answer{text: "fine"}, answer{calls: []string{`Test.Outside {"key":"b"}`}}, answer{text: "fine"}, answer{calls: []string{`Test.Outside {"key":"c"}`}})
		far := kernel.ActFor(blobs.WithRemote(t.Context(), new(blobs.Remote)), kernel.From(nil, "http"))
		input := fmt.Sprintf(`{"session":%q,"text":"go"}`, id)
		w.must("Session.Send", input, nil)
		if e := w.callWith(far, "Session.Send", input, nil, nil); e != nil { // it is queued
			t.Fatal(e)
		}
		close(hold)
		synctest.Wait()
		w.say(id, "go")
		if got := fmt.Sprint(w.outside()); got != "[a b for a remote caller c]" {
			t.Errorf("got %s", got)
		}
	})
	test(t, "calls whose arguments make no sense", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Test.*","Syscall.Call"]}`)
		args := []string{`{"type":5}`, `{"type":null}`, `{"type":{}}`, `{"type":""}`, `{}`, `[]`, `5`, `"text"`, `{"type":"Test.Look","data":5}`, `{"type":"Syscall.Call","data":{"type":5}}`}
		var calls []string
		for _, a := range args {
			calls = append(calls, "Syscall.Call "+a, "Test.Look "+a)
		}
		w.scripted(answer{calls: calls})
		if out := w.say(id, "go"); out.Status != "done" {
			t.Errorf("got %+v", out)
		}
		if n := strings.Count(w.brief(id), "tool-results 422"); n != len(calls) {
			t.Errorf("%d of %d calls are a 422: %s", n, len(calls), w.brief(id))
		}
		w.check(id)
	})
	test(t, "a panic ends the turn and not the kernel", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		w.room = -1
		if out := w.say(id, "go"); out.Status != "failed" || out.Error.Code != 500 {
			t.Errorf("got %+v", out)
		}
		w.room = 0
		if out := w.say(id, "again"); out.Status != "done" {
			t.Errorf("got %+v", out)
		}
		w.check(id)
	})
	test(t, "inputs are queued", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		hold := make(chan struct{})
		w.scripted(answer{deltas: []string{"one"}, hold: hold}, answer{text: "two"}, answer{text: "three"})
		w.send(id, "1")
		synctest.Wait()
		second, third := w.send(id, "2"), w.send(id, "3")
		if second.Status != "queued" || second.Turn == third.Turn || w.get(id).Queued != 2 {
			t.Errorf("got %+v %+v", second, w.get(id))
		}
		close(hold)
		synctest.Wait()
		if got := w.brief(id); got != "input=1; reply=one; input=2; reply=two; input=3; reply=three" {
			t.Errorf("got %s", got)
		}
		w.check(id)
	})
	test(t, "a cancel keeps what was said", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		w.scripted(answer{deltas: []string{"half ", "a"}, hold: make(chan struct{})}, answer{text: "next"})
		w.send(id, "1")
		synctest.Wait()
		w.send(id, "2")
		w.must("Session.Cancel", fmt.Sprintf(`{"session":%q}`, id), nil)
		synctest.Wait()
		if got := w.brief(id); got != "input=1; reply…=half a; input=2; reply=next" {
			t.Errorf("got %s", got)
		}
		w.check(id)
	})
	test(t, "a cancel gives calls a result", func(t *testing.T, w *world) {
		id := w.create(`{"policy":[{"match":"Test.Outside","decide":"allow"}],"tools":["Test.*"]}`)
		w.scripted(answer{calls: []string{`Test.Outside {"key":"hang"}`, `Test.Count {"key":"a"}`, `Test.Outside {"key":"b"}`}}, answer{text: "gone on"})
		w.send(id, "1")
		synctest.Wait()
		w.must("Session.Cancel", fmt.Sprintf(`{"session":%q}`, id), nil)
		synctest.Wait()
		w.check(id)
		if i := w.get(id); i.Status != "idle" || i.Last.Status != "canceled" {
			t.Errorf("got %+v", i)
		}
		w.must("Session.Continue", fmt.Sprintf(`{"session":%q}`, id), nil)
		synctest.Wait()
		if got := w.brief(id); !strings.HasSuffix(got, "reply=gone on") || !strings.Contains(got, "499") {
			t.Errorf("got %s", got)
		}
	})
	test(t, "budgets end a turn", func(t *testing.T, w *world) {
		for _, budget := range []string{`{"steps":2}`, `{"tokens":20}`, `{"cost":1.5}`, `{"calls":2}`} {
			id := w.create(fmt.Sprintf(`{"tools":["Test.*"],"budget":%s}`, budget))
			w.script = func(generateInput) answer { return answer{calls: []string{`Test.Look {"key":"a"}`}, cost: 1} }
			if out := w.say(id, "go"); out.Status != "limited" || out.Error.Code != 429 || len(w.asked) != 2 {
				t.Errorf("%s: got %+v after %d steps", budget, out, len(w.asked))
			}
			w.asked = nil
			w.scripted(answer{text: "done"})
			w.must("Session.Continue", fmt.Sprintf(`{"session":%q}`, id), nil)
			synctest.Wait()
			if i := w.get(id); i.Last.Status != "done" {
				t.Errorf("%s: got %+v", budget, i)
			}
			w.asked = nil
		}
	})
	test(t, "a total ends the turns of a session", func(t *testing.T, w *world) {
		for total, want := range map[string]string{`{"steps":2}`: "(steps: 2)", `{"tokens":20}`: "(tokens: 20)", `{"cost":1.5}`: "(cost: 1.5)"} {
			id := w.create(fmt.Sprintf(`{"tools":[],"total":%s}`, total))
			w.script = func(generateInput) answer { return answer{text: "fine", cost: 1} }
			for range 2 {
				if out := w.say(id, "go"); out.Status != "done" {
					t.Errorf("%s: got %+v", total, out)
				}
			}
			out := w.say(id, "go")
			if out.Status != "limited" || out.Error.Code != 429 || !strings.Contains(out.Error.Message, want) || !strings.Contains(out.Error.Message, "Session.Continue") {
				t.Errorf("%s: got %+v", total, out)
			}
			w.must("Session.Continue", fmt.Sprintf(`{"session":%q}`, id), nil)
			synctest.Wait()
			if i := w.get(id); i.Last.Status != "limited" {
				t.Errorf("%s: resumed without a higher total: %+v", total, i)
			}
			w.must("Session.Continue", fmt.Sprintf(`{"session":%q,"total":{"steps":100}}`, id), nil)
			synctest.Wait()
			var shown struct {
				Last  struct{ Status string }
				Total struct{ Steps int }
			}
			w.must("Session.Get", fmt.Sprintf(`{"session":%q}`, id), &shown)
			if shown.Last.Status != "done" || shown.Total.Steps != 100 {
				t.Errorf("%s: got %+v", total, shown)
			}
		}
	})
	test(t, "time ends a turn", func(t *testing.T, w *world) {
		for _, slow := range []answer{{deltas: []string{"so far"}, hold: make(chan struct{})}, {calls: []string{`Test.Outside {"key":"hang"}`}}} {
			id := w.create(`{"tools":["Test.*"],"budget":{"time":"5s"},"policy":[{"match":"Test.*","decide":"allow"}]}`)
			w.scripted(slow)
			if out := w.say(id, "go"); out.Status != "limited" || out.Error.Code != 429 || out.Text != strings.Join(slow.deltas, "") {
				t.Errorf("got %+v", out)
			}
			w.must("Session.Continue", fmt.Sprintf(`{"session":%q}`, id), nil)
			synctest.Wait()
			if i := w.get(id); i.Last.Status != "done" {
				t.Errorf("got %+v", i)
			}
			w.check(id)
		}
	})
	test(t, "another model from an input on", func(t *testing.T, w *world) {
		id := w.create(`{"model":"one"}`)
		w.scripted(answer{text: "1"}, answer{text: "2"}, answer{text: "3"})
		w.say(id, "a")
		w.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"b","model":"two"}`, id), nil)
		synctest.Wait()
		w.say(id, "c")
		if got := w.asked[0].Model + w.asked[1].Model + w.asked[2].Model; got != "onetwotwo" {
			t.Errorf("asked %s", got)
		}
		var list struct {
			Sessions []struct {
				Model string
				Turns int
			}
		}
		if w.must("Session.List", `{}`, &list); len(list.Sessions) != 1 || list.Sessions[0].Model != "two" || list.Sessions[0].Turns != 3 {
			t.Errorf("listed as %+v", list)
		}
	})
	test(t, "a failing provider", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		w.scripted(answer{deltas: []string{"so far"}, fail: message.Errorf(502, "The provider has ended")})
		if out := w.say(id, "go"); out.Status != "failed" || out.Error.Code != 502 || out.Text != "so far" {
			t.Errorf("got %+v", out)
		}
		if out := w.say(id, "again"); out.Status != "done" {
			t.Errorf("got %+v", out)
		}
		w.check(id)
	})
}
