package memory

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// SetRecorder sets the kernel's recorder, which records an event [changedType] for each key that
// expires. Without it, these events are not recorded.
func (m *Memory) SetRecorder(r kernel.Recorder) { m.recorder.Store(&r) }

// How often Expire looks.
const (
	expirePause = 100 * time.Millisecond // shortest time between two looks
	expireEvery = time.Minute            // longest time between two looks
)

// Expire sweeps keys when they expire, so that watchers see it promptly, until ctx ends or
// the store is closed. If the store refuses the change, this is logged and tried again later. One call of it may run beside [Memory.Sweep].
func (m *Memory) Expire(ctx context.Context) {
	w := m.store.Watch([]byte{store.SpaceMemory, expires})
	defer w.Stop()
	for failing := false; ; {
		wait, news := expireEvery, w.C
		_, err := m.sweep(ctx, expires, m.opts.Now().UnixMilli(), m.sweepExpired)
		if err == nil {
			wait, err = m.untilNext()
		}
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		if err != nil {
			wait, news = expireEvery, nil
			if !failing {
				m.opts.Log.Warn("keys that have expired can't be removed; it is tried again every minute", "error", err)
			}
		}
		failing = err != nil
		if !pause(ctx, expirePause, nil) || !pause(ctx, wait-expirePause, news) {
			return
		}
	}
}

// untilNext returns how long it takes until a key expires, or Expire looks anyway.
func (m *Memory) untilNext() (time.Duration, error) {
	for e, err := range m.store.Scan(store.Prefix([]byte{store.SpaceMemory, expires})) {
		if err != nil {
			return expireEvery, err
		}
		ms, _ := splitTimeKey(e.Key)
		// Compared first: the time may be too far away for a Duration.
		if left := ms - m.opts.Now().UnixMilli(); left < expireEvery.Milliseconds() {
			return time.Duration(left) * time.Millisecond, nil
		}
		break
	}
	return expireEvery, nil
}

// pause waits for a time, or less if there is news, and returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, news <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-news:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// sweepChunk bounds what a sweep holds in memory, and what one batch of it removes.
const sweepChunk = 256

// Sweep removes the keys that have expired, and the history of keys that have not been
// there for longer than [Options.Remember]. It returns how many keys it has removed
// something of. Readers see no difference: expired keys are absent for them already. Watchers
// see an event for each key that has expired; see [Memory.SetRecorder]. A concurrent command
// that gives an expired key a new value wins.
//
// Its owner calls it now and then, one call at a time.
func (m *Memory) Sweep(ctx context.Context, now time.Time) (n int, err error) {
	expired, err := m.sweep(ctx, expires, now.UnixMilli(), m.sweepExpired)
	if err != nil {
		return expired, err
	}
	forgotten, err := m.sweep(ctx, gone, now.Add(-m.opts.Remember).UnixMilli(), m.sweepGone)
	if err != nil {
		return expired + forgotten, err
	}
	return expired + forgotten, m.store.Barrier().Wait(ctx)
}

// sweep visits the entries of an index up to a time, some at a time: nothing is changed
// while it reads.
func (m *Memory) sweep(ctx context.Context, index byte, until int64, visit func(ms int64, key memoryKey) (bool, error)) (n int, err error) {
	keys := store.Range{From: timeKey(index, 0, ""), To: timeKey(index, max(until, 0)+1, "")}
	for {
		type entry struct {
			ms  int64
			key memoryKey
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
			if err != nil && !errors.Is(err, store.ErrConflict) { // after a conflict, the next sweep looks again
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

// sweepExpired moves a version that has expired into the history. No deletion
// is added to the history: the key was not deleted by a command.
func (m *Memory) sweepExpired(ms int64, key memoryKey) (swept bool, err error) {
	v, e, err := find(m.store, key)
	if err != nil {
		return false, err
	}
	var b store.Batch
	b.Delete(timeKey(expires, ms, key))
	b.IfRevision(currentKey(key), e.Revision)
	if e.Revision != 0 && v.expires == ms {
		b.Delete(currentKey(key))
		noteDeleted(&b, key, v.versionSpan)
		b.Set(historyKey(key, v.revision), e.Value)
		b.Set(timeKey(gone, ms, key), nil)
		return true, m.applyExpired(&b, key, &v)
	}
	_, err = m.store.Apply(&b)
	return false, err
}

// applyExpired applies a batch that removes a key, and records that with it.
func (m *Memory) applyExpired(b *store.Batch, key memoryKey, v *version) error {
	apply := func() error {
		_, err := m.store.Apply(b)
		return err
	}
	recorder := m.recorder.Load()
	if recorder == nil {
		return apply()
	}
	msg := message.Message{Kind: message.KindEvent, Type: changedType, Data: changedEvent(key, v.revision, `,"expired":true`)}
	// It is the last consequence of the command that set the key.
	msg.Metadata = message.Metadata{ID: message.ID(ulid.Make().String()), Timestamp: m.opts.Now().UnixMilli(), Causation: message.ID(v.message)}
	// There is no request that was recorded before.
	return (*recorder).RecordWith(b, []kernel.Record{{}, {Message: &msg, Way: kernel.Within}}, apply)
}

// sweepGone removes the history of a key that went at a time and has not come back.
func (m *Memory) sweepGone(ms int64, key memoryKey) (swept bool, err error) {
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
func (m *Memory) forgetAll(b *store.Batch, ms int64, key memoryKey) (more bool, err error) {
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
