package kernel

import (
	"context"

	"kernos/kernel/principal"
)

// Narrowed is a part of the reply of each syscall that leaves out what its caller may not see.
type Narrowed struct {
	Note string `json:"note,omitzero" jsonschema_description:"Present if the caller may not see everything, whether or not something was left out: only what token ci may see."`
}

// Narrow returns the note for the caller of ctx, given what reports whether a principal sees everything.
func Narrow(ctx context.Context, seesAll func(*principal.Principal) bool) Narrowed {
	p := PrincipalOf(ctx)
	if seesAll(p) {
		return Narrowed{}
	}
	return Narrowed{"only what token " + p.Name() + " may see"}
}
