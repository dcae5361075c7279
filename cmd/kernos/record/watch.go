package record

import (
	"context"
	"encoding/json"

	"kernos/cmd/kernos/server"
	"kernos/message"
)

// WatchRequest is the input of Message.Watch.
type WatchRequest struct {
	Filter
	After *uint64 `json:"after,omitempty"`
	From  *uint64 `json:"from,omitempty"`
	Limit int     `json:"limit,omitempty"`
}

// Watch shows messages as they are recorded.
func (l *Listing) Watch(ctx context.Context, r WatchRequest) error {
	r.Filter = l.exactly(r.Filter)
	_, err := l.stream(ctx, "Message.Watch", r)
	return err
}

// stream sends a request whose answer is a stream of messages, shows them, and returns the data
// of the reply.
func (l *Listing) stream(ctx context.Context, t message.Type, input any) (json.RawMessage, error) {
	return server.Send(ctx, l.call, message.KindQuery, t, input, func(event json.RawMessage) error {
		var m shown
		if err := json.Unmarshal(event, &m); err != nil || m.Message == nil { // it is nil in Message.Missed
			return err
		}
		l.read(&m)
		return l.show(&m, "", minTypeWidth+6, nil)
	})
}
