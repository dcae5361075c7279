package history

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

const (
	replayedEvent message.Type = "Message.Replayed"
	replayType    message.Type = "Message.Replay"
	olderReplay   message.Type = "Event.Replay"
)

// maxReplay is how long a replay may take.
const maxReplay = time.Hour

// maxRerun is how many messages of a workflow are run again. What is found to differ is
// kept until the end.
const maxRerun = 1000

type replayInput struct {
	CorrelationID string `json:"correlationId" jsonschema:"minLength=1,maxLength=256" jsonschema_description:"The workflow: metadata.correlation of its messages, or the id of the message that began it."`
	Execute       bool   `json:"execute,omitempty" jsonschema_description:"Run the workflow's commands again, under a new correlation, and say what comes out differently. The request must be sent with kind command."`
	Queries       bool   `json:"queries,omitempty" jsonschema_description:"With execute: run the queries again too."`
	Limit         whole  `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"How many messages at most: to send, or with execute to run (then 1000 at most)."`
}

type replayOutput struct {
	Messages    int          `json:"messages,omitempty" jsonschema_description:"How many messages were sent."`
	More        bool         `json:"more,omitempty" jsonschema_description:"The workflow goes on behind the limit."`
	Correlation string       `json:"correlation,omitempty" jsonschema_description:"With execute: the workflow of what was run."`
	Commands    int          `json:"commands,omitempty" jsonschema_description:"With execute: how many commands were run."`
	Queries     int          `json:"queries,omitempty" jsonschema_description:"With execute and queries: how many queries were run."`
	Same        int          `json:"same,omitempty" jsonschema_description:"With execute: how many had the same outcome as before."`
	Different   []difference `json:"different,omitempty" jsonschema_description:"With execute: those that had another."`
	Skipped     []skipped    `json:"skipped,omitempty" jsonschema_description:"With execute: those that were not run, and why."`
	Dropped     *gap         `json:"dropped,omitempty" jsonschema_description:"What is not in the journal and might have been part of the workflow."`
}

type difference struct {
	ID   string  `json:"id" jsonschema_description:"The message that was run again."`
	Type string  `json:"type" jsonschema_description:"Its type."`
	Was  outcome `json:"was" jsonschema_description:"How it was answered."`
	Now  outcome `json:"now" jsonschema_description:"How it is answered now."`
}

type outcome struct {
	Kind string         `json:"kind" jsonschema:"enum=reply,enum=error,enum=none" jsonschema_description:"reply, error, or none if no answer was recorded."`
	Data jsontext.Value `json:"data,omitempty" jsonschema_description:"What the answer said."`
}

func (outcome) SchemaName() string { return "Outcome" }

type skipped struct {
	ID   string `json:"id" jsonschema_description:"The message that was not run."`
	Type string `json:"type" jsonschema_description:"Its type."`
	Why  string `json:"why" jsonschema_description:"Why it was not."`
}

// Replay sends the messages of a workflow once more, or runs its commands again.
func Replay(j Journal) kernel.Syscall {
	return recalling(kernel.Definition{
		Type:    replayType,
		Summary: "Send the messages of a workflow once more, in order; or run its commands again and say what differs.",
		Output:  schema.Output[replayOutput](),
		Aliases: []message.Type{olderReplay},
		Emits: []kernel.EventDefinition{
			{Type: replayedEvent, Summary: "A message of the workflow: {seq, at, message}."},
		},
		Runs:    kernel.Slow,
		Effect:  kernel.Delegated,
		Timeout: maxReplay,
	}, func(ctx context.Context, m *message.Message, in replayInput, emit kernel.Emit) (json.RawMessage, error) {
		switch {
		case in.Execute && m.Kind != message.KindCommand:
			return nil, invalid("execute", "execute: running commands again changes things, which a query may not do; send %s with kind command", m.Type)
		case in.Queries && !in.Execute:
			return nil, invalid("queries", "queries: nothing is run without execute; add execute, or leave queries out")
		case in.Execute:
			return rerun(ctx, j, m, &in)
		}
		sent, more := 0, false
		for e, err := range workflow(ctx, j, in.CorrelationID) {
			if err != nil {
				return nil, err
			}
			if more = in.Limit > 0 && sent == int(in.Limit); more {
				break
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			emit(m.Event(replayedEvent, appendEvent(nil, e)))
			sent++
		}
		if sent == 0 {
			return nil, noWorkflow(ctx, j, in.CorrelationID)
		}
		dst := fmt.Appendf(nil, `{"messages":%d`, sent)
		if more {
			dst = append(dst, `,"more":true`...)
		}
		dst, err := appendGap(dst, j, new(journal.Filter))
		return append(dst, '}'), err
	})
}

// rerun runs what came from outside again, and compares.
func rerun(ctx context.Context, j Journal, m *message.Message, in *replayInput) (json.RawMessage, error) {
	// All of it is read before anything is run: what is run may write to the journal,
	// and nothing should be run if the journal can't be read.
	asked, more, err := readRequests(ctx, j, in)
	if err != nil {
		return nil, err
	}
	var different, skips []byte
	correlation := "replay-" + rand.Text()
	counts := make(map[message.Kind]int)
	same := 0
	for i := range asked {
		r := &asked[i]
		if r.skip != "" {
			skips = appendRequest(comma(skips, len(skips)), &r.request)
			skips = append(jsonscan.AppendQuoted(append(skips, `,"why":`...), r.skip), '}')
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		counts[r.request.Kind]++
		now := answer{kind: message.KindReply}
		now.data, err = kernel.CallAs(ctx, kernel.NewCall{Type: r.request.Type, Data: r.request.Data, Correlation: correlation, Kept: true})
		if err != nil {
			e, _ := message.ErrorOf(err)
			now = answer{kind: message.KindError, data: e.Append(nil)}
		}
		if r.was.kind == now.kind && sameJSON(r.was.data, now.data) {
			same++
			continue
		}
		different = appendRequest(comma(different, len(different)), &r.request)
		different = r.was.append(append(different, `,"was":`...))
		different = append(now.append(append(different, `,"now":`...)), '}')
	}
	dst := jsonscan.AppendQuoted([]byte(`{"correlation":`), correlation)
	dst = fmt.Appendf(dst, `,"commands":%d`, counts[message.KindCommand])
	if in.Queries {
		dst = fmt.Appendf(dst, `,"queries":%d`, counts[message.KindQuery])
	}
	dst = fmt.Appendf(dst, `,"same":%d,"different":[%s],"skipped":[%s]`, same, different, skips)
	if more {
		dst = append(dst, `,"more":true`...)
	}
	dst, err = appendGap(dst, j, new(journal.Filter))
	return append(dst, '}'), err
}

// asking is a request from outside, with how it was answered.
type asking struct {
	request message.Message
	was     answer
	skip    string // why it is not run again, or ""
}

type answer struct {
	kind message.Kind // "" if there is none
	data json.RawMessage
}

func (a *answer) append(dst []byte) []byte {
	if a.kind == "" {
		return append(dst, `{"kind":"none"}`...)
	}
	dst = append(append(append(dst, `{"kind":"`...), a.kind...), `","data":`...)
	return append(append(dst, a.data...), '}')
}

func appendRequest(dst []byte, m *message.Message) []byte {
	dst = jsonscan.AppendQuoted(append(dst, `{"id":`...), string(m.Metadata.ID))
	return jsonscan.AppendQuoted(append(dst, `,"type":`...), string(m.Type))
}

// readRequests reads what came from outside, and the answers to it. It holds the whole
// data of as many requests as may be run.
func readRequests(ctx context.Context, j Journal, in *replayInput) (asked []asking, more bool, err error) {
	most := maxRerun
	if in.Limit > 0 {
		most = min(most, int(in.Limit))
	}
	found := false
	latest := make(map[message.ID]int) // by id, the last request that has no answer yet
	for e, err := range workflow(ctx, j, in.CorrelationID) {
		if err != nil {
			return nil, false, err
		}
		found = true
		m := &e.Message
		if m.Kind.Answers() {
			if i, ok := latest[m.Metadata.Causation]; ok {
				delete(latest, m.Metadata.Causation)
				asked[i].answered(e)
			}
			continue
		}
		if e.Way != kernel.In || !m.Kind.Asks() {
			continue
		}
		if len(asked) == most {
			more = true
			continue // answers to those before it may follow
		}
		latest[m.Metadata.ID] = len(asked)
		asked = append(asked, asking{request: m.Clone(), skip: whyNot(ctx, e, in)})
	}
	if !found {
		return nil, false, noWorkflow(ctx, j, in.CorrelationID)
	}
	return asked, more, nil
}

// whyNot says why a request is not run again, or returns "".
func whyNot(ctx context.Context, e *journal.Entry, in *replayInput) string {
	var d kernel.Definition // of what is not there any more, nothing is known
	if k, ok := kernel.Of(ctx); ok {
		if s, ok := k.Registry().Lookup(e.Message.Type); ok {
			d = s.Definition
		}
	}
	switch {
	case e.Message.Type == replayType || e.Message.Type == olderReplay:
		return "It is a replay itself"
	case d.Effect == kernel.Transient:
		return "It concerns a connection, or the life of the kernel"
	case e.Message.Kind == message.KindQuery && !in.Queries:
		return "It is a query; ask for queries to run them again"
	case d.Runs == kernel.Endless:
		return "It goes on until it is cancelled"
	case e.Redacted && string(e.Message.Data) == kernel.RefusedData:
		return "It was refused, and its data is not in the journal"
	case e.Redacted:
		return "It has secrets that are not in the journal"
	}
	return ""
}

// answered notes how a request was answered.
func (r *asking) answered(e *journal.Entry) {
	r.was = answer{kind: e.Message.Kind, data: append(json.RawMessage(nil), e.Message.Data...)}
	if r.skip == "" && e.Redacted && e.Message.Kind == message.KindReply {
		r.skip = "Its answer is not in the journal as it was given, so there is nothing to compare with"
	}
}
