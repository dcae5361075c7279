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
	Query string `json:"query" jsonschema:"minLength=1,maxLength=1000" jsonschema_description:"Words to look for in types, ids and data. A message with more of them, and with rarer ones, comes first."`
	filter
	Limit   whole  `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000,default=20" jsonschema_description:"How many messages at most."`
	Cursor  string `json:"cursor,omitempty" jsonschema:"maxLength=64" jsonschema_description:"Where to go on: the cursor of the page before, with everything else unchanged. What has been recorded since the first page is not looked at."`
	Records bool   `json:"records,omitempty" jsonschema_description:"Also say for every message when it was recorded, its sequence number and which way it went."`
}

type searchOutput struct {
	Messages []recorded       `json:"messages,omitempty" jsonschema_description:"The messages that were found, the best first."`
	Events   []map[string]any `json:"events,omitempty" jsonschema_description:"In place of messages, if the call was Event.Search: the same in the older dialect."`
	Scores   []float64        `json:"scores" jsonschema_description:"How well each message fits, in the same order. More is better; only scores of one answer can be compared."`
	Records  []recordOut      `json:"records,omitempty" jsonschema_description:"How each message was recorded, in the same order, if it was asked for."`
	Total    int              `json:"total" jsonschema_description:"How many messages were found in all."`
	Cursor   string           `json:"cursor,omitempty" jsonschema_description:"Where the next page begins. There is none if it is absent."`
	Behind   int              `json:"behind,omitempty" jsonschema_description:"How many of the latest messages have not been looked at, because they are not indexed yet."`
	Dropped  *gap             `json:"dropped,omitempty" jsonschema_description:"What is not in the journal and might have been found."`
}

// defaultHits is how many messages a search returns.
const defaultHits = 20

// maxSearched is how far a search can be paged through.
const maxSearched = 10_000

const olderSearch message.Type = "Event.Search"

// Search finds messages by the words in them.
func Search(j Journal) kernel.Syscall {
	return recalling(kernel.Definition{
		Type:    "Message.Search",
		Summary: "Find recorded messages by the words in them, the best first.",
		Output:  schema.Output[searchOutput](),
		Aliases: []message.Type{olderSearch},
		Redact:  withoutQuery,
	}, func(ctx context.Context, m *message.Message, in searchInput, _ kernel.Emit) (json.RawMessage, error) {
		f, err := in.read()
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(in.Query) == "" {
			return nil, invalid("query", "query: expected words to look for, got only white space; Message.List lists without")
		}
		q := journal.SearchQuery{Filter: f, Words: in.Query, Limit: defaultHits}
		if q.Offset, q.Horizon, err = readSearchCursor(in.Cursor); err != nil {
			return nil, err
		}
		if in.Limit > 0 {
			q.Limit = min(int(in.Limit), maxPage)
		}
		found, err := j.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		older := m.Type == olderSearch
		dst := append([]byte(nil), `{"messages":[`...)
		if older {
			dst = append([]byte(nil), `{"events":[`...)
		}
		for i := range found.Hits {
			dst = comma(dst, i)
			if older {
				dst = osevent.Append(dst, &found.Hits[i].Message)
			} else {
				dst = message.Append(dst, &found.Hits[i].Message)
			}
		}
		dst = append(dst, `],"scores":[`...)
		for i, h := range found.Hits {
			dst = strconv.AppendFloat(comma(dst, i), math.Round(h.Score*1e4)/1e4, 'f', -1, 64)
		}
		dst = append(dst, ']')
		if in.Records {
			dst = append(dst, `,"records":[`...)
			for i := range found.Hits {
				dst = appendRecord(comma(dst, i), &found.Hits[i].Entry)
			}
			dst = append(dst, ']')
		}
		if !older { // whose answer has events and scores
			dst = strconv.AppendInt(append(dst, `,"total":`...), int64(found.Total), 10)
		}
		if next := q.Offset + len(found.Hits); len(found.Hits) > 0 && next < found.Total && next < maxSearched {
			dst = appendSearchCursor(append(dst, `,"cursor":`...), next, found.Horizon)
		}
		if found.Behind > 0 {
			dst = strconv.AppendInt(append(dst, `,"behind":`...), int64(found.Behind), 10)
		}
		if !older {
			if dst, err = appendGap(dst, j, &f); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	})
}

// A cursor of a search is how many messages were shown, and the horizon of the first page:
// what comes in between moves nothing from one page to another.
const searchCursor = "s"

func appendSearchCursor(dst []byte, offset int, h journal.Horizon) []byte {
	text := append([]byte(searchCursor), strconv.FormatInt(int64(offset), 36)...)
	for _, n := range [...]uint64{h.Seq, h.Docs, h.Words} {
		text = strconv.AppendUint(append(text, '.'), n, 36)
	}
	return jsonscan.AppendQuoted(dst, string(text))
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
		return 0, journal.Horizon{}, invalid("cursor", "cursor: a search goes through its best %d messages only; say more words, or narrow it with since, type or kind", maxSearched)
	}
	return int(shown), h, nil
}

// withoutQuery takes the words out of a request that is recorded: who looks whether a
// secret is in the journal must not put it there, and a search is not to find itself.
func withoutQuery(data json.RawMessage) json.RawMessage {
	dst := []byte{'{'}
	n := 0
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		if jsonscan.Unquote(name) == "query" {
			value = []byte(kernel.RedactedData)
		}
		dst = append(append(append(comma(dst, n), name...), ':'), value...)
		n++
		return true
	})
	return append(dst, '}')
}
