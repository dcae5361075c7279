package history

import (
	"context"
	"iter"
	"time"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/message/osevent"
)

// maxWatch is how long a watch may last.
const maxWatch = 24 * time.Hour

const watchType message.Type = "Message.Watch"

// The events of a watch.
const (
	recordedEvent message.Type = "Message.Recorded"
	missedEvent   message.Type = "Message.Missed"
	narrowedEvent message.Type = "Message.Narrowed"
)

type watchInput struct {
	filter
	After  *uint64 `json:"after,omitempty" jsonschema:"minimum=0" jsonschema_description:"Begin after the message with this number: first the messages recorded since, then new ones. 0 is before the first message ever."`
	From   *uint64 `json:"from,omitempty" jsonschema:"minimum=0" jsonschema_description:"Begin with the message with this number, instead of after. The value of next in the previous reply continues without a gap or a repeat."`
	Limit  int     `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"End after this many messages. Default: the watch runs until it is cancelled."`
	Buffer int     `json:"buffer,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"How many messages may wait for the caller, with at most 16 MB of data. If there are more, the oldest are dropped, and Message.Missed names them. Without it, nothing is dropped that the journal still has."`
}

type watchOutput struct {
	Next     uint64 `json:"next" jsonschema_description:"Pass it as from to continue."`
	Messages int    `json:"messages" jsonschema_description:"How many messages were sent."`
	kernel.Narrowed
}

// newEvent returns the data of Message.Recorded and Message.Replayed.
func newEvent(e *journal.Entry) kernel.Raw {
	return eventWith("message", message.Append(nil, &e.Message), e)
}

// newOlderEvent returns the data of Event.Replayed.
func newOlderEvent(e *journal.Entry) kernel.Raw {
	return eventWith("event", osevent.Append(nil, &e.Message), e)
}

// eventWith returns what is known of an entry, and the text of its message, in a member of its own.
func eventWith(name string, text []byte, e *journal.Entry) kernel.Raw {
	o := make(jsonscan.Object, 0, len(text)+128)
	o.Number("seq", int64(e.Seq))
	o.Number("at", e.At)
	o.JSON("principal", jsonscan.AppendQuoted(nil, e.Name))
	o.Text("wire", e.Wire)
	o.Flag("claim", e.Claim)
	o.JSON(name, text)
	return o.End()
}

var watch = kernel.DefineQuery[watchInput, watchOutput](kernel.Definition{
	Type:    watchType,
	Summary: "Stream messages as they are recorded, from a point in the journal or from now on.",
	Emits: []kernel.EventDefinition{
		{Type: recordedEvent, Summary: "A message was recorded: {seq, at, principal, wire, claim, message}."},
		{Type: missedEvent, Summary: "Messages are left out: {from, to, count}. They were dropped from the journal, or count of them did not fit into the buffer."},
		{Type: narrowedEvent, Summary: "First of all, to a caller that may not see everything: {note}, as in the reply."},
	},
	Presentation: kernel.Presentation{
		Title: "Watch messages as they come",
		Words: "subscribe, watch, listen, stream, topic, pubsub, tail, follow, live log, what is happening right now, show messages live, " +
			"get told about changes, follow the log, listen for events, see new messages as they come, watch for changes, when something changes",
		Errors: []kernel.ErrorDefinition{
			{Code: 422, When: "a filter is invalid"},
			{Code: 429, When: "the watches of the caller take too much memory"},
			{Code: 503, When: "the watches of all callers do"},
		},
	},
	Behavior:  kernel.Behavior{Runs: kernel.Endless, Timeout: maxWatch},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Redact: withoutQuery, Recording: kernel.InWorkflows},
})

// watch sends messages as they are recorded.
func (r reader) watch(ctx context.Context, in watchInput, stream *kernel.Stream) (out watchOutput, err error) {
	f, err := r.filter(ctx, &in.filter)
	if err != nil {
		return out, err
	}
	after, gap, err := r.start(&in, &f)
	if err != nil {
		return out, err
	}
	follow := withoutWatches(r.journal.Follow)
	if in.Buffer > 0 {
		follow = buffered(follow, in.Buffer, reserveOf(ctx))
	}
	skip := func(gap *missing) error {
		out.Next = gap.To + 1
		return stream.Emit(missedEvent, gap)
	}
	out.Next, out.Narrowed = after+1, narrowed(ctx)
	if out.Note != "" {
		if err := stream.Emit(narrowedEvent, out.Narrowed); err != nil {
			return out, err
		}
	}
	if gap != nil {
		if err := skip(gap); err != nil {
			return out, err
		}
	}
	for e, err := range follow(ctx, out.Next-1, f) {
		if left := missingOf(err); left != nil {
			if err := skip(left); err != nil {
				return out, err
			}
			continue
		}
		if err != nil && context.Cause(ctx) == kernel.ErrStopping {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if err := stream.Emit(recordedEvent, newEvent(&e)); err != nil {
			return out, err
		}
		out.Next = e.Seq + 1
		if out.Messages++; out.Messages == in.Limit {
			return out, nil
		}
	}
	return out, ctx.Err()
}

// reserveOf returns the caller's part of the kernel's budget.
func reserveOf(ctx context.Context) reserve {
	k, ok := kernel.Of(ctx)
	if !ok {
		return nil
	}
	caller := kernel.PrincipalOf(ctx)
	return func(n int) bool {
		if n < 0 {
			k.Kept().Give(caller, -n)
			return true
		}
		return k.Kept().Take(caller, n) == nil
	}
}

// withoutWatches leaves the calls of Message.Watch out, and their outcomes: watches that reported
// each other would have more to report with each of them.
func withoutWatches(follow following) following {
	return func(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error] {
		return func(yield func(journal.Entry, error) bool) {
			for e, err := range follow(ctx, after, f) {
				if err == nil && e.Message.Type == watchType {
					continue
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// start returns the number of the message after which the watch begins, and what it would
// have begun with that is no longer in the journal.
func (r reader) start(in *watchInput, f *journal.Filter) (after uint64, gap *missing, err error) {
	switch {
	case in.After != nil && in.From != nil:
		return 0, nil, message.Invalid("from", "after and from both set where to begin; leave one out")
	case in.After != nil:
		return *in.After, nil, nil
	case in.From != nil && *in.From == 0:
		return 0, nil, nil
	}
	d, err := r.journal.Dropped()
	switch {
	case err != nil:
		return 0, nil, err
	case in.From != nil && d.Seq < *in.From:
		return *in.From - 1, nil, nil
	case in.From != nil:
		return d.Seq, &missing{*in.From, d.Seq, d.Seq - *in.From + 1}, nil
	case f.Since != 0 && d.At < f.Since:
		return d.Seq, nil, nil // messages that were dropped before that time are not missing
	case f.Since != 0:
		return 0, nil, nil
	}
	s, err := r.journal.Stats()
	return s.LastSeq, nil, err
}
