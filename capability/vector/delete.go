package vector

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// maxDeleted is how many items one request deletes.
const maxDeleted = 10_000

type deleteInput struct {
	Collection string                    `json:"collection" jsonschema:"minLength=1,maxLength=128" jsonschema_description:"The collection. Without ids and filter, all of it is deleted."`
	IDs        []string                  `json:"ids,omitempty" jsonschema:"minItems=1,maxItems=1000" jsonschema_description:"The items to delete."`
	Filter     map[string]jsontext.Value `json:"filter,omitempty" jsonschema_description:"Delete the items whose metadata this filter leaves, written as in Vector.Query: at most 10,000 in one call."`
	Owner      string                    `json:"owner,omitempty" jsonschema:"maxLength=200" jsonschema_description:"The id of the principal that the collection belongs to. Default: the caller."`
}

type deleteOutput struct {
	Deleted int  `json:"deleted" jsonschema_description:"Items that were deleted; of a whole collection, they aren't counted."`
	More    bool `json:"more,omitzero" jsonschema_description:"Whether the filter leaves more items: call again."`
}

var remove = kernel.DefineCommand[deleteInput, deleteOutput](kernel.Definition{
	Type:    "Vector.Delete",
	Summary: "Delete items of a collection, by id or by a filter, or the whole collection.",
	Input:   schema.Input[deleteInput]().Example(`{"collection":"docs","ids":["reset"]}`),
	Presentation: kernel.Presentation{
		Title: "Delete items of a collection",
		Words: "remove embeddings, drop a collection, remove documents from a collection, drop an index, delete a knowledge base, get rid of a collection, " +
			"take an item out of an index, empty a collection",
		Result:    "Deleted {deleted} items of {request.collection}[; more are left{?more}]",
		Arguments: []string{"collection", "ids"}, Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the collection belongs to a principal that the caller doesn't see"},
			{Code: 404, When: "the collection doesn't exist"},
			{Code: 422, When: "both ids and a filter were given, or the filter can't be read"},
		},
	},
	Behavior: kernel.Behavior{Destroys: true},
})

func (v *Vectors) remove(ctx context.Context, in deleteInput) (out deleteOutput, err error) {
	n, h, err := v.existing(ctx, in.Collection, in.Owner)
	if err != nil {
		return out, err
	}
	if in.IDs != nil && in.Filter != nil {
		return out, message.Invalid("filter", "filter: give either ids or a filter")
	}
	var b store.Batch
	ids := in.IDs
	switch {
	case in.Filter != nil:
		if ids, out.More, err = v.filtered(ctx, n, in.Filter); err != nil {
			return out, err
		}
	case in.IDs == nil:
		b.Delete(n.key(spaceHeads))
		for _, space := range []byte{spaceItems, spaceField, spaceIndex} {
			b.DeleteRange(n.key(space), store.After(n.key(space)))
		}
		kernel.WhenApplied(ctx, func(*store.Commit) { v.forget(h) })
		return out, kernel.Stage(ctx, &b)
	}
	for _, id := range ids {
		key := n.key(spaceItems, id)
		e, err := v.opts.Store.Get(key)
		if err != nil {
			return out, err
		}
		if e.Revision == 0 {
			continue
		}
		i, err := readItem(e)
		if err != nil {
			return out, err
		}
		b.IfRevision(key, e.Revision)
		b.Delete(key)
		for _, key := range n.fieldKeys(id, i.Metadata) {
			b.Delete(key)
		}
		v.index(h).Mark(&b, []byte(id))
		out.Deleted++
	}
	if b.Empty() {
		return out, nil
	}
	kernel.WhenApplied(ctx, func(*store.Commit) { v.note(n) })
	return out, kernel.Stage(ctx, &b)
}

// filtered returns the items that a filter leaves, and whether there are more.
func (v *Vectors) filtered(ctx context.Context, n name, in map[string]jsontext.Value) (ids []string, more bool, err error) {
	f, err := readFilter(in)
	if err != nil {
		return nil, false, err
	}
	if len(f) == 0 {
		return nil, false, message.Errorf(422, "An empty filter would delete every item; leave filter out to delete the whole collection")
	}
	prefix := n.key(spaceItems)
	for e, err := range v.opts.Store.Scan(store.Prefix(prefix)) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, err
		}
		i, err := readItem(e)
		if err != nil {
			return nil, false, err
		}
		if !f.accepts(i.Metadata) {
			continue
		}
		if len(ids) == maxDeleted {
			return ids, true, nil
		}
		ids = append(ids, string(e.Key[len(prefix):]))
	}
	return ids, false, nil
}
