package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
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

// eachNamed is each for a filter that wants a name: it reads the pages that have it.
func eachNamed(ctx context.Context, s store.Reader, n name, span, within bounds, m *matcher, reverse bool, visit func(*record) bool) error {
	var beside []uint64
	if len(m.correlation) > 0 && len(m.causation) == 0 {
		// The message that began the workflow may be found by its time only.
		var err error
		if beside, err = pagesAround(s, m.correlation, span); err != nil {
			return err
		}
	}
	ahead := 1 // few pages are read ahead at first: most readers want no more
	wanted := make([]wantedPage, 0, maxAhead)
	read := func() (bool, error) {
		readWanted(s, wanted, within, m)
		for i := range wanted {
			if err := errors.Join(wanted[i].err, ctx.Err()); err != nil {
				return false, err
			}
			if !visitAll(wanted[i].records, reverse, visit) {
				return false, nil
			}
		}
		wanted, ahead = wanted[:0], min(2*ahead, maxAhead)
		return true, nil
	}
	for seq, err := range named(s, n, span, reverse, beside) {
		if err != nil {
			return err
		}
		wanted = wanted[:len(wanted)+1]
		wanted[len(wanted)-1].seq = seq
		if len(wanted) < ahead {
			continue
		}
		if more, err := read(); err != nil || !more {
			return err
		}
	}
	_, err := read()
	return err
}

// maxAhead is how many pages are read ahead.
const maxAhead = 256

// wantedPage is a page that may have wanted records.
type wantedPage struct {
	seq     uint64
	records []record // those that it has
	err     error
}

func (p *wantedPage) take(e store.Entry, within bounds, m *matcher) {
	p.records = p.records[:0]
	if e.Revision > 0 {
		p.records, p.err = matching(p.records, e, within, m)
	}
}

// readWanted reads pages, on two processors if they are many.
func readWanted(s store.Reader, wanted []wantedPage, within bounds, m *matcher) {
	if len(wanted) < 16 {
		readSome(s, wanted, within, m)
		return
	}
	var beside sync.WaitGroup
	beside.Go(func() { readSome(s, wanted[len(wanted)/2:], within, m) })
	readSome(s, wanted[:len(wanted)/2], within, m)
	beside.Wait()
}

func readSome(s store.Reader, wanted []wantedPage, within bounds, m *matcher) {
	many, ok := s.(store.Getter)
	if !ok || len(wanted) < 2 {
		for i := range wanted {
			var e store.Entry
			e, wanted[i].err = s.Get(seqKey(spacePages, wanted[i].seq))
			if wanted[i].err == nil {
				wanted[i].take(e, within, m)
			}
		}
		return
	}
	at := func(i int) *wantedPage { return &wanted[i] }
	if wanted[0].seq > wanted[1].seq {
		at = func(i int) *wantedPage { return &wanted[len(wanted)-1-i] }
	}
	keys := make([][]byte, len(wanted))
	for i := range wanted {
		keys[i] = seqKey(spacePages, at(i).seq)
		at(i).records, at(i).err = at(i).records[:0], nil
	}
	i := 0
	for e, err := range many.GetAll(keys) {
		p := at(i)
		if p.err = err; err != nil {
			return
		}
		p.take(e, within, m)
		for k := range p.records {
			p.records[k].own() // the page goes with the next step
		}
		i++
	}
}

// own makes a record independent of its page.
func (r *record) own() {
	r.text = bytes.Clone(r.text)
	_ = r.read() // it was read before
}

// named goes through the numbers of the pages that have a name and of those beside,
// which are sorted, each once and in order. Pages that blocks list may not be there.
func named(s store.Reader, n name, span bounds, reverse bool, beside []uint64) iter.Seq2[uint64, error] {
	if reverse {
		beside = slices.Clone(beside)
		slices.Reverse(beside)
	}
	before := func(a, b uint64) bool { return a < b != reverse && a != b }
	return func(yield func(uint64, error) bool) {
		for seq, err := range mentioned(s, n, span, reverse) {
			if err != nil {
				yield(0, err)
				return
			}
			for len(beside) > 0 && before(beside[0], seq) {
				if !yield(beside[0], nil) {
					return
				}
				beside = beside[1:]
			}
			if len(beside) > 0 && beside[0] == seq {
				beside = beside[1:]
			}
			if !yield(seq, nil) {
				return
			}
		}
		for _, seq := range beside {
			if !yield(seq, nil) {
				return
			}
		}
	}
}

// mentioned goes through the pages that have a key for a name or that a block lists under
// it, in order. It reads no block before it comes to it.
func mentioned(s store.Reader, n name, span bounds, reverse bool) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		nextKey, stop := iter.Pull2(keyed(s, n, span, reverse))
		defer stop()
		seq, err, more := nextKey()
		var seqs []uint64
		for e, failed := range blocksWithin(s, n.bucket(), span, reverse) {
			if failed != nil {
				yield(0, failed)
				return
			}
			// The pages of a flush that has blocks have no keys, so what has one is before
			// all of them or behind.
			first := keySeq(e.Key)
			for more && (err != nil || seq < first != reverse) {
				if !yield(seq, err) || err != nil {
					return
				}
				seq, err, more = nextKey()
			}
			if seqs, failed = n.find(seqs[:0], first, e.Value); failed != nil {
				yield(0, damagedBlock(failed, e.Key))
				return
			}
			if reverse {
				slices.Reverse(seqs)
			}
			for _, seq := range seqs {
				if seq >= span.low && seq < span.high && !yield(seq, nil) {
					return
				}
			}
		}
		for more {
			if !yield(seq, err) || err != nil {
				return
			}
			seq, err, more = nextKey()
		}
	}
}

// keyed goes through the pages that have a key for a name.
func keyed(s store.Reader, n name, span bounds, reverse bool) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for e, err := range s.Scan(store.Range{From: n.appendKey(nil, span.low), To: n.appendKey(nil, span.high), Reverse: reverse}) {
			if !yield(keySeq(e.Key), err) || err != nil {
				return
			}
		}
	}
}

// withID calls visit for the records with an id, the first one first, until it returns
// false.
func (j *Journal) withID(s store.Reader, id message.ID, visit func(*record) bool) error {
	all := bounds{low: 0, high: math.MaxUint64}
	beside, err := pagesAround(s, []byte(id), all)
	if err != nil {
		return err
	}
	text := []byte(id)
	m := matcher{id: text, until: math.MaxInt64, needles: needles(text)}
	var records []record
	for seq, err := range named(s, nameOf(tagID, text), all, false, beside) {
		if err != nil {
			return err
		}
		e, err := s.Get(seqKey(spacePages, seq))
		if err != nil {
			return err
		}
		if e.Revision == 0 {
			continue
		}
		more, err := eachRecord(e, all, &m, false, &records, visit)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// pagesAround lists the pages that may have a message with this id that has no key for
// it, in order.
func pagesAround(s store.Reader, id []byte, within bounds) ([]uint64, error) {
	t, ok := idTime(id)
	if !ok || !plain(id) {
		return nil, nil
	}
	first, err := firstPageSince(s, t)
	if err != nil {
		return nil, err
	}
	// The page before the first one that begins at that time or later may end later.
	from, err := pageAt(s, first-1)
	if err != nil {
		return nil, err
	}
	var seqs []uint64
	for e, err := range s.Scan(store.Range{From: seqKey(spacePages, max(from, within.low)), To: seqKey(spacePages, within.high)}) {
		if err != nil {
			return nil, err
		}
		if len(e.Value) >= pageHeader && pageTime(e.Value) > t+nearby {
			break
		}
		if bytes.Contains(e.Value, id) {
			seqs = append(seqs, keySeq(e.Key))
		}
	}
	return seqs, nil
}

// pageBounds returns bounds for the numbers of pages: each page that has a record within
// some bounds and recorded from since on and before until is in them.
func pageBounds(s store.Reader, within bounds, since, until int64) (bounds, error) {
	b := bounds{low: 0, high: within.high}
	var err error
	if within.low > 1 {
		if b.low, err = pageAt(s, within.low); err != nil {
			return b, err
		}
	}
	if since > 0 {
		// The page before the first one that begins at that time or later may end later.
		first, err := firstPageSince(s, since)
		if err != nil {
			return b, err
		}
		low, err := pageAt(s, first-1)
		if err != nil {
			return b, err
		}
		b.low = max(b.low, low)
	}
	if until < math.MaxInt64 {
		high, err := firstPageSince(s, until)
		if err != nil {
			return b, err
		}
		b.high = min(b.high, high)
	}
	b.high = max(b.low, b.high)
	return b, nil
}

// pageAt returns the number of the page that a record is on, or of the last one before.
func pageAt(s store.Reader, seq uint64) (uint64, error) {
	for e, err := range s.Scan(store.Range{From: key(spacePages), To: seqKey(spacePages, min(seq, math.MaxUint64-1)+1), Reverse: true}) {
		return keySeq(e.Key), err
	}
	return 0, nil
}

// firstPageSince returns the number of the first page that begins at a time or later, or
// a number behind all pages. Times never go back, so it halves what is left.
func firstPageSince(s store.Reader, t int64) (uint64, error) {
	low, high, err := ends(s)
	if err != nil || high == 0 {
		return 1, err
	}
	for high-low > few { // the page is from low on, and at high at the latest
		mid := low + (high-low)/2
		seq, base, err := pageFrom(s, mid, high)
		switch {
		case err != nil:
			return 0, err
		case seq == 0 || base >= t:
			high = mid // nothing that begins earlier from mid on
		default:
			low = seq + 1
		}
	}
	for e, err := range s.Scan(store.Range{From: seqKey(spacePages, low), To: seqKey(spacePages, high)}) {
		if err != nil {
			return 0, err
		}
		if len(e.Value) >= pageHeader && pageTime(e.Value) >= t {
			return keySeq(e.Key), nil
		}
	}
	return high, nil
}

// few is how many messages are gone through one page after the other rather than halved.
const few = 512

// ends returns the number of the first page and a number behind the last one, or zeros.
func ends(s store.Reader) (low, high uint64, err error) {
	for e, err := range s.Scan(store.Prefix(key(spacePages))) {
		if err != nil {
			return 0, 0, err
		}
		low = keySeq(e.Key)
		break
	}
	all := store.Prefix(key(spacePages))
	all.Reverse = true
	for e, err := range s.Scan(all) {
		if err != nil {
			return 0, 0, err
		}
		high = keySeq(e.Key) + 1
		break
	}
	return low, high, nil
}

// pageFrom returns the number and the time of the first page from one number on and
// before another, or 0.
func pageFrom(s store.Reader, from, before uint64) (seq uint64, base int64, err error) {
	for e, err := range s.Scan(store.Range{From: seqKey(spacePages, from), To: seqKey(spacePages, before)}) {
		if err != nil {
			return 0, 0, err
		}
		if len(e.Value) < pageHeader {
			return 0, 0, damagedPage(errPage, e.Key)
		}
		return keySeq(e.Key), pageTime(e.Value), nil
	}
	return 0, 0, nil
}

// Stats says how much there is.
type Stats struct {
	Messages          uint64
	FirstSeq, LastSeq uint64 // 0 if there are none
	FirstAt, LastAt   int64  // in milliseconds since 1970
	Bytes             uint64 // of pages
	Indexed           uint64 // the last message whose words are indexed
}

// Stats returns how much there is.
func (j *Journal) Stats() (Stats, error) {
	if err := j.visible(); err != nil {
		return Stats{}, err
	}
	j.flushMu.Lock()
	t, d := j.totals, j.dropped
	j.flushMu.Unlock()
	indexed, err := j.indexed()
	if err != nil {
		return Stats{}, err
	}
	st := Stats{Messages: t.seq - d.Seq, Bytes: t.bytes - d.Bytes, Indexed: indexed}
	if st.Messages == 0 {
		return st, nil
	}
	st.FirstSeq, st.LastSeq, st.LastAt = d.Seq+1, t.seq, t.at
	_, st.FirstAt, err = pageFrom(j.s, st.FirstSeq, math.MaxUint64)
	return st, err
}

// Follow goes through the messages behind one that a filter wants, and then through those
// that come, until ctx ends or the loop does. Only what is durable is shown. The
// last step is an error: that of ctx or of the store, or a *message.Error with code 410 if
// messages behind that one are not there any more. After 0 means from the first
// one that is there.
func (j *Journal) Follow(ctx context.Context, after uint64, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := j.follow(ctx, after, f, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, err)
		}
	}
}

// follow returns nil if yield wants no more.
func (j *Journal) follow(ctx context.Context, after uint64, f Filter, yield func(Entry) bool) error {
	if err := j.visible(); err != nil {
		return err
	}
	w := j.s.Watch(key(spacePages))
	defer w.Stop()
	var scan jsonscan.Scanner
	for {
		last, more, err := j.followStep(ctx, after, f, &scan, yield)
		if err != nil || !more {
			return err
		}
		if last > after {
			after = last
			continue // there may be more by now
		}
		select {
		case <-w.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-j.stop:
			return store.ErrClosed
		}
	}
}

// followStep shows what there is behind a message, and returns the number of the last
// message that it has looked at.
func (j *Journal) followStep(ctx context.Context, after uint64, f Filter, scan *jsonscan.Scanner, yield func(Entry) bool) (last uint64, more bool, err error) {
	s, err := j.s.Snapshot()
	if err != nil {
		return after, false, err
	}
	defer s.Close()
	e, err := s.Get(key(spaceTotals))
	if err != nil {
		return after, false, err
	}
	t, _ := readTotals(e.Value)
	if t.seq <= after {
		return after, true, nil
	}
	if err := j.s.Barrier().Wait(ctx); err != nil {
		return after, false, err
	}
	if after > 0 {
		first, _, err := pageFrom(s, 1, math.MaxUint64)
		if err != nil {
			return after, false, err
		}
		if first == 0 {
			first = t.seq + 1
		}
		if first > after+1 {
			return after, false, message.Errorf(410, "The messages from %d to %d have been dropped; go on after %d", after+1, first-1, first-1)
		}
	}
	more = true
	err = j.each(ctx, s, bounds{low: after + 1, high: t.seq + 1}, f, false, func(r *record) bool {
		more = yield(r.entry(scan))
		return more
	})
	return t.seq, more, err
}

// Dropped says what is not there any more, or never was.
type Dropped struct {
	Messages uint64 `json:"messages"` // that retention has dropped
	Bytes    uint64 `json:"bytes"`    // of their pages
	Seq      uint64 `json:"seq"`      // the last of them
	At       int64  `json:"at"`       // when it was recorded, in milliseconds since 1970
	Why      string `json:"why"`      // what made retention drop the last ones: "age" or "bytes"

	Lost      uint64 `json:"lost"`      // messages that were not recorded, since the store did not take them
	LostSince int64  `json:"lostSince"` // when the first of them came
	LostUntil int64  `json:"lostUntil"` // when the last of them came
}

func (d *Dropped) addLost(l lost) {
	if l.messages == 0 {
		return
	}
	if d.Lost == 0 {
		d.LostSince = l.since
	}
	d.Lost += l.messages
	d.LostUntil = l.until
}

// Dropped returns what is not there any more, or never was.
func (j *Journal) Dropped() (Dropped, error) {
	if err := j.visible(); err != nil {
		return Dropped{}, err
	}
	j.flushMu.Lock()
	defer j.flushMu.Unlock()
	d := j.dropped
	j.mu.Lock()
	defer j.mu.Unlock()
	d.addLost(j.lost)
	return d, nil
}

// hint says why a message may be missing.
func (d *Dropped) hint() string {
	var reasons []string
	if d.Messages > 0 {
		reasons = append(reasons, fmt.Sprintf("retention has dropped the %d messages that were recorded until %s", d.Messages, clock(d.At)))
	}
	if d.Lost > 0 {
		reasons = append(reasons, fmt.Sprintf("%d messages from %s to %s were not recorded because the store did not take them", d.Lost, clock(d.LostSince), clock(d.LostUntil)))
	}
	if len(reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(reasons, "; ") + ")"
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

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
