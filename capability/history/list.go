package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/invopop/jsonschema"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store/cursor"
)

// defaultPage is how many messages a page has if the caller gives no limit.
const defaultPage = 100

// recorded is the form of a message in an answer. It is for the schema; what goes out is
// the text that was recorded.
type recorded struct {
	Kind     message.Kind   `json:"kind" jsonschema:"enum=command,enum=query,enum=event,enum=reply,enum=error" jsonschema_description:"Why it was sent."`
	Type     message.Type   `json:"type" jsonschema_description:"What it is about."`
	Data     jsontext.Value `json:"data" jsonschema_description:"Its data. Secrets are replaced by [redacted]."`
	Metadata metadata       `json:"metadata" jsonschema_description:"Where it stands in time and among other messages."`
}

type metadata struct {
	ID             string `json:"id" jsonschema_description:"Its name."`
	Timestamp      int64  `json:"timestamp" jsonschema_description:"When it was sent, in milliseconds since 1970."`
	Correlation    string `json:"correlation,omitempty" jsonschema_description:"The workflow that it belongs to."`
	Causation      string `json:"causation,omitempty" jsonschema_description:"The message that caused it."`
	IdempotencyKey string `json:"idempotencyKey,omitempty" jsonschema_description:"The key under which it runs once."`
	SchemaVersion  string `json:"schemaVersion,omitempty" jsonschema_description:"The version that it was written for."`
	Traceparent    string `json:"traceparent,omitempty" jsonschema_description:"The trace that it belongs to, as W3C Trace Context writes it."`
	Tracestate     string `json:"tracestate,omitempty" jsonschema_description:"What else programs pass on with the trace."`
}

// JSONSchemaExtend adds to the derived schema what a Go type can't express: members of any name that begins with x-.
func (metadata) JSONSchemaExtend(s *jsonschema.Schema) {
	s.PatternProperties = map[string]*jsonschema.Schema{"^x-": {Description: "What its sender wrote there."}}
}

func (recorded) SchemaName() string { return "Message" }

type getInput struct {
	ID string `json:"id" jsonschema:"minLength=1,maxLength=256" jsonschema_description:"The message's metadata.id, which may be in a short form: its beginning and its end with … between them."`
}

var get = kernel.DefineQuery[getInput, kernel.Raw](kernel.Definition{
	Type:    "Message.Get",
	Summary: "Get a recorded message by its id.",
	Output:  schema.Output[recorded](),
	Presentation: kernel.Presentation{
		Title: "Get a recorded message",
		Words: "show a message, look up an id, details of one message, show an event by id, open a log entry, what was in that message, " +
			"one entry of the journal",
		Errors: []kernel.ErrorDefinition{{Code: 404, When: "no recorded message has this id"}},
	},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Redact: withoutQuery, Recording: kernel.InWorkflows},
})

func (r reader) get(ctx context.Context, in getInput) (kernel.Raw, error) {
	var id string
	if err := r.wholeID(ctx, in.ID, &id); err != nil {
		return nil, err
	}
	e, err := r.entry(ctx, message.ID(id))
	if err != nil {
		return nil, err
	}
	return message.Append(nil, &e.Message), nil
}

// entry returns the message of an id, if the caller sees it. To other
// callers, the message doesn't exist.
func (r reader) entry(ctx context.Context, id message.ID) (journal.Entry, error) {
	e, err := r.journal.Get(ctx, id)
	if err == nil && !kernel.PrincipalOf(ctx).Sees(e.Principal) {
		return journal.Entry{}, message.Errorf(404, "Message not found: %s", message.Clip(string(id), 100))
	}
	return e, err
}

type listInput struct {
	filter
	Cursor  string `json:"cursor,omitempty" jsonschema:"maxLength=140" jsonschema_description:"The cursor of the previous page, with all other parameters unchanged."`
	Limit   int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000,default=100" jsonschema_description:"How many messages at most."`
	Order   string `json:"order,omitempty" jsonschema:"enum=asc,enum=desc,default=asc" jsonschema_description:"asc: oldest first; desc: newest first."`
	Records bool   `json:"records,omitempty" jsonschema_description:"Also return for each message when it was recorded, its sequence number and its direction."`
	Around  bool   `json:"around,omitempty" jsonschema_description:"With id: return the message, then its cause, and then what it has caused, which limit bounds."`
	Failed  bool   `json:"failed,omitempty" jsonschema_description:"Return the requests that failed, each with its error, as failures. The other parameters choose among the errors."`
}

type listOutput struct {
	Messages []recorded      `json:"messages,omitempty" jsonschema_description:"The messages, as they were recorded. Queries that only look, such as Job.List, are recorded if they fail, belong to a workflow, have a cause, or aren't sent by the owner or a console."`
	Failures []failedRequest `json:"failures,omitempty" jsonschema_description:"In place of messages, with failed."`
	page
}

// failedRequest is for the schema, as recorded is.
type failedRequest struct {
	Error   recorded  `json:"error" jsonschema_description:"The error."`
	Request *recorded `json:"request,omitempty" jsonschema_description:"The request that it answers; absent if the journal doesn't have it."`
}

// page is what a list or a search returns beside its messages.
type page struct {
	Records []recordOut `json:"records,omitzero" jsonschema_description:"How each message was recorded, in the same order, if it was asked for."`
	Cursor  string      `json:"cursor,omitzero" jsonschema_description:"The cursor of the next page; absent on the last page."`
	Dropped *gap        `json:"dropped,omitzero" jsonschema_description:"Messages that the journal no longer has, and that might have been listed."`
	kernel.Narrowed
}

// recordOut is how a message was recorded.
type recordOut struct {
	Seq uint64 `json:"seq" jsonschema_description:"The message's number in the journal. Numbers only grow."`
	At  int64  `json:"at" jsonschema_description:"When it was recorded, in milliseconds since 1970."`
	Way string `json:"way" jsonschema:"enum=in,enum=out,enum=within" jsonschema_description:"in: from a connection; out: to a connection; within: inside the kernel."`

	Principal string `json:"principal,omitzero" jsonschema_description:"The caller that the message acted for or, if it is an answer, that it was sent to: owner, or the name of a token."`
	ID        string `json:"principalId,omitzero" jsonschema_description:"The id of that caller, unless it is the owner. A name that was created again has another one."`
	Wire      string `json:"wire,omitzero" jsonschema_description:"The wire that the message, or the request that it answers, came over: unix, http, ws."`
	Claim     bool   `json:"claim,omitzero" jsonschema_description:"True for a reply or an error that a program sent without being asked: it answers nothing."`
}

func (recordOut) SchemaName() string { return "Record" }

var list = kernel.DefineQuery[listInput, kernel.Raw](kernel.Definition{
	Type:    "Message.List",
	Summary: "List recorded messages by workflow, cause, kind, type, time or error code, in pages.",
	Output:  schema.Output[listOutput](),
	Presentation: kernel.Presentation{
		Title: "List recorded messages",
		Words: "log, history, audit, event, trace, journal, record, what happened, errors, failures, what went wrong, who did it, what happened today, " +
			"recent messages, last errors, what did the agent do, who called what, show the log, latest activity, failed calls, what was done yesterday, " +
			"which commands were run, messages since yesterday, who deleted this, why did it crash",
		Arguments: []string{"filter"}, Errors: []kernel.ErrorDefinition{{Code: 422, When: "the cursor or a filter is invalid"}},
	},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Redact: withoutQuery, Recording: kernel.InWorkflows},
})

// list returns messages in the order of the journal.
func (r reader) list(ctx context.Context, in listInput) (kernel.Raw, error) {
	f, err := r.filter(ctx, &in.filter)
	if err != nil {
		return nil, err
	}
	if in.Around && (f.ID == "" || in.Failed) {
		return nil, message.Invalid("around", "around: give the id of a message, and leave failed out")
	}
	if in.Failed {
		if f.Kinds != nil && !slices.Equal(f.Kinds, []message.Kind{message.KindError}) {
			return nil, message.Invalid("kind", "kind: failures are errors; leave kind out, or failed")
		}
		f.Kinds = []message.Kind{message.KindError}
	}
	q := journal.Query{Filter: f, Reverse: in.Order == "desc", Limit: cmp.Or(in.Limit, defaultPage)}
	listing := byte('a')
	if q.Reverse {
		listing = 'd'
	}
	if err := cursor.ParseNumbers(listing, in.Cursor, &q.After); err != nil {
		return nil, err
	}
	entries, next, err := r.journal.List(ctx, q)
	if in.Around {
		entries, next, err = r.around(ctx, q, entries)
	}
	if err != nil {
		return nil, err
	}
	p := page{Narrowed: narrowed(ctx)}
	if next != 0 {
		p.Cursor = cursor.Numbers(listing, next)
	}
	if p.Dropped, err = r.gap(f.Since, f.Until); err != nil {
		return nil, err
	}
	if in.Failed {
		entries = slices.DeleteFunc(entries, func(e journal.Entry) bool { return e.Claim }) // a claim answers nothing
		return p.withMessages("failures", r.appendFailure(ctx), entries, in.Records, &p)
	}
	return p.withMessages("messages", message.Append, entries, in.Records, &p)
}

// around returns the message that a query has found by its id, then its cause, and then what it has caused, which the query
// chooses. A later page has only that.
func (r reader) around(ctx context.Context, q journal.Query, found []journal.Entry) (all []journal.Entry, next uint64, err error) {
	if q.After == 0 {
		if len(found) == 0 {
			return nil, 0, nil
		}
		all = found[:1]
		if cause := found[0].Message.Metadata.Causation; cause != "" {
			known, _, err := r.journal.List(ctx, journal.Query{Filter: journal.Filter{ID: cause, Own: q.Own}, Limit: 1})
			if err != nil {
				return nil, 0, err
			}
			all = append(all, known...)
		}
	}
	q.ID, q.Causation = "", q.ID
	effects, next, err := r.journal.List(ctx, q)
	return append(all, effects...), next, err
}

// appendFailure returns what appends an error and the request that it answers.
func (r reader) appendFailure(ctx context.Context) func([]byte, *message.Message) []byte {
	return func(dst []byte, failure *message.Message) []byte {
		dst = message.Append(append(dst, `{"error":`...), failure)
		if request, err := r.entry(ctx, failure.Metadata.Causation); err == nil && request.Message.Kind.Asks() {
			dst = message.Append(append(dst, `,"request":`...), &request.Message)
		}
		return append(dst, '}')
	}
}

// withMessages returns an object of a list of messages, which are the text that was recorded,
// and of the members of rest, a struct that p is part of. Marshalling the messages too would
// change their white space.
func (p *page) withMessages(name string, appendMessage func([]byte, *message.Message) []byte, entries []journal.Entry, records bool, rest any) (kernel.Raw, error) {
	if records {
		p.Records = []recordOut{}
	}
	dst := append([]byte(`{"`), name...)
	dst = append(dst, `":[`...)
	for i := range entries {
		e := &entries[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMessage(dst, &e.Message)
		if records {
			p.Records = append(p.Records, newRecord(e))
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	dst = append(dst, ']')
	if len(text) > len(`{}`) {
		dst = append(dst, ',')
	}
	return append(dst, text[1:]...), nil
}

func newRecord(e *journal.Entry) recordOut {
	r := recordOut{Seq: e.Seq, At: e.At, Way: ways[e.Way], Principal: e.Name, Wire: e.Wire, Claim: e.Claim}
	if e.Principal != principal.OwnerID {
		r.ID = string(e.Principal)
	}
	return r
}

var ways = map[kernel.Way]string{kernel.In: "in", kernel.Out: "out", kernel.Within: "within"}
