package journal

import (
	"math"

	"kernos/store"
)

// bounds are the numbers from low on and before high.
type bounds struct{ low, high uint64 }

var everything = bounds{high: math.MaxUint64}

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
	at, _, err := firstPage(s, store.Range{From: key(spacePages), To: seqKey(spacePages, min(seq, math.MaxUint64-1)+1), Reverse: true})
	return at, err
}

// firstPageSince returns the number of the first page that begins at a time or later, or
// a number after all pages. Times never go back, so it halves what is left.
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

// ends returns the number of the first page and a number after the last one, or zeros.
func ends(s store.Reader) (low, high uint64, err error) {
	low, _, err = pageFrom(s, 0, math.MaxUint64)
	if err != nil || low == 0 {
		return 0, 0, err
	}
	high, err = pageAt(s, math.MaxUint64)
	return low, high + 1, err
}

// pageFrom returns the number and the time of the first page from one number on and
// before another, or 0.
func pageFrom(s store.Reader, from, before uint64) (seq uint64, base int64, err error) {
	return firstPage(s, store.Range{From: seqKey(spacePages, from), To: seqKey(spacePages, before)})
}

// firstPage returns the number and the time of the first page of a range, or 0.
func firstPage(s store.Reader, keys store.Range) (seq uint64, base int64, err error) {
	for e, err := range s.Scan(keys) {
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
