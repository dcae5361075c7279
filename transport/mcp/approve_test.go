package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/transport/mcp"
)

// A turner is a Kernos whose model calls Fixture.Act, which asks for an approval, once per turn; or asks an agent to
// do so.
type turner struct {
	*daemon.Daemon
	t     *testing.T
	acted atomic.Int32
}

func newTurner(t *testing.T) *turner {
	w := &turner{t: t}
	model := modeltest.ServeFunc(t, func(_ string, body []byte) modeltest.Answer {
		text := string(body)
		called := strings.LastIndex(text, "tool_call_id")
		switch {
		case strings.LastIndex(text, "Look now") > called:
			return modeltest.Answer{Calls: []modeltest.Call{{Name: "Memory.Get", Args: `{"key":"long"}`}}}
		case strings.LastIndex(text, "Delegate now") > called:
			return modeltest.Answer{Calls: []modeltest.Call{{Name: "Syscall.Call", Args: `{"type":"Agent.Ask","data":{"text":"Act now"}}`}}}
		case strings.LastIndex(text, "Act now") > called:
			return modeltest.Answer{Calls: []modeltest.Call{{Name: "Syscall.Call", Args: `{"type":"Fixture.Act","data":{"at":"the door"}}`}}}
		}
		return modeltest.Answer{Text: "All is done."}
	})
	w.Daemon, _ = serve(t, func(o *daemon.Options) {
		o.Models = map[string]json.RawMessage{"openai": model.Models()["openai"]}
		o.Modules = append(o.Modules, kernel.Module{Name: "fixture", Version: "1.0.0", Summary: "Fixtures.", Syscalls: []kernel.Syscall{
			kernel.Definition{Type: "Fixture.Act", Kind: message.KindCommand, Summary: "Acts.", Input: schema.Written(`{"type":"object","properties":{"at":{"type":"string"}}}`), Output: schema.Any, Behavior: kernel.Behavior{Effect: kernel.External}}.
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
	p := kerneltest.Principal(w.t, principal.DefaultID, "default", g)
	return w.clientOf(w.MCP(), p, capabilities)
}

// clientOf is client, of a server and for a principal.
func (w *turner) clientOf(s *mcp.Server, p *principal.Principal, capabilities string) (c *peer, session string) {
	w.t.Helper()
	c = connectTo(w.t, s, p, "core")
	c.initialize(capabilities)
	created := c.ask(1, "tools/call", `"name":"Session_Create","arguments":{}`)
	found := regexp.MustCompile(`"session\\":\\"(\w+)\\"`).FindStringSubmatch(created)
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

// elicit calls a tool that waits for a turn, answers the question about the turn's call, and returns the question and the
// outcome.
func (w *turner) elicit(c *peer, modern bool, call, answer string) (asked, got string) {
	w.t.Helper()
	if modern {
		asked = c.ask(2, "tools/call", call+","+modernMeta)
		check(w.t, "the question", asked, `"resultType":"input_required"`)
		state := regexp.MustCompile(`"requestState":"[^"]+"`).FindString(asked)
		name := regexp.MustCompile(`"inputRequests":\{"([^"]+)"`).FindStringSubmatch(asked)[1]
		return asked, c.ask(3, "tools/call", fmt.Sprintf(`%s,%s,"inputResponses":{%q:%s},%s`, call, state, name, answer, modernMeta))
	}
	c.send(request(2, "tools/call", call))
	asked = until(w.t, c, `"method":"elicitation/create"`)
	id := regexp.MustCompile(`"id":(\d+)`).FindStringSubmatch(asked)[1]
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"result":` + answer + `}`)
	return asked, until(w.t, c, `"id":2,"result"`)
}

// The person at a client decides about the calls of turns that the client waits for, in both eras: of the client's own
// sessions, and of those that an agent, or code, has begun for it.
func TestApprovalByElicitation(t *testing.T) {
	w := newTurner(t)
	agent := principal.Grant{Preset: principal.Agent}
	register := `"name":"Syscall_Register","arguments":{"name":"%s.Delegate","kind":"command","description":"Asks an agent.","inputSchema":{},"outputSchema":{},"limits":{"time":60000},"code":"export const handler = () => kernos.call('Agent.Ask', {text: 'Act now'})"}`
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(w.call("Token.Create", `{"name":"author","preset":"agent"}`))[1]
	author := kerneltest.Principal(t, principal.ID(id), "author", agent)
	check(t, "the author's code", connect(t, w.Daemon, author, "core").ask(1, "tools/call", fmt.Sprintf(register, "Theirs")), "!isError")

	const once, send = `{"action":"accept","content":{"decision":"once"}}`, `"name":"Syscall_Call","arguments":{"type":"Session.Send","data":{"session":%q,"text":"Act now","wait":true}}`
	for about, c := range map[string]struct {
		call, answer string
		ran          int32
		record       string
	}{
		"once":         {send, once, 1, `"decision":"allow","remember":"once"`},
		"session":      {send, `{"action":"accept","content":{"decision":"session"}}`, 1, `"decision":"allow","remember":"session"`},
		"deny":         {send, `{"action":"accept","content":{"decision":"deny"}}`, 0, `"decision":"deny"`},
		"declined":     {send, `{"action":"decline"}`, 0, `"decision":"deny","reason":"the person has closed the question"`},
		"closed":       {send, `{"action":"cancel"}`, 0, `"decision":"deny"`},
		"an agent":     {`"name":"Agent_Ask","arguments":{"text":"Act now"}`, once, 1, `"decision":"allow"`},
		"denied to it": {`"name":"Agent_Ask","arguments":{"text":"Act now"}`, `{"action":"decline"}`, 0, `"decision":"deny"`},
		"its agent":    {`"name":"Agent_Ask","arguments":{"text":"Delegate now"}`, once, 1, `"decision":"allow"`},
		"of a session": {strings.Replace(send, "Act", "Delegate", 1), once, 1, `"decision":"allow"`},
		"own code":     {`"name":"Ours_Delegate","arguments":{}`, once, 1, `"decision":"allow"`},
		"another's":    {`"name":"Theirs_Delegate","arguments":{}`, once, 1, `"decision":"allow"`},
	} {
		for _, modern := range []bool{false, true} {
			w.acted.Store(0)
			client, session := w.client(`{"elicitation":{}}`, agent)
			if strings.Contains(c.call, "Ours") {
				check(t, "own code", client.ask(1, "tools/call", fmt.Sprintf(register, "Ours")), "!isError")
			}
			asked, got := w.elicit(client, modern, strings.Replace(c.call, "%q", strconv.Quote(session), 1), c.answer)
			check(t, "the question", asked, `wants to call Fixture.Act (rule * (outside): ask) with {\"at\":\"the door\"}`, `"enum":["deny","once","session"]`)
			check(t, about, got, `All is done.`, "!isError")
			through := "test"
			if modern {
				through = "an MCP client"
			}
			asking := regexp.MustCompile(`agent of session (\w+)`).FindStringSubmatch(asked)[1]
			record := w.call("Session.Messages", fmt.Sprintf(`{"session":%q}`, asking))
			if ran := w.acted.Load(); ran != c.ran || !strings.Contains(record, c.record) || !strings.Contains(record, `"by":"default, by elicitation through `+through+`"`) {
				t.Errorf("%s, stateless %t: it ran %d times, and the session has %s", about, modern, ran, record)
			}
		}
	}
}

// A job whose call waits for a decision asks the client that waits for the job, also one that follows it as a task.
func TestApprovalOfAJob(t *testing.T) {
	w := newTurner(t)
	c, _ := w.client(`{"elicitation":{}}`, principal.Grant{Preset: principal.Agent})
	const once, job = `{"action":"accept","content":{"decision":"once"}}`, `"name":"Job_Start","arguments":{"name":"Agent.Ask","payload":{"text":"Act now"}}`
	for _, modern := range []bool{false, true} {
		w.acted.Store(0)
		id := regexp.MustCompile(`"jobId\\":\\"(\w+)\\"`).FindStringSubmatch(c.ask(9, "tools/call", job))[1]
		asked, got := w.elicit(c, modern, fmt.Sprintf(`"name":"Job_Wait","arguments":{"jobId":%q}`, id), once)
		check(t, "the question", asked, `wants to call Fixture.Act`)
		check(t, "the job", got, `"status":"completed"`, `All is done.`)
		if n := w.acted.Load(); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	}
	w.acted.Store(0)
	follows := strings.Replace(modernMeta, `"elicitation":{}`, `"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	task := regexp.MustCompile(`"taskId":"\w+"`).FindString(c.ask(10, "tools/call", job+","+follows)) + "," + follows
	get := func(status string) (got string) {
		testkit.Until(t, "the task is "+status, func() bool {
			got = c.ask(11, "tasks/get", task)
			return strings.Contains(got, `"status":"`+status+`"`)
		})
		return got
	}
	asked := get("input_required")
	check(t, "the question", asked, `"method":"elicitation/create"`, `wants to call Fixture.Act`)
	call := regexp.MustCompile(`"inputRequests":\{("[^"]+")`).FindStringSubmatch(asked)[1]
	c.ask(12, "tasks/update", `"inputResponses":{`+call+`:7},`+task) // it isn't an answer
	get("input_required")
	c.ask(13, "tasks/update", `"inputResponses":{`+call+`:`+once+`},`+task)
	check(t, "the task", get("completed"), `All is done.`)
	if n := w.acted.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
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

// A client that can't ask its person is told at once what a turn waits for and who decides, and gets that as its answer
// before it gives up. The turn goes on.
func TestApprovalIsExplained(t *testing.T) {
	w := newTurner(t)
	grant := principal.Grant{Preset: principal.Agent}
	const decides = `kernos session decide --session `
	c, session := w.client(`{}`, grant)
	c.send(request(2, "tools/call", fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Act now","wait":true},"_meta":{"progressToken":"p"}`, session)))
	check(t, "the progress", until(t, c, `notifications/progress`), `"progressToken":"p"`, `wants to call Fixture.Act`, decides+session)
	check(t, "the log", until(t, c, `notifications/message`), `"level":"warning"`, decides+session)
	w.call("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"}`, session, w.waits(session)))
	check(t, "the outcome", until(t, c, `"id":2,`), `All is done.`)

	p := kerneltest.Principal(t, principal.DefaultID, "default", grant)
	impatient := mcp.New(w.Kernel(), &mcp.Options{ApprovalWait: time.Millisecond})
	defer func() { _ = impatient.Shutdown(t.Context()) }()
	meta := strings.Replace(modernMeta, `"elicitation":{}`, ``, 1)
	for _, members := range []string{`"_meta":{}`, meta} {
		w.acted.Store(0)
		c, session := w.clientOf(impatient, p, `{}`)
		sent := c.ask(2, "tools/call", fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Act now","wait":true},`, session)+members)
		check(t, "Session_Send", sent, `"isError":true`, `"code":409`, `wants to call Fixture.Act`, decides+session, `don't call it again: Session_Messages`)
		turn := regexp.MustCompile(`"turn":"(\w+)"`).FindStringSubmatch(w.call("Session.Messages", fmt.Sprintf(`{"session":%q}`, session)))[1]
		watched := c.ask(2, "tools/call", fmt.Sprintf(`"name":"Syscall_Call","arguments":{"type":"Session.Watch","data":{"session":%q,"until":%q}},`, session, turn)+members)
		check(t, "Session.Watch", watched, `"code":409`, `Call Session.Watch again`, decides+session)
		w.call("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"}`, session, w.waits(session)))
		testkit.Until(t, "the turn has gone on", func() bool {
			return strings.Contains(c.ask(3, "tools/call", fmt.Sprintf(`"name":"Session_Messages","arguments":{"session":%q}`, session)), "All is done.")
		})
		testkit.Until(t, "nothing waits", func() bool { return w.Kernel().Stats().InFlight == 0 })
		if n := w.acted.Load(); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	}

	follows := strings.Replace(meta, `clientCapabilities":{`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	task := regexp.MustCompile(`"taskId":"\w+"`).FindString(c.ask(4, "tools/call", `"name":"Job_Start","arguments":{"name":"Agent.Ask","payload":{"text":"Act now"}},`+follows))
	testkit.Until(t, "the task says what it waits for", func() bool {
		got := c.ask(5, "tasks/get", task+","+follows)
		return strings.Contains(got, `"status":"working"`) && strings.Contains(got, decides)
	})
	c.ask(6, "tasks/cancel", task+","+follows)
}

// A decision that comes another way ends the question, and the client gets the outcome.
func TestApprovalDecidedElsewhere(t *testing.T) {
	w := newTurner(t)
	c, session := w.client(`{"elicitation":{}}`, principal.Grant{Preset: principal.Agent})
	send := fmt.Sprintf(`"name":"Session_Send","arguments":{"session":%q,"text":"Act now","wait":true}`, session)
	c.send(request(2, "tools/call", send))
	until(t, c, `"method":"elicitation/create"`)
	w.call("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"}`, session, w.waits(session)))
	for withdrawn, done := false, false; !withdrawn || !done; { // in any order
		got := c.next()
		withdrawn = withdrawn || strings.Contains(got, `"method":"notifications/cancelled","params":{"requestId":`)
		done = done || strings.Contains(got, `All is done.`)
	}

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
