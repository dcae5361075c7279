package history

import (
	"cmp"
	"context"
	"strings"

	"kernos/internal/ranked"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/message/osevent"
	"kernos/schema"
	"kernos/store/cursor"
)

type searchInput struct {
	Query string      `json:"query" jsonschema:"minLength=1,maxLength=1000" jsonschema_description:"What to look for: words of types and data, or a question in words of one's own."`
	Mode  ranked.Mode `json:"mode,omitempty" jsonschema:"enum=words,enum=meaning,enum=both,default=both" jsonschema_description:"words: messages with more and rarer words come first. meaning: those that are about the same. both: one ranking of the two; messages that have all words, or all names, codes and ids among them, stay on top."`
	filter
	Limit   int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000,default=20" jsonschema_description:"How many messages at most."`
	Cursor  string `json:"cursor,omitempty" jsonschema:"maxLength=160" jsonschema_description:"The cursor of the previous page, with all other parameters unchanged. Messages recorded since the first page are not searched."`
	Records bool   `json:"records,omitempty" jsonschema_description:"Also return for each message when it was recorded, its sequence number and its direction."`
}

type searchOutput struct {
	Messages []recorded       `json:"messages,omitempty" jsonschema_description:"The messages that were found, best matches first."`
	Events   []map[string]any `json:"events,omitempty" jsonschema_description:"In place of messages, if the call was Event.Search: the same in the older dialect."`
	searchSummary
}

// searchSummary is what a search returns beside its messages.
type searchSummary struct {
	Scores     []float64    `json:"scores" jsonschema_description:"How relevant each message is, in the same order: from 0 to 1, where 1 is what could not fit better. Scores of one search are comparable, also over its pages."`
	Why        []ranked.Why `json:"why,omitzero" jsonschema_description:"Why each message was found, in the same order."`
	Total      int          `json:"total" jsonschema_description:"How many messages were found in all."`
	Behind     int          `json:"behind,omitzero" jsonschema_description:"How many of the latest messages are not searched yet, because they are not indexed."`
	Unembedded int          `json:"unembedded,omitzero" jsonschema_description:"How many of the latest messages are not searched by meaning yet, because they are not embedded."`
	WordsOnly  string       `json:"wordsOnly,omitzero" jsonschema_description:"Why the search went by words only, if it should have gone by meaning."`
	page
}

// defaultHits is how many messages a search returns.
const defaultHits = 20

// maxSearched is how far a search can be paged through.
const maxSearched = 10_000

const olderSearch message.Type = "Event.Search"

var search = kernel.DefineQuery[searchInput, kernel.Raw](kernel.Definition{
	Type:    "Message.Search",
	Summary: "Search recorded messages by words and by meaning, best matches first.",
	Output:  schema.Output[searchOutput](),
	Presentation: kernel.Presentation{
		Title: "Search recorded messages",
		Words: "grep, log, history, audit, find in the log, find a message, search the history, look in the log for it, which messages mention it, " +
			"when did we talk about it, find an error in the log, search past calls",
		Errors:  []kernel.ErrorDefinition{{Code: 422, When: "the cursor or a filter is invalid"}},
		Aliases: []message.Type{olderSearch},
	},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Redact: withoutQuery, Recording: kernel.InWorkflows},
})

func (r reader) search(ctx context.Context, in searchInput) (kernel.Raw, error) {
	f, err := r.filter(ctx, &in.filter)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Query) == "" {
		return nil, message.Invalid("query", "query: expected words to search for, got only white space; Message.List lists messages without words")
	}
	// The horizon of the first page goes with the cursor: what is recorded in between moves
	// nothing from one page to another.
	var offset uint64
	q := journal.SearchQuery{Filter: f, Words: in.Query, Mode: in.Mode, Limit: cmp.Or(in.Limit, defaultHits)}
	if err := cursor.ParseNumbers('s', in.Cursor, &offset, &q.Horizon.Seq, &q.Horizon.Docs, &q.Horizon.Words, &q.Horizon.Near); err != nil {
		return nil, err
	}
	if offset >= maxSearched {
		return nil, message.Invalid("cursor", "cursor: a search returns its best %d messages only; add words, or narrow it with since, type or kind", maxSearched)
	}
	q.Offset = int(offset)
	found, err := r.journal.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	summary := searchSummary{Behind: found.Behind, page: page{Narrowed: narrowed(ctx)}}
	entries := make([]journal.Entry, len(found.Hits))
	for i, h := range found.Hits {
		entries[i] = h.Entry
		summary.Scores = append(summary.Scores, ranked.Rounded(h.Score))
	}
	if next := q.Offset + len(entries); len(entries) > 0 && next < found.Total && next < maxSearched {
		summary.Cursor = cursor.Numbers('s', uint64(next), found.Horizon.Seq, found.Horizon.Docs, found.Horizon.Words, found.Horizon.Near)
	}
	summary.Total, summary.Unembedded = found.Total, found.Unembedded
	summary.Why = make([]ranked.Why, len(found.Hits))
	for i, h := range found.Hits {
		summary.Why[i] = h.Why
	}
	summary.WordsOnly = ranked.WordsOnly(found.Unavailable)
	if summary.Dropped, err = r.gap(f.Since, f.Until); err != nil {
		return nil, err
	}
	if kernel.RequestOf(ctx).Type == olderSearch {
		return summary.withMessages("events", osevent.Append, entries, in.Records, &summary)
	}
	return summary.withMessages("messages", message.Append, entries, in.Records, &summary)
}

// withoutQuery takes the words out of a request that is recorded.
var withoutQuery = kernel.Without("query", "filter")
