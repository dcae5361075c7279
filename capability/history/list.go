package history

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// defaultPage is how many messages a page has if the caller does not say.
const defaultPage = 100

// recorded is the form of a message in an answer. It is for the schema; what goes out is
// the text that was recorded.
type recorded struct {
	Kind     message.Kind   `json:"kind" jsonschema:"enum=command,enum=query,enum=event,enum=reply,enum=error" jsonschema_description:"Why it was sent."`
	Type     message.Type   `json:"type" jsonschema_description:"What it is about."`
	Data     jsontext.Value `json:"data" jsonschema_description:"What it said. Secrets are replaced by [redacted]."`
	Metadata struct {
		ID             string `json:"id" jsonschema_description:"Its name."`
		Timestamp      int64  `json:"timestamp" jsonschema_description:"When it was sent, in milliseconds since 1970."`
		Correlation    string `json:"correlation,omitempty" jsonschema_description:"The workflow that it belongs to."`
		Causation      string `json:"causation,omitempty" jsonschema_description:"The message that caused it."`
		IdempotencyKey string `json:"idempotencyKey,omitempty" jsonschema_description:"The key under which it runs once."`
		SchemaVersion  string `json:"schemaVersion,omitempty" jsonschema_description:"The version that it was written for."`
	} `json:"metadata" jsonschema_description:"Where it stands in time and among other messages."`
}

func (recorded) SchemaName() string { return "Message" }

type getInput struct {
	ID string `json:"id" jsonschema:"minLength=1,maxLength=256" jsonschema_description:"The message's metadata.id."`
}

var get = kernel.DefineQuery[getInput, kernel.Raw](kernel.Definition{
	Type:    "Message.Get",
	Summary: "Get a recorded message by its id.",
	Output:  schema.Output[recorded](),
	Answers: kernel.FromJournal,
})

func (r reader) get(ctx context.Context, in getInput) (kernel.Raw, error) {
	e, err := r.journal.Get(ctx, message.ID(in.ID))
	if err != nil {
		return nil, err
	}
	return message.Append(nil, &e.Message), nil
}

type listInput struct {
	filter
	Cursor  string `json:"cursor,omitempty" jsonschema:"maxLength=64" jsonschema_description:"The cursor of the previous page, with all other parameters unchanged."`
	Limit   int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000,default=100" jsonschema_description:"How many messages at most."`
	Order   string `json:"order,omitempty" jsonschema:"enum=asc,enum=desc,default=asc" jsonschema_description:"asc: oldest first; desc: newest first."`
	Records bool   `json:"records,omitempty" jsonschema_description:"Also return for each message when it was recorded, its sequence number and its direction."`
}

type listOutput struct {
	Messages []recorded `json:"messages" jsonschema_description:"The messages, as they were recorded."`
	listRest
}

// listRest is what a list says beside its messages.
type listRest struct {
	Records []recordOut `json:"records,omitzero" jsonschema_description:"How each message was recorded, in the same order, if it was asked for."`
	Cursor  string      `json:"cursor,omitzero" jsonschema_description:"The cursor of the next page; absent on the last page."`
	Dropped *gap        `json:"dropped,omitzero" jsonschema_description:"Messages that the journal no longer has, and that might have been listed."`
}

// recordOut is how a message was recorded.
type recordOut struct {
	Seq uint64 `json:"seq" jsonschema_description:"The message's number in the journal. Numbers only grow."`
	At  int64  `json:"at" jsonschema_description:"When it was recorded, in milliseconds since 1970."`
	Way string `json:"way" jsonschema:"enum=in,enum=out,enum=within" jsonschema_description:"in: from a connection; out: to a connection; within: inside the kernel."`
}

func (recordOut) SchemaName() string { return "Record" }

func newRecord(e *journal.Entry) recordOut { return recordOut{e.Seq, e.At, way(e.Way)} }

var list = kernel.DefineQuery[listInput, kernel.Raw](kernel.Definition{
	Type:    "Message.List",
	Summary: "List recorded messages by workflow, cause, kind, type, time or error code, in pages.",
	Output:  schema.Output[listOutput](),
	Answers: kernel.FromJournal,
})

// list returns messages in the order of the journal.
func (r reader) list(ctx context.Context, in listInput) (kernel.Raw, error) {
	f, err := in.read()
	if err != nil {
		return nil, err
	}
	q := journal.Query{Filter: f, Reverse: in.Order == "desc", Limit: defaultPage}
	if in.Limit > 0 {
		q.Limit = in.Limit
	}
	if q.After, err = readCursor(in.Cursor, listCursor(q.Reverse)); err != nil {
		return nil, err
	}
	entries, next, err := r.journal.List(ctx, q)
	if err != nil {
		return nil, err
	}
	var messages []byte
	var rest listRest
	if in.Records {
		rest.Records = []recordOut{}
	}
	for i := range entries {
		messages = message.Append(comma(messages, i), &entries[i].Message)
		if in.Records {
			rest.Records = append(rest.Records, newRecord(&entries[i]))
		}
	}
	if next != 0 {
		rest.Cursor = listCursor(q.Reverse) + strconv.FormatUint(next, 36)
	}
	if rest.Dropped, err = r.gap(f.Since, f.Until); err != nil {
		return nil, err
	}
	return withMessages("messages", messages, rest)
}

func way(w kernel.Way) string {
	switch w {
	case kernel.In:
		return "in"
	case kernel.Out:
		return "out"
	}
	return "within"
}

// A cursor is a letter for what it goes through, and a number.
func listCursor(reverse bool) string {
	if reverse {
		return "d"
	}
	return "a"
}

func readCursor(text, letter string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	number, ok := strings.CutPrefix(text, letter)
	n, known := readNumber(number)
	if !ok || !known || n == 0 {
		return 0, badCursor(text)
	}
	return n, nil
}

func badCursor(text string) error {
	return invalid("cursor", "cursor: expected the cursor of the previous page, of the same call in the same order; got %q", message.Clip(text, 40))
}

// readNumber reads a number of a cursor, in the one way that it is written.
func readNumber(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 36, 64)
	return n, err == nil && strconv.FormatUint(n, 36) == text
}
