package job

import (
	"context"
	"errors"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// tick starts the run of a schedule whose time has come, in the batch that sets the schedule to its
// next time: neither happens without the other (J4). It is called by the queue.
func (j *Jobs) tick(b *store.Batch, t work.Task) (next time.Time, applied func(*store.Commit), err error) {
	r, err := j.loadSpec(t.ID)
	if errors.Is(err, errForgotten) {
		return time.Time{}, func(*store.Commit) {}, nil
	}
	if err == nil {
		err = r.loadState(j.opts.Store)
	}
	if err != nil {
		return next, nil, err
	}
	who, err := j.opts.Find(r.Principal)
	if err != nil {
		return next, nil, err
	}
	s, err := j.scheduleOf(&r.spec)
	switch {
	case err != nil:
		return never, j.pauseIn(b, r, err.Error()), nil
	case who == nil || who.Life().Err() != nil:
		return never, j.pauseIn(b, r, tokenEnded(r.Token).Message), nil
	}
	now := j.opts.Now()
	times, missed, next := s.passed(t.Due, now, r.CatchUp)
	added := make([]func(*store.Commit), len(times))
	for i, at := range times {
		added[i] = j.spawn(b, r, at, now)
		r.Last = at.UnixMilli()
	}
	if missed > 0 {
		r.Missed, r.MissedAt = r.Missed+missed, now.UnixMilli()
	}
	if next.IsZero() { // the schedule has no further time
		next = never
	}
	r.store(b)
	return next, func(c *store.Commit) {
		for _, f := range added {
			f(c)
		}
	}, nil
}

// spawn adds a run of a schedule to a batch.
func (j *Jobs) spawn(b *store.Batch, r *record, due, now time.Time) (added func(*store.Commit)) {
	s := r.spec
	s.ID, s.Of, s.At, s.Created = j.ids.Next(now), r.ID, due.UnixMilli(), now.UnixMilli()
	s.Schedule, s.Zone, s.CatchUp, s.Unique = "", "", false, ""
	r.Runs++
	return j.add(b, &s, now)
}

// pauseIn adds to a batch that a schedule which can't continue is paused.
func (j *Jobs) pauseIn(b *store.Batch, r *record, why string) (applied func(*store.Commit)) {
	r.Paused = message.Clip(why, maxLine)
	r.store(b)
	return func(*store.Commit) { j.opts.Log.Warn("a schedule is paused", "job", r.ID, "why", why) }
}

// Restored notes that a store was restored from a backup. What its jobs have done since the backup
// isn't known, so schedules are paused, and jobs that were running wait, until Job.Resume. It
// reports whether the store has unfinished jobs; if it has none, nothing waits.
func Restored(s store.Store) (unfinished bool, err error) {
	if unfinished, err = work.Unfinished(s, queueLetter); err != nil || !unfinished {
		return false, err
	}
	var b store.Batch
	b.Set(key(keyHeld), nil)
	_, err = s.Apply(&b)
	return true, err
}

// afterRestore does what Restored asks for.
func (j *Jobs) afterRestore(ctx context.Context, k *kernel.Kernel) error {
	e, err := j.opts.Store.Get(key(keyHeld))
	if err != nil || e.Revision == 0 {
		return err
	}
	j.queue.Hold()
	return j.eachSchedule(func(r *record) error {
		return j.alter(ctx, k, r.ID, func(b *store.Batch, r *record) (func(), error) {
			if r.Paused != "" {
				return nil, nil
			}
			return j.setPaused(b, r, restored, never)
		})
	})
}

const restored = "the store was restored from a backup; kernos job resume lets it continue"

// eachSchedule calls f with every schedule.
func (j *Jobs) eachSchedule(f func(*record) error) error {
	var ids []string
	for e, err := range j.opts.Store.Scan(store.Prefix(key(keySchedule))) {
		if err != nil {
			return err
		}
		ids = append(ids, string(e.Key[2:]))
	}
	for _, id := range ids {
		r, err := j.load(id)
		if err != nil {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// alter changes a job outside of a call. fill adds to a batch what changes, and returns what follows when the
// batch has been applied, or nil.
func (j *Jobs) alter(ctx context.Context, k *kernel.Kernel, id string, fill func(*store.Batch, *record) (func(), error)) error {
	var then func()
	_, err := k.Update(ctx, func(b *store.Batch) error {
		r, err := j.load(id)
		if err == nil {
			then, err = fill(b, r)
		}
		return err
	})
	if err == nil && then != nil {
		then()
	}
	return err
}

// setPaused adds to a batch that a schedule is paused, or that it is resumed if why is "", and that it is due at a
// time. It returns nil if the schedule is starting a run. The caller calls moved when the batch has been applied.
func (j *Jobs) setPaused(b *store.Batch, r *record, why string, due time.Time) (moved func(), err error) {
	moved, err = j.queue.Move(b, r.ID, due)
	if err != nil || moved == nil {
		return nil, err
	}
	b.IfRevision(key(keyState, r.ID), r.revision)
	r.Paused = why
	r.store(b)
	return moved, nil
}
