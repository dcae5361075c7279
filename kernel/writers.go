package kernel

import (
	"context"
	"errors"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"kernos/store"
)

// writers are queues of calls that change the same keys. Without them such calls would race: each reads, and finds
// when its batch is applied that another call was faster.
//
// A call enters the queues of the keys that its batch depends on when the batch was overtaken, or when other calls
// are in these queues. When it is first in all of them its handler runs again, and its batch is applied. A call that
// meets no other enters no queue: it only looks at busy.
//
// Keys share queues. A set of queues is a bit mask. A call enters the queues of a set in the order of the bits, and
// has left all of them before it enters others, or makes a nested call: no calls wait for each other in a circle.
type writers struct {
	busy   atomic.Int32 // how many writers are in queues
	seed   maphash.Seed
	queues [64]chan struct{} // each holds a token of the writer that is first; others wait in their order to send one
}

func newWriters() *writers {
	w := &writers{seed: maphash.MakeSeed()}
	for i := range w.queues {
		w.queues[i] = make(chan struct{}, 1)
	}
	return w
}

// of returns the queues of the keys that a batch depends on.
func (w *writers) of(b *store.Batch) (set uint64) {
	for i := range b.Conditions {
		set |= 1 << (maphash.Bytes(w.seed, b.Conditions[i].Key) % uint64(len(w.queues)))
	}
	return set
}

// ahead reports whether other writers come before the batch of one that is first in a set of queues.
func (w *writers) ahead(first uint64, b *store.Batch) bool {
	if w.busy.Load() == 0 {
		return false
	}
	for others := w.of(b) &^ first; others != 0; others &= others - 1 {
		if len(w.queues[bits.TrailingZeros64(others)]) > 0 {
			return true
		}
	}
	return false
}

// enter waits until a writer that is first in some queues is also first in the queues of a batch, and returns all
// queues. If ctx ends before that, the writer is in no queue.
func (w *writers) enter(ctx context.Context, first uint64, b *store.Batch) (uint64, error) {
	all := first | w.of(b)
	if all == first {
		return first, ctx.Err()
	}
	w.leave(first)
	w.busy.Add(1)
	for rest := all; rest != 0; rest &= rest - 1 {
		queue := w.queues[bits.TrailingZeros64(rest)]
		select {
		case queue <- struct{}{}:
			continue
		default: // ctx.Done may have to make a channel
		}
		select {
		case queue <- struct{}{}:
		case <-ctx.Done():
			w.release(all &^ rest)
			return 0, ctx.Err()
		}
	}
	return all, nil
}

// leave takes a writer out of the queues in which it is first.
func (w *writers) leave(first uint64) {
	if first != 0 {
		w.release(first)
	}
}

// release ends what enter has begun.
func (w *writers) release(set uint64) {
	for ; set != 0; set &= set - 1 {
		<-w.queues[bits.TrailingZeros64(set)]
	}
	w.busy.Add(-1)
}

// Update applies a batch that no call stages. fill reads, decides, and fills the batch. If a condition of the batch
// doesn't hold, fill is called again with an empty one, in its turn among the calls that change the same data.
// The error is fill's, or the store's, or ctx has ended.
func (k *Kernel) Update(ctx context.Context, fill func(*store.Batch) error) (*store.Commit, error) {
	if c, ok := CallOf(ctx); ok {
		c.leaveQueues()
	}
	var first uint64
	defer func() { k.writers.leave(first) }()
	for {
		var b store.Batch
		if err := fill(&b); err != nil {
			return nil, err
		}
		if !k.writers.ahead(first, &b) {
			commit, err := k.opts.Store.Apply(&b)
			if !errors.Is(err, store.ErrConflict) {
				return commit, err
			}
		}
		var err error
		if first, err = k.writers.enter(ctx, first, &b); err != nil {
			return nil, err
		}
	}
}

// enterQueues waits for the turn of a call whose batch has met a concurrent change. The
// error is why it doesn't get its turn.
func (c *Call) enterQueues(b *store.Batch) error {
	c.mu.Lock()
	first := c.first
	c.first = 0
	c.mu.Unlock()
	first, err := c.k.writers.enter(c, first, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled.Load() {
		c.k.writers.leave(first)
		return context.Canceled // the call was answered at its deadline
	}
	c.first = first
	return err
}

// leaveQueues ends the turn of a call, if it has one.
func (c *Call) leaveQueues() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.k.writers.leave(c.first)
	c.first = 0
}
