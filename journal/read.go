package journal

import (
	"context"
	"math"
	"slices"

	"kernos/internal/jsonscan"
	"kernos/kernel/principal"
	"kernos/message"
)

// A Filter selects messages. What is zero does not matter; of a list, a message has
// one of the values.
type Filter struct {
	ID message.ID

	// Correlation is the workflow that a message belongs to. The message that began
	// it, whose id the others carry, belongs to it too.
	Correlation string

	// Whole adds to the workflow of a correlation what the message that began it has
	// caused and what names no workflow: its answer, if it names none itself.
	Whole bool

	Causation message.ID
	Kinds     []message.Kind
	Type      string // a type, all of a domain as in Memory.*, an action as in *.Set, * for all; or several, with commas
	Codes     []int  // error codes

	// Principals are the ids or names of principals that messages act for. Own is the id of the only
	// principal whose messages are seen, whatever else is asked for; "" means all principals.
	Principals []string
	Own        principal.ID

	// Since and Until are times of recording in milliseconds since 1970. Until is exclusive.
	Since, Until int64

	// Words are texts that messages have, all of them, in their type, id or data. Letter case
	// doesn't count.
	Words []string
}

// A Query asks for messages in the order in which they were recorded.
type Query struct {
	Filter
	After   uint64 // only messages after this number; 0 means all
	Reverse bool   // from the last to the first
	Limit   int    // 0 means 100
	Brief   bool   // entries have no data, except for errors
}

// defaultLimit is how many messages are returned if the caller sets no limit.
const defaultLimit = 100

// MaxLimit is the most messages that are returned at once, and maxData the most bytes of
// their data, but for the last message.
const (
	MaxLimit = 10_000
	maxData  = 32 << 20
)

// limited returns the limit of a query.
func limited(limit int) int {
	if limit <= 0 {
		limit = defaultLimit
	}
	return min(limit, MaxLimit)
}

// Get returns the first message with an id. If there is none, the error is a
// *message.Error with code 404.
func (j *Journal) Get(ctx context.Context, id message.ID) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	s, err := j.snapshot()
	if err != nil {
		return Entry{}, err
	}
	defer s.Close()
	var found Entry
	var scan jsonscan.Scanner
	err = each(ctx, s, everything, &matcher{id: []byte(id), until: math.MaxInt64}, false, func(r *record) bool {
		found = r.entry(&scan)
		return false
	})
	if err == nil && found.Seq == 0 {
		d, err := j.Dropped()
		if err != nil {
			return Entry{}, err
		}
		return Entry{}, message.Errorf(404, "Message not found: %s%s", message.Clip(string(id), message.MaxIDLength), d.hint())
	}
	return found, err
}

// List returns messages, and the number to continue after if there are more, or 0. Messages
// that are large come in smaller portions.
func (j *Journal) List(ctx context.Context, q Query) (entries []Entry, next uint64, err error) {
	s, err := j.snapshot()
	if err != nil {
		return nil, 0, err
	}
	defer s.Close()
	limit := limited(q.Limit)
	within := bounds{low: 1, high: math.MaxUint64}
	switch {
	case q.Reverse && q.After > 0:
		within.high = q.After
	case !q.Reverse:
		within.low = q.After + 1
	}
	var scan jsonscan.Scanner
	size := 0
	m := q.matcher()
	if q.Brief {
		m.data = errorData
	}
	err = each(ctx, s, within, &m, q.Reverse, func(r *record) bool {
		if len(entries) == limit || size >= maxData {
			next = entries[len(entries)-1].Seq
			return false
		}
		size += len(r.data)
		if len(entries) == cap(entries) {
			entries = slices.Grow(entries, max(16, len(entries))) // append grows by less, and entries are large
		}
		entries = append(entries, r.entry(&scan))
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	return entries, next, nil
}
