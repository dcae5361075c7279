package recorded

import (
	"context"
	"fmt"
)

// Search shows the messages that a query finds, the best first.
func (l *Listing) Search(ctx context.Context, query, mode string, filter Filter, count int) error {
	messages, total, behind, err := l.searchAll(ctx, pageRequest{Query: query, Mode: mode, Filter: l.exactly(filter), Limit: count, Records: true})
	if err != nil {
		return err
	}
	if behind > 0 {
		l.screen.Note("the latest %d messages are not indexed yet and were not searched", behind)
	}
	if len(messages) == 0 {
		l.noMessages()
		return nil
	}
	types, words := typeWidth(messages), searchWords(query)
	for i := range messages {
		if err := l.show(&messages[i], fmt.Sprintf("%6.2f  ", messages[i].score), types, words); err != nil {
			return err
		}
	}
	if total > len(messages) {
		l.screen.Note("%d of %d messages that match; -n shows more", len(messages), total)
	}
	return nil
}

// searchAll asks for as many messages as the limit of the request: all at once or, if the
// answer would be too long, some at a time.
func (l *Listing) searchAll(ctx context.Context, r pageRequest) (all []shown, total, behind int, err error) {
	for count := r.Limit; ; r.Limit = min(r.Limit, count-len(all)) {
		reply, messages, err := l.page(ctx, &r)
		if err != nil {
			return nil, 0, 0, err
		}
		if r.Cursor == "" {
			total, behind = reply.Total, reply.Behind
			if reply.WordsOnly != "" {
				l.screen.Note("searched by words only: %s", reply.WordsOnly)
			}
			if reply.Unembedded > 0 {
				l.screen.Note("the latest %d messages are not embedded yet and were searched by words only", reply.Unembedded)
			}
		}
		all = append(all, messages...)
		if r.Cursor = reply.Cursor; r.Cursor == "" || len(all) >= count {
			return all, total, behind, nil
		}
	}
}
