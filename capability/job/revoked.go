package job

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/store"
)

// Ended notes that a principal has ended, since its token was revoked or has expired: its schedules
// are paused, and its unfinished jobs fail. That happens in the background while Run runs; a job
// that is due before fails all the same.
func (j *Jobs) Ended(id principal.ID) {
	j.mu.Lock()
	j.ended = append(j.ended, id)
	j.mu.Unlock()
	select {
	case j.endings <- struct{}{}:
	default:
	}
}

// watchEnded ends the jobs of principals that have ended, until ctx is done.
func (j *Jobs) watchEnded(ctx context.Context, k *kernel.Kernel) {
	for {
		select {
		case <-j.endings:
		case <-ctx.Done():
			return
		}
		j.mu.Lock()
		ids := j.ended
		j.ended = nil
		j.mu.Unlock()
		for _, id := range ids {
			pause := backoff.Backoff{First: 100 * time.Millisecond, Longest: time.Minute}
			for err := j.endJobs(ctx, k, id); err != nil; err = j.endJobs(ctx, k, id) {
				j.opts.Log.Warn("the jobs of a token that has ended can't be ended; this is tried again", "principal", id, "error", err)
				if !pause.Wait(ctx.Done()) {
					return
				}
			}
		}
	}
}

// endJobs ends the jobs of a principal, unless it has begun again.
func (j *Jobs) endJobs(ctx context.Context, k *kernel.Kernel, id principal.ID) error {
	if who, err := j.opts.Find(id); err != nil || who != nil && who.Life().Err() == nil {
		return err
	}
	for e, err := range j.opts.Store.Scan(store.Prefix(key(keySpec))) {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		var owner struct {
			Principal principal.ID `json:"principal"`
		}
		if json.Unmarshal(e.Value, &owner) != nil || owner.Principal != id {
			continue
		}
		if err := j.endJob(ctx, k, string(e.Key[2:])); err != nil {
			return err
		}
	}
	return nil
}

// endJob fails a job whose principal has ended, or pauses it if it is a schedule.
func (j *Jobs) endJob(ctx context.Context, k *kernel.Kernel, id string) error {
	err := j.alter(ctx, k, id, func(b *store.Batch, r *record) (func(), error) {
		why := tokenEnded(r.Token)
		switch {
		case r.Status != "":
			return nil, nil // the job has ended
		case r.Schedule != "":
			return j.setPaused(b, r, why.Message, never)
		}
		aborted, err := j.abort(b, r, why)
		if err != nil || aborted == nil {
			return nil, err
		}
		return func() {
			r.event(k, kernel.From(nil, r.Wire), failedEvent, append([]byte(`,"error":`), r.Error...))
			aborted()
		}, nil
	})
	if errors.Is(err, errForgotten) {
		return nil
	}
	return err
}
