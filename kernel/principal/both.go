package principal

import (
	"slices"
	"strings"

	"kernos/message"
)

// PartsSeparator stands between the parts of the ID and of the name of what [Both] returns. No token
// has it in either.
const PartsSeparator = "/"

// Both returns the principal that code and programs act for when they serve a call: it may do what
// the caller and the author of the code, or the principal of the program, both may. What it starts
// and stores is its own, so that a job which the code has started has no more rights than the code.
// It lives as long as the caller, and may do nothing once one of the two has ended.
func Both(caller, author *Principal) *Principal {
	parts := caller.parts
	if parts == nil {
		parts = []*Principal{caller}
	}
	switch {
	case author.IsOwner() || slices.ContainsFunc(parts, func(p *Principal) bool { return p.id == author.id }):
		return caller
	case caller.IsOwner():
		return author
	}
	both := &Principal{parts: append(slices.Clip(parts), author), life: caller.life, grant: Grant{Memory: common(caller.grant.Memory, author.grant.Memory)}}
	both.id = caller.id + PartsSeparator + author.id
	both.name = caller.name + PartsSeparator + author.name
	return both
}

// Parts returns the IDs that the ID of a principal is made of, that of the caller first: one for
// the owner and for tokens.
func (id ID) Parts() []ID {
	var parts []ID
	for part := range strings.SplitSeq(string(id), PartsSeparator) {
		parts = append(parts, ID(part))
	}
	return parts
}

// Narrower reports whether the principal may do no more than another one: it is the same, or acts
// for both that one and others. Everything is narrower than the owner.
func (p *Principal) Narrower(other *Principal) bool {
	return p.id.narrower(other.id)
}

func (id ID) narrower(other ID) bool {
	return other == OwnerID || id == other || strings.HasPrefix(string(id), string(other)+PartsSeparator)
}

// common returns the prefixes of what both lists of prefixes reach; an empty list reaches
// everything.
func common(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	var both []string
	for _, prefix := range a {
		if within(prefix, b) {
			both = append(both, prefix)
		}
	}
	for _, prefix := range b {
		if within(prefix, a) && !slices.Contains(both, prefix) {
			both = append(both, prefix)
		}
	}
	if both == nil {
		return []string{"\x00"} // no key begins with a zero byte
	}
	slices.Sort(both)
	return both
}

// all reports whether something holds for every part.
func (p *Principal) all(holds func(*Principal) bool) bool {
	return !slices.ContainsFunc(p.parts, func(one *Principal) bool { return !holds(one) })
}

// first returns the first refusal of the parts, or nil.
func (p *Principal) first(check func(*Principal) *message.Error) *message.Error {
	for _, one := range p.parts {
		if e := check(one); e != nil {
			return e
		}
	}
	return nil
}
