package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"math"

	"kernos/store"
)

// openOnce reads where the journal is and saves what a crash has left, once. The caller has
// flushMu. Nothing is remembered of a failure: the next call tries again.
func (j *Journal) openOnce() error {
	if j.opened {
		return nil
	}
	e, err := j.s.Get(key(spaceTotals))
	if err != nil {
		return err
	}
	t, ok := readTotals(e.Value)
	if !ok {
		return damaged(nil, "The journal's totals can't be read")
	}
	t.revision = e.Revision
	if e, err = j.s.Get(key(spaceDropped)); err != nil {
		return err
	}
	var d Dropped
	if len(e.Value) > 0 {
		if err := json.Unmarshal(e.Value, &d); err != nil {
			return damaged(err, "The journal's note of what it has dropped can't be read")
		}
	}
	j.totals, j.dropped = t, d
	j.last.Store(t.seq)
	if err := j.recoverTails(); err != nil {
		return err
	}
	j.opened = true
	if j.totals.seq > 0 { // messages that an earlier version has recorded aren't embedded
		j.mu.Lock()
		j.wakeUp(&j.embedding)
		j.mu.Unlock()
	}
	return nil
}

// recoverTails makes pages of the tails that others have left: their records survived
// with the batches that they belong to, and are not in pages yet, but for requests,
// which may be.
func (j *Journal) recoverTails() error {
	for {
		pages, tails, err := j.readTails()
		if err != nil || len(tails) == 0 {
			return err
		}
		// A page without records lets go of the tails.
		t, err := j.write(append(pages, &page{tails: tails}))
		if err != nil {
			return err
		}
		j.totals = t
		j.last.Store(t.seq)
	}
}

// readTails makes pages of the oldest tails, some megabytes at most, and returns the
// tails.
func (j *Journal) readTails() (pages []*page, tails []tail, err error) {
	s, err := j.s.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	p, size := new(page), 0
	var reader pageReader
	have := map[string]bool{} // records that this round has put into pages
	for e, err := range s.Scan(store.Prefix(key(spaceTails))) {
		if err != nil {
			return nil, nil, err
		}
		if bytes.HasSuffix(e.Key, j.who[:]) {
			continue // the batch was applied since this journal was opened
		}
		var t tail
		if len(e.Key) != len(t.key) {
			return nil, nil, damaged(errPage, "The key of a record beside a batch can't be read")
		}
		t.key = tailKey(e.Key)
		for r, err := range reader.records(0, e.Value) {
			if err != nil {
				return nil, nil, damaged(err, "A record beside a batch can't be read")
			}
			same := string(r.kind()) + " " + string(r.id)
			if have[same] {
				continue
			}
			found, err := has(s, r)
			if err != nil {
				return nil, nil, err
			}
			if found {
				continue
			}
			have[same] = true
			m := r.message()
			p.add(r.at, &item{message: &m, data: r.data, extra: m.Metadata.Extra, flags: r.flags, sender: r.sender()})
			if p.size() >= pageSize {
				pages, p = append(pages, p), new(page)
			}
		}
		t.data = bytes.Clone(reader.data)
		tails = append(tails, t)
		if size += len(reader.heads) + len(reader.data); size >= maxWaiting {
			break
		}
	}
	if p.count > 0 {
		pages = append(pages, p)
	}
	return pages, tails, nil
}

// has reports whether a record with the id and kind of another is in a page.
func has(s store.Snapshot, r *record) (bool, error) {
	found := false
	m := matcher{id: r.id, until: math.MaxInt64}
	err := each(context.Background(), s, everything, &m, false, func(o *record) bool {
		found = o.kind() == r.kind()
		return !found
	})
	return found, err
}
