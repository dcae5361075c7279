package kernel

import (
	"context"
	"strings"

	"kernos/kernel/idempotency"
	"kernos/kernel/principal"
	"kernos/message"
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

// Wire is the wire that the message came over: unix, ws, http, stdio; "" within the process.
func (s Sender) Wire() string {
	if s.from == nil {
		return ""
	}
	return s.from.wire
}

// Session is the session that has caused the message, or "".
func (s Sender) Session() string {
	if s.from == nil {
		return ""
	}
	return s.from.session
}

// Principal is who the message acts for.
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

// SenderOf returns the sender that the call of ctx acts for, or that ctx does if it is of no call.
func SenderOf(ctx context.Context) Sender {
	if c, ok := CallOf(ctx); ok {
		return c.sender
	}
	return SenderIn(ctx)
}

// PrincipalOf returns who the call of ctx acts for.
func PrincipalOf(ctx context.Context) *principal.Principal { return SenderOf(ctx).Principal() }

// ReceiverOf returns whose connection the answers to the call of ctx go to. It is not who the call
// acts for if a program has made it to serve the request of another principal.
func ReceiverOf(ctx context.Context) *principal.Principal {
	c, ok := CallOf(ctx)
	if !ok {
		return SenderIn(ctx).Principal()
	}
	return c.Root().origin.Sender("").Principal()
}

// Target is the syscall as the rules of a principal see it.
func (d *Definition) Target() principal.Target {
	return principal.Target{Type: d.Type, Kind: d.Kind, Access: d.Access}
}

// permit returns the error for a request that its sender may not send.
func (s *Syscall) permit(m *message.Message, from Sender, nested bool) error {
	if e := from.Principal().May(s.Target()); e != nil {
		return e
	}
	if nested {
		return nil
	}
	if key := m.Metadata.IdempotencyKey; strings.HasPrefix(key, "session/") || strings.HasPrefix(key, "job/") {
		return &message.Error{Code: 403, Field: "metadata.idempotencyKey", Message: "Idempotency keys that begin with session/ or job/ are the kernel's; choose another key"}
	}
	if e := from.Principal().Admit(); e != nil {
		return e
	}
	return nil
}

// idempotencyKey is the idempotency key of a call as it is kept: keys belong to principals. Those of
// the owner are kept as they are.
func (c *Call) idempotencyKey() idempotency.Key {
	key := idempotency.Key{Text: c.request.Metadata.IdempotencyKey}
	if p := c.sender.Principal(); !p.IsOwner() {
		key.Scope = string(p.ID())
	}
	return key
}
