package journal

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"kernos/internal/jsonscan"
	"kernos/store"
)

// Missed means that messages were dropped before they could be shown. It is not the end: what
// is there comes next.
type Missed struct {
	From, To uint64 // the numbers of the first and the last of them
}

func (m *Missed) Error() string {
	return fmt.Sprintf("the messages from %d to %d have been dropped", m.From, m.To)
}

// Public implements what [message.ErrorOf] looks for.
func (m *Missed) Public() (code int, text string) {
	return 410, fmt.Sprintf("The messages from %d to %d have been dropped; continue after %d", m.From, m.To, m.To)
}

// Follow goes through the messages after one that a filter wants, and then through those
// that come, until ctx ends or the loop does. Only what is durable is shown. A step with a
// *Missed reports that messages after the last one have been dropped, and is followed
// by others. Any other error, that of ctx or of the store, is the last step. After 0 is before
// the first one that there ever was.
//
// A loop that takes its time holds nothing but a few messages.
func (j *Journal) Follow(ctx context.Context, after uint64, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := j.follow(ctx, after, f, yield); err != nil {
			yield(Entry{}, err)
		}
	}
}

// delay returns how long a record may wait for others to be written with.
func (j *Journal) delay() time.Duration {
	if j.followers.Load() > 0 {
		return liveDelay
	}
	return maxDelay
}

// follow returns nil if yield wants no more.
func (j *Journal) follow(ctx context.Context, after uint64, f Filter, yield func(Entry, error) bool) error {
	if err := j.visible(); err != nil {
		return err
	}
	j.followers.Add(1)
	defer j.followers.Add(-1)
	w := j.s.Watch(key(spacePages))
	defer w.Stop()
	c := follower{j: j, f: f, after: after}
	for {
		if err := c.read(ctx); err != nil {
			return err
		}
		if c.missed != nil && !yield(Entry{}, c.missed) {
			return nil
		}
		for _, e := range c.entries {
			if !yield(e, nil) {
				return nil
			}
		}
		if c.more {
			continue
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

// A portion is what a follower reads at once: the snapshot that it is read from keeps what
// is dropped on the disk, and must not wait for a slow reader.
const (
	portion      = 256
	portionBytes = 1 << 20
)

// A follower goes through a journal in portions.
type follower struct {
	j       *Journal
	f       Filter
	scan    jsonscan.Scanner
	after   uint64 // the last message that was looked at
	durable uint64 // the last message that is known to be

	// What the last portion was.
	missed  *Missed
	entries []Entry
	more    bool // further messages may have come by now
}

func (c *follower) read(ctx context.Context) error {
	c.missed, c.more = nil, false
	clear(c.entries)
	c.entries = c.entries[:0]
	s, err := c.j.s.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	if c.after >= c.durable {
		if err := c.advance(ctx, s); err != nil {
			return err
		}
		if c.after >= c.durable {
			return nil
		}
	}
	first, _, err := pageFrom(s, 1, math.MaxUint64)
	if err != nil {
		return err
	}
	first = cmp.Or(first, c.durable+1)
	if first > c.after+1 {
		c.missed = &Missed{From: c.after + 1, To: first - 1}
		c.after = first - 1
	}
	c.more = true
	last, size := max(c.after, c.durable), 0
	m := c.f.matcher()
	err = each(ctx, s, bounds{low: c.after + 1, high: c.durable + 1}, &m, false, func(r *record) bool {
		e := r.entry(&c.scan)
		c.entries = append(c.entries, e)
		if size += len(e.Message.Data); len(c.entries) == portion || size >= portionBytes {
			last = e.Seq
			return false
		}
		return true
	})
	c.after = last
	return err
}

// advance finds out how far the messages of a snapshot go, and waits until they are durable.
func (c *follower) advance(ctx context.Context, s store.Reader) error {
	e, err := s.Get(key(spaceTotals))
	if err != nil {
		return err
	}
	t, _ := readTotals(e.Value)
	if t.seq <= c.after {
		return nil
	}
	if err := c.j.s.Barrier().Wait(ctx); err != nil {
		return err
	}
	c.durable = t.seq
	return nil
}
