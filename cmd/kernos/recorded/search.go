package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"kernos/cmd/kernos/exit"
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

// searchReply is its output.
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
	s := l.screen
	reply, err := l.searchAll(ctx, searchRequest{Query: query, Filter: filter, Limit: count, Records: true})
	if err != nil {
		return err
	}
	if reply.Behind > 0 {
		s.Note("the latest %d messages are not indexed yet and were not searched", reply.Behind)
	}
	messages, scores := make([]shown, 0, len(reply.Messages)), []float64{}
	for i, text := range reply.Messages {
		if l.own.has(text) {
			reply.Total--
			continue
		}
		m := shown{Message: text}
		score := 0.0
		if i < len(reply.Records) {
			m.At = reply.Records[i].At
		}
		if i < len(reply.Scores) {
			score = reply.Scores[i]
		}
		messages, scores = append(messages, m), append(scores, score)
	}
	if len(messages) == 0 {
		noMessages(s)
		return nil
	}
	if err := l.found(messages, scores, searchWords(query)); err != nil {
		return err
	}
	if reply.Total > len(messages) {
		s.Note("%d of %d messages that match; -n shows more", len(messages), reply.Total)
	}
	return nil
}

// searchAll asks for as many messages as the request's limit says: all at once or, if the
// answer can't be given because it is too long, some at a time.
func (l *Listing) searchAll(ctx context.Context, r searchRequest) (*searchReply, error) {
	all, count := new(searchReply), r.Limit
	for {
		data, err := request.Send(ctx, l.call, message.KindQuery, "Message.Search", r, nil)
		if errors.Is(err, request.ErrTooLong) && r.Limit > 1 {
			r.Limit /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		var reply searchReply
		if err := json.Unmarshal(data, &reply); err != nil {
			return nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer of Message.Search can't be read: %w", err)}
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

// found shows messages with their scores, or as they are.
func (l *Listing) found(messages []shown, scores []float64, words []string) error {
	for i := range messages {
		if l.asJSON {
			if err := l.screen.Line(string(messages[i].Message)); err != nil {
				return err
			}
			continue
		}
		messages[i].read()
	}
	if l.asJSON {
		return nil
	}
	types := typeWidth(messages)
	for i := range messages {
		if err := row(l.screen, &messages[i], fmt.Sprintf("%6.2f  ", scores[i]), types, words); err != nil {
			return err
		}
	}
	return nil
}
