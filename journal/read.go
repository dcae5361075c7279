package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store"
)

// A Filter says which messages are wanted. What is zero does not matter.
type Filter struct {
	// Correlation is the workflow that a message belongs to. The message that began
	// it, whose id the others carry, belongs to it too.
	Correlation string

	// Whole adds to the workflow of a correlation what the message that began it has
	// caused and what names no workflow: its answer, if it names none itself.
	Whole bool

	Causation message.ID
	Kind      message.Kind
	Type      string // a type, all of a domain as in Memory.*, an action as in *.Set, * for all; or several, with commas
	Code      int    // of an error

	// Since and Until are times of recording in milliseconds since 1970; Until is no
	// more part of it.
	Since, Until int64
}

// A Query asks for messages in the order in which they were recorded.
type Query struct {
	Filter
	After   uint64 // the number of a message: those behind it are wanted. 0 means all
	Reverse bool   // from the last to the first
	Limit   int    // the most that are returned; 0 means 100
	Brief   bool   // without their data, but for those of errors
}

// DefaultLimit is how many messages are returned if nobody says.
const DefaultLimit = 100

// MaxLimit is the most messages that are returned at once, and maxData the most bytes of
// their data, but for the last message.
const (
	MaxLimit = 10_000
	maxData  = 32 << 20
)

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
	err = j.withID(s, id, func(r *record) bool {
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

// List returns messages, and the number to go on after if there are more, or 0. Messages
// that are large come in smaller portions.
func (j *Journal) List(ctx context.Context, q Query) (entries []Entry, next uint64, err error) {
	s, err := j.snapshot()
	if err != nil {
		return nil, 0, err
	}
	defer s.Close()
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	limit = min(limit, MaxLimit)
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
	err = eachMatching(ctx, s, within, &m, q.Reverse, func(r *record) bool {
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

// bounds are the numbers from low on and before high.
type bounds struct{ low, high uint64 }

// matcher is a filter in the form that records are compared with.
type matcher struct {
	id, correlation, causation []byte
	whole                      bool // the workflow
	kind                       message.Kind
	types                      []pattern
	code                       int
	since, until               int64

	data wantedData
}

// wantedData says which messages are wanted with their data.
type wantedData byte

const (
	allData wantedData = iota
	errorData
	noData
)

func (d wantedData) of(r *record) bool {
	return d == allData || d == errorData && r.kind() == message.KindError
}

func (f *Filter) matcher() matcher {
	m := matcher{correlation: []byte(f.Correlation), whole: f.Whole, causation: []byte(f.Causation), kind: f.Kind, code: f.Code,
		since: f.Since, until: f.Until, types: patterns(f.Type)}
	if m.until <= 0 {
		m.until = math.MaxInt64
	}
	return m
}

func (m *matcher) matches(r *record) bool {
	switch {
	case r.at < m.since || r.at >= m.until,
		len(m.id) > 0 && !bytes.Equal(r.id, m.id),
		m.kind != "" && r.kind() != m.kind,
		!m.wantsType(r.typ),
		len(m.causation) > 0 && !bytes.Equal(r.causation, m.causation),
		len(m.correlation) > 0 && !m.within(r),
		m.code != 0 && r.code != m.code:
		return false
	}
	return true
}

// within reports whether a record belongs to the workflow.
func (m *matcher) within(r *record) bool {
	if len(r.correlation) > 0 {
		return bytes.Equal(r.correlation, m.correlation)
	}
	return bytes.Equal(r.id, m.correlation) || m.whole && bytes.Equal(r.causation, m.correlation)
}

// text is a text that all wanted records have, or nil.
func (m *matcher) text() []byte {
	for _, t := range [...][]byte{m.id, m.causation, m.correlation} {
		if len(t) > 0 {
			return t
		}
	}
	return nil
}

// name is the name that few pages are likely to have, of those that all wanted messages
// have, or 0.
func (m *matcher) name() name {
	switch {
	case len(m.causation) > 0:
		return nameOf(tagID, m.causation)
	case len(m.correlation) > 0:
		return nameOf(tagID, m.correlation)
	case m.code != 0:
		return codeName(m.code)
	case m.kind == message.KindError || m.kind == message.KindEvent:
		return nameOf(tagKind, []byte(m.kind))
	}
	if n := m.typeName(); n != 0 {
		return n
	}
	if m.kind != "" {
		return nameOf(tagKind, []byte(m.kind))
	}
	return 0
}

// each calls visit for the records that a filter wants, in order, until it returns false.
// The record is valid until then.
func (j *Journal) each(ctx context.Context, s store.Snapshot, within bounds, f Filter, reverse bool, visit func(*record) bool) error {
	m := f.matcher()
	return eachMatching(ctx, s, within, &m, reverse, visit)
}

// eachMatching is each for a filter in its other form.
func eachMatching(ctx context.Context, s store.Snapshot, within bounds, m *matcher, reverse bool, visit func(*record) bool) error {
	span, err := pageBounds(s, within, m.since, m.until)
	if err != nil {
		return err
	}
	if n := m.name(); n != 0 {
		return eachNamed(ctx, s, n, span, within, m, reverse, visit)
	}
	var f found
	for p, err := range s.Scan(store.Range{From: seqKey(spacePages, span.low), To: seqKey(spacePages, span.high), Reverse: reverse}) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = f.read(p, within, m)
		}
		if err != nil || !f.visit(reverse, visit) {
			return err
		}
	}
	return nil
}

// found is the records of a page that are wanted. Its memory is used again for the next
// page.
type found struct {
	records []record
	page    pageReader
}

// read finds the records of a page that are wanted. They stay when the page goes.
func (f *found) read(p store.Entry, within bounds, m *matcher) error {
	f.records = f.records[:0]
	if err := f.page.open(keySeq(p.Key), p.Value); err != nil {
		return damagedPage(err, p.Key)
	}
	data, text := false, m.text() // data are wanted; what all wanted records have
	for {
		if text != nil {
			if err := f.page.seek(text); err != nil {
				return damagedPage(err, p.Key)
			}
		}
		f.records = slices.Grow(f.records, 1)
		r := &f.records[:len(f.records)+1][len(f.records)]
		ok, err := f.page.next(r)
		if err != nil {
			return damagedPage(err, p.Key)
		}
		if !ok {
			break
		}
		if r.seq >= within.low && r.seq < within.high && m.matches(r) {
			f.records = f.records[:len(f.records)+1]
			data = data || m.data.of(r)
		}
	}
	if !data {
		return nil
	}
	err := f.page.load()
	for i := range f.records {
		if r := &f.records[i]; err == nil && m.data.of(r) {
			err = f.page.fill(r)
		}
	}
	if err != nil {
		return damagedPage(err, p.Key)
	}
	return nil
}

// visit calls visit for the records and reports whether it wants more.
func (f *found) visit(reverse bool, visit func(*record) bool) bool {
	if reverse {
		slices.Reverse(f.records)
	}
	for i := range f.records {
		if !visit(&f.records[i]) {
			return false
		}
	}
	return true
}

func damagedPage(err error, k []byte) error {
	return damaged(err, fmt.Sprintf("The journal's page %d can't be read", keySeq(k)))
}

var errSpan = errors.New("the span is damaged")

// readUvarints reads numbers that stand one behind the other.
func readUvarints(b []byte, numbers ...*uint64) bool {
	for _, n := range numbers {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return false
		}
		*n, b = v, b[k:]
	}
	return len(b) == 0
}
