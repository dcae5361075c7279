package journal

import (
	"context"
	"errors"
	"fmt"

	"kernos/journal/words"
	"kernos/store"
)

// Check reads all of the journal and returns what does not agree, as an error with one
// line for each of the first few faults: the invariants P1, P2 and P3.
func (j *Journal) Check(ctx context.Context) error {
	s, err := j.snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	c := checker{ctx: ctx, s: s, pages: map[uint64]bool{}, unkeyed: map[listing]bool{}}
	for _, check := range []func() error{c.checkPages, c.checkNames, c.checkBlocks, c.checkSpans, c.checkWords} {
		if err := check(); err != nil {
			return err
		}
		if len(c.faults) > 0 {
			return errors.Join(c.faults...)
		}
	}
	if j.meaning != nil {
		return j.meaning.Check(ctx)
	}
	return nil
}

type checker struct {
	ctx     context.Context
	s       store.Snapshot
	faults  []error
	pages   map[uint64]bool
	oldest  uint64           // the first page, or a number after all that there were
	names   int              // keys of names that there must be
	unkeyed map[listing]bool // what blocks must list
	words   int              // keys of words that there must be
}

// A listing is what a block knows of a name on a page.
type listing struct {
	bucket     byte
	short, seq uint64
}

const maxFaults = 20

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func (c *checker) scan(space byte, visit func(store.Entry)) error {
	for e, err := range c.s.Scan(store.Prefix(key(space))) {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return err
		}
		visit(e)
	}
	return nil
}

// exists notes a key that should be there and is not.
func (c *checker) exists(k []byte, format string, args ...any) {
	if e, err := c.s.Get(k); err != nil {
		c.fault("%w", err)
	} else if e.Revision == 0 {
		c.fault(format, args...)
	}
}

func (c *checker) checkPages() error {
	next, at := uint64(0), int64(0)
	var pr pageReader
	var names []name
	err := c.scan(spacePages, func(e store.Entry) {
		seq := keySeq(e.Key)
		c.pages[seq] = true
		if c.oldest == 0 {
			c.oldest = seq
		}
		if next != 0 && seq != next {
			c.fault("P1: page %d stands where page %d should", seq, next)
		}
		for r, err := range pr.records(seq, e.Value) {
			if err != nil {
				c.fault("page %d: %w", seq, err)
				return
			}
			if r.at < at {
				c.fault("P1: message %d was recorded before the one before it", r.seq)
			}
			at, next = r.at, r.seq+1
		}
		var err error
		if names, err = storedNames(names, &pr, seq, e.Value); err != nil {
			c.fault("page %d: %w", seq, err)
			return
		}
		c.checkPageNames(seq, names)
	})
	if err != nil {
		return err
	}
	e, err := c.s.Get(key(spaceTotals))
	if err != nil {
		return err
	}
	t, ok := readTotals(e.Value)
	if c.oldest == 0 {
		c.oldest = t.seq + 1
	}
	if !ok || next != 0 && (t.seq+1 != next || t.at != at) {
		c.fault("P1: the totals end with message %d at %d, the pages before %d at %d", t.seq, t.at, next, at)
	}
	return nil
}

// checkPageNames looks for the keys of a page's names, or notes what blocks must list.
func (c *checker) checkPageNames(seq uint64, names []name) {
	keyed, err := hasKeys(c.s, names, seq)
	if err != nil {
		c.fault("%w", err)
		return
	}
	for _, n := range names {
		if keyed {
			c.names++
			c.exists(n.appendKey(nil, seq), "P2: page %d has a name %x without a key", seq, uint64(n))
		} else {
			c.unkeyed[listing{bucket: n.bucket(), short: n.short(), seq: seq}] = true
		}
	}
}

func (c *checker) checkNames() error {
	count := 0
	err := c.scan(spaceNames, func(e store.Entry) {
		count++
		if seq := keySeq(e.Key); !c.pages[seq] {
			c.fault("P2: the name %x has a key for page %d, which is not there", e.Key[2:len(e.Key)-8], seq)
		}
	})
	if err == nil && count != c.names {
		c.fault("P2: there are %d keys of names, and pages have %d", count, c.names)
	}
	return err
}

// checkBlocks checks that blocks list the names of every page without keys, and beyond that only names of pages
// that retention has dropped.
func (c *checker) checkBlocks() error {
	err := c.scan(spaceBlocks, func(e store.Entry) {
		first, kept := keySeq(e.Key), false
		if len(e.Key) != 3+8 || e.Key[2] >= buckets {
			c.fault("P2: the key %x is not that of a block", e.Key)
			return
		}
		err := eachListed(first, e.Value, func(r *blockReader) {
			l := listing{bucket: e.Key[2], short: r.short, seq: r.seq}
			switch {
			case c.unkeyed[l]:
				delete(c.unkeyed, l)
				kept = true
			case r.seq >= c.oldest:
				c.fault("P2: the block %d of bucket %d lists the name %x of page %d, which is not there", first, e.Key[2], r.short, r.seq)
				kept = true
			}
		})
		switch {
		case err != nil:
			c.fault("P2: %w", damagedBlock(err, e.Key))
		case !kept:
			c.fault("P2: the block %d of bucket %d lists no existing page", first, e.Key[2])
		}
	})
	for l := range c.unkeyed {
		c.fault("P2: page %d has a name %x that no key has and no block lists", l.seq, l.short)
	}
	return err
}

func (c *checker) checkSpans() error {
	at, err := readIndexed(c.s)
	if err != nil {
		return err
	}
	next, docs, words := uint64(0), uint64(0), uint64(0)
	err = c.scan(spaceSpans, func(e store.Entry) {
		sp, err := readSpan(e)
		if err != nil {
			c.fault("%w", err)
			return
		}
		if next != 0 && sp.first != next {
			c.fault("P3: the span %d stands where the span %d should", sp.first, next)
		}
		next = sp.last + 1
		docs += sp.last + 1 - sp.first
		words += sp.words
		c.checkSpan(sp)
	})
	if err != nil {
		return err
	}
	if next != 0 && next != at.seq+1 || docs != at.docs || words != at.words {
		c.fault("P3: the index ends with message %d and has %d messages with %d words; its spans end before %d and have %d with %d",
			at.seq, at.docs, at.words, next, docs, words)
	}
	return nil
}

// checkSpan looks for the words of a span.
func (c *checker) checkSpan(sp span) {
	seen := map[string]bool{}
	t := words.Tokenizer{Emit: func(w []byte) {
		if seen[string(w)] {
			return
		}
		seen[string(w)] = true
		c.words++
		c.exists(wordKey(nil, w, sp.first), "P3: the span %d has the word %q without a key", sp.first, w)
	}}
	next := sp.first
	var pr pageReader
	for e, err := range c.s.Scan(store.Range{From: seqKey(spacePages, sp.first), To: seqKey(spacePages, sp.last+1)}) {
		if err != nil {
			c.fault("%w", err)
			return
		}
		for r, err := range pr.records(keySeq(e.Key), e.Value) {
			if err != nil {
				c.fault("page %d: %w", keySeq(e.Key), err)
				return
			}
			t.Message(r.typ, r.data)
			next = r.seq + 1
		}
	}
	if next != sp.last+1 {
		c.fault("P3: the span %d ends with message %d, its pages before %d", sp.first, sp.last, next)
	}
}

func (c *checker) checkWords() error {
	count := 0
	err := c.scan(spaceWords, func(store.Entry) { count++ })
	if err == nil && count != c.words {
		c.fault("P3: there are %d keys of words, and spans have %d", count, c.words)
	}
	return err
}
