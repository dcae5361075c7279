package kernel

import (
	"context"
	"errors"

	"kernos/store"
)

// intend puts on disk that the call begins, before its effect, which is not in the store, can
// happen. It reports whether the handler may run; if not, the call is settled.
//
// The outcome takes the place of the intent. An intent without a call in flight is one of
// which nobody knows how it ended: the process did first, or the store took no outcome.
func (c *Call) intend() (run bool) {
	var b store.Batch
	expires := c.keep(&b, keptIntent, nil)
	commit, err := c.k.opts.Store.Apply(&b)
	switch {
	case errors.Is(err, store.ErrConflict): // a sweep has taken away what had expired
		return c.look() && c.intend()
	case err != nil:
		c.settleAs(c.failure(err))
		return false
	case !c.noteIntent(commit, expires):
		return false
	}
	err = commit.Wait(c)
	switch {
	case err == nil:
		return true
	case errors.Is(err, context.DeadlineExceeded):
		c.Expire()
	default:
		c.emit(c.failure(err))
	}
	return false
}

// noteIntent notes that the call's intent is in the store, so that its outcome takes the
// place. It reports whether that makes sense: the deadline may have passed, and then the
// intent is taken back, since the call does not begin.
func (c *Call) noteIntent(commit *store.Commit, expires int64) bool {
	f := c.flight
	c.mu.Lock()
	inTime := !c.settled.Load() && !c.deciding
	if inTime {
		f.revision, f.expires, f.intended = commit.Revision, expires, true
	}
	c.mu.Unlock()
	if inTime {
		return true
	}
	var b store.Batch
	b.IfRevision(outcomeKey(f.key), commit.Revision)
	b.Delete(outcomeKey(f.key))
	b.Delete(expiryKey(expires, f.key))
	if _, err := c.k.opts.Store.Apply(&b); err != nil {
		c.k.opts.Log.Warn("can't take back what was to begin; a retry is told that its outcome is not known",
			"idempotencyKey", f.key, "error", err)
	}
	return false
}
