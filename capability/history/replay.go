package history

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

const (
	replayedEvent message.Type = "Message.Replayed"
	replayType    message.Type = "Message.Replay"
	olderReplay   message.Type = "Event.Replay"
	olderReplayed message.Type = "Event.Replayed"
)

// maxReplay is how long a replay may take.
const maxReplay = time.Hour

// maxRerun is how many messages of a workflow are run again. What is found to differ is
// kept until the end.
const maxRerun = 1000

type replayInput struct {
	chosen
	Execute bool `json:"execute,omitempty" jsonschema_description:"Run the workflow's commands again, under a new correlation and with the rights of their senders, and report different outcomes. The request must be sent with kind command."`
	Queries bool `json:"queries,omitempty" jsonschema_description:"With execute: run the queries again too."`
	Limit   int  `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"How many messages at most: to send, or with execute to run (then 1000 at most)."`
}

type replayOutput struct {
	Messages    int          `json:"messages,omitzero" jsonschema_description:"How many messages were sent."`
	Correlation string       `json:"correlation,omitzero" jsonschema_description:"With execute: the workflow of what was run."`
	Commands    *int         `json:"commands,omitzero" jsonschema_description:"With execute: how many commands were run."`
	Queries     *int         `json:"queries,omitzero" jsonschema_description:"With execute and queries: how many queries were run."`
	Same        *int         `json:"same,omitzero" jsonschema_description:"With execute: how many had the same outcome as before."`
	Different   []difference `json:"different,omitzero" jsonschema_description:"With execute: those whose outcome was different."`
	Skipped     []skipped    `json:"skipped,omitzero" jsonschema_description:"With execute: those that were not run, and why."`
	Next        string       `json:"next,omitzero" jsonschema_description:"Without execute: what execute does."`
	More        bool         `json:"more,omitzero" jsonschema_description:"The workflow has more messages than the limit."`
	Dropped     *gap         `json:"dropped,omitzero" jsonschema_description:"Messages that the journal no longer has, and that might have been part of the workflow."`
	kernel.Narrowed
}

type difference struct {
	ID   string  `json:"id" jsonschema_description:"The message that was run again."`
	Type string  `json:"type" jsonschema_description:"Its type."`
	Was  outcome `json:"was" jsonschema_description:"How it was answered."`
	Now  outcome `json:"now" jsonschema_description:"How it is answered now."`
}

type outcome struct {
	Kind message.Kind   `json:"kind" jsonschema:"enum=reply,enum=error,enum=none" jsonschema_description:"reply, error, or none if no answer was recorded."`
	Data jsontext.Value `json:"data,omitzero" jsonschema_description:"What the answer said."`
}

func (outcome) SchemaName() string { return "Outcome" }

type skipped struct {
	ID   string `json:"id" jsonschema_description:"The message that was not run."`
	Type string `json:"type" jsonschema_description:"Its type."`
	Why  string `json:"why" jsonschema_description:"Why it was not."`
}

var replay = kernel.DefineQuery[replayInput, replayOutput](kernel.Definition{
	Type:    replayType,
	Summary: "Send the messages of a workflow again, in order; or run its commands again and report what differs.",
	Input:   schema.Input[replayInput]().Example(`{"correlation":"req-7"}`),
	Emits: []kernel.EventDefinition{
		{Type: replayedEvent, Summary: "A message of the workflow: {seq, at, principal, wire, claim, message}."},
		{Type: olderReplayed, Summary: "The same for Event.Replay: {seq, at, principal, wire, claim, event}, with the event in the older dialect."},
	},
	Presentation: kernel.Presentation{
		Title: "Replay a workflow",
		Words: "rerun, again, once more, reproduce, repeat what i did, do that again, run the workflow again, play it back, repeat a workflow, " +
			"run the same calls once more, does it still give the same result",
		Errors:  []kernel.ErrorDefinition{{Code: 404, When: "no recorded message belongs to the workflow"}},
		Aliases: []message.Type{olderReplay},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Slow, Effect: kernel.Delegated, Timeout: maxReplay},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Recording: kernel.InWorkflows},
})

// replay sends the messages of a workflow once more, or runs its commands again.
func (r reader) replay(ctx context.Context, in replayInput, stream *kernel.Stream) (out replayOutput, err error) {
	request := kernel.RequestOf(ctx)
	if in.CorrelationID, err = r.workflowOf(ctx, in.correlation()); err != nil {
		return out, err
	}
	switch {
	case in.Execute && request.Kind != message.KindCommand:
		return out, message.Invalid("execute", "execute: running commands again changes things, which a query may not do; send %s with kind command (over JSON-RPC, \"kind\":\"command\" stands beside params)", request.Type)
	case in.Queries && !in.Execute:
		return out, message.Invalid("queries", "queries: nothing is run without execute; add execute, or leave queries out")
	case in.Execute:
		out, err = r.rerun(ctx, &in)
	default:
		out, err = r.resend(ctx, &in, stream)
	}
	if err == nil {
		out.Narrowed = narrowed(ctx)
		out.Dropped, err = r.gap(0, 0)
	}
	return out, err
}

// resend sends the messages of a workflow as events.
func (r reader) resend(ctx context.Context, in *replayInput, stream *kernel.Stream) (out replayOutput, err error) {
	older := kernel.RequestOf(ctx).Type == olderReplay
	for e, err := range r.workflow(ctx, journal.Filter{Correlation: in.CorrelationID}, false) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return out, err
		}
		if out.More = in.Limit > 0 && out.Messages == in.Limit; out.More {
			break
		}
		emitted, data := replayedEvent, newEvent(e)
		if older {
			emitted, data = olderReplayed, newOlderEvent(e)
		}
		if err := stream.Emit(emitted, data); err != nil {
			return out, err
		}
		out.Messages++
	}
	if out.Messages == 0 {
		return out, r.noWorkflow(ctx, in.CorrelationID)
	}
	if !older {
		out.Next = aboutExecute
	}
	return out, nil
}

const aboutExecute = "Nothing was run. execute, in a request of kind command, runs the workflow's commands again, and reports what differs."

// rerun runs the requests that connections sent again, and compares the outcomes.
func (r reader) rerun(ctx context.Context, in *replayInput) (out replayOutput, err error) {
	// All of it is read before anything is run: what is run may write to the journal,
	// and nothing should be run if the journal can't be read.
	requests, more, err := r.readRequests(ctx, in)
	if err != nil {
		return out, err
	}
	counts := make(map[message.Kind]int)
	type key struct {
		principal principal.ID
		text      string
	}
	ran := make(map[key]bool) // idempotency keys of commands that were run
	out = replayOutput{Correlation: "replay-" + rand.Text(), More: more, Same: new(int), Different: []difference{}, Skipped: []skipped{}}
	for i := range requests {
		q := &requests[i]
		id, typ := string(q.request.Metadata.ID), string(q.request.Type)
		if q.skip != "" {
			out.Skipped = append(out.Skipped, skipped{id, typ, q.skip})
			continue
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
		sender, why, err := r.sender(ctx, q)
		if err != nil {
			return out, err
		}
		if why != "" {
			out.Skipped = append(out.Skipped, skipped{id, typ, why})
			continue
		}
		if k := (key{q.principal, q.request.Metadata.IdempotencyKey}); k.text != "" && q.request.Kind == message.KindCommand {
			if ran[k] {
				out.Skipped = append(out.Skipped, skipped{id, typ, "It repeats a command that was run, with the same idempotency key"})
				continue
			}
			ran[k] = true
		}
		counts[q.request.Kind]++
		now := outcome{Kind: message.KindReply}
		data, err := kernel.InvokeAs(ctx, kernel.NewCall{Type: q.request.Type, Data: q.request.Data, Correlation: out.Correlation, Sender: &sender, Kept: true})
		if now.Data = jsontext.Value(data); err != nil {
			e, _ := message.ErrorOf(err)
			now = outcome{message.KindError, e.Append(nil)}
		}
		if q.was.Kind == now.Kind && sameOutcome(volatileOf(ctx, q.request.Type), q.was.Data, now.Data) {
			*out.Same++
			continue
		}
		out.Different = append(out.Different, difference{id, typ, q.was, now})
	}
	commands, queries := counts[message.KindCommand], counts[message.KindQuery]
	out.Commands = &commands
	if in.Queries {
		out.Queries = &queries
	}
	return out, nil
}

// sender returns the sender of a request when it is run again: the recorded one, with the rights that
// it has now. If the caller can't act for the sender, why is the reason.
func (r reader) sender(ctx context.Context, q *recordedRequest) (sender kernel.Sender, why string, err error) {
	own := kernel.PrincipalOf(ctx)
	if own.ID() == q.principal {
		return kernel.From(own, q.wire), "", nil
	}
	if !own.IsOwner() {
		return sender, fmt.Sprintf("It was sent by %q; the owner and %[1]q can run it again", q.name), nil
	}
	var p *principal.Principal
	if r.Find != nil {
		if p, err = r.Find(q.principal); err != nil {
			return sender, "", err
		}
	}
	if p == nil || p.Life().Err() != nil {
		return sender, fmt.Sprintf("It was sent by the token %q, which was revoked or has expired", q.name), nil
	}
	return kernel.From(p, q.wire), "", nil
}

// refused reports whether an answer means that the caller had no right to what it asked for.
func refused(e *journal.Entry) (code int, ok bool) {
	if e.Message.Kind != message.KindError {
		return 0, false
	}
	code = e.Message.Failure().Code
	return code, code == 401 || code == 403
}

// volatileOf returns what differs from one reply of a syscall to the next.
func volatileOf(ctx context.Context, t message.Type) []string {
	if k, ok := kernel.Of(ctx); ok {
		if s, ok := k.Registry().Lookup(t); ok {
			return s.Volatile
		}
	}
	return nil
}

// sameOutcome is sameJSON without the members that are volatile.
func sameOutcome(volatile []string, a, b []byte) bool {
	return sameJSON(a, b) || len(volatile) > 0 && sameJSON(steady(a, "", volatile), steady(b, "", volatile))
}

// steady returns a value without the members that are volatile. The path is that of the value in the
// reply, with a dot at its end; the elements of a list have the path of the list.
func steady(data []byte, at string, volatile []string) []byte {
	if elements := jsonvalue.Elements(data); elements != nil {
		kept := make([][]byte, len(elements))
		for i, e := range elements {
			kept[i] = steady(e, at, volatile)
		}
		return slices.Concat([]byte("["), bytes.Join(kept, []byte(",")), []byte("]"))
	}
	members := jsonvalue.Members(data)
	if members == nil {
		return data
	}
	var kept jsonvalue.Object
	for _, m := range members {
		name := at + m.Name
		if slices.ContainsFunc(volatile, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			continue
		}
		kept = append(kept, jsonvalue.Member{Name: m.Name, Value: steady(m.Value, name+".", volatile)})
	}
	return kept.Text()
}

// sameJSON reports whether two texts are the same value: the order of members, white
// space, escapes and the spelling of numbers don't matter.
func sameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(jsonscan.AppendCanonical(nil, a), jsonscan.AppendCanonical(nil, b))
}

// recordedRequest is a request that came over a connection, with how it was answered.
type recordedRequest struct {
	request message.Message
	was     outcome
	skip    string // why the request is not run again, or ""

	principal  principal.ID // the sender
	name, wire string
}

// readRequests reads the requests that connections sent, and their answers. It holds the whole
// data of as many requests as may be run.
func (r reader) readRequests(ctx context.Context, in *replayInput) (requests []recordedRequest, more bool, err error) {
	most := maxRerun
	if in.Limit > 0 {
		most = min(most, in.Limit)
	}
	found := false
	latest := make(map[message.ID]int) // index of the last request with an id that has no answer yet
	for e, err := range r.workflow(ctx, journal.Filter{Correlation: in.CorrelationID}, false) {
		if err != nil {
			return nil, false, err
		}
		found = true
		m := &e.Message
		if e.Claim {
			continue // a claim answers nothing
		}
		if m.Kind.Answers() {
			if i, ok := latest[m.Metadata.Causation]; ok {
				delete(latest, m.Metadata.Causation)
				q := &requests[i]
				q.was = outcome{m.Kind, bytes.Clone(m.Data)}
				if code, ok := refused(e); ok && q.skip == "" {
					q.skip = fmt.Sprintf("It was refused, with %d", code)
				}
				if q.skip == "" && e.Redacted && m.Kind == message.KindReply {
					q.skip = "Its reply is not in the journal as it was sent, so there is nothing to compare with"
				}
			}
			continue
		}
		if e.Way != kernel.In || !m.Kind.Asks() {
			continue
		}
		if len(requests) == most {
			more = true
			continue // answers to those before it may follow
		}
		latest[m.Metadata.ID] = len(requests)
		requests = append(requests, recordedRequest{request: m.Clone(), was: outcome{Kind: "none"}, skip: r.whyNot(ctx, e, in),
			principal: e.Principal, name: e.Name, wire: e.Wire})
	}
	if !found {
		return nil, false, r.noWorkflow(ctx, in.CorrelationID)
	}
	return requests, more, nil
}

// whyNot returns why a request is not run again, or "".
func (r reader) whyNot(ctx context.Context, e *journal.Entry, in *replayInput) string {
	var d kernel.Definition // stays empty for a syscall that no longer exists
	if k, ok := kernel.Of(ctx); ok {
		if s, ok := k.Registry().Lookup(e.Message.Type); ok {
			d = s.Definition
		}
	}
	switch {
	case e.Message.Type == replayType || e.Message.Type == olderReplay:
		return "It is a replay itself"
	case d.Effect == kernel.Transient || r.Transient != nil && r.Transient(&e.Message):
		return "It concerns a connection, or the kernel as a process"
	case e.Message.Kind == message.KindQuery && !in.Queries:
		return "It is a query; ask for queries to run them again"
	case d.Runs == kernel.Endless:
		return "It runs until it is cancelled"
	case e.Redacted && string(e.Message.Data) == kernel.RefusedData:
		return "It was refused, and its data is not in the journal"
	case e.Redacted:
		return "It has secrets that are not in the journal"
	}
	return ""
}
