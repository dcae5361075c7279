package history

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// memoryJournal is a journal in memory.
type memoryJournal struct {
	mu      sync.Mutex
	entries []journal.Entry
	more    chan struct{} // closed when there are more
	dropped journal.Dropped
	err     error // what every call fails with
	lists   int   // calls of List
}

func (j *memoryJournal) add(entries ...journal.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		e.Seq = uint64(len(j.entries) + 1)
		if e.Principal == "" {
			e.Principal, e.Name = principal.OwnerID, "owner"
		}
		j.entries = append(j.entries, e)
	}
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
}

func matches(f *journal.Filter, e *journal.Entry) bool {
	m := &e.Message
	domain, action, _ := strings.Cut(string(m.Type), ".")
	wanted := func(p string) bool {
		return p == "" || p == "*" || p == string(m.Type) || p == domain+".*" || p == "*."+action
	}
	code := 0
	if failure, err := message.ParseError(m.Data); m.Kind == message.KindError && err == nil {
		code = failure.Code
	}
	begins := string(m.Metadata.ID) == f.Correlation || f.Whole && string(m.Metadata.Causation) == f.Correlation
	return (f.Correlation == "" || m.Metadata.Correlation == f.Correlation || m.Metadata.Correlation == "" && begins) &&
		(f.Causation == "" || m.Metadata.Causation == f.Causation) &&
		(f.ID == "" || m.Metadata.ID == f.ID) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, m.Kind)) &&
		slices.ContainsFunc(strings.Split(f.Type, ","), wanted) &&
		(f.Codes == nil || slices.Contains(f.Codes, code)) &&
		(f.Principals == nil || slices.Contains(f.Principals, e.Name) || slices.Contains(f.Principals, string(e.Principal))) &&
		e.At >= f.Since && (f.Until == 0 || e.At < f.Until)
}

func (j *memoryJournal) Get(_ context.Context, id message.ID) (journal.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if e.Message.Metadata.ID == id {
			return e, j.err
		}
	}
	if j.err != nil {
		return journal.Entry{}, j.err
	}
	return journal.Entry{}, message.Errorf(404, "Message not found: %s", id)
}

func (j *memoryJournal) List(_ context.Context, q journal.Query) (found []journal.Entry, next uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lists++
	for i := range j.entries {
		if q.Reverse {
			i = len(j.entries) - 1 - i
		}
		e := j.entries[i]
		if q.Reverse && q.After > 0 && e.Seq >= q.After || !q.Reverse && e.Seq <= q.After || !matches(&q.Filter, &e) {
			continue
		}
		if len(found) == q.Limit {
			return found, found[len(found)-1].Seq, j.err
		}
		if q.Brief && e.Message.Kind != message.KindError {
			e.Message.Data = nil
		}
		found = append(found, e)
	}
	return found, 0, j.err
}

func (j *memoryJournal) Search(_ context.Context, q journal.SearchQuery) (r journal.SearchResult, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Horizon = journal.Horizon{Seq: 12, Docs: 12, Words: 36}
	for _, e := range j.entries {
		if strings.Contains(string(e.Message.Data), q.Words) && matches(&q.Filter, &e) {
			if r.Total >= q.Offset && len(r.Hits) < q.Limit {
				r.Hits = append(r.Hits, journal.Hit{Entry: e, Score: 1 / (float64(r.Total) + 3)})
			}
			r.Total++
		}
	}
	return r, j.err
}

func (j *memoryJournal) Follow(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for {
			j.mu.Lock()
			entries := j.entries[min(int(after), len(j.entries)):]
			if j.more == nil {
				j.more = make(chan struct{})
			}
			more := j.more
			j.mu.Unlock()
			for _, e := range entries {
				after = e.Seq
				if matches(&f, &e) && !yield(e, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(journal.Entry{}, ctx.Err())
				return
			}
		}
	}
}

func (j *memoryJournal) Dropped() (journal.Dropped, error) { return j.dropped, j.err }

func (j *memoryJournal) Stats() (s journal.Stats, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Messages = uint64(len(j.entries))
	if n := len(j.entries); n > 0 {
		s.FirstSeq, s.FirstAt = 1, j.entries[0].At
		s.LastSeq, s.LastAt = uint64(n), j.entries[n-1].At
		s.Bytes, s.Indexed = 1234, uint64(n-1)
	}
	return s, j.err
}

// entry makes a record from a line: the time it was recorded, and the message.
func entry(t testing.TB, at int64, way kernel.Way, line string) journal.Entry {
	t.Helper()
	var d message.Decoder
	m, rejection := d.Decode([]byte(line))
	if rejection != nil {
		t.Fatalf("%s: %v", line, rejection)
	}
	return journal.Entry{At: at, Way: way, Message: m.Clone()}
}

// said makes the line of a message. Lineage is "id<causation@correlation".
func said(kind message.Kind, typ message.Type, data, lineage string) string {
	lineage, correlation, _ := strings.Cut(lineage, "@")
	id, causation, _ := strings.Cut(lineage, "<")
	m := message.Message{Kind: kind, Type: typ, Data: json.RawMessage(data)}
	m.Metadata = message.Metadata{ID: message.ID(id), Timestamp: 1735000000000, Causation: message.ID(causation), Correlation: correlation}
	return string(message.Append(nil, &m))
}

// answered is the text of an outcome: the data, or the code and text of an error.
func answered(m message.Message) string {
	if m.Kind == message.KindError {
		e, err := message.ParseError(m.Data)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d %s", e.Code, e.Message)
	}
	return string(m.Data)
}

// shop is a workflow with everything that a workflow has: an order that is asked for
// from outside, calls within, an event, a failure, and a query beside.
func shop(t testing.TB) *memoryJournal {
	j := new(memoryJournal)
	j.add(
		entry(t, 1000, kernel.In, said("command", "Shop.Order", `{"item":"kernos"}`, "o1@w")),
		entry(t, 1001, kernel.Within, said("query", "Stock.Get", `{}`, "s1<o1@w")),
		entry(t, 1003, kernel.Within, said("reply", "Stock.Get", `3`, "s2<s1@w")),
		entry(t, 1004, kernel.Within, said("event", "Stock.Reserved", `{"left":2}`, "e1<o1@w")),
		entry(t, 1005, kernel.Within, said("command", "Card.Charge", `{"card":"[redacted]"}`, "c1<o1@w")),
		entry(t, 2405, kernel.Within, said("error", "Card.Charge", `{"code":402,"message":"Card declined"}`, "c2<c1@w")),
		entry(t, 2406, kernel.Out, said("error", "Shop.Order", `{"code":502,"message":"Not paid"}`, "o2<o1@w")),
		entry(t, 3000, kernel.In, said("query", "Stock.Get", `{}`, "q1@w")),
		entry(t, 3001, kernel.Out, said("reply", "Stock.Get", `3`, "q2<q1@w")),
		entry(t, 3002, kernel.In, said("command", "Other.Run", `1`, "x1")),
		entry(t, 3003, kernel.Within, said("event", "Other.Ran", `1`, "x2<x1@x1")),
		entry(t, 3004, kernel.Out, said("reply", "Other.Run", `1`, "x3<x1")),
	)
	return j
}

func anySchema() *schema.Schema { return schema.Any }

// valid reports whether a text is JSON as messages have it.
func valid(text string) bool {
	var s jsonscan.Scanner
	return s.Text([]byte(text)) == nil
}
