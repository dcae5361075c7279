package kernel

import (
	"slices"
	"strings"

	"kernos/internal/ranked"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Need is what callers look for under names that a kernel doesn't have, and that no syscall which they may call
// has among the words of its presentation.
type Need struct {
	Words  string // words of the names that callers try, in any form
	Advice string // what to do instead
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

// maxOffers is how many syscalls an error offers.
const maxOffers = 4

// Instead returns what a caller that sees v and asks for an unknown type may need, or "": the syscalls that have a word of the
// name among the single words of their presentation, or else the advice of the first need that has one. The domain
// counts more than the action.
func (v View) Instead(t message.Type, needs []Need) string {
	names := make(map[message.Type][]string)
	for s := range v.Syscalls() {
		if s.Provider == BuiltIn {
			for called := range strings.SplitSeq(s.Words, ",") {
				if words := ranked.Words(called); len(words) == 1 && !strings.Contains(strings.TrimSpace(called), " ") {
					names[s.Type] = append(names[s.Type], words[0])
				}
			}
		}
	}
	for _, part := range []string{t.Domain(), t.Action()} {
		for _, w := range ranked.Words(part) {
			var offered []string
			for s := range v.Syscalls() {
				if slices.Contains(names[s.Type], w) {
					offered = append(offered, string(s.Type))
				}
			}
			if offered != nil {
				return "for " + strings.ToLower(part) + " there is " + strings.Join(offered[:min(maxOffers, len(offered))], ", ")
			}
			for _, n := range needs {
				if slices.Contains(ranked.Words(n.Words), w) {
					return n.Advice
				}
			}
		}
	}
	return ""
}
