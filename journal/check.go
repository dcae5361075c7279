package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"kernos/store"
)

// Check reads all of the journal and returns what does not agree, as an error with one
// line for each of the first few faults: the invariants J1, J2 and J3.
func (j *Journal) Check(ctx context.Context) error {
	s, err := j.snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	c := checker{ctx: ctx, s: s, pages: map[uint64]bool{}}
	for _, check := range []func() error{c.checkPages, c.checkNames, c.checkSpans, c.checkWords} {
		if err := check(); err != nil {
			return err
		}
		if len(c.faults) > 0 {
			return errors.Join(c.faults...)
		}
	}
	return nil
}

// checker checks a journal.
type checker struct {
	ctx    context.Context
	s      store.Snapshot
	faults []error
	pages  map[uint64]bool
	names  int // keys of names that there must be
	words  int // keys of words that there must be
}

const maxFaults = 20

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// scan goes through a space.
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
	err := c.scan(spacePages, func(e store.Entry) {
		seq := keySeq(e.Key)
		c.pages[seq] = true
		if next != 0 && seq != next {
			c.fault("J1: page %d stands where page %d should", seq, next)
		}
		pr, err := readPage(seq, e.Value)
		if err != nil {
			c.fault("page %d: %w", seq, err)
			return
		}
		var r record
		var names []name
		for {
			ok, err := pr.next(&r)
			if err != nil {
				c.fault("page %d: %w", seq, err)
				return
			}
			if !ok {
				break
			}
			if r.at < at {
				c.fault("J1: message %d was recorded before the one before it", r.seq)
			}
			at = r.at
			names = r.names(names)
		}
		next = pr.seq
		names = distinct(names)
		c.names += len(names)
		for _, n := range names {
			c.exists(n.appendKey(nil, seq), "J2: page %d has a name %x without a key", seq, uint64(n))
		}
	})
	if err != nil {
		return err
	}
	e, err := c.s.Get(key(spaceTotals))
	if err != nil {
		return err
	}
	if t, ok := readTotals(e.Value); !ok || next != 0 && (t.seq+1 != next || t.at != at) {
		c.fault("J1: the totals end with message %d at %d, the pages before %d at %d", t.seq, t.at, next, at)
	}
	return nil
}

func (c *checker) checkNames() error {
	count := 0
	err := c.scan(spaceNames, func(e store.Entry) {
		count++
		if seq := keySeq(e.Key); !c.pages[seq] {
			c.fault("J2: the name %x has a key for page %d, which is not there", e.Key[2:len(e.Key)-8], seq)
		}
	})
	if err == nil && count != c.names {
		c.fault("J2: there are %d keys of names, and pages have %d", count, c.names)
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
			c.fault("J3: the span %d stands where the span %d should", sp.first, next)
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
		c.fault("J3: the index ends with message %d and has %d messages with %d words; its spans end before %d and have %d with %d",
			at.seq, at.docs, at.words, next, docs, words)
	}
	return nil
}

// checkSpan looks for the words of a span.
func (c *checker) checkSpan(sp span) {
	seen := map[string]bool{}
	t := tokenizer{emit: func(w []byte) {
		if seen[string(w)] {
			return
		}
		seen[string(w)] = true
		c.words++
		c.exists(wordKey(nil, w, sp.first), "J3: the span %d has the word %q without a key", sp.first, w)
	}}
	next := sp.first
	for e, err := range c.s.Scan(store.Range{From: seqKey(spacePages, sp.first), To: seqKey(spacePages, sp.last+1)}) {
		if err != nil {
			c.fault("%w", err)
			return
		}
		pr, err := readPage(keySeq(e.Key), bytes.Clone(e.Value))
		if err != nil {
			c.fault("page %d: %w", keySeq(e.Key), err)
			return
		}
		var r record
		for {
			ok, err := pr.next(&r)
			if err != nil || !ok {
				break
			}
			t.record(&r)
			next = r.seq + 1
		}
	}
	if next != sp.last+1 {
		c.fault("J3: the span %d ends with message %d, its pages before %d", sp.first, sp.last, next)
	}
}

func (c *checker) checkWords() error {
	count := 0
	err := c.scan(spaceWords, func(store.Entry) { count++ })
	if err == nil && count != c.words {
		c.fault("J3: there are %d keys of words, and spans have %d", count, c.words)
	}
	return err
}
