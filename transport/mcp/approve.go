package mcp

import (
	"context"
	"encoding/json"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/principal"
	"kernos/message"
)

// An approval is what a turn waits for: a person decides about a call of the model.
type approval struct {
	session, call string
	name          message.Type
	args          string // "" if they are too long to be shown
	rule          string
}

// approval looks at an event. A call of a turn that waits for a decision is asked of the person at the client,
// whatever the client has called that waits for the turn; a client that can't ask learns who decides. A decision that
// came another way ends that. Only the kernel sends these events.
func (x *exchange) approval(m *message.Message) {
	if m.Type != "Session.Asked" && m.Type != "Session.Decided" {
		return
	}
	a, person := readApproval(m.Data), x.person()
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Type == "Session.Decided" {
		if withdraw := x.approvals[a.call]; withdraw != nil {
			withdraw()
		}
		return
	}
	life := x.s.life
	if x.session != nil {
		life = x.session.life
	}
	ctx, cancel := context.WithCancel(life)
	if x.approvals == nil {
		x.approvals = make(map[string]context.CancelFunc)
	}
	if person == nil || !x.client.modern { // a client of the stateless era that was asked comes back in any case
		x.approvals[a.call] = cancel
	}
	x.work.Go(func() {
		defer cancel()
		if person == nil || !x.decide(ctx, person, a) {
			x.explain(ctx, a)
		}
	})
}

// readApproval reads the data of Session.Asked.
func readApproval(data []byte) approval {
	return approval{
		session: jsonscan.Unquote(jsonscan.Member(data, "session")), call: jsonscan.Unquote(jsonscan.Member(data, "call")), name: message.Type(jsonscan.Unquote(jsonscan.Member(data, "name"))),
		args: string(jsonscan.Member(data, "args")), rule: jsonscan.Unquote(jsonscan.Member(data, "rule")),
	}
}

// showsForms reports whether the client can ask its person to fill in a form.
func (c *client) showsForms() bool {
	able := jsonscan.Member(c.capabilities, "elicitation")
	return len(able) > 0 && (jsonscan.Member(able, "form") != nil || jsonscan.Member(able, "url") == nil)
}

// text returns what a person sees of the call.
func (a *approval) text() string {
	text := "The agent of session " + a.session + " wants to call " + string(a.name)
	if a.rule != "" {
		text += " (" + a.rule + ")"
	}
	if a.args != "" {
		text += " with " + visible.Text(a.args)
	} else {
		text += " with arguments that are too long to be shown; kernos session show " + a.session + " has them"
	}
	return text
}

// elsewhere is text, and where it is decided on for a client that can't ask its person.
func (a *approval) elsewhere() string {
	return a.text() + ". It waits for a person, whom this client can't ask: kernos chat --resume " + a.session +
		" asks, and kernos session decide --session " + a.session + " --call " + a.call + " --decision allow decides, or deny"
}

// decisionForm is the schema of what a person fills in.
const decisionForm = `{"type":"object","properties":{"decision":{"type":"string","title":"Decision","enum":["deny","once","session"],` +
	`"enumNames":["Deny","Allow once","Allow in this session"]}},"required":["decision"]}`

// request returns the form that a person sees.
func (a *approval) request() askRequest {
	return askRequest{Method: "elicitation/create", Params: marshal(struct {
		Message         string          `json:"message"`
		RequestedSchema json.RawMessage `json:"requestedSchema"`
	}{a.text(), json.RawMessage(decisionForm)})}
}

// decide asks the person at the client. It reports false if the client fails to ask, and the call still waits.
func (x *exchange) decide(ctx context.Context, person *principal.Principal, a approval) bool {
	responses, err := x.ask(ctx, map[string]askRequest{a.call: a.request()})
	if err != nil {
		x.s.opts.Log.Debug("an MCP client doesn't answer for an approval", "session", a.session, "call", a.call, "error", err)
		x.leaveAway()
		return ctx.Err() != nil
	}
	x.decided(ctx, person, a, responses[a.call])
	return true
}

// explain reports what the call waits for, and who decides, to a client that can't ask its person: at once by notifications,
// and in the response if there is no decision for a time, since most clients show their models nothing else. What the
// client has called continues, unless it only waits.
func (x *exchange) explain(ctx context.Context, a approval) {
	text := a.elsewhere()
	meta, c := x.latest()
	x.progress(meta, nil, jsonscan.AppendQuoted(nil, text))
	if unset := c.session != nil && c.session.logLevel() == ""; unset || c.logs("warning", meta) {
		x.log("warning", "Session.Asked", jsonscan.AppendQuoted(nil, text))
	}
	late := time.NewTimer(x.s.opts.ApprovalWait)
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
		return
	}
	if x.tool == nil {
		return
	}
	called, name, _ := x.called()
	query := called.Kind == message.KindQuery
	if query {
		text += ". Call " + name + " again to wait for that"
	} else {
		text += ". " + name + " continues, so don't call it again: Session_Messages with this session shows what came of it"
	}
	e := message.Error{Code: 409, Message: text}
	x.respond(appendError(nil, e.Append(nil)))
	x.mu.Lock()
	cancel := x.cancel
	x.mu.Unlock()
	if query && cancel != nil {
		cancel()
	}
}

// decideType is the syscall that decides about an approval.
const decideType message.Type = "Session.Decide"

// person returns the person at the client, who decides for the principal; nil if the client can't ask, or the owner doesn't
// want that.
func (x *exchange) person() *principal.Principal {
	_, c := x.latest()
	decide, ok := x.s.k.Registry().Lookup(decideType)
	if !ok {
		return nil
	}
	person, no := kernel.SenderIn(x.ctx).Principal().Deciding(c.name(), decide.Target())
	if no != nil || !c.showsForms() {
		return nil
	}
	return person
}

// decided has the kernel record a decision as the principal's, made by a person. A form that is declined or closed denies the call.
func (x *exchange) decided(ctx context.Context, person *principal.Principal, a approval, response []byte) {
	decision := struct {
		Session  string `json:"session"`
		Call     string `json:"call"`
		Decision string `json:"decision"`
		Remember string `json:"remember,omitempty"`
		Reason   string `json:"reason,omitempty"`
	}{Session: a.session, Call: a.call, Decision: "deny"}
	choice := jsonscan.Unquote(jsonscan.Member(jsonscan.Member(response, "content"), "decision"))
	switch action := jsonscan.Unquote(jsonscan.Member(response, "action")); {
	case action == "accept" && (choice == "once" || choice == "session"):
		decision.Decision, decision.Remember = "allow", choice
	case action != "accept":
		decision.Reason = "the person has closed the question"
	}
	m := message.Message{Kind: message.KindCommand, Type: decideType, Data: marshal(decision)}
	m.Metadata.Causation = x.asked
	x.s.k.Stamp(&m)
	ctx = kernel.ActFor(ctx, kernel.From(person, "mcp"))
	_ = connection.ServeOne(ctx, x.s.k, m, func(answer message.Message) {
		if answer.Kind == message.KindError { // another person was faster, or the turn has ended
			x.s.opts.Log.Debug("a decision of an MCP client comes too late", "session", a.session, "call", a.call, "error", string(answer.Data))
		}
	}, nil)
}

// leaveAway ends a call whose client was asked and hasn't come back.
func (x *exchange) leaveAway() {
	x.mu.Lock()
	cancel := x.cancel
	paused := x.paused
	x.mu.Unlock()
	if paused && cancel != nil {
		cancel()
	}
}
