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

// Watch shows messages as they are recorded. Its own requests among them don't count.
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
	// The kernel counted the hidden ones towards the limit, so as many messages are still due.
	// How many of its own requests this watch meets isn't known in advance, so it has no limit.
	r.After, r.From, r.Limit = nil, &reply.Next, 0
	_, err = l.stream(ctx, "Message.Watch", r, func(own bool) (enough bool) {
		if !own {
			shown++
		}
		return shown == hidden
	})
	return err
}

// stream sends a request whose answer is a stream of messages, shows them, except for those
// that this listing sent, and returns the data of the reply. The function seen, which may be
// nil, is called for each message, and may end the stream; then the data is nil.
func (l *Listing) stream(ctx context.Context, t message.Type, input any, seen func(own bool) (enough bool)) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error // output that can't be written ends the call
	over := false
	data, err := request.Send(ctx, l.call, message.KindQuery, t, input, func(event json.RawMessage) {
		if broken != nil || over {
			return
		}
		var m shown
		if broken = json.Unmarshal(event, &m); broken == nil && m.Message != nil { // not Message.Missed
			own := l.isOwn(m.Message)
			if !own {
				l.read(&m)
				broken = l.show(&m, "", minTypeWidth+6, nil)
			}
			over = seen != nil && seen(own)
		}
		if broken != nil || over {
			cancel()
		}
	})
	switch {
	case broken != nil:
		return nil, exit.Wrap(broken)
	case over:
		return nil, nil
	}
	return data, err
}
