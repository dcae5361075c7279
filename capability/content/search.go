package content

import (
	"cmp"
	"context"

	"kernos/internal/ranked"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/store/cursor"
)

type searchInput struct {
	Query  string      `json:"query" jsonschema:"minLength=1,maxLength=1000,example=fill in a form" jsonschema_description:"What the skill or agent should be good for, in words of one's own, or its name."`
	Mode   ranked.Mode `json:"mode,omitempty" jsonschema:"enum=words,enum=meaning,enum=both,default=both" jsonschema_description:"What to go by."`
	URI    string      `json:"uri,omitempty" aliases:"path" jsonschema:"example=os://skills" jsonschema_description:"The folder to search recursively; default: os://, the root."`
	Limit  int         `json:"limit,omitempty" jsonschema:"minimum=1,maximum=100,default=10" jsonschema_description:"How many entries at most."`
	Cursor string      `json:"cursor,omitempty" jsonschema:"maxLength=40" jsonschema_description:"The cursor of the previous reply, with all other parameters unchanged."`
}

type searchOutput struct {
	Hits       []contentHit `json:"hits" jsonschema_description:"The skills and agents that were found, best first."`
	Total      int          `json:"total" jsonschema_description:"How many were found in all."`
	Cursor     string       `json:"cursor,omitzero" jsonschema_description:"Present if there is more: pass it to the next call."`
	Skipped    int          `json:"skipped,omitzero" jsonschema_description:"How many folders could not be read, and files that no URI can name."`
	Unembedded int          `json:"unembedded,omitzero" jsonschema_description:"How many entries were not searched by meaning: there was no time. The next search continues."`
	WordsOnly  string       `json:"wordsOnly,omitzero" jsonschema_description:"Why the search went by words only, if it should have gone by meaning."`
	kernel.Narrowed
}

type contentHit struct {
	URI         string     `json:"uri" jsonschema_description:"For Content.Hydrate."`
	Kind        string     `json:"kind" jsonschema:"enum=skill,enum=agent" jsonschema_description:"What it is."`
	Name        string     `json:"name" jsonschema_description:"Its name, or an empty string."`
	Description string     `json:"description" jsonschema_description:"Its description, or an empty string."`
	Score       float64    `json:"score" jsonschema_description:"How well it fits. Only scores of one reply are comparable."`
	Why         ranked.Why `json:"why" jsonschema_description:"Why it was found."`
}

const (
	searchCursor = 's'
	defaultHits  = 10
)

var search = kernel.DefineQuery[searchInput, searchOutput](kernel.Definition{
	Type:    "Content.Search",
	Summary: "Find skills and agents by words and by meaning of their names and descriptions, best first.",
	Presentation: kernel.Presentation{
		Title: "Search skills and agents",
		Words: "find a skill, which agent, is there a skill for it, which agent can help with it, find an agent, look for a skill, who can help me with it, " +
			"agent that knows about it, expert for a task, search for an assistant",
		Columns: []string{"KIND {kind}", "URI {uri}", "DESCRIPTION {description}"},
		Errors:  index.Errors,
	},
	Behavior: kernel.Behavior{Runs: kernel.Slow, Timeout: hydrateTimeout},
	Journaled: kernel.Journaled{
		Answers: kernel.FromJournal, // the results are stored already, and would repeat the query
		Redact:  kernel.Without("query"),
	},
})

func (c *Content) search(ctx context.Context, in searchInput) (out searchOutput, err error) {
	q := ranked.Query{Text: in.Query, Mode: in.Mode, Limit: cmp.Or(in.Limit, defaultHits)}
	if err := cursor.ParseNumbers(searchCursor, in.Cursor, &q.Offset); err != nil {
		return out, err
	}
	x, files, skipped, err := c.startIndexing(ctx, cmp.Or(in.URI, root))
	if err != nil {
		return out, err
	}
	entries := x.entries(files)
	documents := make([]ranked.Document, len(entries))
	for i, e := range entries {
		documents[i] = ranked.Document{Texts: []ranked.Text{{Text: e.Name, Weight: 4}, {Text: e.URI, Weight: 1}, {Text: e.Description, Weight: 2}}, About: e.Name + ": " + e.Description}
	}
	found, err := ranked.Search(ctx, c.meaning, documents, q)
	if err != nil {
		return out, err
	}
	out = searchOutput{Hits: []contentHit{}, Total: found.Total, Skipped: skipped, Unembedded: found.Unembedded, WordsOnly: ranked.WordsOnly(found.Unavailable)}
	out.Narrowed = kernel.Narrow(ctx, (*principal.Principal).SeesAllFiles)
	for _, h := range found.Hits {
		e := entries[h.Document]
		out.Hits = append(out.Hits, contentHit{e.URI, e.Kind, e.Name, e.Description, ranked.Rounded(h.Score), h.Why})
	}
	if found.Next > 0 {
		out.Cursor = cursor.Numbers(searchCursor, found.Next)
	}
	return out, nil
}
