package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// The decisions, from the narrowest to the widest.
const (
	deny  = "deny"
	askUs = "ask"
	allow = "allow"
)

// A rule decides about calls. Of several, the first that matches decides.
type rule struct {
	Match  string         `json:"match" jsonschema:"minLength=1,maxLength=128" jsonschema_description:"The syscalls that it is about: Http.Fetch, Http.*, *.Delete, *."`
	Kind   string         `json:"kind,omitzero" jsonschema:"enum=query,enum=command,enum=outside" jsonschema_description:"Only queries, only commands, or only commands that act outside of the kernel. Default: all."`
	When   jsontext.Value `json:"when,omitzero" jsonschema:"type=object" jsonschema_description:"A JSON Schema that the arguments fit. Default: any arguments."`
	Decide string         `json:"decide" jsonschema:"enum=allow,enum=ask,enum=deny" jsonschema_description:"allow: the call runs. ask: it waits for Session.Decide. deny: the model is told that it may not."`
}

func (r *rule) String() string {
	text := "rule " + r.Match
	if r.Kind != "" {
		text += " (" + r.Kind + ")"
	}
	if len(r.When) > 0 {
		text += " when " + message.Clip(string(r.When), 200)
	}
	return text + ": " + r.Decide
}

// defaults are the rules after those of a session: queries are allowed, effects outside of the
// kernel ask, and so does what would change the settings that rules and models stand on.
var defaults = []rule{
	{Match: "Session.Decide", Decide: deny},
	{Match: "Token.*", Decide: deny},
	{Match: "Mcp.Add", Decide: deny},
	{Match: "Mcp.Remove", Decide: deny},
	{Match: "Mcp.Allow", Decide: deny},
	{Match: "Mcp.Refresh", Decide: deny},
	{Match: "Crypto.Open", Decide: askUs},
	{Match: "*", Kind: "query", Decide: allow},
	{Match: "Agent.Ask", Decide: allow},
	{Match: "Session.*", Decide: askUs},
	{Match: "Memory.*", When: jsontext.Value(`{"properties":{"key":{"pattern":"^/*(sys|models|vault)(/|$)"}},"required":["key"]}`), Decide: askUs},
	{Match: "*", Kind: "allowed", Decide: allow},
	{Match: "*", Kind: "outside", Decide: askUs},
	{Match: "*", Decide: allow},
}

// matches reports whether the rule is about a call.
func (r *rule) matches(x *Sessions, s *kernel.Syscall, args []byte) bool {
	if !principal.Matches(r.Match, s.Type) {
		return false
	}
	switch r.Kind {
	case "query":
		if s.Kind != message.KindQuery {
			return false
		}
	case "command":
		if s.Kind != message.KindCommand {
			return false
		}
	case "allowed": // of defaults only
		if !s.Allowed {
			return false
		}
	case "outside":
		if s.Kind != message.KindCommand || s.Effect == kernel.InStore {
			return false
		}
	}
	if len(r.When) == 0 {
		return true
	}
	when, err := x.parsed(r.When)
	return err == nil && when.Validate(args) == nil
}

// keptSchemas bounds the compiled schemas that are kept: callers write them, and a compiled one takes
// about fifteen times its text.
var keptSchemas = recent.Limits{Values: 1000, Bytes: 1 << 20, Each: 64 << 10}

// parsed returns a schema, which is compiled once while it is used.
func (x *Sessions) parsed(text jsontext.Value) (*schema.Schema, error) {
	if s, ok := x.schemas.Get(string(text)); ok {
		return s, nil
	}
	s, err := schema.Parse([]byte(text))
	if err == nil {
		x.schemas.Put(string(text), s, len(text))
	}
	return s, err
}

// verdict decides about a call of a session, and names the rule. A child may do what its parent may
// do, and no more.
func (x *Sessions) verdict(h *head, s *kernel.Syscall, args []byte) (verdict, why string, err error) {
	verdict = deny
	for _, r := range append(slices.Clip(slices.Clone(h.Policy)), defaults...) {
		if r.matches(x, s, args) {
			verdict, why = r.Decide, r.String()
			break
		}
	}
	if verdict == askUs {
		always, err := x.always(h)
		if err != nil {
			return deny, "", err
		}
		if slices.Contains(h.Allowed, string(s.Type)) || slices.Contains(always, string(s.Type)) {
			verdict = allow
		}
	}
	if h.Parent == nil || verdict == deny {
		return verdict, why, nil
	}
	parent, err := x.load(h.Parent.Session)
	if err != nil {
		return deny, "its parent session is gone", nil
	}
	above, reason, err := x.verdict(&parent.head, s, args)
	if err != nil || above == allow || above == verdict {
		return verdict, why, err
	}
	if above == askUs && verdict == allow || above == deny {
		return above, reason + ", of the session that has asked", nil
	}
	return verdict, why, nil
}

// always returns the types that the principal of a session has allowed for good.
func (x *Sessions) always(h *head) (types []string, err error) {
	e, err := x.opts.Store.Get(key(keyAlways, string(h.Principal)))
	if err != nil || e.Revision == 0 {
		return nil, err
	}
	return types, json.Unmarshal(e.Value, &types)
}

// hash binds a decision to a syscall and its arguments.
func hash(t message.Type, args []byte) string {
	sum := sha256.Sum256(append(append([]byte(t), 0), jsonscan.AppendCanonical(nil, args)...))
	return hex.EncodeToString(sum[:16])
}

// Rules decides about a request that a session has caused, directly or by way of a job, code or a
// replay. It is [kernel.Options.Rules].
func (x *Sessions) Rules(id string, s *kernel.Syscall, m *message.Message, nested bool) error {
	h, err := x.load(id)
	if err != nil {
		return message.Errorf(403, "%s was caused by the session %s, which no longer exists", s.Type, id)
	}
	name, own := strings.CutPrefix(m.Metadata.IdempotencyKey, callKey(id, ""))
	if own && !nested && h.turn != nil {
		if call := h.turn.call(name); call != nil && call.Given && call.Hash == hash(s.Type, m.Data) {
			return nil
		}
	}
	if !own && !nested && (!h.offers(s.Type) && !h.offers(kernel.ThroughType) || !x.reaches(&h.head, s.Type)) {
		return message.Errorf(403, "%s isn't one of the tools of the session %s", s.Type, id)
	}
	verdict, why, err := x.verdict(&h.head, s, m.Data)
	switch {
	case err != nil:
		return err
	case verdict == allow:
		return nil
	case verdict == deny:
		return message.Errorf(403, "The rules of the session %s deny %s (%s)", id, s.Type, why)
	}
	return message.Errorf(403, "%s needs an approval (%s), and can't wait for one here: call %s itself in the session %s, and allow it with Session.Decide and remember: session", s.Type, why, s.Type, id)
}

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
	Access:  principal.ForPeople,
	Summary: "Allow or deny a call that waits for an approval. The decision holds for the call as it is stored, with its arguments.",
	Errors:  []kernel.ErrorDefinition{{Code: 403, When: "a session has caused the request"}, {Code: 404, When: "no session that the caller sees has this id"}, {Code: 409, When: "the call doesn't wait for a decision, or has other arguments"}},
	Emits:   events[:1],
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
		err = c.remember(in.Remember, string(name))
	}
	if err != nil {
		return out, err
	}
	if err := c.wake(); err != nil {
		return out, err
	}
	return decideOutput{s.ID, call.ID, in.Decision}, c.stage()
}

// remember keeps that a syscall is allowed, for the session or for all sessions of its principal.
func (c *change) remember(how, name string) error {
	switch how {
	case "session":
		if !slices.Contains(c.s.Allowed, name) {
			c.s.Allowed = append(c.s.Allowed, name)
		}
	case "always":
		at := key(keyAlways, string(c.s.Principal))
		e, err := c.x.opts.Store.Get(at)
		if err != nil {
			return err
		}
		types, err := c.x.always(&c.s.head)
		if err != nil || slices.Contains(types, name) {
			return err
		}
		c.b.IfRevision(at, e.Revision)
		c.b.Set(at, jsonvalue.Marshal(append(types, name)))
	}
	return nil
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
	Session string         `json:"session"`
	Call    string         `json:"call"`
	Name    message.Type   `json:"name"`
	Args    jsontext.Value `json:"args,omitzero"`
	Rule    string         `json:"rule,omitzero"`
}

// question is what the callers that wait for a turn are sent of a call that waits for a decision.
func (c *callState) question(session string) question {
	name, args := c.final()
	if len(args) > maxAskedArgs {
		args = nil
	}
	return question{session: session, event: jsonvalue.Marshal(askedData{session, c.ID, name, args, c.Rule})}
}
