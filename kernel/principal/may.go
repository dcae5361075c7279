package principal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kernos/message"
)

// A Target is a syscall that a principal wants to call.
type Target struct {
	Type   message.Type // not an alias
	Kind   message.Kind
	Access Access
}

// A rule decides about some syscalls.
type rule struct {
	allows bool
	text   string // the reason that a refused caller is given
	flags  string // the flags of kernos token update that lift the rule; "" means to allow the syscall
	holds  func(Target) bool
}

// rules returns the rules of the grant. The first that holds decides, and the last holds always.
func (g *Grant) rules() []rule {
	preset := presets[g.Preset]
	rules := []rule{
		{text: "it is for the owner only", holds: func(t Target) bool { return t.Access == OwnerOnly }},
		{allows: true, holds: func(t Target) bool { return t.Access == ForAll }},
	}
	for _, d := range g.Deny {
		rules = append(rules, rule{text: "it is denied " + d, flags: "--take " + d, holds: matching([]string{d})})
	}
	if g.ReadOnly {
		rules = append(rules, rule{text: "it is read-only, and this is a command", flags: "--take read-only", holds: func(t Target) bool { return t.Kind == message.KindCommand }})
	}
	rules = append(rules, rule{allows: true, holds: matching(g.Allow)}, rule{allows: true, holds: func(t Target) bool {
		return slices.Contains(preset.includes, t.Access) && (!preset.queries || t.Kind == message.KindQuery)
	}})
	missing := "it is allowed " + list(g.Allow) + " only"
	if g.Preset != Bare {
		missing = fmt.Sprintf("its preset %s doesn't include it", g.Preset)
	}
	return append(rules, rule{text: missing, holds: func(Target) bool { return true }})
}

// matching returns what reports whether a type fits one of the patterns.
func matching(patterns []string) func(Target) bool {
	return func(t Target) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, t.Type) })
	}
}

// Matches reports whether a pattern of a grant covers a type: Memory.*, *.Get, Http.Fetch, *.
func Matches(pattern string, t message.Type) bool {
	if pattern == "*" || pattern == string(t) {
		return true
	}
	domain, action, dotted := strings.Cut(pattern, ".")
	d, a, ok := strings.Cut(string(t), ".")
	return ok && dotted && (domain == "*" || domain == d) && (action == "*" || action == a)
}

// verdicts are the decisions that were made before. They never change.
type verdicts map[message.Type]verdict

// A verdict is a decision about a target. The same type may be registered as something else
// later.
type verdict struct {
	target  Target
	refusal *message.Error // nil if it may be called
}

// maxVerdicts bounds how many decisions are kept.
const maxVerdicts = 4096

// May returns nil if the principal may call a syscall, and else a 403 that names the
// principal, the rule, and the command that would allow it. Decisions are kept, so that May
// costs a lookup.
func (p *Principal) May(t Target) *message.Error {
	if p.parts != nil {
		return p.first(func(one *Principal) *message.Error { return one.May(t) })
	}
	if p == owner {
		return nil
	}
	if p.life.Err() != nil {
		return message.Errorf(403, "The token %q is no longer valid: %v", p.name, context.Cause(p.life))
	}
	if len(p.rules) == 0 {
		return nil
	}
	if known := p.decided.Load(); known != nil {
		if v, ok := (*known)[t.Type]; ok && v.target == t {
			return v.refusal
		}
	}
	return p.decide(t)
}

// Allows reports whether May returns nil. It keeps nothing, so that it can be asked about thousands of syscalls.
func (p *Principal) Allows(t Target) bool {
	if p.parts != nil {
		return p.all(func(one *Principal) bool { return one.Allows(t) })
	}
	return p == owner || p.life.Err() == nil && (len(p.rules) == 0 || p.rule(t).allows)
}

// Reason returns why a principal other than one of [Both] may not call a syscall, in a few words; "" if it may.
func (p *Principal) Reason(t Target) string {
	if p.Allows(t) || len(p.rules) == 0 {
		return ""
	}
	return p.rule(t).text
}

// rule returns the one that decides.
func (p *Principal) rule(t Target) *rule {
	return &p.rules[slices.IndexFunc(p.rules, func(r rule) bool { return r.holds(t) })]
}

func (p *Principal) decide(t Target) *message.Error {
	v := verdict{target: t}
	if r := p.rule(t); !r.allows {
		v.refusal = message.Errorf(403, "The token %q may not call %s: %s; %s", p.name, t.Type, r.text, p.remedy(t, r.flags))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := verdicts{}
	if known := p.decided.Load(); known != nil && len(*known) < maxVerdicts {
		next = maps.Clone(*known)
	}
	next[t.Type] = v
	p.decided.Store(&next)
	return v.refusal
}

// remedy names the command that would allow a call, with the flags that lift the rule that refuses it.
func (p *Principal) remedy(t Target, flags string) string {
	if t.Access == OwnerOnly {
		return "call it over the unix socket of the daemon, as its owner"
	}
	if p.id == DefaultID {
		return fmt.Sprintf("the owner can make a token that may: kernos token create NAME --preset %s --allow %s", p.grant.Preset, t.Type)
	}
	flags = cmp.Or(flags, "--allow "+string(t.Type))
	return fmt.Sprintf("the owner can allow it: kernos token update %s %s", p.name, flags)
}
