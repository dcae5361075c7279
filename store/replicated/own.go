package replicated

import (
	"context"
	"errors"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/store"
	"kernos/store/pebble"
)

// Own makes this node the owner. It begins the epoch, which must be larger than any before it, also than one that an
// earlier Own on this node was given, whatever became of that; and follows the log to there. The error is
// [ErrDeposed] if the log has that epoch or a later one. The copy is owned until the Owner is closed; afterwards it
// can follow, or be owned again. Ctx is for the call, not for the Owner.
//
// A store that has been one of its own, and not a copy, begins a log: everything in it is appended first.
func (c *Copy) Own(ctx context.Context, epoch uint64, lease Lease) (*Owner, error) {
	engine, within, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.lead(within, engine, epoch); err != nil {
		c.end()
		return nil, err
	}
	at := c.Position()
	o := &Owner{Store: engine, engine: engine, copy: c, publisher: newPublisher(c.log, lease, at)}
	o.publisher.engine = engine
	if err := engine.Lead(o.publisher); err != nil {
		c.end()
		return nil, err
	}
	var publish context.Context
	publish, o.cancel = context.WithCancel(context.Background())
	o.running.Go(func() { o.publisher.run(publish) })
	c.mu.Lock()
	c.owner = o
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, errors.Join(store.ErrClosed, o.Close())
	}
	return o, nil
}

// lead begins an epoch in the log and brings the copy there.
func (c *Copy) lead(ctx context.Context, engine *pebble.Engine, epoch uint64) error {
	last, err := c.log.Last(ctx)
	if err != nil {
		return err
	}
	if last.Epoch == 0 {
		err = c.found(ctx, engine, &last)
	} else {
		err = c.rejoin(engine, last)
	}
	pauses := backoff.Backoff{First: time.Millisecond, Longest: 100 * time.Millisecond, Jitter: true}
	for err == nil {
		if last.Epoch >= epoch {
			return ErrDeposed
		}
		e := Entry{Epoch: epoch, First: next(last)}
		e.Sequence, err = c.log.Append(ctx, last.Sequence, e)
		if err == nil {
			return c.arrive(ctx, engine, last, e)
		}
		if errors.Is(err, ErrDeposed) { // another entry has come between
			if !pauses.Wait(ctx.Done()) {
				return ctx.Err()
			}
			last, err = c.log.Last(ctx)
		}
	}
	return err
}

// maxFounding is how many bytes of a store one group has when the store begins a log.
const maxFounding = 512 << 10

var errFounding = store.Errorf(503, nil,
	"The cluster's log has the beginning of the state of another node, whose start was interrupted: "+
		"start that node again, or delete the stream")

// arrive brings the copy to the beginning of the epoch.
func (c *Copy) arrive(ctx context.Context, engine *pebble.Engine, before, begin Entry) error {
	at, _, err := engine.Position()
	if err != nil {
		return err
	}
	if c.followed.Load() && levels(at, before) { // there is nothing to be read
		to := pebble.Position{Epoch: begin.Epoch, Sequence: begin.Sequence, Accepted: at.Accepted, Number: at.Number}
		if to, err = c.take(ctx, engine, begin, to); err == nil {
			c.move(to)
		}
		return err
	}
	return c.follow(ctx, engine, begin.Sequence)
}

// found begins a log with what is in the store, if there is something. The entries have the epoch 0, and the last one
// of them has no groups. Before that, no other node can own the origin, since it doesn't have the state.
func (c *Copy) found(ctx context.Context, engine *pebble.Engine, last *Entry) error {
	complete := last.Sequence == 0 || last.Begins()
	_, there, err := engine.Position()
	if err != nil {
		return err
	}
	empty := false
	if !there {
		if empty, err = engine.Empty(); err != nil {
			return err
		}
	}
	switch {
	case !there && !empty:
		return c.seed(ctx, engine, last)
	case !complete:
		return errFounding
	}
	return c.rejoin(engine, *last)
}

// seed appends everything in the store to the log. After a crash it begins anew.
func (c *Copy) seed(ctx context.Context, engine *pebble.Engine, last *Entry) error {
	add := func(groups ...[]byte) error {
		e := Entry{First: next(*last), Groups: groups}
		var err error
		e.Sequence, err = c.log.Append(ctx, last.Sequence, e)
		*last = e
		return err
	}
	var link uint32
	for body, err := range engine.Bodies(maxFounding) {
		if err == nil {
			link = pebble.Link(body)
			err = add(body)
		}
		if err != nil {
			return err
		}
	}
	if err := add(); err != nil {
		return err
	}
	at := pebble.Position{Sequence: last.Sequence, Accepted: next(*last) - 1, Number: next(*last) - 1, Link: link}
	if err := engine.Place(at); err != nil {
		return err
	}
	c.move(at)
	c.mu.Lock()
	c.founder = false
	c.mu.Unlock()
	c.opts.Log.Info("the cluster begins with the state of this node", "dir", c.dir)
	return nil
}

// An Owner is the store of an origin while this node owns the origin. A commit is decided when the directory and the
// log have the batch. Barrier is the fence of reads: it fails while the lease doesn't hold and nothing is pending.
type Owner struct {
	store.Store // the engine

	engine    *pebble.Engine
	copy      *Copy
	publisher *publisher
	cancel    context.CancelFunc // ends the publisher
	running   sync.WaitGroup     // the publisher
	once      sync.Once
	closeErr  error
}

// Lost returns a channel that is closed when another node has taken the origin. Then all pending commits fail with
// [ErrDeposed], Apply and Barrier too. The Owner has to be closed.
func (o *Owner) Lost() <-chan struct{} { return o.publisher.lost }

// Mark adds an entry without groups to the log, and returns its sequence: each copy remembers its state there, for
// [Copy.Checksum].
func (o *Owner) Mark(ctx context.Context) (sequence uint64, err error) {
	var m *mark
	snapshot, err := o.engine.Mark(func(number uint64) { m = o.publisher.mark(number) })
	if err != nil {
		return 0, err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		_ = snapshot.Close() // closing a snapshot can't fail
		return 0, ctx.Err()
	}
	if m.sequence == 0 {
		_ = snapshot.Close()
		return 0, o.publisher.failure()
	}
	o.copy.marks.keep(m.sequence, snapshot)
	return m.sequence, nil
}

// Close waits until everything is accepted, 2 seconds at most (or CloseTimeout of the engine's options), and lets go
// of the origin. What was not accepted then may be, or is dropped later; its commits have failed.
func (o *Owner) Close() error {
	o.once.Do(func() {
		patience := time.AfterFunc(o.copy.opts.Engine.CloseTimeout, o.cancel)
		o.closeErr = o.engine.Close()
		o.publisher.stop()
		o.running.Wait()
		patience.Stop()
		o.cancel()
		o.publisher.unwatch()

		c := o.copy
		at := c.Position()
		c.mu.Lock()
		c.position, c.owner, c.engine = at, nil, nil
		c.mu.Unlock()
		c.end()
	})
	return o.closeErr
}
