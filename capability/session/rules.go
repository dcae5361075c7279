package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
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
	Reach  string         `json:"reach,omitzero" jsonschema:"enum=network,enum=file,enum=program,enum=code,enum=others,enum=settings,enum=tokens,enum=*" jsonschema_description:"Only what calls reach outside of the kernel, whichever of their parameters leads there: network, file (of the machine), program, code, others (what belongs to other callers), settings, tokens, or * for all of them. A rule without it is about calls, and about what they are there to reach: Http.Fetch the network, VFS.Write files."`
	When   jsontext.Value `json:"when,omitzero" jsonschema:"type=object" jsonschema_description:"A JSON Schema that the arguments fit. Default: any arguments."`
	Decide string         `json:"decide" jsonschema:"enum=allow,enum=ask,enum=deny" jsonschema_description:"allow: the call runs. ask: it waits for Session.Decide. deny: the model is told that it may not."`
}

func (r *rule) String() string {
	text := "rule " + r.Match
	if r.Reach != "" {
		text += " reaching " + r.Reach
	}
	if r.Kind != "" {
		text += " (" + r.Kind + ")"
	}
	if len(r.When) > 0 {
		text += " when " + message.Clip(string(r.When), 200)
	}
	return text + ": " + r.Decide
}

// defaults are the rules that follow a session's own: queries are allowed, and commands that change the
// store. What reaches something outside of the kernel asks, and so do effects outside of it.
var defaults = []rule{
	{Match: "Session.Decide", Decide: deny},
	{Match: "Token.*", Decide: deny},
	{Match: "Mcp.Add", Decide: deny},
	{Match: "Mcp.Remove", Decide: deny},
	{Match: "Mcp.Allow", Decide: deny},
	{Match: "Mcp.Refresh", Decide: deny},
	{Match: "Syscall.Adopt", Decide: deny},
	{Match: "Crypto.Open", Decide: askUs},
	{Match: "*", Kind: "allowed", Decide: allow},
	{Match: "*", Reach: anyReach, Decide: askUs},
	{Match: "*", Kind: "query", Decide: allow},
	{Match: "Agent.Ask", Decide: allow},
	{Match: "Session.*", Decide: askUs},
	{Match: "*", Kind: "outside", Decide: askUs},
	{Match: "*", Decide: allow},
}

// anyReach is the reach of a rule that is about all of them.
const anyReach = "*"

// matches reports whether the rule is about a call, or about what the call reaches. A rule that names no
// reach is also about what calls of the syscall are there to reach.
func (r *rule) matches(x *Sessions, j *judged) bool {
	s, args, to := j.syscall, j.args, j.Reach
	if !principal.Matches(r.Match, s.Type) {
		return false
	}
	switch {
	case r.Reach == "" && !j.call():
		return false
	case r.Reach != "" && (to == "" || r.Reach != anyReach && r.Reach != string(to)):
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

// withoutAllowing returns the rules that deny and ask: what another principal has allowed for its rights, it hasn't
// allowed for those of the one that forks its session.
func withoutAllowing(policy []rule) (narrower []rule) {
	for _, r := range policy {
		if r.Decide != allow {
			narrower = append(narrower, r)
		}
	}
	return narrower
}

// A judged is a call that rules decide about, or what one reaches if Reach isn't "".
type judged struct {
	syscall *kernel.Syscall
	args    []byte
	kernel.Reached
}

// call reports whether it is the call that is decided about, with what the syscall is there to reach. What
// one of its parameters leads to has a target.
func (j *judged) call() bool { return j.Target == "" }

// verdict decides about a call of a session with what the call is there to reach, and names the rule.
func (x *Sessions) verdict(h *head, s *kernel.Syscall, args []byte) (verdict, why string, err error) {
	if len(s.Reaches) == 0 {
		return x.decision(h, judged{syscall: s, args: args})
	}
	for _, to := range s.Reaches {
		v, w, err := x.decision(h, judged{s, args, kernel.Reached{Reach: to}})
		if err != nil {
			return deny, "", err
		}
		if verdict == "" || v == deny || v == askUs && verdict == allow {
			verdict, why = v, w
		}
	}
	return verdict, why, nil
}

// decision decides about one thing. A child may do what its parent may do, and no more.
func (x *Sessions) decision(h *head, j judged) (verdict, why string, err error) {
	verdict = deny
	for _, r := range append(slices.Clip(slices.Clone(h.Policy)), defaults...) {
		if r.matches(x, &j) {
			if r.Reach == anyReach {
				r.Reach = string(j.Reach)
			}
			verdict, why = r.Decide, r.String()
			break
		}
	}
	if verdict == askUs {
		always, err := x.always(h)
		if err != nil {
			return deny, "", err
		}
		if remembered := j.remembered(); slices.Contains(h.Allowed, remembered) || slices.Contains(always, remembered) {
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
	above, reason, err := x.decision(&parent.head, j)
	if err != nil || above == allow || above == verdict {
		return verdict, why, err
	}
	if above == askUs && verdict == allow || above == deny {
		return above, reason + ", of the session that has asked", nil
	}
	return verdict, why, nil
}

// remembered returns the text that stands for what was allowed once and for all: a syscall with what
// it is there to reach, or one thing that its calls reach besides.
func (j *judged) remembered() string {
	if j.call() {
		return string(j.syscall.Type)
	}
	return reachedBy(j.syscall.Type, j.Reached)
}

func reachedBy(t message.Type, to kernel.Reached) string { return string(t) + " " + to.String() }

// always returns what the principal of a session has allowed for good.
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

// Rules returns the rules of sessions, which decide about what a session has caused, directly or by way
// of a job, code, a program that serves or a replay.
func (x *Sessions) Rules() kernel.Rules { return rules{x} }

type rules struct{ *Sessions }

// Call implements [kernel.Rules].
func (x rules) Call(id string, s *kernel.Syscall, m *message.Message, nested bool) error {
	h, err := x.load(id)
	if err != nil {
		return gone(id, s.Type)
	}
	own := strings.HasPrefix(m.Metadata.IdempotencyKey, callKey(id, ""))
	if own && !nested && h.turn != nil {
		if call := h.turn.keyed(id, m.Metadata.IdempotencyKey); call != nil && call.Given && call.Hash == hash(s.Type, m.Data) {
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
	return message.Errorf(403, "%s needs an approval (%s), and can't wait for one here: call %s itself in the session %s, and allow it with Session.Decide and remember: session; "+adoptHint, s.Type, why, s.Type, id)
}

// adoptHint is what errors add about code, which is called outside of the session that it came from.
const adoptHint = "if code that came from the session has called it, the owner can adopt the code (kernos register --adopt TYPE)"

// gone returns the error for what comes from a session that was removed: nothing decides about it any more.
func gone(id string, t message.Type) error {
	return message.Errorf(403, "%s was caused by the session %s, which no longer exists; "+adoptHint, t, id)
}

// Reach implements [kernel.Rules]. A call of the turn itself may wait for an approval: then it fails, and
// is made again when it was allowed.
func (x rules) Reach(id string, c *kernel.Call, to kernel.Reached) error {
	s := c.Syscall()
	h, err := x.load(id)
	if err != nil {
		return gone(id, s.Type)
	}
	a, _ := c.Work().(*attempt)
	if a != nil && (a.runner.id != id || c.Sender().Scope() != id) {
		a = nil
	}
	verdict, why, err := x.decision(&h.head, judged{s, c.Request().Data, to})
	switch {
	case err != nil:
		return err
	case verdict == allow, verdict == askUs && slices.Contains(c.Granted(), to):
		return nil
	case verdict == deny:
		return message.Errorf(403, "%s may not reach %s: the rules of the session %s deny it (%s)", s.Type, to, id, why)
	case a != nil && len(c.Granted()) == 0:
		a.ask(s, to, why)
		return message.Errorf(403, "%s waits for an approval, since it reaches %s (%s)", s.Type, to, why)
	}
	return message.Errorf(403, "%s reaches %s, which needs an approval (%s), and can't wait for one here: call %s itself in the session %s, or allow it with a rule that has reach: %s; "+adoptHint, s.Type, to, why, s.Type, id, to.Reach)
}
