package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"kernos/cmd/kernos/request"
	"kernos/message"
)

// searchRequest is the input of Message.Search.
type searchRequest struct {
	Query string `json:"query"`
	Filter
	Cursor  string `json:"cursor,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Records bool   `json:"records"`
}

// searchReply is the output of Message.Search.
type searchReply struct {
	Messages []json.RawMessage
	Scores   []float64
	Records  []struct{ At int64 }
	Total    int
	Behind   int
	Cursor   string
}

// Search shows the messages with the words of a query, the best first.
func (l *Listing) Search(ctx context.Context, query string, filter Filter, count int) error {
	reply, err := l.searchAll(ctx, searchRequest{Query: query, Filter: filter, Limit: count, Records: true})
	if err != nil {
		return err
	}
	if reply.Behind > 0 {
		l.screen.Note("the latest %d messages are not indexed yet and were not searched", reply.Behind)
	}
	messages, scores := make([]shown, 0, len(reply.Messages)), []float64{}
	for i, text := range reply.Messages {
		if l.isOwn(text) {
			reply.Total--
			continue
		}
		m, score := shown{Message: text}, 0.0
		if i < len(reply.Records) {
			m.At = reply.Records[i].At
		}
		if i < len(reply.Scores) {
			score = reply.Scores[i]
		}
		l.read(&m)
		messages, scores = append(messages, m), append(scores, score)
	}
	if len(messages) == 0 {
		l.noMessages()
		return nil
	}
	types, words := typeWidth(messages), searchWords(query)
	for i := range messages {
		if err := l.show(&messages[i], fmt.Sprintf("%6.2f  ", scores[i]), types, words); err != nil {
			return err
		}
	}
	if reply.Total > len(messages) {
		l.screen.Note("%d of %d messages that match; -n shows more", len(messages), reply.Total)
	}
	return nil
}

// searchAll asks for as many messages as the limit of the request: all at once or, if the
// answer would be too long, some at a time.
func (l *Listing) searchAll(ctx context.Context, r searchRequest) (*searchReply, error) {
	all, count := new(searchReply), r.Limit
	for {
		var reply searchReply
		err := request.Read(ctx, l.call, message.KindQuery, "Message.Search", r, &reply)
		if errors.Is(err, request.ErrTooLong) && r.Limit > 1 {
			r.Limit /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.Cursor == "" {
			all.Total, all.Behind = reply.Total, reply.Behind
		}
		all.Messages = append(all.Messages, reply.Messages...)
		all.Scores = append(all.Scores, reply.Scores...)
		all.Records = append(all.Records, reply.Records...)
		if r.Cursor = reply.Cursor; r.Cursor == "" || len(all.Messages) >= count {
			return all, nil
		}
		r.Limit = min(r.Limit, count-len(all.Messages))
	}
}
