package vector

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/ranked"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/cursor"
	"kernos/store/vectors"
)

const (
	defaultLimit = 10
	deepest      = 1000            // hits that can be paged through
	patience     = 2 * time.Second // how long a query waits for items that aren't embedded
	maxWorded    = 10_000          // items that a search by words looks at
)

type queryInput struct {
	Collection string                    `json:"collection" jsonschema:"minLength=1,maxLength=128" jsonschema_description:"The collection."`
	Text       string                    `json:"text,omitempty" aliases:"content" jsonschema:"maxLength=8192" jsonschema_description:"What to look for, in a collection of texts. Either this or vector."`
	Vector     []float32                 `json:"vector,omitempty" jsonschema:"maxItems=8192" jsonschema_description:"The vector to look for. Either this or text."`
	Limit      int                       `json:"limit,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"The most hits to return; default: 10."`
	Filter     map[string]jsontext.Value `json:"filter,omitempty" jsonschema_description:"Only items whose metadata has, for each field, this value, one of a list of values, or a value within bounds: {\"lang\":\"en\",\"year\":{\"gte\":2020},\"tag\":[\"a\",\"b\"],\"path\":{\"prefix\":\"docs/\"}}. It applies before the nearest are picked."`
	Cursor     string                    `json:"cursor,omitempty" jsonschema_description:"The cursor of the previous reply, to continue after it."`
	Owner      string                    `json:"owner,omitempty" jsonschema:"maxLength=200" jsonschema_description:"The id of the principal that the collection belongs to. Default: the caller."`
}

type hit struct {
	ID       string         `json:"id" jsonschema_description:"The item."`
	Score    float64        `json:"score" jsonschema_description:"How near it is: 1 is the same, about 0 has nothing to do with the query."`
	Text     string         `json:"text,omitempty" jsonschema_description:"Its text."`
	Metadata jsontext.Value `json:"metadata,omitempty" jsonschema_description:"Its metadata, an object."`
}

type queryOutput struct {
	Hits   []hit  `json:"hits" jsonschema_description:"The nearest items, the nearest first."`
	Cursor string `json:"cursor,omitempty" jsonschema_description:"Present if there may be more: pass it to the next call. 1,000 hits can be reached."`
	Note   string `json:"note,omitempty" jsonschema_description:"What is wrong with the hits: the model of embeddings fails, so that these were found by their words, or items are missing that aren't embedded yet."`
}

var query = kernel.DefineQuery[queryInput, queryOutput](kernel.Definition{
	Type:    "Vector.Query",
	Summary: "Find the items of a collection that are nearest to a text or to a vector, among those that a filter leaves.",
	Input:   schema.Input[queryInput]().Example(`{"collection":"docs","text":"I can't log in","filter":{"lang":"en"}}`),
	Presentation: kernel.Presentation{
		Title: "Query a collection",
		Words: "nearest, similar, semantic search, rag, retrieve, embeddings, search my documents by meaning, find similar texts, search a knowledge base, " +
			"ask my documents, which passages are about it, closest matches, look up in a collection, find related items",
		Columns:   []string{"ID {id}", "SCORE {score}", "TEXT {text}", "METADATA {metadata}"},
		Arguments: []string{"collection", "text"}, Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the collection belongs to a principal that the caller doesn't see"},
			{Code: 404, When: "the collection doesn't exist"},
			{Code: 422, When: "the query has both a text and a vector or neither, doesn't fit the collection, or its filter can't be read"},
		},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows, Answers: kernel.FromStore},
})

const cursorHits = 'v'

func (v *Vectors) query(ctx context.Context, in queryInput) (out queryOutput, err error) {
	n, h, err := v.existing(ctx, in.Collection, in.Owner)
	if err != nil {
		return out, err
	}
	if err := in.check(&h); err != nil {
		return out, err
	}
	f, err := readFilter(in.Filter)
	if err != nil {
		return out, err
	}
	var offset uint64
	if err := cursor.ParseNumbers(cursorHits, in.Cursor, &offset); err != nil {
		return out, err
	}
	if offset >= deepest {
		return out, cursor.ErrInvalid
	}
	passed := int(offset)
	in.Limit = cmp.Or(in.Limit, defaultLimit)
	limit := min(passed+in.Limit, deepest)
	out.Hits = []hit{}
	found, err := v.nearestItems(ctx, h, f, &in, limit+1, &out)
	if err != nil {
		return out, err
	}
	if len(found) > limit && limit < deepest {
		out.Cursor = cursor.Numbers(cursorHits, uint64(limit))
	}
	for _, scored := range found[min(passed, len(found)):min(limit, len(found))] {
		e, err := v.opts.Store.Get(n.key(spaceItems, string(scored.Key)))
		if err != nil {
			return out, err
		}
		if e.Revision == 0 {
			continue // the item was deleted meanwhile
		}
		i, err := readItem(e)
		if err != nil {
			return out, err
		}
		found := hit{ID: string(scored.Key), Score: ranked.Rounded(float64(scored.Score)), Text: i.Text}
		if len(i.Metadata) > 0 {
			if found.Metadata, err = json.Marshal(i.Metadata, json.Deterministic(true)); err != nil {
				return out, err
			}
		}
		out.Hits = append(out.Hits, found)
	}
	return out, nil
}

func (in *queryInput) check(h *head) error {
	switch {
	case (in.Text == "") == (in.Vector == nil):
		return message.Invalid("text", "text: give either a text or a vector to look for")
	case in.Text != "" && h.Dimensions > 0:
		return message.Invalid("text", "text: the collection %q holds vectors, and the kernel doesn't know their model; give a vector of %d numbers", h.Name, h.Dimensions)
	case in.Vector != nil && h.Dimensions > 0 && len(in.Vector) != h.Dimensions:
		return message.Invalid("vector", "vector: it has %d numbers, and those of the collection %q have %d", len(in.Vector), h.Name, h.Dimensions)
	case in.Vector != nil && h.Dimensions == 0:
		return message.Invalid("vector", "vector: the collection %q holds texts; give a text", h.Name)
	}
	return nil
}

// nearestItems finds the nearest items. If there are no vectors to go by, it goes by words, and the reply has a note about that.
func (v *Vectors) nearestItems(ctx context.Context, h head, f filter, in *queryInput, limit int, out *queryOutput) ([]vectors.KeyHit, error) {
	n, x := h.name(), v.index(h)
	waiting, cancel := context.WithTimeout(ctx, patience)
	late := x.CatchUp(waiting)
	cancel()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q := vectors.KeyQuery{Text: withoutSecrets(in.Text), Vector: in.Vector, Limit: limit}
	if err := v.narrow(n, f, &q); err != nil {
		return nil, err
	}
	found, err := x.Search(ctx, q)
	if err == nil && late != nil && len(found) == 0 {
		err = late
	}
	switch {
	case err == nil && late != nil:
		out.Note = "Items that were added lately may be missing: they aren't embedded yet"
		if !errors.Is(late, context.DeadlineExceeded) {
			out.Note += ", since the model of embeddings fails: " + reason(late)
		}
		return found, nil
	case err == nil || in.Text == "" || isOwn(err):
		return found, err
	}
	out.Note = "Found by words, since the model of embeddings fails: " + reason(err)
	return v.byWords(ctx, n, f, in.Text, limit)
}

// isOwn reports whether an error is that of the store or of the caller, and not of a model.
func isOwn(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) || errors.Is(err, context.Canceled)
}

// reason returns the text of a failure for callers.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it hasn't answered within " + patience.String()
	}
	return message.Clip(err.Error(), 300)
}

// narrow makes a filter part of a query.
func (v *Vectors) narrow(n name, f filter, q *vectors.KeyQuery) error {
	if len(f) == 0 {
		return nil
	}
	ids, all, err := f.listed(v.opts.Store, n)
	if err != nil {
		return err
	}
	if all {
		q.Keys = make([][]byte, len(ids))
		for i, id := range ids {
			q.Keys[i] = []byte(id)
		}
	}
	if !all || len(f) > 1 {
		q.Accept = func(key []byte) bool {
			e, err := v.opts.Store.Get(n.key(spaceItems, string(key)))
			if err != nil || e.Revision == 0 {
				return false
			}
			i, err := readItem(e)
			return err == nil && f.accepts(i.Metadata)
		}
	}
	return nil
}

// byWords finds items by their words, among the first of a collection.
func (v *Vectors) byWords(ctx context.Context, n name, f filter, text string, limit int) ([]vectors.KeyHit, error) {
	prefix := n.key(spaceItems)
	var ids []string
	var documents []ranked.Document
	for e, err := range v.opts.Store.Scan(store.Prefix(prefix)) {
		if err != nil {
			return nil, err
		}
		i, err := readItem(e)
		if err != nil {
			return nil, err
		}
		if f.accepts(i.Metadata) {
			ids = append(ids, string(e.Key[len(prefix):]))
			documents = append(documents, ranked.Document{Texts: []ranked.Text{{Text: i.Text, Weight: 1}}})
		}
		if len(ids) == maxWorded {
			break
		}
	}
	found, err := ranked.Search(ctx, nil, documents, ranked.Query{Text: text, Mode: ranked.ByWords, Limit: limit})
	hits := make([]vectors.KeyHit, 0, len(found.Hits))
	for _, h := range found.Hits {
		hits = append(hits, vectors.KeyHit{Key: []byte(ids[h.Document]), Score: float32(h.Score)})
	}
	return hits, err
}
