package journal

import (
	"bytes"
	"context"
	"math"
	"time"

	"kernos/journal/words"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// MinAge is how long messages are kept at least, whatever the retention's MaxAge is: a caller that
// may change it must not be able to remove the traces of what was done just now.
const MinAge = time.Hour

// Retention sets how much is kept. What is 0 has no limit.
type Retention struct {
	MaxAge   time.Duration // must be at least MinAge
	MaxBytes int64         // bytes of the pages of records, as stored
}

// spansKept is how many spans there are in what is kept, at least, if they are full.
const spansKept = 10

// span returns how long a span may last, and how many bytes of pages it may have. Retention drops whole
// spans, so a span must be a small part of what is kept.
func (r Retention) span() (longest time.Duration, most uint64) {
	longest, most = math.MaxInt64, spanBytes
	if r.MaxAge > 0 {
		longest = max(min(r.MaxAge/spansKept, time.Hour), time.Second)
	}
	if r.MaxBytes > 0 {
		most = min(most, uint64(r.MaxBytes)/spansKept)
	}
	return longest, most
}

// Retention returns what [Journal.Trim] goes by. It begins as the options have it.
func (j *Journal) Retention() Retention { return *j.keep.Load() }

// SetRetention changes what the next Trim goes by. A MaxAge below [MinAge] means MinAge.
func (j *Journal) SetRetention(r Retention) {
	if r.MaxAge > 0 {
		r.MaxAge = max(r.MaxAge, MinAge)
	}
	j.keep.Store(&r)
}

// minExcess is how many bytes too many are worth a Trim before it is due: a journal that may
// have little would be trimmed with every write.
const minExcess = 256 << 10

// Over gets a token when the journal has more than MaxBytes by a tenth, so that Trim,
// which is called from time to time, can be called now.
func (j *Journal) Over() <-chan struct{} { return j.over }

// wakeTrimmer checks whether a flush has made the journal too large. The caller has flushMu.
func (j *Journal) wakeTrimmer() {
	most := j.keep.Load().MaxBytes
	if most <= 0 || j.totals.bytes-j.dropped.Bytes <= uint64(most)+max(uint64(most)/10, minExcess) {
		return
	}
	select {
	case j.over <- struct{}{}:
	default: // a token is already there
	}
}

// Trim drops the oldest messages: those that are older than the retention's MaxAge at the given
// time, and as many as it takes for the rest to have no more than its MaxBytes. It
// drops whole spans, with everything that refers to them, one batch each, so some that are
// older by a tenth of MaxAge, or by an hour if that is less, may still be there. It returns
// what it has dropped, also if it fails or ctx ends.
//
// Records of changed settings ([kernel.SettingChanged]) don't go because of their age: they
// are recorded again, with a new number, in the batch that drops the old one.
func (j *Journal) Trim(ctx context.Context, now time.Time) (Dropped, error) {
	var sum Dropped
	if keep := j.Retention(); keep.MaxAge <= 0 && keep.MaxBytes <= 0 {
		return sum, nil
	}
	if err := j.visible(); err != nil {
		return sum, err
	}
	if due, err := j.due(now); err != nil || !due {
		return sum, err
	}
	// What is dropped must be in the index, or the index would still come to it.
	if err := j.catchUp(ctx); err != nil {
		return sum, err
	}
	last := j.last.Load() // records that are written again meanwhile stay
	for {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		d, err := j.dropOldest(now, last)
		if err != nil || d.Messages == 0 {
			return sum, err
		}
		sum.add(d)
	}
}

// due reports whether there may be something to drop.
func (j *Journal) due(now time.Time) (bool, error) {
	j.flushMu.Lock()
	bytes := j.totals.bytes - j.dropped.Bytes
	j.flushMu.Unlock()
	keep := j.Retention()
	if keep.MaxBytes > 0 && bytes > uint64(keep.MaxBytes) {
		return true, nil
	}
	if keep.MaxAge <= 0 {
		return false, nil
	}
	first, at, err := pageFrom(j.s, 0, math.MaxUint64)
	return first > 0 && at < now.Add(-keep.MaxAge).UnixMilli(), err
}

// dropOldest drops the oldest span if it has to go, and begins with the message last or before.
func (j *Journal) dropOldest(now time.Time, last uint64) (Dropped, error) {
	x := &j.index
	x.mu.Lock()
	defer x.mu.Unlock()
	j.flushMu.Lock()
	defer j.flushMu.Unlock()
	if err := j.loadIndex(); err != nil {
		return Dropped{}, err
	}
	if x.span.last == x.at.seq && j.spanFull() {
		x.begin(x.span.last + 1) // less is kept than when it was begun
	}
	s, err := j.s.Snapshot()
	if err != nil {
		return Dropped{}, err
	}
	defer s.Close()
	e, err := store.First(s, store.Prefix(key(spaceSpans)))
	if err != nil || e.Revision == 0 {
		return Dropped{}, err
	}
	oldest, err := readSpan(e)
	if err != nil {
		return Dropped{}, err
	}
	why := j.exceeded(oldest, now)
	if why == "" || oldest.first > last {
		return Dropped{}, nil
	}
	return j.dropSpan(s, oldest, why)
}

// exceeded returns the limit that makes the oldest span go, or "". It is called with the index's mu and flushMu held.
func (j *Journal) exceeded(oldest span, now time.Time) Limit {
	keep := j.Retention()
	switch {
	case keep.MaxAge > 0 && int64(oldest.at) < now.Add(-keep.MaxAge).UnixMilli():
		return ByAge
	case keep.MaxBytes > 0 && oldest.first < j.index.at.first && j.totals.bytes-j.dropped.Bytes > uint64(keep.MaxBytes):
		return ByBytes
	}
	return ""
}

// dropSpan drops the oldest span. It is called with the index's mu and flushMu held.
func (j *Journal) dropSpan(s store.Reader, oldest span, why Limit) (Dropped, error) {
	x := &j.index
	var b store.Batch
	again := drafts.Get().(*draft)
	defer again.free()
	if err := j.dropPages(&b, s, oldest, func(r *record) {
		if why == ByAge && r.isSetting() {
			again.items = append(again.items, r.item())
		}
	}); err != nil {
		return Dropped{}, err
	}
	var added tail
	if len(again.items) > 0 {
		added = j.addTail(&b, again, time.Now())
	}
	b.Delete(seqKey(spaceSpans, oldest.first))
	if j.meaning != nil {
		j.meaning.DeleteBelow(&b, oldest.last+1)
	}
	at := x.at
	at.docs -= oldest.last + 1 - oldest.first
	at.words -= oldest.words
	if at.first <= oldest.last {
		at.first = oldest.last + 1
	}
	b.Set(key(spaceIndexed), at.encode())
	d := Dropped{Messages: oldest.last + 1 - oldest.first, Bytes: oldest.bytes, Seq: oldest.last, At: int64(oldest.at), Why: why}
	sum := j.dropped
	sum.add(d)
	b.Set(key(spaceDropped), sum.encode())
	if _, err := j.s.Apply(&b); err != nil {
		return Dropped{}, err
	}
	j.dropped = sum
	if len(again.items) > 0 {
		j.mu.Lock()
		if !j.closed { // otherwise the tail stays, as in RecordWith
			j.appendTail(time.Now(), again.items, added) // the tails are few, and don't wait for room
		}
		j.mu.Unlock()
	}
	fresh := at.first != x.at.first
	x.at = at
	if fresh {
		x.begin(at.first)
	}
	return d, nil
}

// isSetting reports whether the record is that of a changed setting, by the kernel.
func (r *record) isSetting() bool {
	return message.Type(r.typ) == kernel.SettingChanged && r.way() == kernel.Within && !r.claim
}

// item returns the record as a page takes it. It may be kept.
func (r *record) item() item {
	m := r.message()
	return item{message: &m, data: bytes.Clone(r.data), flags: r.flags, sender: r.sender()}
}

// dropPages deletes the pages of a span and everything that refers to them. The function is
// called for each record of them.
func (j *Journal) dropPages(b *store.Batch, s store.Reader, sp span, each func(*record)) error {
	seen := map[string]bool{}
	t := words.Tokenizer{Emit: func(w []byte) {
		if !seen[string(w)] {
			seen[string(w)] = true
			b.Delete(wordKey(nil, w, sp.first))
		}
	}}
	var names []name
	var pr pageReader
	for e, err := range s.Scan(store.Range{From: seqKey(spacePages, sp.first), To: seqKey(spacePages, sp.last+1)}) {
		if err != nil {
			return err
		}
		seq := keySeq(e.Key)
		k := seqKey(spacePages, seq)
		b.Delete(k)
		if names, err = storedNames(names, &pr, seq, e.Value); err != nil {
			return damagedPage(err, k)
		}
		keyed, err := hasKeys(s, names, seq)
		if err != nil {
			return err
		}
		if keyed {
			for _, n := range names {
				b.Delete(n.appendKey(nil, seq))
			}
		}
		for r, err := range pr.records(seq, e.Value) {
			if err != nil {
				return damagedPage(err, k)
			}
			t.Message(r.typ, r.data)
			each(r)
		}
		j.opts.Blobs.Unrefer(b, pr.data, k)
	}
	return dropBlocks(b, s, sp.last)
}

// dropBlocks deletes the blocks that list no page after one.
func dropBlocks(b *store.Batch, s store.Reader, last uint64) error {
	for bucket := range byte(buckets) {
		for e, err := range s.Scan(store.Range{From: blockKey(nil, bucket, 0), To: blockKey(nil, bucket, last+1)}) {
			if err != nil {
				return err
			}
			end, err := lastPage(keySeq(e.Key), e.Value)
			if err != nil {
				return damagedBlock(err, e.Key)
			}
			if end <= last {
				b.Delete(bytes.Clone(e.Key))
			}
		}
	}
	return nil
}
