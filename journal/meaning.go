package journal

import (
	"context"
	"errors"
	"iter"
	"time"

	"kernos/internal/ranked"
	"kernos/message"
	"kernos/store"
	"kernos/store/vectors"
)

const (
	maxProse    = 1000 // bytes of a message that are embedded, beside its type
	meaningWait = time.Second / 4
	soon        = 2048        // messages that a search waits for
	giveUp      = time.Minute // the longest pause after a failure
)

// texts goes through what the messages after a number mean. It is a [vectors.Source].
func (j *Journal) texts(after uint64) iter.Seq2[vectors.Text, error] {
	return func(yield func(vectors.Text, error) bool) {
		from, err := pageAt(j.s, after+1)
		if err != nil {
			yield(vectors.Text{}, err)
			return
		}
		var pr pageReader
		var buf []byte
		for e, err := range j.s.Scan(store.Range{From: seqKey(spacePages, from), To: store.After(key(spacePages))}) {
			if err != nil {
				yield(vectors.Text{}, err)
				return
			}
			for r, err := range pr.records(keySeq(e.Key), e.Value) {
				if err != nil {
					yield(vectors.Text{}, damagedPage(err, e.Key))
					return
				}
				if r.seq <= after {
					continue
				}
				buf = r.about(buf[:0])
				if !yield(vectors.Text{ID: r.seq, Text: string(buf)}, nil) {
					return
				}
			}
		}
	}
}

// about appends what a record is about, or nothing if that is no more than its type, which its words find.
// What has failed stands twice in the text of an error, most of which is about the cause.
func (r *record) about(dst []byte) []byte {
	start := len(dst)
	if r.kind() == message.KindError {
		dst = append(append(append(dst, "error: "...), r.typ...), " failed: "...)
	}
	dst = append(append(dst, r.typ...), ": "...)
	before := len(dst)
	if dst = ranked.AppendProse(dst, r.data, maxProse); len(dst) == before {
		return dst[:start]
	}
	return dst
}

// embedder embeds what has been written, a while later, until the journal is closed. Recording comes first: while
// much is recorded, it is idle most of the time.
func (j *Journal) embedder() {
	failures, pace := 0, pace{j: j}
	for {
		select {
		case <-j.embedding.wake:
		case <-j.stop:
			return
		}
		for pause := indexDelay; ; {
			select {
			case <-time.After(pause):
			case <-j.stop:
				return
			}
			start := time.Now()
			more, err := j.meaning.Grow(j.ctx)
			switch {
			case j.ctx.Err() != nil || errors.Is(err, store.ErrReadOnly):
				return
			case errors.Is(err, store.ErrConflict): // a search has embedded the same
				more = true
			case err != nil:
				if failures++; failures == 1 {
					j.opts.Log.Warn("what messages mean can't be indexed; it will be tried again", "error", err)
				}
				more = true
			default:
				failures = 0
			}
			if !more {
				break
			}
			if pause = pace.pause(time.Since(start)); failures > 0 {
				pause = min(time.Second<<min(failures-1, 10), giveUp)
			}
		}
	}
}

// findNear finds the messages that are nearest to the query in meaning.
func (x *search) findNear(query string, result *SearchResult) {
	texts, about := x.j.meaning, ranked.About(query)
	if texts == nil {
		result.Unavailable = errNoModel
		return
	}
	if about == "" {
		return
	}
	behind, position, err := x.j.embedSoon(x.ctx)
	if x.horizon.Near == 0 {
		x.horizon.Near = position
	}
	var hits []vectors.Hit
	if err == nil {
		hits, err = x.nearestMessages(about)
	}
	if err != nil {
		if x.ctx.Err() == nil {
			x.j.opts.Log.Warn("a search can't go by meaning, and goes by words only", "error", err)
		}
		result.Unavailable = err
		return
	}
	result.Unembedded = int(behind)
	for _, h := range hits {
		if h.Score < ranked.MinNear {
			break
		}
		x.nearby = append(x.nearby, candidate{seq: h.ID, score: ranked.Rounded(float64(h.Score))})
	}
}

var errNoModel = errors.New("there is no model that embeds messages")

// nearestMessages returns the nearest messages of those that the filter wants.
func (x *search) nearestMessages(about string) (found []vectors.Hit, err error) {
	q := vectors.Query{Limit: nearest, From: x.within.low, To: min(x.within.high, x.horizon.Near+1)}
	switch {
	case x.among != nil:
		q.Among = x.among
	case x.classed != nil:
		q.Accept = x.classed.wants
	case x.match.selective():
		a := accepting{search: x, pages: make(map[uint64]map[uint64]bool)}
		q.Accept = a.accept
		defer func() { err = errors.Join(err, a.err) }()
	}
	return x.j.meaning.Search(x.ctx, about, q)
}

// nearest is how many messages are found by their meaning at most.
const nearest = ranked.Depth / 2

// accepting decides about single messages whether the filter wants them, page by page.
type accepting struct {
	*search
	found found
	pages map[uint64]map[uint64]bool // the wanted ones, by their page
	err   error
}

func (a *accepting) accept(seq uint64) bool {
	if a.err != nil {
		return false
	}
	at, err := pageAt(a.s, seq)
	if err != nil {
		a.err = err
		return false
	}
	wanted, ok := a.pages[at]
	if !ok {
		e, err := a.s.Get(seqKey(spacePages, at))
		if err == nil && e.Revision > 0 {
			err = a.found.read(e, everything, &a.match)
		}
		if err != nil {
			a.err = err
			return false
		}
		wanted = make(map[uint64]bool, len(a.found.records))
		for i := range a.found.records {
			wanted[a.found.records[i].seq] = true
		}
		a.pages[at] = wanted
	}
	return wanted[seq]
}

// Embedded reports how far it is known what messages mean.
type Embedded struct {
	vectors.Progress
	Behind uint64 // messages that aren't embedded yet
}

// Embedded returns how far it is known what messages mean.
func (j *Journal) Embedded() (Embedded, error) {
	if j.meaning == nil {
		return Embedded{}, nil
	}
	p, err := j.meaning.Progress()
	return Embedded{Progress: p, Behind: j.unembedded(p.Position)}, err
}

// unembedded counts the messages after a number that haven't been dropped.
func (j *Journal) unembedded(position uint64) uint64 {
	position = max(position, j.oldest()-1)
	if last := j.last.Load(); last > position {
		return last - position
	}
	return 0
}

// embedSoon embeds the latest messages for a search, unless there are too many to wait for.
func (j *Journal) embedSoon(ctx context.Context) (behind uint64, position uint64, err error) {
	if j.meaning == nil {
		return 0, 0, nil
	}
	at := func() (uint64, error) {
		position, err = j.meaning.Position()
		return j.unembedded(position), err
	}
	if behind, err = at(); err != nil || behind == 0 || behind > soon {
		return behind, position, err
	}
	short, cancel := context.WithTimeout(ctx, meaningWait)
	defer cancel()
	if err := j.meaning.CatchUp(short); err != nil && !errors.Is(err, store.ErrConflict) && short.Err() == nil {
		return behind, position, err
	}
	behind, err = at()
	return behind, position, err
}
