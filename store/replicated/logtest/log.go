// Package logtest is a log in memory, for tests of what uses package replicated. It can be kept in a file, and each
// node has its own way to it, which tests interrupt.
//
//	log := logtest.New()
//	link := log.Link()
//	c, err := replicated.Open(dir, link, nil)
//	link.Hang() // nothing gets through
package logtest

import (
	"context"
	"slices"
	"sync"

	"kernos/store/replicated"
)

// A Log is a log in memory. It implements [replicated.Log].
type Log struct {
	mu      sync.Mutex
	news    sync.Cond
	entries []replicated.Entry
	file    *file // nil if the log is in memory only
}

// New returns an empty log.
func New() *Log {
	l := new(Log)
	l.news.L = &l.mu
	return l
}

// Append implements [replicated.Log].
func (l *Log) Append(ctx context.Context, after uint64, e replicated.Entry) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last()
	if last.Sequence != after {
		// An Append that is repeated finds its entry.
		if last.Sequence > after && l.before() == after && same(last, e) {
			return last.Sequence, nil
		}
		return 0, replicated.ErrDeposed
	}
	e.Sequence = after + 1 + after%3 // sequences leave numbers out
	e.Groups = clone(e.Groups)
	if l.file != nil {
		if err := l.file.append(e); err != nil {
			return 0, err
		}
	}
	l.entries = append(l.entries, e)
	l.news.Broadcast()
	return e.Sequence, nil
}

func same(a, b replicated.Entry) bool {
	return a.Epoch == b.Epoch && a.First == b.First && slices.EqualFunc(a.Groups, b.Groups, slices.Equal)
}

func clone(groups [][]byte) [][]byte {
	all := make([][]byte, len(groups))
	for i, body := range groups {
		all[i] = slices.Clone(body)
	}
	return all
}

// last returns the last entry. The caller holds mu.
func (l *Log) last() replicated.Entry {
	if len(l.entries) == 0 {
		return replicated.Entry{}
	}
	return l.entries[len(l.entries)-1]
}

// before returns the sequence of the entry before the last one. The caller holds mu.
func (l *Log) before() uint64 {
	if len(l.entries) < 2 {
		return 0
	}
	return l.entries[len(l.entries)-2].Sequence
}

// Last implements [replicated.Log].
func (l *Log) Last(ctx context.Context) (replicated.Entry, error) {
	if err := ctx.Err(); err != nil {
		return replicated.Entry{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.last()
	e.Groups = make([][]byte, len(e.Groups))
	return e, nil
}

// Follow implements [replicated.Log].
func (l *Log) Follow(ctx context.Context, after uint64, each func(replicated.Entry) error) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.news.Broadcast()
	})()
	for {
		e, ok := l.wait(ctx, after)
		if !ok {
			return ctx.Err()
		}
		e.Groups = clone(e.Groups)
		err := each(e)
		for _, body := range e.Groups {
			clear(body) // they were valid until each has returned
		}
		if err != nil {
			return err
		}
		after = e.Sequence
	}
}

// wait returns the first entry after a sequence.
func (l *Log) wait(ctx context.Context, after uint64) (replicated.Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil {
		for _, e := range l.entries {
			if e.Sequence > after {
				return e, true
			}
		}
		l.news.Wait()
	}
	return replicated.Entry{}, false
}

// Entries returns all entries.
func (l *Log) Entries() []replicated.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Lose drops the last entries, as servers do that have lost what they had accepted.
func (l *Log) Lose(entries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.Clone(l.entries[:max(0, len(l.entries)-entries)])
}
