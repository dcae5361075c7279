package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// An approval that was given with remember: always holds for all sessions of a principal, until Session.Revoke takes it back.
type approval struct {
	Approval string `json:"approval" jsonschema_description:"What no longer asks: a syscall, or a syscall and one thing that it reaches."`
	Token    string `json:"token" jsonschema_description:"The token for whose sessions it holds, or owner."`
}

type approvalsOutput struct {
	Approvals []approval `json:"approvals" jsonschema_description:"The approvals of the tokens that the caller sees."`
	kernel.Narrowed
}

var listApprovals = kernel.DefineQuery[struct{}, approvalsOutput](kernel.Definition{
	Type:    "Session.Approvals",
	Summary: "List what was allowed always, for all sessions of a token.",
	Presentation: kernel.Presentation{
		Title: "List what is always allowed",
		Words: "approvals, remembered decisions, permissions, what did i allow for good, which calls don't ask any more, standing permissions, " +
			"what is always permitted, what may agents do without asking",
		Columns: []string{"APPROVAL {approval}", "TOKEN {token}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (x *Sessions) approvals(ctx context.Context, _ struct{}) (approvalsOutput, error) {
	out := approvalsOutput{Approvals: []approval{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAll)}
	all, err := x.allowedAlways(kernel.PrincipalOf(ctx))
	for _, a := range all {
		for _, text := range a.texts {
			out.Approvals = append(out.Approvals, approval{text, a.whose.Name()})
		}
	}
	return out, err
}

// always is what was allowed for all sessions of one principal.
type always struct {
	whose *principal.Principal
	texts []string
	entry store.Entry
}

// allowedAlways returns what was allowed for the principals that one sees. The sessions of a principal that has ended don't run.
func (x *Sessions) allowedAlways(seenBy *principal.Principal) (all []always, err error) {
	space := key(keyAlways)
	for e, err := range x.opts.Store.Scan(store.Prefix(space)) {
		if err != nil {
			return nil, err
		}
		id := principal.ID(e.Key[len(space):])
		if !seenBy.Sees(id) {
			continue
		}
		whose, err := x.opts.Find(id)
		if err != nil {
			return nil, err
		}
		a := always{whose: whose, entry: store.Entry{Key: slices.Clone(e.Key), Revision: e.Revision}}
		if err := json.Unmarshal(e.Value, &a.texts); err != nil {
			return nil, err
		}
		if whose != nil {
			all = append(all, a)
		}
	}
	return all, nil
}

type revokeInput struct {
	Approval string `json:"approval" jsonschema:"minLength=1,example=Http.Fetch" jsonschema_description:"The approval, as Session.Approvals lists it."`
	Token    string `json:"token,omitzero" jsonschema:"maxLength=64" jsonschema_description:"The token for whose sessions it holds, or owner. Default: the caller's own."`
}

type revokeOutput struct {
	Revoked bool `json:"revoked" jsonschema_description:"Always true: such calls ask again, also in sessions that are open."`
}

var revoke = kernel.DefineCommand[revokeInput, revokeOutput](kernel.Definition{
	Type:    "Session.Revoke",
	Summary: "Take back what was allowed always: such calls ask again in all sessions.",
	Presentation: kernel.Presentation{
		Title: "Take an approval back",
		Words: "forbid again, ask again, ask me before doing that again, no longer allow it always, withdraw a permission, undo always allow, " +
			"cancel a standing approval, not without asking",
		Result:    "{request.approval} asks again",
		Arguments: []string{"approval"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "it is an approval for the sessions of another token"},
			{Code: 404, When: "this wasn't allowed always"},
		},
	},
	Behavior: kernel.Behavior{Repeat: kernel.Idempotent},
	Access:   principal.ForPeople,
})

func (x *Sessions) revoke(ctx context.Context, in revokeInput) (out revokeOutput, err error) {
	p := kernel.PrincipalOf(ctx)
	all, err := x.allowedAlways(p)
	if err != nil {
		return out, err
	}
	var known []string
	for _, a := range all {
		own := a.whose.ID() == p.ID()
		if a.whose.Name() != in.Token && !(own && in.Token == "") {
			continue
		}
		known = a.texts
		left := slices.DeleteFunc(slices.Clone(known), func(text string) bool { return text == in.Approval })
		if len(left) == len(known) {
			continue
		}
		switch {
		case !own && !p.IsOwner():
			return out, message.Errorf(403, "Only the token %q and the owner can take back what was allowed for its sessions", in.Token)
		case !own:
			if err := kernel.Reaching(ctx, kernel.ToOthers, "the approvals of "+in.Token); err != nil {
				return out, err
			}
		}
		var b store.Batch
		b.IfRevision(a.entry.Key, a.entry.Revision)
		b.Set(a.entry.Key, jsonvalue.Marshal(left))
		return revokeOutput{true}, kernel.Stage(ctx, &b)
	}
	return out, message.Errorf(404, "%q wasn't allowed always: %s", message.Clip(in.Approval, 200), cmp.Or(nearest.Hint(in.Approval, known), "Session.Approvals lists what was"))
}
