package history

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// maxWatch is how long a watch may last.
const maxWatch = 24 * time.Hour

const recordedEvent message.Type = "Message.Recorded"

type watchInput struct {
	filter
	After *whole `json:"after,omitempty" jsonschema:"minimum=0" jsonschema_description:"Begin behind the message with this number: first what was recorded since, then what is recorded from now on. 0 is before the first."`
	From  *whole `json:"from,omitempty" jsonschema:"minimum=0" jsonschema_description:"Begin with the message with this number, in place of after. The next of the watch before goes on without gap or repeat."`
	Limit whole  `json:"limit,omitempty" jsonschema:"minimum=1" jsonschema_description:"End after this many messages. Without it the watch goes on until it is cancelled."`
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
		},
		Slow:    true,
		Timeout: maxWatch,
	}, func(ctx context.Context, m *message.Message, in watchInput, emit kernel.Emit) (json.RawMessage, error) {
		f, err := in.read()
		if err != nil {
			return nil, err
		}
		after, err := in.start(j, &f)
		if err != nil {
			return nil, err
		}
		sent := 0
		for e, err := range j.Follow(ctx, after, f) {
			if err != nil {
				return nil, err
			}
			emit(m.Event(recordedEvent, appendEvent(nil, &e)))
			after = e.Seq
			if sent++; sent == int(in.Limit) {
				return fmt.Appendf(nil, `{"next":%d,"messages":%d}`, after+1, sent), nil
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, `{"next":%d,"messages":%d}`, after+1, sent), nil
	})
}

// start is the number of the message behind which the watch begins.
func (in *watchInput) start(j Journal, f *journal.Filter) (uint64, error) {
	switch {
	case in.After != nil && in.From != nil:
		return 0, invalid("from", "after and from both say where to begin; leave one out")
	case in.After != nil:
		return uint64(*in.After), nil
	case in.From != nil && *in.From > 0:
		from := uint64(*in.From)
		d, err := j.Dropped()
		if err == nil && d.Seq >= from {
			err = message.Errorf(410, "The messages from %d to %d have been dropped; begin with %d, or after 0 for the first that is kept", from, d.Seq, d.Seq+1)
		}
		return from - 1, err
	case in.From != nil:
		return 0, nil
	case f.Since != 0:
		return 0, nil
	}
	s, err := j.Stats()
	return s.LastSeq, err
}
