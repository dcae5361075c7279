package job

import (
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// maxCatchUp is how many missed runs of a schedule are caught up with.
const maxCatchUp = 1000

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
	var b store.Batch
	var added []func()
	due := a.lease.Due
	missed := 0
	for {
		next := s.next(due)
		if next.IsZero() || next.After(now) || a.CatchUp && len(added) == maxCatchUp {
			added = append(added, a.spawn(&b, due, now))
			a.Last = due.UnixMilli()
			due = next
			break
		}
		if a.CatchUp {
			added = append(added, a.spawn(&b, due, now))
		} else {
			missed++
		}
		due = next
		if missed > 100_000 { // the rest is counted as one
			due = latest(s, now)
		}
	}
	a.Missed += missed
	if due.IsZero() || !due.After(now) && !a.CatchUp {
		due = s.next(now)
	}
	if due.IsZero() { // it doesn't come again
		due = never
	}
	ended := a.lease.Again(&b, due)
	a.store(&b)
	if _, err := a.j.opts.Store.Apply(&b); err != nil {
		a.j.opts.Log.Warn("a schedule can't start its run; it is tried again", "job", a.ID, "error", err)
		return
	}
	ended()
	for _, f := range added {
		f()
	}
}

// latest returns a time of a schedule that is not long before now.
func latest(s *schedule, now time.Time) time.Time {
	for back := time.Minute; back < maxSpan; back *= 2 {
		if t := s.next(now.Add(-back)); !t.IsZero() && !t.After(now) {
			return t
		}
	}
	return now
}

// spawn adds a run of the schedule to a batch.
func (a *run) spawn(b *store.Batch, due, now time.Time) (added func()) {
	s := a.spec
	s.ID, s.Of, s.At, s.Created = a.j.ids.next(now), a.ID, due.UnixMilli(), now.UnixMilli()
	s.Schedule, s.Zone, s.CatchUp, s.Unique = "", "", false, ""
	a.Runs++
	return a.j.add(b, &s, now)
}

// pauseSchedule pauses a schedule that can't go on.
func (a *run) pauseSchedule(why string) {
	var b store.Batch
	ended := a.lease.Again(&b, never)
	a.Paused = message.Clip(why, maxLine)
	a.store(&b)
	if _, err := a.j.opts.Store.Apply(&b); err != nil {
		a.j.opts.Log.Warn("a schedule can't be paused; it is tried again", "job", a.ID, "error", err)
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
	r.Paused = why
	r.store(&b)
	if _, err := j.opts.Store.Apply(&b); err != nil {
		return err
	}
	moved()
	return nil
}

var _ kernel.Work = (*attempt)(nil)
