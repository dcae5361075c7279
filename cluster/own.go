package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kernos/store/replicated"
)

// own runs the kernel of an owner until another node owns, or the kernel has ended for another reason. Then the copy can
// follow again. Unfollow ends following, which can take longer than the lease, so the lease is renewed meanwhile.
func (n *Node) own(ctx context.Context, c *claim, unfollow func() error) error {
	running, stopKernel := context.WithCancelCause(ctx)
	defer stopKernel(nil)
	defer n.disown(c)
	kernel, lost := make(chan error, 1), make(chan struct{})
	n.work.Go(func() { kernel <- n.run(running, c, unfollow, lost) })

	quit, taken := make(chan struct{}), make(chan struct{})
	n.work.Go(func() { n.renew(ctx, c, quit, lost, taken) })
	stopping, moves := n.stopping, n.moves
	var moved *move
	deposed := false
	var err error
wait:
	for {
		select {
		case err = <-kernel:
			break wait
		case <-taken:
			taken, deposed = nil, true
			stopKernel(replicated.ErrDeposed)
		case <-stopping:
			stopping = nil
			stopKernel(errStop)
		case m := <-moves:
			moved, moves = &m, nil
			stopKernel(errMoved)
		}
	}
	closed := running.Err() != nil // because it was told to
	c.lease.end()
	close(quit)
	if taken != nil {
		<-taken // renewing has ended, too
	}
	n.ran(closed, err)
	end := n.handOn(ctx, c, moved, closed, deposed, err)
	switch {
	case stopping == nil, err == nil && !closed:
		return errStop
	case fatal(err):
		return err
	}
	return end
}

// handOn gives the ownership of a kernel that has ended with err to another node.
func (n *Node) handOn(ctx context.Context, c *claim, moved *move, closed, deposed bool, err error) error {
	if moved == nil {
		moved = &move{done: make(chan error, 1)}
	}
	switch {
	case ctx.Err() != nil: // this node vanishes without a goodbye
		moved.done <- ctx.Err()
		return ctx.Err()
	case deposed:
		n.log.Info("another node owns now", "epoch", c.record.Epoch)
		moved.done <- replicated.ErrDeposed
		return nil
	case err != nil && !closed:
		n.release(c, "")
		moved.done <- err
		return nil
	}
	to := n.successor(ctx, moved.to)
	err = n.release(c, to)
	if err == nil && to != "" {
		err = n.await(ctx, to)
	}
	if err == nil && moved.to != to {
		err = fmt.Errorf("node %s doesn't answer, and node %q takes over", moved.to, to)
	}
	moved.done <- err
	return nil
}

// ran notes how a kernel has ended.
func (n *Node) ran(closed bool, err error) {
	switch {
	case err == nil, closed:
		n.mu.Lock()
		n.pause = 0
		n.mu.Unlock()
		if err != nil && !errors.Is(err, context.Canceled) {
			n.log.Warn("the kernel has closed with an error", "error", err)
		}
	default:
		n.log.Error("the kernel has ended with an error", "error", err)
		n.rest("its kernel has ended: " + err.Error())
	}
}

// errMoved is why a kernel closes whose origin moves to another node.
var errMoved = errors.New("the kernel moves to another node")

// run ends following, opens the store of the owner, and runs the kernel on it. Lost is closed when the log has another
// owner's epoch.
func (n *Node) run(ctx context.Context, c *claim, unfollow func() error, lost chan<- struct{}) error {
	if err := unfollow(); fatal(err) {
		return err
	}
	s, err := n.copy.Own(ctx, c.record.Epoch, c.lease)
	if err != nil {
		return fmt.Errorf("the epoch can't begin: %w", err)
	}
	n.mu.Lock()
	n.store = s
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.store = nil
		n.mu.Unlock()
		_ = s.Close() // the kernel has closed it, unless it failed to begin
	}()
	n.announce()
	n.work.Go(func() {
		select {
		case <-s.Lost():
			close(lost)
		case <-ctx.Done():
		}
	})
	return n.options.Own(ctx, s)
}

// renew renews the lease until quit is closed, or another node owns. It closes taken in any case.
func (n *Node) renew(ctx context.Context, c *claim, quit, lost <-chan struct{}, taken chan<- struct{}) {
	defer close(taken)
	next := n.now() + n.options.Lease/renewals
	for {
		timer := time.NewTimer(max(0, next-n.now()))
		select {
		case <-timer.C:
		case <-lost: // the record has another owner, too
			lost, c.unsure = nil, true
		case <-n.wake: // it may have
			c.unsure = true
		case <-quit:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		next = n.now() + n.options.Lease/renewals
		switch err := n.attempt(ctx, c); {
		case err == nil:
			n.see(c.after, c.record, true)
		case errors.Is(err, errTaken):
			c.lease.end()
			n.read(ctx) // so that what comes here is passed on while the kernel closes
			return
		default:
			n.log.Debug("the lease can't be renewed", "error", err)
			next = n.now() + n.options.Lease/retries
		}
	}
}
