package mcp

import (
	"context"

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
// whatever the client has called that waits for the turn; a decision that came another way ends the question. Only
// the kernel sends these events.
func (x *exchange) approval(m *message.Message) {
	if m.Type != "Session.Asked" && m.Type != "Session.Decided" {
		return
	}
	if _, c := x.latest(); !c.showsForms() {
		return
	}
	a := readApproval(m.Data)
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Type == "Session.Decided" {
		if withdraw := x.approvals[a.call]; withdraw != nil && !x.client.modern {
			withdraw() // in the stateless era, the client comes back in any case
		}
		return
	}
	life := x.s.life
	if x.among != nil {
		life = x.among.life
	}
	ctx, cancel := context.WithCancel(life)
	if x.approvals == nil {
		x.approvals = make(map[string]context.CancelFunc)
	}
	x.approvals[a.call] = cancel
	x.s.running.Go(func() {
		defer cancel()
		x.decide(ctx, a)
	})
}

// readApproval reads the data of Session.Asked.
func readApproval(data []byte) approval {
	return approval{
		session: textOf(jsonscan.Member(data, "session")), call: textOf(jsonscan.Member(data, "call")), name: message.Type(textOf(jsonscan.Member(data, "name"))),
		args: string(jsonscan.Member(data, "args")), rule: textOf(jsonscan.Member(data, "rule")),
	}
}

// showsForms reports whether the client can ask its person to fill in a form.
func (c *client) showsForms() bool {
	able := jsonscan.Member(c.capabilities, "elicitation")
	return len(able) > 0 && (jsonscan.Member(able, "form") != nil || jsonscan.Member(able, "url") == nil)
}

// request is the form that a person sees.
func (a *approval) request() askRequest {
	text := "The agent of session " + a.session + " wants to call " + string(a.name)
	if a.rule != "" {
		text += " (" + a.rule + ")"
	}
	if a.args != "" {
		text += " with " + visible.Text(a.args)
	} else {
		text += " with arguments that are too long to be shown; kernos session show " + a.session + " has them"
	}
	params := appendString([]byte(`{"message":`), text)
	return askRequest{Method: "elicitation/create", Params: append(params, `,"requestedSchema":{"type":"object","properties":{"decision":{"type":"string","title":"Decision",`+
		`"enum":["deny","once","session"],"enumNames":["Deny","Allow once","Allow in this session"]}},"required":["decision"]}}`...)}
}

// decide asks the person at the client. A client that fails to ask leaves the call waiting.
func (x *exchange) decide(ctx context.Context, a approval) {
	person := x.person()
	if person == nil {
		return
	}
	responses, err := x.ask(ctx, map[string]askRequest{a.call: a.request()})
	if err != nil {
		x.s.opts.Log.Debug("an MCP client doesn't answer for an approval", "session", a.session, "call", a.call, "error", err)
		x.leaveAway()
		return
	}
	x.decided(ctx, person, a, responses[a.call])
}

// person is the person at the client, who decides for the principal; nil if the owner doesn't want that.
func (x *exchange) person() *principal.Principal {
	_, c := x.latest()
	person, no := kernel.SenderIn(x.ctx).Principal().Deciding(c.name())
	if no != nil {
		return nil
	}
	return person
}

// decided has the kernel record a decision as the principal's, made by a person. A form that is declined or closed denies the call.
func (x *exchange) decided(ctx context.Context, person *principal.Principal, a approval, response []byte) {
	data := appendString([]byte(`{"session":`), a.session)
	data = appendString(append(data, `,"call":`...), a.call)
	choice := textOf(jsonscan.Member(jsonscan.Member(response, "content"), "decision"))
	switch action := textOf(jsonscan.Member(response, "action")); {
	case action == "accept" && (choice == "once" || choice == "session"):
		data = appendString(append(data, `,"decision":"allow","remember":`...), choice)
	case action == "accept":
		data = append(data, `,"decision":"deny"`...)
	default:
		data = append(data, `,"decision":"deny","reason":"the person has closed the question"`...)
	}
	m := message.Message{Kind: message.KindCommand, Type: "Session.Decide", Data: append(data, '}')}
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
	away := x.away
	x.mu.Unlock()
	if away && cancel != nil {
		cancel()
	}
}
