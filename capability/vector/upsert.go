package vector

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/vectors"
)

// What a caller may keep.
const (
	maxText        = 8 << 10   // bytes of a text
	maxCollections = 1000      // collections of a principal
	maxCollection  = 1_000_000 // items of a collection
)

type upsertInput struct {
	Collection string       `json:"collection" jsonschema:"maxLength=128,pattern=^[A-Za-z0-9][A-Za-z0-9._/-]*$" jsonschema_description:"The collection. Its first item makes it, and decides whether it holds texts or vectors."`
	Items      []upsertItem `json:"items" jsonschema:"minItems=1,maxItems=1000" jsonschema_description:"What to keep, at most 1,000 items. An item that exists under its id is replaced."`
	Owner      string       `json:"owner,omitempty" jsonschema:"maxLength=200" jsonschema_description:"The id of the principal that the collection belongs to, as Vector.Collections lists it. Default: the caller."`
}

type upsertItem struct {
	ID       string                    `json:"id" jsonschema:"minLength=1,maxLength=256" jsonschema_description:"The id of the item, unique in its collection."`
	Text     string                    `json:"text,omitempty" jsonschema_description:"The text to find by its meaning, at most 8,192 bytes: divide a longer one among several items. Either this or vector."`
	Vector   []float32                 `json:"vector,omitempty" jsonschema:"maxItems=8192" jsonschema_description:"The numbers of a model of one's own, as many for each item. Either this or text."`
	Metadata map[string]jsontext.Value `json:"metadata,omitempty" jsonschema_description:"Fields to filter by, and to get back: texts, numbers, true, false, null, or lists of these."`
}

type upsertOutput struct {
	Added   int `json:"added" jsonschema_description:"Items that are new."`
	Changed int `json:"changed" jsonschema_description:"Items that were replaced. Those that were the same aren't counted."`
}

var upsert = kernel.DefineCommand[upsertInput, upsertOutput](kernel.Definition{
	Type:    "Vector.Upsert",
	Summary: "Add items to a collection, or replace them: texts, which are embedded, or vectors. They are durable when the reply arrives, and found by the next Vector.Query.",
	Input:   schema.Input[upsertInput]().Example(`{"collection":"docs","items":[{"id":"reset","text":"How to reset a password","metadata":{"lang":"en"}}]}`),
	Presentation: kernel.Presentation{
		Title: "Add items to a collection",
		Words: "embed, insert, index a text, upload, ingest, add an embedding, store a vector, add documents to a knowledge base, " +
			"make documents searchable, put a text into an index, create a collection, feed documents, update an item of a collection",
		Stdin:     "items",
		Result:    "Added {added} and changed {changed} items of {request.collection}",
		Arguments: []string{"collection"}, Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the collection belongs to a principal that the caller doesn't see"},
			{Code: 413, When: "a text is longer than 8,192 bytes, or the collection has a million items"},
			{Code: 422, When: "an item has both a text and a vector or neither, or doesn't fit into the collection"},
		},
	},
})

func (v *Vectors) upsert(ctx context.Context, in upsertInput) (out upsertOutput, err error) {
	n, err := v.reach(ctx, in.Collection, in.Owner)
	if err != nil {
		return out, err
	}
	var b store.Batch
	h, err := v.begin(&b, n, in.Items[0])
	if err != nil {
		return out, err
	}
	x := v.index(h)
	seen := make(map[string]bool, len(in.Items))
	for i := range in.Items {
		one := &in.Items[i]
		if err := one.check(&h); err != nil {
			return out, err
		}
		if seen[one.ID] {
			return out, message.Invalid("items", "items: %q is there twice; send each id once", one.ID)
		}
		seen[one.ID] = true
		key := n.key(spaceItems, one.ID)
		e, err := v.opts.Store.Get(key)
		if err != nil {
			return out, err
		}
		text, err := one.encode()
		if err != nil {
			return out, err
		}
		if e.Revision > 0 && bytes.Equal(e.Value, text) {
			continue
		}
		b.IfRevision(key, e.Revision) // fails if the item, whose fields are known here, has changed
		if e.Revision > 0 {
			old, err := readItem(e)
			if err != nil {
				return out, err
			}
			for _, key := range n.fieldKeys(one.ID, old.Metadata) {
				b.Delete(key)
			}
			out.Changed++
		} else {
			out.Added++
		}
		for _, key := range n.fieldKeys(one.ID, one.Metadata) {
			b.Set(key, nil)
		}
		b.Set(key, text)
		x.Mark(&b, []byte(one.ID))
	}
	if out.Added > 0 {
		if count, err := x.Count(); err != nil {
			return out, err
		} else if count+out.Added > maxCollection {
			return out, message.Errorf(413, "The collection %q has %d items, and %d are allowed: divide it among several collections", in.Collection, count, maxCollection)
		}
	}
	if b.Empty() {
		return out, nil
	}
	kernel.WhenApplied(ctx, func(*store.Commit) { v.note(n) })
	return out, kernel.Stage(ctx, &b)
}

// begin returns a collection, and stages it if it is new: then its first item determines what it holds.
func (v *Vectors) begin(b *store.Batch, n name, first upsertItem) (head, error) {
	h, revision, err := v.head(n)
	if err != nil {
		return h, err
	}
	b.IfRevision(n.key(spaceHeads), revision) // fails if the collection was changed meanwhile
	if h.Name != "" {
		return h, nil
	}
	count := 0
	for _, err := range v.opts.Store.Scan(store.Prefix(append([]byte{store.SpaceVectors, spaceHeads}, string(n.owner)+"\x00"...))) {
		if err != nil {
			return h, err
		}
		if count++; count == maxCollections {
			return h, message.Errorf(413, "There are %d collections already, and no more are allowed: delete one with Vector.Delete, or tell items apart by metadata", maxCollections)
		}
	}
	h = head{Owner: n.owner, Name: n.own, Dimensions: len(first.Vector), Created: time.Now().UnixNano()}
	text, err := json.Marshal(h)
	b.Set(n.key(spaceHeads), text)
	return h, err
}

// check returns what keeps an item from being kept in a collection.
func (i *upsertItem) check(h *head) error {
	switch {
	case (i.Text == "") == (i.Vector == nil):
		return message.Invalid("items", "items: %q must have either a text or a vector", i.ID)
	case i.Text != "" && h.Dimensions > 0:
		return message.Invalid("items", "items: %q has a text, and the collection %q holds vectors of %d numbers; use another collection for texts", i.ID, h.Name, h.Dimensions)
	case i.Vector != nil && h.Dimensions == 0:
		return message.Invalid("items", "items: %q has a vector, and the collection %q holds texts; use another collection for vectors", i.ID, h.Name)
	case len(i.Vector) != h.Dimensions:
		return message.Invalid("items", "items: the vector of %q has %d numbers, and those of the collection %q have %d; use another collection for another model", i.ID, len(i.Vector), h.Name, h.Dimensions)
	case len(i.Text) > maxText:
		return message.Errorf(413, "The text of %q has %d bytes, and %d are allowed: divide it among several items", i.ID, len(i.Text), maxText)
	case slices.ContainsFunc([]byte(i.ID), func(c byte) bool { return c < ' ' || c == 0x7F }):
		return message.Invalid("items", "items: the id %q has control characters; leave them out", i.ID)
	case len(i.Vector) > vectors.MaxDimensions:
		return message.Invalid("items", "items: the vector of %q has %d numbers, and %d are allowed", i.ID, len(i.Vector), vectors.MaxDimensions)
	}
	return checkMetadata(i.ID, i.Metadata)
}

// encode returns an item as it is kept.
func (i *upsertItem) encode() ([]byte, error) {
	kept := item{Text: i.Text, Metadata: i.Metadata}
	for _, f := range i.Vector {
		kept.Vector = binary.LittleEndian.AppendUint32(kept.Vector, math.Float32bits(f))
	}
	return json.Marshal(kept, json.Deterministic(true))
}
