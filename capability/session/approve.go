package session

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

type decideInput struct {
	Session  string         `json:"session" jsonschema:"maxLength=64" jsonschema_description:"The session."`
	Call     string         `json:"call" jsonschema:"minLength=1,maxLength=128" jsonschema_description:"The call, as the approval-request names it."`
	Decision string         `json:"decision" jsonschema:"enum=allow,enum=deny" jsonschema_description:"allow: the call runs. deny: the model is told that it may not."`
	Remember string         `json:"remember,omitzero" jsonschema:"enum=once,enum=session,enum=always,default=once" jsonschema_description:"For which calls of the same syscall the decision to allow holds: this one, those of the session, or those of all sessions of its principal."`
	Args     jsontext.Value `json:"args,omitzero" jsonschema_description:"The arguments that were decided on. If they aren't those of the call, the decision is refused."`
	Reason   string         `json:"reason,omitzero" jsonschema:"maxLength=1000" jsonschema_description:"Why; the model is told the reason of a denial."`
}

type decideOutput struct {
	Session  string `json:"session" jsonschema_description:"The session."`
	Call     string `json:"call" jsonschema_description:"The call."`
	Decision string `json:"decision" jsonschema_description:"What was decided."`
}

var decide = kernel.DefineCommand[decideInput, decideOutput](kernel.Definition{
	Type:    "Session.Decide",
	Summary: "Allow or deny a call that waits for an approval. The decision holds for the call as it is stored, with its arguments.",
	Emits:   events[:1],
	Presentation: kernel.Presentation{
		Title: "Allow or deny a call",
		Words: "approve, approval, permit, reject, say yes to a call, go ahead and do it, let the assistant do it, don't let it do that, refuse a call, " +
			"confirm an action, give permission, turn down a request, allow it this time",
		Result:    "{call}: {decision}",
		Arguments: []string{"session", "call", "decision"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "a session has caused the request, or the caller allows what it may not call itself"},
			{Code: 404, When: "no session that the caller sees has this id"},
			{Code: 409, When: "the call doesn't wait for a decision, or has other arguments"},
		},
	},
	Access: principal.ForPeople,
})

func (x *Sessions) decide(ctx context.Context, in decideInput) (out decideOutput, err error) {
	if id := kernel.SenderOf(ctx).Session(); id != "" {
		return out, message.Errorf(403, "The session %s may not decide about approvals; a person decides, with a token that may call Session.Decide", id)
	}
	if _, err := x.running(); err != nil {
		return out, err
	}
	s, err := x.visible(ctx, in.Session)
	if err != nil {
		return out, err
	}
	var call *callState
	if s.turn != nil {
		call = s.turn.call(in.Call)
	}
	if call == nil || call.State != callAsked {
		return out, message.Errorf(409, "The call %s of the session %s doesn't wait for a decision; its approval-request is stale, or was decided before", message.Clip(in.Call, 64), s.ID)
	}
	name, args := call.final()
	if len(in.Args) > 0 && hash(name, in.Args) != call.Hash || hash(name, args) != call.Hash {
		return out, message.Errorf(409, "The call %s has other arguments than those that were decided on; look at its approval-request again", call.ID)
	}
	if in.Decision == allow {
		if call.As, err = x.mayAllow(ctx, s, call, in.Remember); err != nil {
			return out, err
		}
	}
	var b store.Batch
	c := x.change(ctx, s, &b)
	who := kernel.PrincipalOf(ctx).Name()
	if _, err := c.append(Message{Type: typeResponse, Approval: &Approval{CallID: call.ID, Name: name, Hash: call.Hash, Decision: in.Decision, Remember: in.Remember, Reason: in.Reason, By: who}}); err != nil {
		return out, err
	}
	if in.Decision == deny {
		text := "The call of %s was denied"
		if in.Reason != "" {
			text += ": " + strings.ReplaceAll(in.Reason, "%", "%%")
		}
		err = c.result(call, failed(message.Errorf(403, text, name)))
	} else {
		call.State, call.Given = callReady, true
		err = c.remember(in.Remember, call.remembered()...)
	}
	if err != nil {
		return out, err
	}
	if err := c.wake(); err != nil {
		return out, err
	}
	return decideOutput{s.ID, call.ID, in.Decision}, c.stage()
}

// remembered returns what a decision about the call is remembered as: the syscall, or what the call reaches.
func (c *callState) remembered() (texts []string) {
	name, _ := c.final()
	for _, to := range c.Reached {
		texts = append(texts, reachedBy(name, to))
	}
	if texts == nil {
		texts = []string{string(name)}
	}
	return texts
}

// remember keeps what is allowed, for the session or for all sessions of its principal.
func (c *change) remember(how string, texts ...string) error {
	switch how {
	case "session":
		c.s.Allowed = union(c.s.Allowed, texts)
	case "always":
		at := key(keyAlways, string(c.s.Principal))
		e, err := c.x.opts.Store.Get(at)
		if err != nil {
			return err
		}
		known, err := c.x.always(&c.s.head)
		if err != nil {
			return err
		}
		c.b.IfRevision(at, e.Revision)
		c.b.Set(at, jsonvalue.Marshal(union(known, texts)))
	}
	return nil
}

// union returns a list with the texts of another one that it doesn't have.
func union(list, others []string) []string {
	for _, text := range others {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// maxAskedArgs is how many bytes of arguments Session.Asked has.
const maxAskedArgs = 4096

// approvals sends which calls have begun to wait for a decision, and which wait no more: none does when the turn is
// over, which may be the first that the follower sees of a decision.
func (f *follower) approvals(ctx context.Context, s *session, over bool) error {
	waits := f.below
	if over {
		waits = nil
	} else if s.turn != nil {
		for _, c := range s.turn.Calls {
			if c.State == callAsked {
				if waits == nil {
					waits = make(map[string]question)
				}
				waits[c.ID] = c.question(s.ID)
			}
		}
	}
	for _, call := range slices.Sorted(maps.Keys(f.asked)) {
		if _, still := waits[call]; still {
			continue
		}
		if err := f.stream.Emit(decidedEvent, decidedData{f.asked[call].session, call}); err != nil {
			return err
		}
	}
	for _, call := range slices.Sorted(maps.Keys(waits)) {
		if _, known := f.asked[call]; known {
			continue
		}
		if err := f.x.opts.Store.Barrier().Wait(ctx); err != nil {
			return err
		}
		f.stream.EmitText(askedEvent, waits[call].event)
	}
	f.asked = waits
	return nil
}

// decidedData is the data of Session.Decided.
type decidedData struct {
	Session string `json:"session"`
	Call    string `json:"call"`
}

// askedData is the data of Session.Asked.
type askedData struct {
	Session string           `json:"session"`
	Call    string           `json:"call"`
	Name    message.Type     `json:"name"`
	Args    jsontext.Value   `json:"args,omitzero"`
	Rule    string           `json:"rule,omitzero"`
	Reached []kernel.Reached `json:"reached,omitzero"`
}

// question returns what the callers that wait for a turn are sent of a call that waits for a decision.
func (c *callState) question(session string) question {
	name, args := c.final()
	if len(args) > maxAskedArgs {
		args = nil
	}
	return question{session: session, event: jsonvalue.Marshal(askedData{session, c.ID, name, args, c.Rule, c.Reached})}
}
