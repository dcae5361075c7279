package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store"
)

// A Filter says which messages are wanted. What is zero does not matter.
type Filter struct {
	// Correlation is the workflow that a message belongs to. The message that began
	// it, whose id the others carry, belongs to it too.
	Correlation string

	Causation message.ID
	Kind      message.Kind
	Type      string // a type, or all of a domain as in Memory.*, or * for all
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
	err = j.each(ctx, s, within, q.Filter, q.Reverse, func(r *record) bool {
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
	kind, typ, domain          []byte
	code                       int
	since, until               int64

	needles [][]byte // each stands in the metadata of all wanted messages as it is
}

func (f *Filter) matcher() matcher {
	m := matcher{correlation: []byte(f.Correlation), causation: []byte(f.Causation), kind: []byte(f.Kind), code: f.Code,
		since: f.Since, until: f.Until}
	if m.until <= 0 {
		m.until = math.MaxInt64
	}
	if domain, ok := strings.CutSuffix(f.Type, ".*"); ok {
		m.domain = []byte(domain)
	} else if f.Type != "*" {
		m.typ = []byte(f.Type)
	}
	m.needles = needles(m.correlation, m.causation)
	return m
}

// needles returns those of some ids that are written as they are.
func needles(ids ...[]byte) [][]byte {
	return slices.DeleteFunc(ids, func(id []byte) bool { return len(id) == 0 || !plain(id) })
}

// plain reports whether nothing of an id has to be escaped.
func plain(id []byte) bool {
	return utf8.Valid(id) && bytes.IndexFunc(id, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) < 0
}

// mayMatch is matches for a record that has not been read, and quick: most records of a
// page have another id.
func (m *matcher) mayMatch(r *record) bool {
	for _, id := range m.needles {
		if !bytes.Contains(r.text[r.metadata:], id) {
			return false
		}
	}
	return true
}

func (m *matcher) matches(r *record) bool {
	switch {
	case r.at < m.since || r.at >= m.until,
		len(m.id) > 0 && !bytes.Equal(r.id, m.id),
		len(m.kind) > 0 && !bytes.Equal(r.kind, m.kind),
		len(m.typ) > 0 && !bytes.Equal(r.typ, m.typ),
		len(m.domain) > 0 && !(bytes.HasPrefix(r.typ, m.domain) && len(r.typ) > len(m.domain) && r.typ[len(m.domain)] == '.'),
		len(m.causation) > 0 && !bytes.Equal(r.causation, m.causation),
		len(m.correlation) > 0 && !bytes.Equal(r.correlation, m.correlation) && (len(r.correlation) > 0 || !bytes.Equal(r.id, m.correlation)),
		m.code != 0 && r.code() != m.code:
		return false
	}
	return true
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
	case string(m.kind) == string(message.KindError) || string(m.kind) == string(message.KindEvent):
		return nameOf(tagKind, m.kind)
	case len(m.typ) > 0:
		return nameOf(tagType, m.typ)
	case len(m.domain) > 0:
		return nameOf(tagDomain, m.domain)
	case len(m.kind) > 0:
		return nameOf(tagKind, m.kind)
	}
	return 0
}

// each calls visit for the records that a filter wants, in order, until it returns false.
// The record is valid until then.
func (j *Journal) each(ctx context.Context, s store.Reader, within bounds, f Filter, reverse bool, visit func(*record) bool) error {
	m := f.matcher()
	span, err := pageBounds(s, within, m.since, m.until)
	if err != nil {
		return err
	}
	if n := m.name(); n != 0 {
		return eachNamed(ctx, s, n, span, within, &m, reverse, visit)
	}
	var records []record
	for p, err := range s.Scan(store.Range{From: seqKey(spacePages, span.low), To: seqKey(spacePages, span.high), Reverse: reverse}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		more, err := eachRecord(p, within, &m, reverse, &records, visit)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// eachRecord is each within one page. It reports whether visit wants more.
func eachRecord(p store.Entry, within bounds, m *matcher, reverse bool, records *[]record, visit func(*record) bool) (bool, error) {
	found, err := matching((*records)[:0], p, within, m)
	if err != nil {
		return false, err
	}
	*records = found
	return visitAll(found, reverse, visit), nil
}

func visitAll(records []record, reverse bool, visit func(*record) bool) bool {
	if reverse {
		slices.Reverse(records)
	}
	for i := range records {
		if !visit(&records[i]) {
			return false
		}
	}
	return true
}

// matching appends the records of a page that are wanted. They alias the page.
func matching(dst []record, p store.Entry, within bounds, m *matcher) ([]record, error) {
	pr, err := readPage(keySeq(p.Key), p.Value)
	if err != nil {
		return dst, damagedPage(err, p.Key)
	}
	var r record
	for {
		ok, err := pr.step(&r)
		if ok && (r.seq < within.low || r.seq >= within.high || !m.mayMatch(&r)) {
			continue
		}
		if ok {
			err = r.read()
		}
		if err != nil {
			return dst, damagedPage(err, p.Key)
		}
		if !ok {
			return dst, nil
		}
		if m.matches(&r) {
			dst = append(dst, r)
		}
	}
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
