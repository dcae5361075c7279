package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// maxWatch is how long a watch may last.
const maxWatch = 24 * time.Hour

// The events of a watch.
const (
	recordedEvent message.Type = "Message.Recorded"
	missedEvent   message.Type = "Message.Missed"
)

type watchInput struct {
	filter
	After  *whole `json:"after,omitempty" jsonschema:"minimum=0" jsonschema_description:"Begin behind the message with this number: first what was recorded since, then what is recorded from now on. 0 is before the first that there ever was."`
	From   *whole `json:"from,omitempty" jsonschema:"minimum=0" jsonschema_description:"Begin with the message with this number, in place of after. The next of the watch before goes on without gap or repeat."`
	Limit  whole  `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"End after this many messages. Without it the watch goes on until it is cancelled."`
	Buffer whole  `json:"buffer,omitempty" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"How many messages may wait for you, with 16 MB of data at most. If there are more, the oldest are left out, and Message.Missed says which. Without it nothing is left out that the journal has, however far behind you are."`
}

type watchOutput struct {
	Next     uint64 `json:"next" jsonschema_description:"The number to give as from in order to go on."`
	Messages int    `json:"messages" jsonschema_description:"How many messages were sent."`
}

// appendEvent appends the data of Message.Recorded and Message.Replayed.
func appendEvent(dst []byte, e *journal.Entry) json.RawMessage {
	dst = appendPlace(append(dst, '{'), e)
	dst = message.Append(append(dst, `,"message":`...), &e.Message)
	return append(dst, '}')
}

// Watch sends what is recorded, as it is.
func Watch(j Journal) kernel.Syscall {
	return recalling(kernel.Definition{
		Type:    "Message.Watch",
		Summary: "Send messages as they are recorded, from a point in the journal or from now on.",
		Output:  schema.Output[watchOutput](),
		Emits: []kernel.EventDefinition{
			{Type: recordedEvent, Summary: "A message was recorded: {seq, at, message}."},
			{Type: missedEvent, Summary: "Messages are left out: {from, to, count}. They were dropped from the journal, whatever they were, or count of them did not fit into the buffer."},
		},
		Runs:    kernel.Endless,
		Timeout: maxWatch,
	}, func(ctx context.Context, m *message.Message, in watchInput, emit kernel.Emit) (json.RawMessage, error) {
		f, err := in.read()
		if err != nil {
			return nil, err
		}
		w := watch{m: m, emit: emit, limit: int(in.Limit)}
		gap, err := in.start(j, &f, &w.after)
		if err != nil {
			return nil, err
		}
		w.skip(gap)
		follow := j.Follow
		if in.Buffer > 0 {
			follow = buffered(follow, int(in.Buffer))
		}
		for e, err := range follow(ctx, w.after, f) {
			if missed, ok := errors.AsType[*journal.Missed](err); ok {
				w.skip(&missing{*missed, missed.To - missed.From + 1})
				continue
			}
			if left, ok := errors.AsType[*missing](err); ok {
				w.skip(left)
				continue
			}
			if err != nil && context.Cause(ctx) == kernel.ErrStopping {
				return w.reply(), nil
			}
			if err != nil {
				return nil, err
			}
			if w.send(&e) {
				return w.reply(), nil
			}
		}
		return w.reply(), ctx.Err()
	})
}

// A watch is one call of Message.Watch.
type watch struct {
	m     *message.Message
	emit  kernel.Emit
	limit int // 0 means that there is none

	after uint64 // the number of the last message that was sent or left out
	sent  int
}

// send sends a message, and reports whether it is the last one that is wanted.
func (w *watch) send(e *journal.Entry) bool {
	w.emit(w.m.Event(recordedEvent, appendEvent(nil, e)))
	w.after = e.Seq
	w.sent++
	return w.sent == w.limit
}

// skip tells what is left out, if anything is.
func (w *watch) skip(gap *missing) {
	if gap == nil {
		return
	}
	w.emit(w.m.Event(missedEvent, fmt.Appendf(nil, `{"from":%d,"to":%d,"count":%d}`, gap.From, gap.To, gap.count)))
	w.after = gap.To
}

func (w *watch) reply() json.RawMessage {
	return fmt.Appendf(nil, `{"next":%d,"messages":%d}`, w.after+1, w.sent)
}

// start sets after to the number of the message behind which the watch begins, and returns
// what it would have begun with and is not there any more.
func (in *watchInput) start(j Journal, f *journal.Filter, after *uint64) (*missing, error) {
	switch {
	case in.After != nil && in.From != nil:
		return nil, invalid("from", "after and from both say where to begin; leave one out")
	case in.After != nil:
		*after = uint64(*in.After)
		return nil, nil
	case in.From != nil && *in.From > 0:
		from := uint64(*in.From)
		*after = from - 1
		d, err := j.Dropped()
		if err != nil || d.Seq < from {
			return nil, err
		}
		return &missing{journal.Missed{From: from, To: d.Seq}, d.Seq - from + 1}, nil
	case in.From != nil:
		return nil, nil // from the first one that there ever was
	case f.Since != 0:
		// What was dropped before that time is not missing.
		d, err := j.Dropped()
		if err == nil && d.At < f.Since {
			*after = d.Seq
		}
		return nil, err
	}
	s, err := j.Stats()
	*after = s.LastSeq
	return nil, err
}
