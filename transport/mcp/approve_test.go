package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// A turner is a Kernos whose model calls Fixture.Act, which asks for an approval, once per turn.
type turner struct {
	*daemon.Daemon
	t     *testing.T
	acted atomic.Int32
}

func newTurner(t *testing.T) *turner {
	w := &turner{t: t}
	model := modeltest.ServeFunc(t, func(_ string, body []byte) modeltest.Answer {
		if text := string(body); strings.LastIndex(text, "Act now") > strings.LastIndex(text, "tool_call_id") {
			return modeltest.Answer{Calls: []modeltest.Call{{Name: "Fixture.Act", Args: `{"at":"the door"}`}}}
		}
		return modeltest.Answer{Text: "All is done."}
	})
	w.Daemon, _ = serve(t, func(o *daemon.Options) {
		o.Models = map[string]json.RawMessage{"openai": model.Models()["openai"]}
		o.Modules = append(o.Modules, kernel.Module{Name: "fixture", Version: "1.0.0", Summary: "Fixtures.", Syscalls: []kernel.Syscall{
			kernel.Definition{Type: "Fixture.Act", Kind: message.KindCommand, Summary: "Acts.", Effect: kernel.External, Input: schema.Written(`{"type":"object","properties":{"at":{"type":"string"}}}`), Output: schema.Any}.
				BindHandler(func(_ context.Context, m message.Message, emit kernel.Emit) {
					w.acted.Add(1)
					emit(m.Reply(json.RawMessage(`{}`)))
				}),
		}})
	})
	return w
}

// call calls a syscall as the owner.
func (w *turner) call(t message.Type, data string) string {
	w.t.Helper()
	m := message.Message{Kind: message.KindQuery, Type: t, Data: json.RawMessage(data)}
	if s, ok := w.Kernel().Registry().Lookup(t); ok {
		m.Kind = s.Kind
	}
	w.Kernel().Stamp(&m)
	outcome, err := w.Call(context.Background(), m, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(outcome.Data)
}

// client connects a client that acts for the default token, with a grant of its own, and begins a session.
func (w *turner) client(capabilities string, g principal.Grant) (c *peer, session string) {
	w.t.Helper()
	p, err := principal.New(principal.DefaultID, "default", g)
	if err != nil {
		w.t.Fatal(err)
	}
	c = connect(w.t, w.Daemon, p, "core")
	c.initialize(capabilities)
	created := c.ask(1, "tools/call", `"name":"Session_Create","arguments":{"model":"openai","tools":["Fixture.Act"]}`)
	found := regexp.MustCompile(`"session":"(\w+)"`).FindStringSubmatch(created)
	if found == nil {
		w.t.Fatalf("Session_Create: %s", created)
	}
	return c, found[1]
}

// waits waits until the turn of a session waits for a decision, and returns the call.
func (w *turner) waits(session string) string {
	w.t.Helper()
	var found []string
	testkit.Until(w.t, "the turn waits", func() bool {
		found = regexp.MustCompile(`"type":"approval-request"[^}]*"call":"([^"]+)"`).FindStringSubmatch(w.call("Session.Messages", fmt.Sprintf(`{"session":%q}`, session)))
		return found != nil
	})
	return found[1]
}

// The person at a client decides about the calls of the client's own sessions, in both eras.
func TestApprovalByElicitation(t *testing.T) {
	w := newTurner(t)
	agent := principal.Grant{Preset: principal.Agent}
	for _, answer := range []struct {
		result string
		ran    int32
		record string
	}{
		{`{"action":"accept","content":{"decision":"once"}}`, 1, `"decision":"allow","remember":"once"`},
		{`{"action":"accept","content":{"decision":"session"}}`, 1, `"decision":"allow","remember":"session"`},
		{`{"action":"accept","content":{"decision":"deny"}}`, 0, `"decision":"deny"`},
		{`{"action":"decline"}`, 0, `"decision":"deny","reason":"the person has closed the question"`},
		{`{"action":"cancel"}`, 0, `"decision":"deny"`},
	} {
		for _, modern := range []bool{false, true} {
			w.acted.Store(0)
			c, session := w.client(`{"elicitation":{}}`, agent)
			send := fmt.Sprintf(`"name":"Syscall_Call","arguments":{"type":"Session.Send","data":{"session":%q,"text":"Act now","wait":true}}`, session)
			var got string
			if modern {
				asked := c.ask(2, "tools/call", send+","+modernMeta)
				check(t, "the question", asked, `"resultType":"input_required"`, `wants to call Fixture.Act`, `{\"at\":\"the door\"}`)
				state := regexp.MustCompile(`"requestState":"[^"]+"`).FindString(asked)
				name := regexp.MustCompile(`"inputRequests":\{"([^"]+)"`).FindStringSubmatch(asked)[1]
				got = c.ask(3, "tools/call", fmt.Sprintf(`%s,%s,"inputResponses":{%q:%s},%s`, send, state, name, answer.result, modernMeta))
			} else {
				c.send(request(2, "tools/call", send))
				asked := until(t, c, `"method":"elicitation/create"`)
				check(t, "the question", asked, `wants to call Fixture.Act`, `"enum":["deny","once","session"]`)
				id := regexp.MustCompile(`"id":(\d+)`).FindStringSubmatch(asked)[1]
				c.send(`{"jsonrpc":"2.0","id":` + id + `,"result":` + answer.result + `}`)
				got = until(t, c, `"id":2,"result"`)
			}
			check(t, answer.result, got, `All is done.`)
			record := w.call("Session.Messages", fmt.Sprintf(`{"session":%q}`, session))
			through := "test"
			if modern {
				through = "an MCP client"
			}
			if ran := w.acted.Load(); ran != answer.ran || !strings.Contains(record, answer.record) || !strings.Contains(record, `"by":"default, by elicitation through `+through+`"`) {
				t.Errorf("%s, stateless %t: it ran %d times, and the session has %s", answer.result, modern, ran, record)
			}
		}
	}
}

// Clients that can't ask, and tokens whose owner doesn't want it, leave the decision to others. The model decides
// nothing itself.
func TestApprovalWithoutElicitation(t *testing.T) {
	w := newTurner(t)
	for about, c := range map[string]struct {
		capabilities string
		grant        principal.Grant
	}{
		"a client without forms": {`{}`, principal.Grant{Preset: principal.Agent}},
		"a client with URLs":     {`{"elicitation":{"url":{}}}`, principal.Grant{Preset: principal.Agent}},
		"a token that is denied": {`{"elicitation":{}}`, principal.Grant{Preset: principal.Agent, Deny: []string{"Session.Decide"}}},
	} {
		client, session := w.client(c.capabilities, c.grant)
		client.send(request(2, "tools/call", fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Act now","wait":true}`, session)))
		call := w.waits(session)
		decision := fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"}`, session, call)
		check(t, about, client.ask(3, "tools/call", `"name":"Session_Decide","arguments":`+decision), `"isError":true`, `"code":403`, "!elicitation/create")
		w.call("Session.Decide", decision)
		for got := ""; !strings.Contains(got, "All is done."); {
			if got = client.next(); strings.Contains(got, "elicitation/create") {
				t.Errorf("%s is asked: %s", about, got)
			}
		}
	}
}

// A decision that comes another way ends the question, and the client gets the outcome.
func TestApprovalDecidedElsewhere(t *testing.T) {
	w := newTurner(t)
	c, session := w.client(`{"elicitation":{}}`, principal.Grant{Preset: principal.Agent})
	send := fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Act now","wait":true}`, session)
	c.send(request(2, "tools/call", send))
	until(t, c, `"method":"elicitation/create"`)
	w.call("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"}`, session, w.waits(session)))
	until(t, c, `"method":"notifications/cancelled","params":{"requestId":`)
	until(t, c, `All is done.`)

	c, session = w.client(`{"elicitation":{}}`, principal.Grant{Preset: principal.Agent})
	send = fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Act now","wait":true}`, session)
	asked := c.ask(2, "tools/call", send+","+modernMeta)
	w.acted.Store(0)
	w.call("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"}`, session, w.waits(session)))
	testkit.Until(t, "the call has its outcome", func() bool { return w.Kernel().Stats().InFlight == 0 })
	state := regexp.MustCompile(`"requestState":"[^"]+"`).FindString(asked)
	name := regexp.MustCompile(`"inputRequests":\{"([^"]+)"`).FindStringSubmatch(asked)[1]
	got := c.ask(3, "tools/call", fmt.Sprintf(`%s,%s,"inputResponses":{%q:{"action":"decline"}},%s`, send, state, name, modernMeta))
	check(t, "the outcome", got, `All is done.`, `"resultType":"complete"`)
	if w.acted.Load() != 1 {
		t.Errorf("it ran %d times", w.acted.Load())
	}
}
