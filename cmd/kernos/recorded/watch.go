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

// Watch shows messages as they are recorded.
func (l *Listing) Watch(ctx context.Context, r WatchRequest) error {
	r.Filter = l.exactly(r.Filter)
	_, err := l.stream(ctx, "Message.Watch", r)
	return err
}

// stream sends a request whose answer is a stream of messages, shows them, and returns the data
// of the reply.
func (l *Listing) stream(ctx context.Context, t message.Type, input any) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error // output that can't be written ends the call
	data, err := request.Send(ctx, l.call, message.KindQuery, t, input, func(event json.RawMessage) {
		if broken != nil {
			return
		}
		var m shown
		if broken = json.Unmarshal(event, &m); broken == nil && m.Message != nil { // not Message.Missed
			l.read(&m)
			broken = l.show(&m, "", minTypeWidth+6, nil)
		}
		if broken != nil {
			cancel()
		}
	})
	if broken != nil {
		return nil, exit.Wrap(broken)
	}
	return data, err
}
