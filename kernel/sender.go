package kernel

import (
	"context"

	"kernos/kernel/principal"
)

// A Sender is where a message comes from: the principal that it acts for, the wire that it came
// over, and the session that has caused it. None of them comes from what was sent. The zero
// Sender is the owner, within the process.
type Sender struct {
	from *sender // never changed; nil for the zero Sender. One word is cheap to pass on with each message.
}

type sender struct {
	principal *principal.Principal
	wire      string
	session   string
}

// From returns the sender of messages that act for a principal, over a wire. A nil principal
// is the owner.
func From(p *principal.Principal, wire string) Sender {
	return Sender{&sender{principal: p, wire: wire}}
}

// In returns the sender of messages that a session causes: [Options.Rules] decides about them,
// beside the rights of the principal, and about what they cause in turn.
func (s Sender) In(session string) Sender {
	return Sender{&sender{principal: s.Principal(), wire: s.Wire(), session: session}}
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
	if s.from == nil {
		return ""
	}
	return s.from.session
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
