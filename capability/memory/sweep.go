package memory

import (
	"context"
	"errors"
	"time"

	"kernos/store"
)

// sweepChunk bounds what a sweep holds in memory, and what one batch of it removes.
const sweepChunk = 256

// Sweep removes the keys that have expired, and the history of keys that have not been
// there for longer than [Options.Remember]. It returns how many keys it has removed
// something of. Readers see no difference: what is removed was not there for them.
// Whoever gives an expired key a new value at the same time wins.
//
// Its owner calls it now and then, one call at a time.
func (m *Memory) Sweep(ctx context.Context, now time.Time) (n int, err error) {
	for _, s := range []struct {
		index byte
		until int64
		sweep func(ms int64, key Key) (bool, error)
	}{
		{expires, now.UnixMilli(), m.sweepExpired},
		{gone, now.Add(-m.opts.Remember).UnixMilli(), m.sweepGone},
	} {
		swept, err := m.sweep(ctx, s.index, s.until, s.sweep)
		n += swept
		if err != nil {
			return n, err
		}
	}
	return n, m.store.Barrier().Wait(ctx)
}

// sweep visits the entries of an index up to a time, some at a time: nothing is changed
// while it reads.
func (m *Memory) sweep(ctx context.Context, index byte, until int64, visit func(ms int64, key Key) (bool, error)) (n int, err error) {
	keys := store.Range{From: timeKey(index, 0, ""), To: timeKey(index, max(until, 0)+1, "")}
	for {
		type entry struct {
			ms  int64
			key Key
		}
		var chunk []entry
		for e, err := range m.store.Scan(keys) {
			if err != nil {
				return n, err
			}
			ms, key := splitTimeKey(e.Key)
			if chunk = append(chunk, entry{ms, key}); len(chunk) == sweepChunk {
				break
			}
		}
		for _, e := range chunk {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			swept, err := visit(e.ms, e.key)
			if err != nil && !errors.Is(err, store.ErrConflict) { // somebody has changed it: the next sweep looks again
				return n, err
			}
			if swept && err == nil {
				n++
			}
		}
		if len(chunk) < sweepChunk {
			return n, nil
		}
		end := chunk[len(chunk)-1]
		keys.From = append(timeKey(index, end.ms, end.key), 0)
	}
}

// sweepExpired moves a version that has expired into the history. There is no deletion
// behind it: nobody has deleted it.
func (m *Memory) sweepExpired(ms int64, key Key) (swept bool, err error) {
	v, e, err := find(m.store, key)
	if err != nil {
		return false, err
	}
	var b store.Batch
	b.Delete(timeKey(expires, ms, key))
	b.IfRevision(currentKey(key), e.Revision)
	if swept = e.Revision != 0 && v.expires == ms; swept {
		b.Delete(currentKey(key))
		leave(&b, key, v.trail)
		b.Set(historyKey(key, v.revision), e.Value)
		b.Set(timeKey(gone, ms, key), nil)
	}
	_, err = m.store.Apply(&b)
	return swept, err
}

// sweepGone removes the history of a key that went at a time and has not come back.
func (m *Memory) sweepGone(ms int64, key Key) (swept bool, err error) {
	index := timeKey(gone, ms, key)
	for {
		var b store.Batch
		_, e, err := find(m.store, key)
		if err != nil {
			return swept, err
		}
		b.IfRevision(currentKey(key), e.Revision)
		more := false
		if e.Revision == 0 {
			if more, err = m.forgetAll(&b, ms, key); err != nil {
				return swept, err
			}
		}
		swept = swept || len(b.Ops) > 0
		if !more {
			b.Delete(index)
		}
		if _, err := m.store.Apply(&b); err != nil || !more {
			return swept, err
		}
	}
}

// forgetAll removes the versions of a key, the oldest first, unless the last of them is
// younger than the time: then the key came back, went again, and has a later entry in the
// index. It reports whether there are more than one batch should hold.
func (m *Memory) forgetAll(b *store.Batch, ms int64, key Key) (more bool, err error) {
	for e, err := range m.store.Scan(versions(key, 0, true)) {
		if err != nil {
			return false, err
		}
		v, err := parseVersion(e.Value)
		if err != nil {
			return false, err
		}
		if went := max(v.updated, v.expires); went > ms {
			return false, nil
		}
		b.IfRevision(historyKey(key, v.revision), e.Revision)
		break
	}
	n := 0
	for e, err := range m.store.Scan(versions(key, 0, false)) {
		if err != nil {
			return false, err
		}
		if n == sweepChunk {
			return true, nil
		}
		v, err := parseVersion(e.Value)
		if err != nil {
			return false, err
		}
		forget(b, key, &v)
		n++
	}
	b.Delete(leftKey(key))
	return false, nil
}
