package session

import (
	"cmp"
	"context"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// mayAllow returns nil if the caller may allow a call that waits for a decision, and with whose rights the call runs
// then: "" stands for the session's rights alone. Otherwise it returns a 403. No decision gives a call more rights than its decider has:
//
//   - the owner, and a caller for whom the session acts, may allow every call of the session: it has the session's rights;
//   - others may allow what they could call themselves. The call then runs with the rights that they and the session both
//     have, and they can't have the decision remembered, since later calls would run with those of the session.
//
// Denying takes no right but that to see the session.
func (x *Sessions) mayAllow(ctx context.Context, s *session, call *callState, remember string) (as principal.ID, err error) {
	decider := kernel.PrincipalOf(ctx)
	actsFor, err := x.opts.Find(s.Principal)
	if err != nil {
		return "", err
	}
	if decider.IsOwner() || actsFor != nil && actsFor.Narrower(decider) {
		return "", nil
	}
	name, args := call.final()
	k, err := x.running()
	if err == nil {
		_, err = k.Check(name, args, kernel.From(decider, ""))
	}
	if e, ok := message.ErrorOf(err); ok && err != nil && e.Code == 403 {
		return "", message.Errorf(403, "The token %q may not allow a call that it couldn't make: %w", decider.Name(), e)
	} else if err != nil {
		return "", err
	}
	if cmp.Or(remember, "once") != "once" {
		return "", message.Errorf(403, "The token %q may allow calls of the session %s, which acts for %s, one by one, and not with remember %s: later calls would have all rights of the session; leave remember out, or decide over the unix socket of the daemon, as its owner", decider.Name(), s.ID, principal.Claim{ID: s.Principal, Name: s.Token}, remember)
	}
	return decider.ID(), nil
}

// senderOf returns the sender of a call: the session's sender, narrowed to what the caller that allowed it may do. The
// error is a 403 if that caller has ended.
func (r *runner) senderOf(call *callState) (kernel.Sender, error) {
	if call.As == "" {
		return r.sender.In(r.id), nil
	}
	decider, err := r.x.opts.Find(call.As)
	if err == nil && decider == nil {
		err = message.Errorf(403, "The token that has allowed the call was revoked or has expired")
	}
	if err != nil {
		return kernel.Sender{}, err
	}
	return r.sender.With(decider).In(r.id), nil
}
