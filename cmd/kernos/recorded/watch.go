package recorded

import (
	"context"
	"encoding/json"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/message"
)

// WatchRequest is the input of Message.Watch.
type WatchRequest struct {
	Filter
	After *uint64 `json:"after,omitempty"`
	From  *uint64 `json:"from,omitempty"`
	Limit int     `json:"limit,omitempty"`
}

// Watch shows messages as they come. Requests of its own that are among them are not shown,
// and don't count.
func (l *Listing) Watch(ctx context.Context, r WatchRequest) error {
	hidden, shown := 0, 0
	data, err := l.stream(ctx, "Message.Watch", r, func(own bool) (enough bool) {
		if own {
			hidden++
		}
		return false
	})
	var reply struct {
		Next     uint64
		Messages int
	}
	if err != nil || r.Limit == 0 || hidden == 0 || json.Unmarshal(data, &reply) != nil || reply.Messages < r.Limit {
		return err
	}
	// The kernel has counted them, so there is more to come; how many of its own requests
	// this one meets, nobody knows.
	r.After, r.From, r.Limit = nil, &reply.Next, 0
	_, err = l.stream(ctx, "Message.Watch", r, func(own bool) (enough bool) {
		if !own {
			shown++
		}
		return shown == hidden
	})
	return err
}

// stream asks for something that sends messages, and shows them, without those that it has
// sent itself. It returns the data of the reply. Seen is told of each message whether it was
// sent here, and may end the stream; then the data is nil.
func (l *Listing) stream(ctx context.Context, t message.Type, input any, seen func(own bool) (enough bool)) (json.RawMessage, error) {
	// Output that can't be written ends the call: nobody reads it any more.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error
	over := false
	types := minTypeWidth + 6
	data, err := request.Send(ctx, l.call, message.KindQuery, t, input, func(event message.Message) {
		var m shown
		if broken != nil || over || event.Type != "Message.Recorded" && event.Type != "Message.Replayed" {
			return
		}
		if text, err := request.Fetch(event.Data); err == nil {
			event.Data = text
		}
		if broken = json.Unmarshal(event.Data, &m); broken == nil {
			own := l.own.has(m.Message)
			if !own {
				broken = l.display(&m, types)
			}
			over = seen != nil && seen(own)
		}
		if broken != nil || over {
			cancel()
		}
	})
	if broken != nil {
		return nil, exit.Wrap(broken)
	}
	if over {
		return nil, nil
	}
	return data, err
}

// display shows a message that has come.
func (l *Listing) display(m *shown, types int) error {
	if l.asJSON {
		return l.screen.Line(string(m.Message))
	}
	m.read()
	return row(l.screen, m, "", types, nil)
}
