package history

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/message/osevent"
	"kernos/schema"
)

type searchInput struct {
	Query string `json:"query" jsonschema:"minLength=1,maxLength=1000" jsonschema_description:"Words to look for in types, ids and data. Messages with more and rarer words come first."`
	filter
	Limit   int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000,default=20" jsonschema_description:"How many messages at most."`
	Cursor  string `json:"cursor,omitempty" jsonschema:"maxLength=64" jsonschema_description:"The cursor of the previous page, with all other parameters unchanged. Messages recorded since the first page are not searched."`
	Records bool   `json:"records,omitempty" jsonschema_description:"Also return for each message when it was recorded, its sequence number and its direction."`
}

type searchOutput struct {
	Messages []recorded       `json:"messages,omitempty" jsonschema_description:"The messages that were found, best matches first."`
	Events   []map[string]any `json:"events,omitempty" jsonschema_description:"In place of messages, if the call was Event.Search: the same in the older dialect."`
	searchRest
}

// searchRest is what a search says beside its messages.
type searchRest struct {
	Scores  []float64   `json:"scores" jsonschema_description:"How well each message matches, in the same order. Higher is better; only scores of one reply are comparable."`
	Records []recordOut `json:"records,omitzero" jsonschema_description:"How each message was recorded, in the same order, if it was asked for."`
	Total   *int        `json:"total,omitzero" jsonschema_description:"How many messages were found in all. Event.Search does not say."`
	Cursor  string      `json:"cursor,omitzero" jsonschema_description:"The cursor of the next page; absent on the last page."`
	Behind  int         `json:"behind,omitzero" jsonschema_description:"How many of the latest messages are not searched yet, because they are not indexed."`
	Dropped *gap        `json:"dropped,omitzero" jsonschema_description:"Messages that the journal no longer has, and that might have been found."`
}

// defaultHits is how many messages a search returns.
const defaultHits = 20

// maxSearched is how far a search can be paged through.
const maxSearched = 10_000

const olderSearch message.Type = "Event.Search"

var search = kernel.DefineQuery[searchInput, kernel.Raw](kernel.Definition{
	Type:    "Message.Search",
	Summary: "Search recorded messages for words, best matches first.",
	Output:  schema.Output[searchOutput](),
	Aliases: []message.Type{olderSearch},
	Answers: kernel.FromJournal,
	Redact:  withoutQuery,
})

func (r reader) search(ctx context.Context, in searchInput) (kernel.Raw, error) {
	f, err := in.read()
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Query) == "" {
		return nil, invalid("query", "query: expected words to search for, got only white space; Message.List lists messages without words")
	}
	q := journal.SearchQuery{Filter: f, Words: in.Query, Limit: defaultHits}
	if q.Offset, q.Horizon, err = readSearchCursor(in.Cursor); err != nil {
		return nil, err
	}
	if in.Limit > 0 {
		q.Limit = in.Limit
	}
	found, err := r.journal.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	name, appendMessage := "messages", message.Append
	older := kernel.RequestOf(ctx).Type == olderSearch
	if older {
		name, appendMessage = "events", osevent.Append
	}
	var messages []byte
	rest := searchRest{Behind: found.Behind}
	if in.Records {
		rest.Records = []recordOut{}
	}
	for i := range found.Hits {
		h := &found.Hits[i]
		messages = appendMessage(comma(messages, i), &h.Message)
		rest.Scores = append(rest.Scores, math.Round(h.Score*1e4)/1e4)
		if in.Records {
			rest.Records = append(rest.Records, newRecord(&h.Entry))
		}
	}
	if next := q.Offset + len(found.Hits); len(found.Hits) > 0 && next < found.Total && next < maxSearched {
		rest.Cursor = newSearchCursor(next, found.Horizon)
	}
	if !older { // the older specification names events and scores only
		rest.Total = &found.Total
		if rest.Dropped, err = r.gap(f.Since, f.Until); err != nil {
			return nil, err
		}
	}
	return withMessages(name, messages, rest)
}

// A cursor of a search is how many messages were shown, and the horizon of the first page:
// what comes in between moves nothing from one page to another.
const searchCursor = "s"

func newSearchCursor(offset int, h journal.Horizon) string {
	text := searchCursor + strconv.FormatInt(int64(offset), 36)
	for _, n := range [...]uint64{h.Seq, h.Docs, h.Words} {
		text += "." + strconv.FormatUint(n, 36)
	}
	return text
}

func readSearchCursor(text string) (offset int, h journal.Horizon, err error) {
	if text == "" {
		return 0, h, nil
	}
	rest, ok := strings.CutPrefix(text, searchCursor)
	parts := strings.Split(rest, ".")
	var shown uint64
	numbers := [...]*uint64{&shown, &h.Seq, &h.Docs, &h.Words}
	ok = ok && len(parts) == len(numbers)
	for i := 0; ok && i < len(parts); i++ {
		*numbers[i], ok = readNumber(parts[i])
	}
	if !ok || shown == 0 {
		return 0, journal.Horizon{}, badCursor(text)
	}
	if shown >= maxSearched {
		return 0, journal.Horizon{}, invalid("cursor", "cursor: a search returns its best %d messages only; add words, or narrow it with since, type or kind", maxSearched)
	}
	return int(shown), h, nil
}

// withoutQuery takes the words out of a request that is recorded: a search for a secret must
// not write the secret to the journal, and a search should not find itself.
func withoutQuery(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || data[0] != '{' {
		return json.RawMessage(kernel.RedactedData)
	}
	return jsonscan.ReplaceMembers(data, func(name string, _ []byte) string {
		if name == "query" {
			return kernel.RedactedData
		}
		return ""
	})
}
