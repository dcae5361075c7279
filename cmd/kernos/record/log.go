// Package record shows the messages that a kernel has recorded: as lists, as search results,
// and as graphs of causes and effects.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/when"
	"kernos/message"
)

// A Listing shows recorded messages on a screen.
type Listing struct {
	call   server.Caller
	screen *terminal.Screen
	print  func(json.RawMessage) error
}

// New returns a listing of the messages of a kernel. The function print writes a message for
// programs; nil means that messages are the rows of a table.
func New(call server.Caller, s *terminal.Screen, print func(json.RawMessage) error) *Listing {
	return &Listing{call: call, screen: s, print: print}
}

// A Filter selects messages: those that have one of the values of each list.
type Filter struct {
	Line        string            `json:"filter,omitempty"`
	ID          string            `json:"id,omitempty"`
	Correlation string            `json:"correlation,omitempty"`
	Causation   string            `json:"causation,omitempty"`
	Type        oneOrMore[string] `json:"type,omitempty"`
	Kind        oneOrMore[string] `json:"kind,omitempty"`
	Code        oneOrMore[int]    `json:"code,omitempty"`
	Since       string            `json:"since,omitempty"`
	Until       string            `json:"until,omitempty"`
	Principal   oneOrMore[string] `json:"principal,omitempty"`
}

// oneOrMore is a list that is sent as a plain value if it has one.
type oneOrMore[T any] []T

// MarshalJSON implements [json.Marshaler].
func (o oneOrMore[T]) MarshalJSON() ([]byte, error) {
	if len(o) == 1 {
		return json.Marshal(o[0])
	}
	return json.Marshal([]T(o))
}

// exactly returns the filter with times as the kernel takes them: what depends on a time zone means that of the person who
// reads the table. What can't be read is for the kernel to refuse.
func (l *Listing) exactly(f Filter) Filter {
	since, _ := when.Parse(f.Since)
	until, _ := when.Parse(f.Until)
	from, to := when.Between(when.Back{Moment: since}, when.Back{Moment: until}, l.screen.Now)
	if !since.HasZone() {
		f.Since = from.Format(time.RFC3339Nano)
	}
	if !until.HasZone() {
		f.Until = to.Format(time.RFC3339Nano)
	}
	return f
}

// pageRequest is the input of Message.List and, with a query, of Message.Search.
type pageRequest struct {
	Query string `json:"query,omitempty"`
	Mode  string `json:"mode,omitempty"`
	Filter
	Cursor  string `json:"cursor,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Order   string `json:"order,omitempty"`
	Records bool   `json:"records"`
	Around  bool   `json:"around,omitempty"`
}

// pageReply is the output of both. Only a search has Scores and what follows, up to the cursor.
type pageReply struct {
	Messages []json.RawMessage
	Records  []json.RawMessage
	Scores   []float64
	Why      []why
	Total    int
	Behind   int

	Unembedded int
	WordsOnly  string

	Cursor  string
	Dropped *gap
}

// gap describes messages that the journal doesn't have.
type gap struct {
	Messages, Lost              uint64
	Until, LostSince, LostUntil int64
}

// note prints what is missing, if anything is.
func (g *gap) note(s *terminal.Screen) {
	if g == nil {
		return
	}
	clock := func(ms int64) string { return time.UnixMilli(ms).In(s.Now.Location()).Format("2006-01-02 15:04:05") }
	if g.Messages > 0 {
		s.Note("the journal has dropped its oldest %s, recorded until %s", terminal.Count(int(g.Messages), "message", "messages"), clock(g.Until))
	}
	if g.Lost > 0 {
		s.Note("%s from %s to %s could not be recorded because the store did not take them", terminal.Count(int(g.Lost), "message", "messages"), clock(g.LostSince), clock(g.LostUntil))
	}
}

// pageSize is how many messages are asked for at once.
const pageSize = 500

// page asks for a page. If the answer would be too long, it asks for fewer messages, and
// lowers the limit of the request for the pages that follow.
func (l *Listing) page(ctx context.Context, r *pageRequest) (*pageReply, []shown, error) {
	t := message.Type("Message.List")
	if r.Query != "" {
		t = "Message.Search"
	}
	reply := new(pageReply)
	err := server.Read(ctx, l.call, message.KindQuery, t, r, reply)
	for errors.Is(err, server.ErrTooLong) && r.Limit > 1 {
		r.Limit /= 2
		err = server.Read(ctx, l.call, message.KindQuery, t, r, reply)
	}
	if err != nil {
		return nil, nil, err
	}
	messages := make([]shown, len(reply.Messages))
	for i, text := range reply.Messages {
		m := &messages[i]
		m.Message = text
		if i < len(reply.Records) {
			if err := server.Decode(t, reply.Records[i], m); err != nil {
				return nil, nil, err
			}
		}
		if i < len(reply.Scores) {
			m.score = reply.Scores[i]
		}
		if i < len(reply.Why) {
			m.why = reply.Why[i].String()
		}
		l.read(m)
	}
	return reply, messages, nil
}

// Log shows the latest messages, or all of them if count is 0. With follow it continues with
// those that are recorded from then on.
func (l *Listing) Log(ctx context.Context, filter Filter, count int, follow bool) error {
	filter = l.exactly(filter)
	last, any, err := uint64(0), false, error(nil)
	if count == 0 {
		last, any, err = l.all(ctx, filter)
	} else {
		last, any, err = l.latest(ctx, filter, count)
	}
	switch {
	case err != nil:
		return err
	case follow:
		return l.Watch(ctx, WatchRequest{Filter: filter, After: &last})
	case !any:
		l.noMessages()
	}
	return nil
}

// all shows everything that is recorded at this moment, a page at a time. The end is fixed first:
// what a token asks for is recorded too, and would have no end.
func (l *Listing) all(ctx context.Context, filter Filter) (last uint64, any bool, err error) {
	if last, err = l.newest(ctx); err != nil {
		return 0, false, err
	}
	r := pageRequest{Filter: filter, Limit: pageSize, Records: true}
	for {
		reply, messages, err := l.page(ctx, &r)
		if err != nil {
			return 0, false, err
		}
		if r.Cursor == "" {
			reply.Dropped.note(l.screen)
		}
		asked := len(messages)
		messages = slices.DeleteFunc(messages, func(m shown) bool { return m.Seq > last })
		if err := l.showAll(messages); err != nil {
			return 0, false, err
		}
		any = any || len(messages) > 0
		if r.Cursor = reply.Cursor; r.Cursor == "" || len(messages) < asked {
			return last, any, nil
		}
	}
}

// newest returns the number of the last message that is recorded, or 0.
func (l *Listing) newest(ctx context.Context) (uint64, error) {
	_, messages, err := l.page(ctx, &pageRequest{Order: "desc", Limit: 1, Records: true})
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	return messages[0].Seq, nil
}

// latest shows the newest messages, the oldest of them first.
func (l *Listing) latest(ctx context.Context, filter Filter, count int) (last uint64, any bool, err error) {
	r := pageRequest{Filter: filter, Order: "desc", Limit: pageSize, Records: true}
	var newest []shown
	for {
		r.Limit = min(count-len(newest), r.Limit)
		var reply *pageReply
		var messages []shown
		if reply, messages, err = l.page(ctx, &r); errors.Is(err, server.ErrTooLong) {
			break // one message is too long for a line
		}
		if err != nil {
			return 0, false, err
		}
		newest = append(newest, messages...)
		r.Cursor = reply.Cursor
		if r.Cursor == "" { // the list went back to the beginning
			reply.Dropped.note(l.screen)
		}
		if r.Cursor == "" || len(newest) >= count {
			break
		}
	}
	if len(newest) > 0 {
		last = newest[0].Seq
	}
	slices.Reverse(newest)
	return last, len(newest) > 0, errors.Join(l.showAll(newest), err)
}

// showAll shows messages as a table, or as they are.
func (l *Listing) showAll(messages []shown) error {
	types := typeWidth(messages)
	for i := range messages {
		if err := l.show(&messages[i], "", types, nil); err != nil {
			return err
		}
	}
	return nil
}

// noMessages notes that nothing was found, and why that may be.
func (l *Listing) noMessages() {
	l.screen.Note("no recorded message matches; the daemon records all messages, kernos pipe --inline only with --journal")
}
