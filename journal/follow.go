package journal

import (
	"context"
	"iter"
	"math"

	"kernos/internal/jsonscan"
	"kernos/message"
	"kernos/store"
)

// Follow goes through the messages behind one that a filter wants, and then through those
// that come, until ctx ends or the loop does. Only what is durable is shown. The
// last step is an error: that of ctx or of the store, or a *message.Error with code 410 if
// messages behind that one are not there any more. After 0 means from the first
// one that is there.
func (j *Journal) Follow(ctx context.Context, after uint64, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := j.follow(ctx, after, f, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, err)
		}
	}
}

// follow returns nil if yield wants no more.
func (j *Journal) follow(ctx context.Context, after uint64, f Filter, yield func(Entry) bool) error {
	if err := j.visible(); err != nil {
		return err
	}
	w := j.s.Watch(key(spacePages))
	defer w.Stop()
	var scan jsonscan.Scanner
	for {
		last, more, err := j.followStep(ctx, after, f, &scan, yield)
		if err != nil || !more {
			return err
		}
		if last > after {
			after = last
			continue // there may be more by now
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

// followStep shows what there is behind a message, and returns the number of the last
// message that it has looked at.
func (j *Journal) followStep(ctx context.Context, after uint64, f Filter, scan *jsonscan.Scanner, yield func(Entry) bool) (last uint64, more bool, err error) {
	s, err := j.s.Snapshot()
	if err != nil {
		return after, false, err
	}
	defer s.Close()
	e, err := s.Get(key(spaceTotals))
	if err != nil {
		return after, false, err
	}
	t, _ := readTotals(e.Value)
	if t.seq <= after {
		return after, true, nil
	}
	if err := j.s.Barrier().Wait(ctx); err != nil {
		return after, false, err
	}
	if after > 0 {
		first, _, err := pageFrom(s, 1, math.MaxUint64)
		if err != nil {
			return after, false, err
		}
		if first == 0 {
			first = t.seq + 1
		}
		if first > after+1 {
			return after, false, message.Errorf(410, "The messages from %d to %d have been dropped; go on after %d", after+1, first-1, first-1)
		}
	}
	more = true
	err = j.each(ctx, s, bounds{low: after + 1, high: t.seq + 1}, f, false, func(r *record) bool {
		more = yield(r.entry(scan))
		return more
	})
	return t.seq, more, err
}
