package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/memory/namespace"
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

// inSettings is the schema of data with a key in a namespace that rules, models and secrets stand on.
var inSettings = jsontext.Value(`{"properties":{"key":{"pattern":"^/*(` + namespace.Sys + "|" + namespace.Models + "|" + namespace.Vault + `)(/|$)"}},"required":["key"]}`)

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
	{Match: "Memory.*", When: inSettings, Decide: askUs},
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
