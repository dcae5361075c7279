package notify

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

type listInput struct {
	Limit int `json:"limit,omitzero" jsonschema:"minimum=1,maximum=1000,default=100" jsonschema_description:"How many notifications at most."`
}

type listOutput struct {
	Notifications []Notification `json:"notifications" jsonschema_description:"The notifications that wait to be seen, newest first."`
	Waiting       int            `json:"waiting" jsonschema_description:"How many the caller sees in all."`
	kernel.Narrowed
}

var list = kernel.DefineQuery[listInput, listOutput](kernel.Definition{
	Type:    "Notify.List",
	Summary: "List the notifications that are not marked as seen, newest first.",
	Presentation: kernel.Presentation{
		Title: "List notifications",
		Words: "unseen notifications, alerts, inbox, which notifications do i have, new notifications, any alerts for me, did i get an alert, show my notifications, " +
			"unread alerts, did a notification come in",
		Columns: []string{"ID {id}", "SENT {at:clock}", "FROM {from}", "TEXT {title}: {text} | {text}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows, Answers: kernel.FromStore},
})

func (n *Notifications) list(ctx context.Context, in listInput) (out listOutput, err error) {
	out.Narrowed = kernel.Narrow(ctx, (*principal.Principal).SeesAll)
	out.Notifications, out.Waiting, err = n.Unseen(kernel.PrincipalOf(ctx), cmp.Or(in.Limit, 100))
	return out, err
}

// Unseen returns the latest notifications that a principal sees, newest first, and how many there are.
func (n *Notifications) Unseen(p *principal.Principal, most int) (latest []Notification, waiting int, err error) {
	latest = []Notification{}
	err = n.each(p, func(_ []byte, note Notification) { latest = append(latest, note) })
	slices.SortFunc(latest, func(a, b Notification) int { return strings.Compare(b.ID, a.ID) })
	return latest[:min(len(latest), most)], len(latest), err
}

// each calls f with the notifications that a principal sees.
func (n *Notifications) each(p *principal.Principal, f func(key []byte, note Notification)) error {
	prefix := key(keyWaiting)
	for e, err := range n.opts.Store.Scan(store.Prefix(prefix)) {
		if err != nil {
			return err
		}
		owner, _, _ := strings.Cut(string(e.Key[len(prefix):]), "\x00")
		if !p.Sees(principal.ID(owner)) {
			continue
		}
		var note Notification
		if err := json.Unmarshal(e.Value, &note); err != nil {
			return err
		}
		f(bytes.Clone(e.Key), note)
	}
	return nil
}

type seenInput struct {
	IDs []string `json:"ids,omitzero" jsonschema:"minItems=1,maxItems=1000,maxLength=64" jsonschema_description:"The notifications, as Notify.List names them."`
	All bool     `json:"all,omitzero" jsonschema_description:"All that the caller sees."`
}

type seenOutput struct {
	Seen    int `json:"seen" jsonschema_description:"How many were waiting, and wait no more."`
	Waiting int `json:"waiting" jsonschema_description:"How many still wait."`
}

var seen = kernel.DefineCommand[seenInput, seenOutput](kernel.Definition{
	Type:    "Notify.Seen",
	Summary: "Mark notifications as seen: they wait no more. One that doesn't wait is no error.",
	Input:   schema.Input[seenInput]().Example(`{"all":true}`),
	Presentation: kernel.Presentation{
		Title: "Mark notifications as seen",
		Words: "dismiss, acknowledge, mark as read, clear notifications, i have read it, mark a notification as read, clear the alerts, got it, " +
			"hide a notification, get rid of a notification, remove a notification, i have seen that",
		Result:    "Marked {seen} as seen; {waiting} wait",
		Arguments: []string{"ids"},
		Errors:    []kernel.ErrorDefinition{{Code: 422, When: "neither ids nor all is given, or both"}},
	},
	Behavior: kernel.Behavior{Repeat: kernel.Idempotent},
})

func (n *Notifications) seen(ctx context.Context, in seenInput) (out seenOutput, err error) {
	if in.All == (in.IDs != nil) {
		return out, message.Invalid("ids", "ids: give the ids of notifications, or all: true")
	}
	var b store.Batch
	err = n.each(kernel.PrincipalOf(ctx), func(key []byte, note Notification) {
		if in.All || slices.Contains(in.IDs, note.ID) {
			b.Delete(key)
			out.Seen++
		} else {
			out.Waiting++
		}
	})
	if err != nil || out.Seen == 0 {
		return out, err
	}
	return out, kernel.Stage(ctx, &b)
}
