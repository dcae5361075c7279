package session_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kernos/capability/model"
	"kernos/capability/model/modeltest"
	"kernos/internal/outbound"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
)

func TestBranches(t *testing.T) {
	test(t, "a command that was denied isn't listed by a rewind", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Test.*"]}`)
		w.scripted(answer{calls: []string{`Test.Outside {"key":"a"}`, `Test.Outside {"key":"b"}`}})
		w.send(id, "go")
		synctest.Wait()
		pending := w.get(id).Pending
		w.must("Session.Decide", decision(id, pending[0], `"decision":"deny"`), nil)
		w.must("Session.Decide", decision(id, pending[1], `"decision":"allow"`), nil)
		synctest.Wait()
		var out struct {
			Commands []struct{ Call string }
		}
		w.must("Session.Rewind", fmt.Sprintf(`{"session":%q,"to":0}`, id), &out)
		if len(out.Commands) != 1 || out.Commands[0].Call != pending[1] {
			t.Errorf("got %+v, want %s", out.Commands, pending[1])
		}
	})
	test(t, "rewind and fork delete nothing", func(t *testing.T, w *world) {
		id := w.create(`{"tools":["Test.*"]}`)
		w.scripted(answer{text: "one"}, answer{calls: []string{`Test.Count {"key":"a"}`, `Test.Look {"key":"b"}`}}, answer{text: "two"}, answer{text: "three"}, answer{text: "four"})
		w.say(id, "1")
		w.say(id, "2")
		var out struct {
			Leaf     uint64
			Commands []struct{ Name string }
		}
		w.must("Session.Rewind", fmt.Sprintf(`{"session":%q,"to":2}`, id), &out)
		if out.Leaf != 2 || len(out.Commands) != 1 || out.Commands[0].Name != "Test.Count" {
			t.Errorf("got %+v", out)
		}
		var forked struct{ Session string }
		w.must("Session.Fork", fmt.Sprintf(`{"session":%q,"at":7}`, id), &forked)
		w.say(id, "3")
		w.say(forked.Session, "4")
		texts := func(i int) (all []string) {
			for _, m := range w.asked[i].Messages {
				all = append(all, m.Text)
			}
			return all
		}
		if got := strings.Join(texts(3), "|"); got != "1|one|3" {
			t.Errorf("after the rewind the model was shown %s", got)
		}
		if got := strings.Join(texts(4), "|"); got != "1|one|2|||two|4" {
			t.Errorf("in the fork the model was shown %s", got)
		}
		w.check(id)
		w.check(forked.Session)
		if got := w.brief(forked.Session); !strings.HasSuffix(got, "reply=two; input=4; reply=four") {
			t.Errorf("the fork is %s", got)
		}
		w.wants(409, w.callAs(nil, "Session.Delete", fmt.Sprintf(`{"session":%q}`, id), nil), forked.Session)
		w.must("Session.Delete", fmt.Sprintf(`{"session":%q}`, forked.Session), nil)
		w.must("Session.Delete", fmt.Sprintf(`{"session":%q}`, id), nil)
	})
	test(t, "a summary stands for what it covers", func(t *testing.T, w *world) {
		id := w.create(`{"system":"Be brief.","tools":["Test.*"]}`)
		w.scripted(answer{calls: []string{`Test.Look {"key":"b"}`}}, answer{text: "one"}, answer{text: "two"}, answer{text: "SUM"}, answer{text: "three"}, answer{text: "SUM2"}, answer{text: "four"})
		w.say(id, "1")
		w.say(id, "2")
		var out struct{ Covers, Seq uint64 }
		w.must("Session.Compact", fmt.Sprintf(`{"session":%q,"keep":4}`, id), &out) // would cut the call from its result
		if out.Covers != 2 {
			t.Errorf("got %+v: %s", out, w.brief(id))
		}
		w.say(id, "3")
		last := w.asked[len(w.asked)-1]
		if first := last.Messages[0]; last.System != "Be brief." || !strings.Contains(first.Text, "SUM") || len(last.Messages) != 7 {
			t.Errorf("the model was shown %+v", last)
		}
		w.must("Session.Compact", fmt.Sprintf(`{"session":%q,"keep":1}`, id), &out)
		w.say(id, "4")
		last = w.asked[len(w.asked)-1]
		if first := last.Messages[0]; last.System != "Be brief." || !strings.Contains(first.Text, "SUM2") || len(last.Messages) != 3 {
			t.Errorf("the model was shown %+v", last)
		}
		w.check(id)
	})
}

func TestAgents(t *testing.T) {
	test(t, "an agent is pinned, and a change is announced", func(t *testing.T, w *world) {
		w.agent = "You write."
		id := w.create(`{"agent":"os://agents/writer.md"}`)
		w.say(id, "1")
		asked := w.asked[0]
		if !strings.HasPrefix(asked.System, "You write.") || !strings.Contains(asked.System, "pdf: Reads PDF. (os://skills/pdf.md)") || len(asked.Tools) != 2 || asked.Tools[0]["name"] != "Test.Look" {
			t.Errorf("the model was asked %+v", asked)
		}
		w.agent = "You write poems."
		w.say(id, "2")
		w.say(id, "3")
		if got := w.brief(id); strings.Count(got, "has changed since") != 1 || !strings.HasPrefix(w.asked[2].System, "You write.") || w.get(id).Agent.Now == "" {
			t.Errorf("got %s", got)
		}
	})
	test(t, "a child shares the budget and the rules", func(t *testing.T, w *world) {
		w.script = func(in generateInput) answer {
			last := in.Messages[len(in.Messages)-1]
			switch {
			case last.Text == "parent":
				return answer{calls: []string{`Agent.Ask {"text":"child"}`}}
			case last.Text == "child":
				return answer{calls: []string{`Syscall.Call {"type":"Test.Outside","data":{"key":"x"}}`, `Syscall.Call {"type":"Test.Look","data":{"key":"y"}}`, `Syscall.Call {"type":"Test.Count","data":{"key":"z"}}`}}
			}
			return answer{text: "fine"}
		}
		id := w.create(`{"tools":["Agent.Ask","Test.Outside","Test.Look"],"policy":[{"match":"Test.Outside","decide":"deny"}],"budget":{"steps":10}}`)
		if out := w.say(id, "parent"); out.Status != "done" || len(w.outside()) != 0 {
			t.Errorf("got %+v, done %q", out, w.outside())
		}
		if i := w.get(id); i.Used.Steps != 4 || i.Used.Calls != 4 {
			t.Errorf("the parent has used %+v", i.Used)
		}
		var list struct {
			Sessions []struct{ Session, Parent string }
		}
		w.must("Session.List", `{}`, &list)
		if len(list.Sessions) != 2 || list.Sessions[0].Parent != id {
			t.Errorf("got %+v", list)
		}
		// The rules of the parent deny one call, and another one isn't among its tools.
		if got := w.brief(list.Sessions[0].Session); strings.Count(got, "403") != 2 || !strings.Contains(got, `{"key":"y"}`) || w.counted("z") != 0 {
			t.Errorf("the child: %s", got)
		}
	})
	test(t, "a child may cost what is left to its parent, which may be little", func(t *testing.T, w *world) {
		w.script = func(in generateInput) answer {
			if in.Messages[len(in.Messages)-1].Text == "parent" {
				return answer{calls: []string{`Agent.Ask {"text":"child"}`}, cost: .25}
			}
			return answer{text: "fine"}
		}
		w.say(w.create(`{"tools":["Agent.Ask"],"budget":{"cost":0.5},"total":{"cost":0.75}}`), "parent")
		var list struct{ Sessions []struct{ Session string } }
		w.must("Session.List", `{}`, &list)
		var child struct{ Budget, Total struct{ Cost float64 } }
		w.must("Session.Get", fmt.Sprintf(`{"session":%q}`, list.Sessions[0].Session), &child)
		if child.Budget.Cost != .25 || child.Total.Cost != .5 {
			t.Errorf("the child may cost %+v", child)
		}
	})
	test(t, "an agent is asked with tools and a budget", func(t *testing.T, w *world) {
		w.script = func(generateInput) answer { return answer{calls: []string{`Test.Look {"key":"a"}`}} }
		var out struct {
			Status string
			Used   struct{ Steps int }
		}
		w.must("Agent.Ask", `{"text":"go","tools":["Test.Look"],"budget":{"steps":3}}`, &out)
		if out.Status != "limited" || out.Used.Steps != 3 || len(w.asked[0].Tools) != 1 {
			t.Errorf("got %+v with %d tools", out, len(w.asked[0].Tools))
		}
	})
	test(t, "tools and rules that would match nothing", func(t *testing.T, w *world) {
		for _, data := range []string{
			`{"policy":[{"match":"test.*","decide":"deny"}]}`, `{"policy":[{"match":"Test.Out*","decide":"deny"}]}`, `{"policy":[{"match":"Old.Look","decide":"deny"}]}`,
			`{"policy":[{"match":"*","decide":"allow"},{"match":"[","decide":"deny"}]}`, `{"tools":["test.look"]}`, `{"tools":[{"name":"look","description":"It has no schema."}]}`,
		} {
			w.wants(422, w.callAs(nil, "Session.Create", data, nil), "Schema validation failed")
		}
		w.say(w.create(`{"tools":[]}`), "go")
		w.say(w.create(`{}`), "go")
		if len(w.asked[0].Tools) != 0 || len(w.asked[1].Tools) == 0 {
			t.Errorf("offered %v without tools, and %v by default", w.asked[0].Tools, w.asked[1].Tools)
		}
	})
	test(t, "a tool that runs elsewhere", func(t *testing.T, w *world) {
		id := w.create(`{"tools":[{"name":"Screen.Shot","description":"See.","inputSchema":{"type":"object"}}]}`)
		w.scripted(answer{calls: []string{`Screen.Shot {}`}}, answer{text: "nice"})
		w.send(id, "go")
		synctest.Wait()
		call := w.get(id).Pending[0]
		result := fmt.Sprintf(`{"session":%q,"message":{"type":"tool-results","results":[{"callId":%q,"output":"png"}]}}`, id, call)
		w.must("Session.Append", result, nil)
		synctest.Wait()
		w.wants(403, w.callAs(nil, "Session.Append", result, nil), "has its result")
		if got := w.brief(id); got != `input=go; tool-calls Screen.Shot; tool-results "png"; reply=nice` {
			t.Errorf("got %s", got)
		}
	})
	test(t, "a registered type has any members", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		w.must("Session.DefineType", `{"type":"mood","schema":{"type":"object","required":["name"]}}`, nil)
		// Members of these names mean something in messages of the kernel's types.
		members := `"text":"so","name":{"first":"Ada"},"call":7,"reason":"x","decision":"allow","model":[1],"covers":"all","title":3,"files":"none","calls":1,"results":[{"callId":"call_x"}],"opaque":null`
		w.must("Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"mood",%s,"id":"mine","seq":99,"partial":true}}`, id, members), nil)
		var out struct{ Messages []json.RawMessage }
		w.must("Session.Messages", fmt.Sprintf(`{"session":%q}`, id), &out)
		if got := string(out.Messages[0]); !strings.HasSuffix(got, members+"}") || !strings.Contains(got, `"seq":1,`) || strings.Contains(got, "mine") || strings.Contains(got, "partial") {
			t.Errorf("got %s", got)
		}
		w.say(id, "go")
		w.must("Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"log","text":"x","calls":[{"id":"a","name":"b"}],"results":[{"callId":"a","output":1}]}}`, id), nil)
		var rest struct{ Messages []shown }
		w.must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":3}`, id), &rest)
		if last := rest.Messages[0]; last.Text != "x" || last.Calls != nil || last.Results != nil {
			t.Errorf("got %+v", last)
		}
	})
	test(t, "messages that aren't any", func(t *testing.T, w *world) {
		id := w.create(`{}`)
		for _, m := range []string{`{}`, `{"text":"x"}`, `{"type":5,"text":"x"}`, `{"type":null}`, `{"type":""}`, `{"type":"input"}`, `{"type":"log","text":5}`} {
			w.wants(422, w.callAs(nil, "Session.Append", fmt.Sprintf(`{"session":%q,"message":%s}`, id, m), nil), "message")
		}
	})
	test(t, "a session belongs to its principal", func(t *testing.T, w *world) {
		p := w.token("ada", principal.Grant{Allow: []string{"Session.*", "Test.Look", "Model.Generate"}})
		var out struct{ Session string }
		if e := w.callAs(p, "Session.Create", `{"tools":["Test.*"]}`, &out); e != nil {
			t.Fatal(e)
		}
		w.scripted(answer{calls: []string{`Test.Look {"key":"a"}`, `Test.Count {"key":"a"}`}})
		w.say(out.Session, "go") // the owner may speak in it, and it acts for ada all the same
		if got := w.brief(out.Session); !strings.Contains(got, `tool-results {"key":"a"}`) || w.counted("a") != 0 || len(w.asked[0].Tools) != 1 {
			t.Errorf("got %s", got)
		}
		w.scripted(answer{deltas: []string{"so far"}, hold: make(chan struct{})})
		w.send(out.Session, "more")
		synctest.Wait()
		p.End(principal.ErrRevoked)
		for range 2 { // the turn that runs, and one that begins then
			synctest.Wait()
			if i := w.get(out.Session); i.Last == nil || i.Last.Status != "failed" || i.Last.Error.Code != 403 {
				t.Errorf("got %+v", i.Last)
			}
			w.send(out.Session, "again")
		}
	})
}

// Every context that is rendered after any mixture of what can be done with a session is accepted
// by strict validators of both dialects.
func TestEveryContextIsAccepted(t *testing.T) {
	var mu sync.Mutex
	var requests []json.RawMessage
	for seed := range uint64(6) {
		test(t, fmt.Sprint(seed), func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(seed, 7))
			w.room = int(seed%3) * 500
			w.script = func(in generateInput) answer {
				mu.Lock()
				defer mu.Unlock()
				requests = append(requests, in.raw)
				a := answer{text: []string{"", "so", "\n"}[random.IntN(3)]}
				for range random.IntN(3) {
					a.calls = append(a.calls, []string{`Test.Look {"key":"a"}`, `Test.Count {"key":"b"}`, `Test.Outside {"key":"c"}`, `Test.Nothing {}`, `Screen.Shot {}`}[random.IntN(5)])
				}
				return a
			}
			const made = `{"system":"S","tools":["Test.*",{"name":"Screen.Shot","inputSchema":{"type":"object"}}],"budget":{"steps":4}}`
			ids := []string{w.create(made)}
			for range 25 {
				id := ids[random.IntN(len(ids))]
				mu.Lock()
				what, to := random.IntN(9), random.Uint64N(w.get(id).Seq+1)
				mu.Unlock()
				data := fmt.Sprintf(`{"session":%q}`, id)
				switch what {
				case 0, 1, 2:
					_ = w.callAs(nil, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"%d"}`, id, to), nil)
				case 3:
					_ = w.callAs(nil, "Session.Cancel", data, nil)
				case 4:
					_ = w.callAs(nil, "Session.Rewind", fmt.Sprintf(`{"session":%q,"to":%d}`, id, to), nil)
				case 5:
					var out struct{ Session string }
					if w.callAs(nil, "Session.Fork", fmt.Sprintf(`{"session":%q,"at":%d}`, id, to), &out) == nil {
						ids = append(ids, out.Session)
					}
				case 6:
					_ = w.callAs(nil, "Session.Compact", fmt.Sprintf(`{"session":%q,"keep":%d}`, id, 1+to/2), nil)
				case 7:
					_ = w.callAs(nil, "Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"tool-calls","calls":[{"id":"mine","name":"Echo"}]}}`, id), nil)
				case 8:
					_ = w.callAs(nil, "Session.Continue", data, nil)
				}
				synctest.Wait()
				if pending := w.get(id).Pending; len(pending) > 0 && what%2 == 0 {
					_ = w.callAs(nil, "Session.Decide", decision(id, pending[0], `"decision":"allow"`), nil)
					synctest.Wait()
				}
			}
			w.check(ids[0]) // a fork may begin between a call and its result
		})
	}
	if len(requests) < 25 {
		t.Fatalf("only %d contexts were rendered", len(requests))
	}
	server := modeltest.ServeFunc(t, func(string, []byte) modeltest.Answer { return modeltest.Answer{Text: "fine"} })
	client := outbound.NewClient(outbound.Personal, nil)
	t.Cleanup(client.CloseIdleConnections)
	k := kerneltest.Of(t, nil, model.Module(&model.Options{Configured: server.Models(), Client: client}))
	for i, text := range requests {
		for name := range server.Models() {
			var request map[string]any
			if err := json.Unmarshal(text, &request); err != nil {
				t.Fatal(err)
			}
			request["model"] = name
			data, _ := json.Marshal(request)
			all := kerneltest.Ask(k, kerneltest.Command("x", "Model.Generate", string(data)))
			if last := all[len(all)-1]; last.Kind != "reply" {
				t.Fatalf("%d: %s: %s\n%s", i, name, last.Data, text)
			}
		}
	}
	if p := server.Problems(); len(p) > 0 {
		t.Errorf("%d requests were not accepted: %s", len(p), p[0])
	}
}
