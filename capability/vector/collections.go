package vector

import (
	"context"

	"kernos/kernel"
	"kernos/kernel/principal"
)

type collectionsOutput struct {
	Collections []collection `json:"collections" jsonschema_description:"The caller's collections, and those of principals that it sees; by owner and name."`
	kernel.Narrowed
}

type collection struct {
	Name       string       `json:"name" jsonschema_description:"The collection."`
	Owner      principal.ID `json:"owner,omitempty" jsonschema_description:"The id of the principal that it belongs to, if that isn't the caller."`
	Items      int          `json:"items" jsonschema_description:"Items that are embedded, about: deleted ones leave in the background."`
	Pending    int          `json:"pending,omitzero" jsonschema_description:"Items that wait to be embedded, or to leave."`
	Dimensions int          `json:"dimensions,omitzero" jsonschema_description:"Of a collection of vectors: how many numbers each has."`
	Model      string       `json:"model,omitempty" jsonschema_description:"Of a collection of texts: the model that has embedded them."`
	Next       string       `json:"next,omitempty" jsonschema_description:"The model that embeds them again, since it was chosen."`
	Done       int          `json:"done,omitzero" jsonschema_description:"Items that it has embedded."`
	Waiting    string       `json:"waiting,omitempty" jsonschema_description:"Why nothing is embedded."`
	Created    int64        `json:"created" jsonschema_description:"When the collection was made, in milliseconds since 1970."`
}

var collections = kernel.DefineQuery[struct{}, collectionsOutput](kernel.Definition{
	Type:    "Vector.Collections",
	Summary: "List the collections of texts and vectors, and how far they are embedded.",
	Presentation: kernel.Presentation{
		Title: "List collections",
		Words: "indexes, embeddings, ls, which collections do i have, list knowledge bases, is everything embedded, what is indexed, " +
			"how many items are in a collection, show all indexes",
		Columns: []string{
			"NAME {name}", "ITEMS {items}", "PENDING {pending}", "MODEL {model}", "NOTE {waiting}[ {next}] | {next}",
		},
	},
	Behavior:  kernel.Behavior{Volatile: []string{"collections.created", "collections.pending"}},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
})

func (v *Vectors) collections(ctx context.Context, _ struct{}) (out collectionsOutput, err error) {
	out.Collections, out.Narrowed = []collection{}, kernel.Narrow(ctx, (*principal.Principal).SeesAll)
	all, err := v.all(v.opts.Store)
	caller := kernel.PrincipalOf(ctx)
	for _, h := range all {
		if h.Owner != caller.ID() && !caller.Sees(h.Owner) {
			continue
		}
		p, err := v.index(h).Progress()
		if err != nil {
			return out, err
		}
		c := collection{Name: h.Name, Items: p.Entries, Pending: p.Pending, Dimensions: h.Dimensions, Next: p.Next, Done: p.Done, Waiting: p.Waiting, Created: h.Created / 1e6}
		if h.Dimensions == 0 {
			c.Model = p.Model
		}
		if h.Owner != caller.ID() {
			c.Owner = h.Owner
		}
		out.Collections = append(out.Collections, c)
	}
	return out, err
}
