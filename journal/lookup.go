package journal

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// Workflow returns the workflow of the latest message with an id, of those that a principal may
// see; "" if there is none. It flushes nothing: a message that is not written yet is
// found in memory.
func (j *Journal) Workflow(id message.ID, of *principal.Principal) (workflow string) {
	f := Filter{ID: id}
	if !of.SeesAll() {
		f.Own = of.ID()
	}
	m := f.matcher()
	m.data = noData
	if workflow = j.workflowInMemory(&m); workflow != "" {
		return workflow
	}
	s, err := j.s.Snapshot()
	if err != nil {
		return "" // the message is recorded under its own id
	}
	defer s.Close()
	_ = each(context.Background(), s, everything, &m, true, func(r *record) bool {
		workflow = r.workflow()
		return false
	})
	return workflow
}

// workflowInMemory is Workflow for messages that aren't written yet.
func (j *Journal) workflowInMemory(m *matcher) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.queue); i >= 0; i-- {
		p := j.open
		if i < len(j.queue) {
			p = j.queue[i]
		}
		if p == nil || !bytes.Contains(p.heads, m.id) {
			continue
		}
		workflow, pages := "", p.reader(0)
		var r record
		for ok, err := pages.next(&r); ok && err == nil; ok, err = pages.next(&r) {
			if m.matches(&r) {
				workflow = r.workflow()
			}
		}
		if workflow != "" {
			return workflow
		}
	}
	return ""
}

// workflow returns the workflow that a record belongs to. A record that names no workflow belongs to the
// workflow of the request that it answers, or begins a workflow.
func (r *record) workflow() string {
	switch {
	case len(r.correlation) > 0:
		return string(r.correlation)
	case r.kind().Answers() && len(r.causation) > 0:
		return string(r.causation)
	}
	return string(r.id)
}

// eachNamed is each for a filter that wants a name: it reads the pages that have it.
func eachNamed(ctx context.Context, s store.Snapshot, span, within bounds, m *matcher, reverse bool, visit func(*record) bool) error {
	ahead := 1 // few pages are read ahead at first: most readers want no more
	var wanted []wantedPage
	read := func() (bool, error) {
		if reverse {
			slices.Reverse(wanted) // pages are read in the order of their numbers
		}
		readWanted(s, wanted, within, m)
		if reverse {
			slices.Reverse(wanted)
		}
		for i := range wanted {
			if err := errors.Join(wanted[i].err, ctx.Err()); err != nil {
				return false, err
			}
			if !wanted[i].visit(reverse, visit) {
				return false, nil
			}
		}
		wanted, ahead = wanted[:0], min(2*ahead, maxAhead)
		return true, nil
	}
	for seq, err := range named(s, m, span, reverse) {
		if err != nil {
			return err
		}
		wanted = slices.Grow(wanted, 1)[:len(wanted)+1] // reuses the memory of an earlier page
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

const maxAhead = 256

// wantedPage is a page that may have wanted records.
type wantedPage struct {
	seq uint64
	found
	err error
}

// readWanted reads pages, on two processors if they are many.
func readWanted(s store.Snapshot, wanted []wantedPage, within bounds, m *matcher) {
	if len(wanted) < 16 {
		readSome(s, wanted, within, m)
		return
	}
	var readers sync.WaitGroup
	readers.Go(func() { readSome(s, wanted[len(wanted)/2:], within, m) })
	readSome(s, wanted[:len(wanted)/2], within, m)
	readers.Wait()
}

func readSome(s store.Snapshot, wanted []wantedPage, within bounds, m *matcher) {
	keys := make([][]byte, len(wanted))
	for i := range wanted {
		keys[i] = seqKey(spacePages, wanted[i].seq)
		wanted[i].records, wanted[i].err = wanted[i].records[:0], nil
	}
	i := 0
	for e, err := range s.GetAll(keys) {
		if err == nil && e.Revision > 0 {
			err = wanted[i].read(e, within, m)
		}
		wanted[i].err = err
		i++
	}
}

// named goes through the numbers of the pages that may have wanted records, by the name that
// these have, each once and in order. Pages that blocks list may not be there.
func named(s store.Reader, m *matcher, span bounds, reverse bool) iter.Seq2[uint64, error] {
	before := func(a, b uint64) bool { return a < b != reverse && a != b }
	return func(yield func(uint64, error) bool) {
		around, err := pagesAround(s, m.idByTime(), span)
		if err != nil {
			yield(0, err)
			return
		}
		if reverse {
			slices.Reverse(around)
		}
		for seq, err := range mentioned(s, m.name(), span, reverse) {
			if err != nil {
				yield(0, err)
				return
			}
			for len(around) > 0 && before(around[0], seq) {
				if !yield(around[0], nil) {
					return
				}
				around = around[1:]
			}
			if len(around) > 0 && around[0] == seq {
				around = around[1:]
			}
			if !yield(seq, nil) {
				return
			}
		}
		for _, seq := range around {
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
			// all of them or after.
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

func keyed(s store.Reader, n name, span bounds, reverse bool) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for e, err := range s.Scan(store.Range{From: n.appendKey(nil, span.low), To: n.appendKey(nil, span.high), Reverse: reverse}) {
			if !yield(keySeq(e.Key), err) || err != nil {
				return
			}
		}
	}
}

// pagesAround lists the pages that may have a message with this id that has no key for
// it, in order.
func pagesAround(s store.Reader, id []byte, within bounds) ([]uint64, error) {
	t, ok := idTime(id)
	if !ok {
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
	var p pageReader
	for e, err := range s.Scan(store.Range{From: seqKey(spacePages, max(from, within.low)), To: seqKey(spacePages, within.high)}) {
		if err != nil {
			return nil, err
		}
		if len(e.Value) >= pageHeader && pageTime(e.Value) > t+nearby {
			break
		}
		if err := p.open(keySeq(e.Key), e.Value); err != nil {
			return nil, damagedPage(err, e.Key)
		}
		if bytes.Contains(p.heads, id) {
			seqs = append(seqs, keySeq(e.Key))
		}
	}
	return seqs, nil
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
			data = data || m.wantsData(r)
		}
	}
	if !data {
		return nil
	}
	err := f.page.load()
	for i := range f.records {
		if r := &f.records[i]; err == nil && m.wantsData(r) {
			err = f.page.fill(r)
		}
	}
	if err != nil {
		return damagedPage(err, p.Key)
	}
	if len(m.words) > 0 {
		f.records = slices.DeleteFunc(f.records, func(r record) bool { return !m.hasWords(&r) })
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

// each calls visit for the records that are wanted, in order, until it returns false. The
// record is valid until then.
func each(ctx context.Context, s store.Snapshot, within bounds, m *matcher, reverse bool, visit func(*record) bool) error {
	span, err := pageBounds(s, within, m.since, m.until)
	if err != nil {
		return err
	}
	if m.name() != 0 {
		return eachNamed(ctx, s, span, within, m, reverse, visit)
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

// hasKeys reports whether the names of a page are keys: either all are or none.
func hasKeys(s store.Reader, names []name, seq uint64) (bool, error) {
	if len(names) == 0 {
		return false, nil
	}
	e, err := s.Get(names[0].appendKey(nil, seq))
	return e.Revision > 0, err
}
