package pebble

import (
	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// flush gives the open group to Pebble, which has room for it, and returns when Pebble has
// everything that was visible when flush was called.
func (e *Engine) flush() {
	if e.queue.settled() {
		return
	}
	e.flushing.Lock()
	defer e.flushing.Unlock()
	for g := e.queue.take(); g != nil; g = e.queue.take() {
		err := e.give(g)
		if err == nil {
			return
		}
		// Readers have seen the batches, so Pebble must not continue without them.
		e.disk.freeze(store.Errorf(503, err, "The store in %s can't continue to write; start kernos again", e.dir))
		e.queue.given(g, false)
		e.resolve(g, err)
	}
}

// give gives a group to Pebble. Only one goroutine does so at a time.
func (e *Engine) give(g *group) error {
	if e.publishing != nil {
		return e.giveAndPublish(g)
	}
	err := e.db.ApplyNoSyncWait(g.batch, crdb.Sync)
	e.cache.applied(g.cacheChanges)
	if err != nil {
		return e.readError(err)
	}
	e.queue.given(g, true)
	return nil
}

// runSyncer waits for the log of Pebble and resolves commits in their order. While it waits
// for one fsync, batches join the open group, which it gives to Pebble for the next fsync.
func (e *Engine) runSyncer() {
	for {
		g, more := e.queue.next()
		switch {
		case !more:
			return
		case g == nil:
			e.flush()
			continue
		}
		err := g.batch.SyncWait()
		if e.disk.isFrozen() {
			err = e.health.err() // nothing has reached the disk, though Pebble got no error
		} else if err != nil {
			err = unwritable(e.dir, err)
		} else if e.publishing != nil {
			err = e.publishing.to.Wait(g.number)
		}
		e.queue.pop()
		e.resolve(g, err)
		g.reset()
		select {
		case e.groups <- g:
		default:
			_ = g.batch.Close() // closing a batch can't fail here
		}
	}
}

func (e *Engine) resolve(g *group, err error) {
	store.ResolveAll(g.commits, err)
	for range g.commits {
		<-e.slots
	}
}

// runMonitor resolves all pending commits when the disk begins to fail, since the syncer
// may have to wait for the disk for a long time.
func (e *Engine) runMonitor() {
	for failing := false; ; {
		select {
		case <-e.health.changed:
		case <-e.stopMonitor:
			return
		}
		err := e.health.err()
		if err != nil {
			for _, c := range e.queue.commits() {
				c.Resolve(err)
			}
		}
		switch {
		case err != nil && !failing:
			e.opts.Log.Error("the store can't be written", "dir", e.dir, "error", err)
		case err == nil && failing:
			e.opts.Log.Info("the store can be written again", "dir", e.dir)
		}
		failing = err != nil
	}
}

// Barrier returns a commit that is durable when everything applied so far is. With a publisher, it fails if nothing is
// pending and the owner may not show what it has.
func (e *Engine) Barrier() *store.Commit {
	select {
	case <-e.closed:
		c := store.NewCommit(0)
		c.Resolve(store.ErrClosed)
		return c
	default:
	}
	last := e.queue.last()
	if last == nil {
		if e.publishing != nil {
			if err := e.publishing.to.Holds(); err != nil {
				c := store.NewCommit(0)
				c.Resolve(err)
				return c
			}
		}
		return store.Committed(0)
	}
	c := store.NewCommit(last.Revision)
	last.Then(c.Resolve)
	return c
}
