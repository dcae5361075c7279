package job

import (
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// never is when a schedule that is paused is due.
var never = time.UnixMilli(1<<53 - 1)

// fire starts the run of a schedule whose time has come, and sets the schedule to its next time,
// in one batch: neither happens without the other (J4).
func (a *run) fire() {
	s, err := readSchedule(a.Schedule, a.Zone)
	if err != nil {
		a.pauseSchedule(err.Error())
		return
	}
	if e := a.refused(); e != nil {
		a.pauseSchedule(e.Message)
		return
	}
	now := a.j.opts.Now()
	var ended func()
	var added []func(*store.Commit)
	r := *a.record
	commit := a.persist(false, func(b *store.Batch) error {
		*a.record, added = r, nil
		times, missed, next := s.passed(a.lease.Due, now, a.CatchUp)
		for _, at := range times {
			added = append(added, a.spawn(b, at, now))
			a.Last = at.UnixMilli()
		}
		a.Missed += missed
		if next.IsZero() { // it doesn't come again
			next = never
		}
		ended = a.lease.Again(b, next)
		a.store(b)
		return nil
	})
	if commit == nil {
		return
	}
	ended()
	for _, f := range added {
		f(commit)
	}
}

// spawn adds a run of the schedule to a batch.
func (a *run) spawn(b *store.Batch, due, now time.Time) (added func(*store.Commit)) {
	s := a.spec
	s.ID, s.Of, s.At, s.Created = a.j.ids.next(now), a.ID, due.UnixMilli(), now.UnixMilli()
	s.Schedule, s.Zone, s.CatchUp, s.Unique = "", "", false, ""
	a.Runs++
	return a.j.add(b, &s, now)
}

// pauseSchedule pauses a schedule that can't go on.
func (a *run) pauseSchedule(why string) {
	var ended func()
	a.Paused = message.Clip(why, maxLine)
	commit := a.persist(false, func(b *store.Batch) error {
		ended = a.lease.Again(b, never)
		a.store(b)
		return nil
	})
	if commit == nil {
		return
	}
	ended()
	a.j.opts.Log.Warn("a schedule is paused", "job", a.ID, "why", why)
}

// Restored says that a store was restored from a backup. What its jobs have done since the backup
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
func (j *Jobs) afterRestore() error {
	e, err := j.opts.Store.Get(key(keyHeld))
	if err != nil || e.Revision == 0 {
		return err
	}
	j.queue.Hold()
	return j.eachSchedule(func(r *record) error {
		if r.Paused != "" {
			return nil
		}
		return j.setPaused(r, restored, never)
	})
}

const restored = "the store was restored from a backup; kernos job resume lets it go on"

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

// setPaused pauses a schedule, or lets it go on, outside of a call.
func (j *Jobs) setPaused(r *record, why string, due time.Time) error {
	var b store.Batch
	moved, err := j.queue.Move(&b, r.ID, due)
	if err != nil || moved == nil {
		return err
	}
	b.IfRevision(key(keyState, r.ID), r.revision)
	r.Paused = why
	r.store(&b)
	if _, err := j.opts.Store.Apply(&b); err != nil {
		return err
	}
	moved()
	return nil
}

var _ kernel.Work = (*attempt)(nil)
