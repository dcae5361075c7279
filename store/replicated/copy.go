package replicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/backoff"
	"kernos/store"
	"kernos/store/pebble"
)

// Options are the settings of a copy. The zero value has good ones.
type Options struct {
	// Engine has the settings of the store in the directory; nil means the usual ones.
	Engine *pebble.Options

	// Log is for the operator; nil means that nothing is logged.
	Log *slog.Logger
}

func (o *Options) defaults() Options {
	var all Options
	if o != nil {
		all = *o
	}
	engine := pebble.Options{}
	if all.Engine != nil {
		engine = *all.Engine
	}
	engine.Copy = true
	engine.CloseTimeout = cmp.Or(engine.CloseTimeout, 2*time.Second)
	all.Engine = &engine
	all.Log = cmp.Or(all.Log, slog.New(slog.DiscardHandler))
	return all
}

// A Position is how far a copy is.
type Position struct {
	Epoch    uint64 // the epoch of the last entry that the copy has
	Sequence uint64 // the sequence of that entry, which is known to be accepted
	Accepted uint64 // the number of the last group that is known to be accepted
	Number   uint64 // the number of the last group in the copy
}

// A Copy is what one node has of an origin: a directory, which follows the log, or whose owner writes into the log.
// It is safe for concurrent use. It follows or is owned, one at a time: a second call returns an error with the code
// 409.
type Copy struct {
	dir  string
	log  Log
	opts Options

	followed atomic.Bool // entries of the log were compared with the copy, and are of the same past

	mu       sync.Mutex
	closed   bool
	stop     context.CancelFunc // ends what uses the engine, or nil if nothing does
	idle     chan struct{}      // closed when nothing uses the engine
	engine   *pebble.Engine     // nil between an owner and what comes next
	owner    *Owner             // nil while the copy isn't owned
	position Position
	founder  bool // the directory has a state of its own
	marks    marks
}

// Open opens the copy in a directory, which is made if there is none. It doesn't need the log yet.
func Open(dir string, log Log, options *Options) (*Copy, error) {
	c := &Copy{dir: dir, log: log, opts: options.defaults()}
	c.marks.news.L = &c.marks.mu
	engine, err := c.open()
	if err != nil {
		return nil, err
	}
	c.engine = engine
	return c, nil
}

// open opens the engine.
func (c *Copy) open() (*pebble.Engine, error) {
	engine, err := pebble.Open(c.dir, c.opts.Engine)
	if err != nil {
		return nil, err
	}
	at, _, err := engine.Position()
	var own bool
	if err == nil {
		own, err = founder(engine)
	}
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	c.move(at)
	c.mu.Lock()
	c.founder = own
	c.mu.Unlock()
	return engine, nil
}

func (c *Copy) move(to pebble.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.position = Position{to.Epoch, to.Sequence, to.Accepted, to.Number}
}

// Position returns how far the copy is.
func (c *Copy) Position() Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.position
	if c.owner != nil {
		at.Accepted, at.Sequence = c.owner.publisher.Accepted()
		at.Number = max(at.Accepted, c.owner.publisher.published())
	}
	return at
}

// begin takes the engine for one use, which ends with end. The context ends with the copy.
func (c *Copy) begin(ctx context.Context) (engine *pebble.Engine, within context.Context, err error) {
	c.mu.Lock()
	switch {
	case c.closed:
		err = store.ErrClosed
	case c.stop != nil:
		err = store.Errorf(409, nil, "The copy in %s follows already, or is owned", c.dir)
	}
	if err != nil {
		c.mu.Unlock()
		return nil, nil, err
	}
	within, c.stop = context.WithCancel(ctx)
	c.idle = make(chan struct{})
	engine = c.engine
	c.mu.Unlock()
	if engine == nil {
		if engine, err = c.open(); err != nil {
			c.end()
			return nil, nil, err
		}
		c.mu.Lock()
		c.engine = engine
		c.mu.Unlock()
	}
	return engine, within, nil
}

func (c *Copy) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
	c.stop = nil
	close(c.idle)
}

// Follow applies what the log has after the position of the copy, until ctx is done, and returns the error of ctx
// then. First it drops what the log has not accepted. If the log lacks what it had accepted, the error is
// [ErrDiverged], and nothing is changed. A [Copy.Founder] waits while the log has no owner; then the error is [ErrForeign].
func (c *Copy) Follow(ctx context.Context) error {
	engine, within, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer c.end()
	last, err := c.log.Last(within)
	if err == nil && last.Epoch == 0 && c.Founder() { // this node may become the first owner
		if err = c.awaitEpoch(within); err == nil {
			last, err = c.log.Last(within)
		}
	}
	if err == nil {
		err = c.rejoin(engine, last)
	}
	if err == nil {
		err = c.follow(within, engine, math.MaxUint64)
	}
	if within.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return store.ErrClosed // the copy was closed
	}
	return err
}

// rejoin compares a copy with the last entry of the log, and drops the tail of the copy.
func (c *Copy) rejoin(engine *pebble.Engine, last Entry) error {
	at, there, err := engine.Position()
	if err != nil {
		return err
	}
	if last.Sequence < at.Sequence || last.Sequence == at.Sequence && at.Sequence > 0 && !levels(at, last) {
		return c.diverged(at, last)
	}
	if !there {
		empty, err := engine.Empty()
		if err == nil && !empty {
			err = c.errForeign()
		}
		return err
	}
	return c.rewind(engine)
}

func (c *Copy) rewind(engine *pebble.Engine) error {
	groups, err := engine.Rewind()
	if err != nil {
		return err
	}
	at, _, err := engine.Position()
	if err != nil {
		return err
	}
	c.move(at)
	if groups > 0 {
		c.opts.Log.Info("dropped what the cluster's log has not accepted",
			"dir", c.dir, "groups", groups, "after", at.Accepted)
	}
	return nil
}

// levels reports whether an entry is the one that a position is at.
func levels(at pebble.Position, e Entry) bool {
	return e.Sequence == at.Sequence && e.Epoch == at.Epoch && next(e) == at.Accepted+1
}

// next returns the number of the first group after an entry.
func next(e Entry) uint64 { return max(1, e.Next()) }

// diverged returns the error for a copy that has what the log lacks.
func (c *Copy) diverged(at pebble.Position, e Entry) error {
	return store.Errorf(503, ErrDiverged, "The copy in %s has %d accepted groups of changes (epoch %d, up to entry %d), "+
		"and the cluster's log lacks some of them: it has %d (epoch %d, entry %d). Nothing was changed. "+
		"Bring back the servers or the stream that have them, and start this node again. "+
		"Otherwise keep the copy with `kernos cluster leave`, and begin a new cluster with it; "+
		"or move the directory away, and this node follows what the log has",
		c.dir, at.Accepted, at.Epoch, at.Sequence, next(e)-1, e.Epoch, e.Sequence)
}

// errReached ends following at an entry.
var errReached = errors.New("the entry is reached")

// follow applies the entries after the position, up to one. The copy has no tail.
func (c *Copy) follow(ctx context.Context, engine *pebble.Engine, until uint64) error {
	at, _, err := engine.Position()
	if err != nil {
		return err
	}
	if at.Sequence >= until {
		return nil
	}
	// The entry at the position comes first: it shows that the log is the same one.
	compared := at.Sequence == 0
	err = c.log.Follow(ctx, at.Sequence-min(at.Sequence, 1), func(e Entry) error {
		if !compared {
			compared = true
			if !levels(at, e) || len(e.Groups) > 0 && pebble.Link(e.Groups[len(e.Groups)-1]) != at.Link {
				return c.diverged(at, e)
			}
			c.followed.Store(true)
			return nil
		}
		if e.Sequence <= at.Sequence {
			return nil
		}
		if e.First != at.Accepted+1 || e.Epoch < at.Epoch {
			return c.diverged(at, e)
		}
		to := pebble.Position{Epoch: e.Epoch, Sequence: e.Sequence, Accepted: next(e) - 1, Number: next(e) - 1}
		to, err := c.take(ctx, engine, e, to)
		if errors.Is(err, pebble.ErrUnlinked) {
			return c.diverged(at, e)
		}
		if err != nil {
			return err
		}
		mark := e.Begins() && e.Epoch == at.Epoch && at.Epoch > 0
		at = to
		c.move(at)
		c.followed.Store(true)
		if mark {
			if snapshot, err := engine.Snapshot(); err == nil {
				c.marks.keep(e.Sequence, snapshot)
			}
		}
		c.marks.pass(e.Sequence)
		if at.Sequence >= until {
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}

// take applies an entry, as soon as the disk takes it.
func (c *Copy) take(ctx context.Context, engine *pebble.Engine, e Entry, to pebble.Position) (pebble.Position, error) {
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
	for {
		at, err := engine.Follow(e.Groups, to)
		if err == nil || errors.Is(err, pebble.ErrBody) || errors.Is(err, pebble.ErrUnlinked) ||
			errors.Is(err, store.ErrClosed) {
			return at, err
		}
		if !pauses.Wait(ctx.Done()) {
			return at, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// Close closes the copy, and its Owner. A Follow ends with an error.
func (c *Copy) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	stop, idle, owner := c.stop, c.idle, c.owner
	c.mu.Unlock()
	switch {
	case owner != nil:
		_ = owner.Close() // the owner's user gets the error
	case stop != nil:
		stop()
		<-idle
	}
	c.marks.close()
	if c.engine == nil {
		return nil
	}
	return c.engine.Close()
}

// Leave makes an ordinary store of the copy in a directory: drops what the log has not accepted, and forgets the
// position. No process may have the copy open.
func Leave(dir string, options *Options) error {
	opts := options.defaults()
	engine, err := pebble.Open(dir, opts.Engine)
	if err != nil {
		return err
	}
	if _, err = engine.Rewind(); err == nil {
		err = engine.Leave()
	}
	return errors.Join(err, engine.Close())
}
