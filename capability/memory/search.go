package memory

import (
	"bytes"
	"cmp"
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/ranked"
	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/cursor"
)

type searchInput struct {
	Query  string      `json:"query" jsonschema:"minLength=1,maxLength=1000,example=what was the door code?" jsonschema_description:"What to look for: words of keys and values, or a question in words of one's own."`
	Mode   ranked.Mode `json:"mode,omitempty" jsonschema:"enum=words,enum=meaning,enum=both,default=both" jsonschema_description:"What to go by."`
	Prefix string      `json:"prefix,omitempty" jsonschema_description:"Only keys in this folder, for example 'notes'."`
	Limit  int         `json:"limit,omitempty" jsonschema:"minimum=1,maximum=100,default=10" jsonschema_description:"How many keys at most."`
	Cursor string      `json:"cursor,omitempty" jsonschema:"maxLength=40" jsonschema_description:"The cursor of the previous reply, with all other parameters unchanged."`
}

type searchOutput struct {
	Hits       []hit  `json:"hits" jsonschema_description:"The keys that were found, best first."`
	Total      int    `json:"total" jsonschema_description:"How many were found in all."`
	Cursor     string `json:"cursor,omitzero" jsonschema_description:"Present if there is more: pass it to the next call."`
	Unembedded int    `json:"unembedded,omitzero" jsonschema_description:"How many keys were not searched by meaning: there was no time. The next search continues."`
	WordsOnly  string `json:"wordsOnly,omitzero" jsonschema_description:"Why the search went by words only, if it should have gone by meaning."`
	kernel.Narrowed
}

type hit struct {
	Key   string         `json:"key" jsonschema_description:"The key."`
	Value jsontext.Value `json:"value,omitzero" jsonschema_description:"Its value, if that is short and not sealed; Memory.Get returns any."`
	Score float64        `json:"score" jsonschema_description:"How well it fits. Only scores of one reply are comparable."`
	Why   ranked.Why     `json:"why" jsonschema_description:"Why it was found."`
}

const (
	defaultHits   = 10
	maxSearched   = 200_000  // keys
	maxTextBytes  = 64 << 20 // bytes of the searched values
	searchedBytes = 4 << 10  // bytes of one value that are searched
	shownBytes    = 512      // bytes of a value in a reply
	proseBytes    = 1000
	cursorSearch  = 's'
)

var search = kernel.DefineQuery[searchInput, searchOutput](kernel.Definition{
	Type:    "Memory.Search",
	Summary: "Find keys by words and by meaning of their names and values, best first.",
	Presentation: kernel.Presentation{
		Title: "Search values",
		Words: "recall, find a note, look for a note, what do i know, what did i note, what is my, what was it again, which note mentions it, " +
			"where did i write it down, what do you remember about it, notes about a topic, search my notes, did i write anything about it, " +
			"anything saved about it, what did i tell you about it",
		Columns: []string{"KEY {key}", "SCORE {score}", "VALUE {value}"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the caller reaches nothing below the prefix"},
			{Code: 413, When: "there are too many keys below the prefix"},
			{Code: 422, When: "the cursor is invalid"},
		},
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow},
	Journaled: kernel.Journaled{
		Answers:   kernel.FromJournal, // the results are stored already, and would repeat the query
		Redact:    kernel.Without("query"),
		Recording: kernel.InWorkflows,
	},
})

func (m *Memory) search(ctx context.Context, in searchInput) (searchOutput, error) {
	q := ranked.Query{Text: in.Query, Mode: in.Mode, Limit: cmp.Or(in.Limit, defaultHits)}
	if err := cursor.ParseNumbers(cursorSearch, in.Cursor, &q.Offset); err != nil {
		return searchOutput{}, err
	}
	base, err := reachFolder(ctx, strings.Trim(in.Prefix, "/"))
	if err != nil {
		return searchOutput{}, err
	}
	keys, documents, err := m.documents(ctx, base)
	if err != nil {
		return searchOutput{}, m.backend(err)
	}
	found, err := ranked.Search(ctx, m.opts.Meaning, documents, q)
	if err != nil {
		return searchOutput{}, err
	}
	out := searchOutput{Hits: []hit{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).SeesAllKeys), Total: found.Total, Unembedded: found.Unembedded, WordsOnly: ranked.WordsOnly(found.Unavailable)}
	if found.Unavailable != nil {
		m.opts.Log.Warn("a search can't go by meaning, and goes by words only", "error", found.Unavailable)
	}
	for _, h := range found.Hits {
		k := keys[h.Document]
		out.Hits = append(out.Hits, hit{k.name, k.shown, ranked.Rounded(h.Score), h.Why})
	}
	if found.Next > 0 {
		out.Cursor = cursor.Numbers(cursorSearch, found.Next)
	}
	return out, nil
}

// searched is a key that a search looks at.
type searched struct {
	name  string
	shown jsontext.Value
}

// documents reads the keys below a base that the caller reaches, with what is searched of them: nothing of what is sealed
// or looks like a credential. Nothing of it is kept but vectors by the hash of their text, for some minutes: what is
// deleted or expires isn't found from then on.
func (m *Memory) documents(ctx context.Context, base string) (keys []searched, documents []ranked.Document, err error) {
	s, err := m.store.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = s.Close() }()
	caller, now, size := kernel.PrincipalOf(ctx), m.opts.Now().UnixMilli(), 0
	var prose []byte
	for e, err := range s.Scan(store.Prefix(currentKey(memoryKey(base)))) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, nil, err
		}
		name := string(e.Key[2:])
		if caller.Key(name) != nil {
			continue
		}
		v, err := parseVersion(e.Value)
		if err != nil {
			return nil, nil, err
		}
		if v.expired(now) {
			continue
		}
		d := ranked.Document{Texts: []ranked.Text{{Text: name, Weight: 3}}}
		prose = append(append(prose[:0], name...), ": "...)
		var shown jsontext.Value
		if text := readable(memoryKey(name), &v); text != nil {
			if len(text) <= shownBytes {
				shown = bytes.Clone(text)
			}
			d.Texts = append(d.Texts, ranked.Text{Text: string(text[:min(len(text), searchedBytes)]), Weight: 1})
			prose = ranked.AppendProse(prose, text, proseBytes)
		}
		d.About = string(prose)
		keys, documents = append(keys, searched{name, shown}), append(documents, d)
		if size += len(v.text); len(keys) > maxSearched || size > maxTextBytes {
			return nil, nil, message.Errorf(413, "There are more than %d keys, or %d MB of values, below %q: search a folder in it with prefix", maxSearched, maxTextBytes>>20, base)
		}
	}
	return keys, documents, nil
}

// readable returns the value of a version as a search may look at it, or nil: sealed values and large ones are found by
// their keys only.
func readable(key memoryKey, v *version) []byte {
	if key.space() == vault || v.large != 0 || v.text == nil {
		return nil
	}
	text, _ := secret.Strictness{Place: secret.Data}.Redact(v.text)
	if sealed.In(string(text)) {
		return nil
	}
	return text
}
