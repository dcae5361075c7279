package kernel

import (
	"slices"
	"strings"

	"kernos/internal/ranked"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Need is what callers look for under names that a kernel doesn't have.
type Need struct {
	Words  string         // words of the names that callers try, in any form
	Offers []message.Type // the syscalls that meet the need
	Advice string         // what to do if no offer exists, or may be called
}

// Instead returns what a caller that asks for an unknown type may need, of what it may call, or "". It is the
// part of a message's error about such a type, for the errors of other protocols.
func (k *Kernel) Instead(t message.Type, caller *principal.Principal) string {
	return k.registry.For(caller).Instead(t, k.opts.Needs)
}

// Absent returns why a type that was served isn't now, as a clause; "" if that isn't known. The type may be the name of a
// method, such as text.count.
func (k *Kernel) Absent(t message.Type, caller *principal.Principal) string {
	if k.opts.Absent == nil {
		return ""
	}
	return k.opts.Absent(t, caller)
}

// Instead returns what a caller that sees v and asks for an unknown type may need, or "". The first need with
// a word of the name counts. The domain counts more than the action.
func (v View) Instead(t message.Type, needs []Need) string {
	for _, part := range []string{t.Domain(), t.Action()} {
		for _, w := range ranked.Words(part) {
			for _, n := range needs {
				if !slices.Contains(ranked.Words(n.Words), w) {
					continue
				}
				var offered []string
				for _, o := range n.Offers {
					if _, ok := v.catalog.lookup(o); ok {
						offered = append(offered, string(o))
					}
				}
				if offered != nil {
					return "for " + strings.ToLower(part) + " there is " + strings.Join(offered, ", ")
				}
				return n.Advice
			}
		}
	}
	return ""
}
