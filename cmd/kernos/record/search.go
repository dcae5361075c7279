package record

import (
	"context"
	"fmt"
	"strings"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
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
	types, words, reasons := typeWidth(messages), searchWords(query), 0
	for i := range messages {
		reasons = max(reasons, terminal.Columns(messages[i].why))
	}
	for i := range messages {
		m := &messages[i]
		head := fmt.Sprintf("%6.2f  ", m.score)
		if reasons > 0 { // a kernel of an earlier version gives none
			head += terminal.Pad(m.why, reasons) + "  "
		}
		if err := l.show(m, head, types, words); err != nil {
			return err
		}
	}
	if total > len(messages) {
		l.screen.Note("%d of %d messages that match; -n shows more", len(messages), total)
	}
	return nil
}

// why is why a message was found.
type why struct {
	Words []string
	Near  float64
}

// maxWhyWords is how many columns the words of a reason take at most.
const maxWhyWords = 16

// String returns the nearness, if it counted, and the words.
func (w why) String() string {
	near := strings.Repeat(" ", len("~0.00"))
	if w.Near > 0 {
		near = fmt.Sprintf("~%.2f", w.Near)
	}
	words := terminal.Clip(visible.Text(strings.Join(w.Words, " ")), maxWhyWords)
	return strings.TrimRight(near+" "+words, " ")
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
