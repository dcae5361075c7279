package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/ranked"
	"kernos/journal/words"
	"kernos/message"
	"kernos/store"
)

// searchWait is how long a search waits for the index to catch up.
const searchWait = time.Second

// A SearchQuery asks for messages with words, or with a meaning.
type SearchQuery struct {
	Filter
	Words         string
	Mode          ranked.Mode
	Limit, Offset int // 0 means 100 from the best one on

	// Horizon is that of the result whose next page is wanted. The zero value means all that
	// there is.
	Horizon Horizon
}

// A Horizon is how far a search has looked, and how much there was then, which scores depend
// on. A search with the same horizon finds the same, whatever has been recorded since.
type Horizon struct {
	Seq   uint64 // number of the last message
	Docs  uint64 // number of messages
	Words uint64 // number of words in the messages
	Near  uint64 // number of the last message that was embedded
}

// A SearchResult is the best messages for some words.
type SearchResult struct {
	Hits       []Hit
	Total      int // messages that have at least one of the words, or that are near in meaning
	Behind     int // messages that were recorded and whose words are not indexed yet
	Unembedded int // messages whose meaning is not known yet, if it was asked for

	// Unavailable is why a search that should go by meaning went by words only, or nil.
	Unavailable error

	Horizon Horizon // the horizon for the next page
}

// A Hit is a message that was found. Its score is its relevance, from 0 to 1: of its words, as a part of what a message could
// have at most, and of its nearness, by either of which it may be relevant. A message isn't more relevant than one before
// it. Those with the better score come first. By words that is a message that
// has all of them, or all that are names, before any that has not, and of two that are equally good the newer one. In a search by both,
// these come first too, and the rest as [ranked.Fuse] has it.
type Hit struct {
	Entry
	Score float64
	Why   ranked.Why
}

// Search returns the best messages for some words. A query without words is a
// *message.Error with code 422.
func (j *Journal) Search(ctx context.Context, q SearchQuery) (SearchResult, error) {
	words := telling(words.OfQuery(q.Words))
	if len(words) == 0 {
		return SearchResult{}, message.Errorf(422, "There is nothing to search for: give one or more words of letters or digits")
	}
	if err := j.visible(); err != nil {
		return SearchResult{}, err
	}
	short, cancel := context.WithTimeout(ctx, searchWait)
	err := j.catchUp(short)
	cancel()
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		j.opts.Log.Warn("the journal's words can't be indexed; a search finds what is", "error", err)
	}
	s, err := j.s.Snapshot()
	if err != nil {
		return SearchResult{}, err
	}
	defer s.Close()
	x := search{ctx: ctx, j: j, s: s, match: q.matcher(), words: words, names: namesAmong(words, q.Words), error: -1}
	x.match.data = noData
	at, err := readIndexed(s)
	if err != nil {
		return SearchResult{}, err
	}
	x.horizon = Horizon{Seq: at.seq, Docs: at.docs, Words: at.words}
	if q.Horizon != (Horizon{}) {
		x.horizon = q.Horizon
		x.horizon.Seq = min(x.horizon.Seq, at.seq)
	}
	if err := x.seqBounds(); err != nil {
		return SearchResult{}, err
	}
	if err := x.prepareFilter(); err != nil {
		return SearchResult{}, err
	}
	offset := max(0, q.Offset)
	if offset > 10*MaxLimit {
		return SearchResult{}, message.Errorf(422, "The offset %d is too far down: the first %d messages can be listed", offset, 10*MaxLimit)
	}
	wanted := limited(q.Limit) + offset
	x.best.most = max(wanted, ranked.Depth)
	var result SearchResult
	if last := j.last.Load(); last > at.seq {
		result.Behind = int(last - at.seq)
	}
	if q.Mode.Meaning() {
		x.findNear(q.Words, &result)
		if err := ctx.Err(); err != nil {
			return SearchResult{}, err
		}
	}
	if q.Mode.Words() || result.Unavailable != nil {
		if err := x.run(); err != nil {
			return SearchResult{}, err
		}
	}
	x.best.sort()
	result.Total, result.Horizon = x.total+len(x.nearby)-x.both, x.horizon
	places := x.places()
	size := 0
	for _, h := range places[min(offset, len(places)):min(wanted, len(places))] {
		if h.Entry, err = x.entry(h.Seq); err != nil {
			return SearchResult{}, err
		}
		result.Hits = append(result.Hits, h)
		if size += len(h.Message.Data); size >= maxData {
			break
		}
	}
	return result, nil
}

// places returns the hits in their order, with no more of their entries than their numbers.
func (x *search) places() []Hit {
	hits := make([]Hit, 0, len(x.best.list)+len(x.nearby))
	if len(x.nearby) == 0 {
		for _, c := range x.best.list {
			hits = append(hits, Hit{Entry: Entry{Seq: c.seq}, Score: x.relevance(c.score), Why: ranked.Why{Words: x.shown(c.words)}})
		}
		return hits
	}
	worded, near := make([]ranked.Worded[uint64], len(x.best.list)), make([]uint64, len(x.nearby))
	for i, c := range x.best.list {
		worded[i] = ranked.Worded[uint64]{Key: c.seq, Cover: x.cover(c.words), Exact: x.exact(c.words)}
	}
	for i, n := range x.nearby {
		near[i] = n.seq
	}
	least := 1.0
	for _, p := range ranked.Fuse(worded, near) {
		var h Hit
		words := 0.0
		if p.Words >= 0 {
			c := x.best.list[p.Words]
			h.Seq, h.Why.Words, words = c.seq, x.shown(c.words), x.relevance(c.score)
		}
		if p.Near >= 0 {
			n := x.nearby[p.Near]
			h.Seq, h.Why.Near, h.Why.Words = n.seq, n.score, x.shown(n.words)
		}
		least = min(least, 1-(1-words)*(1-h.Why.Near))
		h.Score = least
		hits = append(hits, h)
	}
	return hits
}

// relevance returns a score by words as a part of the highest that a message can have.
func (x *search) relevance(score float64) float64 {
	return min(1, score/max(x.most+2*x.bonus, math.SmallestNonzeroFloat64))
}

type candidate struct {
	seq   uint64
	score float64
	words hasWords
}

// compare is positive if a is better than b.
func (a candidate) compare(b candidate) int {
	if c := cmp.Compare(a.score, b.score); c != 0 {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}

// candidates keeps the best ones.
type candidates struct {
	list []candidate
	most int
	full bool // the first most of the list are sorted, and better than all that are not in it
}

func (c *candidates) offer(x candidate) {
	if c.full && x.compare(c.list[c.most-1]) <= 0 {
		return
	}
	if c.list = append(c.list, x); len(c.list) >= 2*c.most+1024 {
		c.sort()
	}
}

// sort sorts the candidates, the best one first, and drops those that are too many.
func (c *candidates) sort() {
	slices.SortFunc(c.list, func(a, b candidate) int { return b.compare(a) })
	c.full = len(c.list) >= c.most
	c.list = c.list[:min(len(c.list), c.most)]
}

type search struct {
	ctx   context.Context
	j     *Journal
	s     store.Snapshot
	match matcher
	words [][]byte
	names hasWords  // the words that are names, codes and ids
	idf   []float64 // inverse document frequency of each word

	horizon Horizon
	within  bounds
	best    candidates
	total   int
	perWord float64 // how much less a word counts for each word that its message has
	bonus   float64 // extra score of an exact message: more than any other message can have
	most    float64 // what the words of the query can count together, without the bonus

	among   []uint64   // the messages that the filter wants, if they are few
	classed *classView // the messages whose class the filter wants, if they are many

	error  int        // the index of a word of the query that means an error, or -1
	errors *classView // the messages that are errors, if there is such a word

	nearby []candidate // the nearest in meaning, the nearest first
	both   int         // how many of nearby have a word

	// Of the span that is being looked at, by message.
	scores  []float64
	matched []hasWords
	wanted  []bool // the filter wants it
}

// The parameters of BM25.
const (
	k1 = 1.2
	b1 = 0.75
)

// cursor goes through the postings of a word, span by span, from the newest on: of
// messages that are equally good the newer ones are wanted, and the older ones need
// no more than a glance then.
type cursor struct {
	next  func() (store.Entry, error, bool)
	entry store.Entry
	first uint64 // number of the span's first message, or 0 at the end

	word   hasWords // the word of the query that it stands for
	counts float64  // what the word counts: its inverse document frequency, or less of it for another form of the word
}

func (c *cursor) advance() error {
	e, err, ok := c.next()
	if err != nil {
		return err
	}
	c.entry, c.first = e, 0
	if ok {
		c.first = keySeq(e.Key)
	}
	return nil
}

func (x *search) run() error {
	growing, err := x.growing()
	if err != nil {
		return err
	}
	cursors := make([]cursor, 0, len(x.words))
	for i := range x.words {
		count, first := uint64(0), len(cursors)
		for k, form := range x.forms(i) {
			n, err := x.count(form, growing)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			count += n
			next, stop := iter.Pull2(x.s.Scan(store.Range{From: wordKey(nil, form, 0), To: wordKey(nil, form, x.horizon.Seq+1), Reverse: true}))
			defer stop()
			c := cursor{next: next, word: 1 << i, counts: 1}
			if k > 0 {
				c.counts = asForm
			}
			cursors = append(cursors, c)
		}
		n, df := float64(x.horizon.Docs), float64(count)
		idf := math.Log(1 + max(0, n-df+0.5)/(df+0.5))
		x.idf = append(x.idf, idf)
		x.most += idf * (k1 + 1)
		for k := first; k < len(cursors); k++ {
			cursors[k].counts *= idf
			if err := cursors[k].advance(); err != nil {
				return err
			}
		}
	}
	if len(x.words) > 1 {
		x.bonus = x.most
	}
	average := max(1, float64(x.horizon.Words)/max(1, float64(x.horizon.Docs)))
	x.perWord = k1 * b1 / average
	if err := x.findErrors(); err != nil {
		return err
	}
	for {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		first := uint64(0)
		for i := range cursors {
			first = max(first, cursors[i].first)
		}
		if first == 0 {
			return nil
		}
		if err := x.beginSpan(first); err != nil {
			return err
		}
		for i := range cursors {
			c := &cursors[i]
			if c.first != first {
				continue
			}
			if !x.add(c.entry.Value, c.counts, c.word) {
				return damaged(errSpan, "The journal's postings of a word can't be read")
			}
			if err := c.advance(); err != nil {
				return err
			}
		}
		if err := x.endSpan(first); err != nil {
			return err
		}
	}
}

// seqBounds turns the times of the filter into numbers of messages.
func (x *search) seqBounds() (err error) {
	x.within = bounds{low: 1, high: x.horizon.Seq + 1}
	if x.match.since > 0 {
		if x.within.low, err = firstSince(x.s, x.match.since); err != nil {
			return err
		}
	}
	if x.match.until < math.MaxInt64 {
		until, err := firstSince(x.s, x.match.until)
		if err != nil {
			return err
		}
		x.within.high = min(x.within.high, until)
	}
	return nil
}

// firstSince returns the number of the first message recorded at a time or later, or a
// number after all of them.
func firstSince(s store.Reader, t int64) (uint64, error) {
	next, err := firstPageSince(s, t)
	if err != nil {
		return 0, err
	}
	before, err := pageAt(s, next-1)
	if err != nil || before == 0 {
		return next, err
	}
	e, err := s.Get(seqKey(spacePages, before))
	if err != nil {
		return 0, err
	}
	if len(e.Value) >= pageHeader {
		next = before + uint64(pageCount(e.Value))
	}
	var f found
	err = f.read(e, everything, &matcher{since: t, until: math.MaxInt64, data: noData})
	if len(f.records) > 0 {
		next = f.records[0].seq
	}
	return next, err
}

func (x *search) beginSpan(first uint64) error {
	e, err := x.s.Get(seqKey(spaceSpans, first))
	if err != nil {
		return err
	}
	sp, err := readSpan(e)
	if err != nil {
		return err
	}
	n := int(sp.last + 1 - first)
	if cap(x.scores) < n {
		x.scores, x.matched, x.wanted = make([]float64, n), make([]hasWords, n), make([]bool, n)
	}
	x.scores, x.matched, x.wanted = x.scores[:n], x.matched[:n], x.wanted[:n]
	clear(x.scores)
	clear(x.matched)
	clear(x.wanted)
	return nil
}

// add adds what a word counts to the messages that have it. It reports whether the
// postings could be read.
func (x *search) add(list []byte, idf float64, word hasWords) bool {
	_, n := binary.Uvarint(list)
	if n <= 0 {
		return false
	}
	at := -1
	for i := n; i < len(list); {
		var step, times, length uint64
		if i+3 <= len(list) && list[i]|list[i+1]|list[i+2] < 0x80 {
			step, times, length = uint64(list[i]), uint64(list[i+1]), uint64(list[i+2])
			i += 3
		} else {
			for _, v := range [...]*uint64{&step, &times, &length} {
				if *v, n = binary.Uvarint(list[i:]); n <= 0 {
					return false
				}
				i += n
			}
		}
		if step == 0 || step > uint64(len(x.scores)-1-at) {
			return false
		}
		at += int(step)
		weight := k1*(1-b1) + x.perWord*float64(length)
		x.scores[at] += idf * float64(times) * (k1 + 1) / (float64(times) + weight)
		x.matched[at] |= word
	}
	return true
}

// endSpan offers the messages of a span that the filter wants.
func (x *search) endSpan(first uint64) error {
	filtered := x.match.selective()
	if filtered {
		if err := x.filterSpan(first); err != nil {
			return err
		}
	}
	for i, m := range slices.Backward(x.matched) {
		seq := first + uint64(i)
		if m == 0 || filtered && !x.wanted[i] || seq < x.within.low || seq >= x.within.high {
			continue
		}
		x.total++
		c := candidate{seq: seq, score: x.scores[i], words: m}
		if bit := hasWords(1) << max(x.error, 0); x.errors != nil && m&bit == 0 && x.errors.wants(seq) {
			m |= bit
			x.matched[i], c.words = m, m
			c.score += x.idf[x.error]
		}
		if x.exact(m) {
			c.score += x.bonus
		}
		if m == x.all() {
			c.score += x.bonus
		}
		x.best.offer(c)
	}
	for i := range x.nearby { // the filter wants them
		if at := x.nearby[i].seq - first; at < uint64(len(x.matched)) && x.matched[at] != 0 {
			x.nearby[i].words = x.matched[at]
			x.both++
		}
	}
	return nil
}

// filterSpan finds the messages of a span that have a word and that the filter wants.
func (x *search) filterSpan(first uint64) error {
	switch {
	case x.among != nil:
		for at, _ := slices.BinarySearch(x.among, first); at < len(x.among) && x.among[at]-first < uint64(len(x.wanted)); at++ {
			x.wanted[x.among[at]-first] = true
		}
		return nil
	case x.classed != nil:
		for i, m := range x.matched {
			x.wanted[i] = m != 0 && x.classed.wants(first+uint64(i))
		}
		return nil
	}
	return x.filterPages(first)
}

// filterPages is filterSpan for a filter of which nothing is known beforehand. It looks at the pages that have wanted
// messages and words.
func (x *search) filterPages(first uint64) error {
	span := bounds{low: first, high: first + uint64(len(x.matched))}
	var f found
	next := 0 // earlier messages are no longer looked for
	for seq, err := range x.pages(span) {
		if err != nil {
			return err
		}
		if err := x.ctx.Err(); err != nil {
			return err
		}
		for next = max(next, int(seq-first)); next < len(x.matched) && x.matched[next] == 0; next++ {
		}
		if next == len(x.matched) {
			return nil
		}
		e, err := x.s.Get(seqKey(spacePages, seq))
		if err != nil {
			return err
		}
		if e.Revision == 0 || len(e.Value) < pageHeader || first+uint64(next) >= seq+uint64(pageCount(e.Value)) {
			continue
		}
		if err := f.read(e, span, &x.match); err != nil {
			return err
		}
		for i := range f.records {
			x.wanted[f.records[i].seq-first] = true
		}
	}
	return nil
}

// pages goes through the numbers of the pages of a span that may have wanted messages.
func (x *search) pages(span bounds) iter.Seq2[uint64, error] {
	if x.match.name() != 0 {
		return named(x.s, &x.match, span, false)
	}
	return func(yield func(uint64, error) bool) {
		for e, err := range x.s.Scan(store.Range{From: seqKey(spacePages, span.low), To: seqKey(spacePages, span.high)}) {
			if !yield(keySeq(e.Key), err) {
				return
			}
		}
	}
}

func (x *search) entry(seq uint64) (Entry, error) {
	at, err := pageAt(x.s, seq)
	if err != nil {
		return Entry{}, err
	}
	p, err := x.s.Get(seqKey(spacePages, at))
	if err != nil {
		return Entry{}, err
	}
	var f found
	if err := f.read(p, bounds{low: seq, high: seq + 1}, &matcher{until: math.MaxInt64}); err != nil {
		return Entry{}, err
	}
	if len(f.records) == 0 {
		return Entry{}, damaged(errSpan, "The journal's index has a message that is not there")
	}
	var scan jsonscan.Scanner
	return f.records[0].entry(&scan), nil
}
