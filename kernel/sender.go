package kernel

import (
	"context"
	"slices"
	"strings"

	"kernos/kernel/principal"
	"kernos/message"
)

// A Sender is where a message comes from: the principal that it acts for, the wire that it came
// over, and the sessions whose rules decide about it. None of them comes from what was sent. The
// zero Sender is the owner, within the process.
type Sender struct {
	from *sender // never changed; nil for the zero Sender. One word is cheap to pass on with each message.
}

type sender struct {
	principal *principal.Principal
	name      string // the names of all that the message acts for; "" means the principal's
	wire      string
	scope     string       // the sessions whose rules decide
	query     message.Type // the query that is being served because of which the message was sent, or ""
}

// scopeSeparator stands between the sessions of a scope. No id of a session has it.
const scopeSeparator = "/"

// From returns the sender of messages that act for a principal, over a wire. A nil principal
// is the owner.
func From(p *principal.Principal, wire string) Sender {
	return Sender{&sender{principal: p, wire: wire}}
}

// In returns the sender of messages that sessions cause, given one or a [Sender.Scope]: besides the
// rights of the principal, [Options.Rules] decides about them and about what they cause in turn. The
// sessions that the sender has already still decide.
func (s Sender) In(scope string) Sender {
	sessions := s.Sessions()
	for _, session := range sessionsOf(scope) {
		if !slices.Contains(sessions, session) {
			sessions = append(sessions, session)
		}
	}
	in := s.copy()
	in.scope = strings.Join(sessions, scopeSeparator)
	return Sender{in}
}

// With returns the sender of what another principal brings about for the sender: a program that serves a
// call, the author of code, the decider of an approval. It may do what both may, and records name both.
func (s Sender) With(other *principal.Principal) Sender {
	own, with := s.Principal(), s.copy()
	with.principal = principal.Both(own, other)
	if !other.IsOwner() && other.ID() != own.ID() {
		with.name = s.Name() + principal.PartsSeparator + other.Name()
	}
	return Sender{with}
}

// Serving returns the sender of what the provider of a call sends because of the call: it acts for both,
// the sender of the call and the provider, under the rules of all sessions of the call and of the scope,
// and if the call is a query, it may call queries only.
func (c *Call) Serving(provider *principal.Principal, wire, scope string) Sender {
	out := c.sender.With(provider).In(scope)
	out.from.wire = wire
	if !c.mayCommand() {
		out.from.query = c.request.Type
	}
	return out
}

func (s Sender) copy() *sender {
	if s.from == nil {
		return new(sender)
	}
	out := *s.from
	return &out
}

// Name returns the name of the principal; the name of a program that serves a call, or of code's author, stands
// after the name of its caller: owner/ci.
func (s Sender) Name() string {
	if s.from == nil || s.from.name == "" {
		return s.Principal().Name()
	}
	return s.from.name
}

// Wire returns the wire that the message came over: unix, ws, http, stdio; "" within the process.
func (s Sender) Wire() string {
	if s.from == nil {
		return ""
	}
	return s.from.wire
}

// Session returns the session that has caused the message, or "".
func (s Sender) Session() string {
	first, _, _ := strings.Cut(s.Scope(), scopeSeparator)
	return first
}

// Scope returns the sessions whose rules decide about the message, as [Sender.In] takes them: the
// one that has caused it, and those that code comes from which acts for it.
func (s Sender) Scope() string {
	if s.from == nil {
		return ""
	}
	return s.from.scope
}

// Sessions returns the sessions of the scope.
func (s Sender) Sessions() []string { return sessionsOf(s.Scope()) }

func sessionsOf(scope string) []string {
	if scope == "" {
		return nil
	}
	return strings.Split(scope, scopeSeparator)
}

// serves returns the query that the message was sent to serve, or "".
func (s Sender) serves() message.Type {
	if s.from == nil {
		return ""
	}
	return s.from.query
}

// Principal returns who the message acts for.
func (s Sender) Principal() *principal.Principal {
	if s.from == nil || s.from.principal == nil {
		return principal.TheOwner()
	}
	return s.from.principal
}

// senderKey is the key of the sender in a context.
type senderKey struct{}

// ActFor returns a context with which [Kernel.Handle] and connections act for a sender.
// Without one, they act for the owner.
func ActFor(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

// SenderIn returns the sender that a context acts for.
func SenderIn(ctx context.Context) Sender {
	s, _ := ctx.Value(senderKey{}).(Sender)
	return s
}
