package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// follow follows the owner until this node has taken over, and returns its claim, and what ends following.
func (n *Node) follow(ctx context.Context) (c *claim, unfollow func() error, err error) {
	following := make(chan error, 1)
	behind, cancel := context.WithCancel(ctx)
	begin := func() { n.work.Go(func() { following <- n.copy.Follow(behind) }) }
	begin()
	end := func() error {
		cancel()
		if following == nil {
			return nil
		}
		return <-following
	}
	defer func() {
		if c == nil {
			end()
		}
	}()
	var again <-chan time.Time // when following is tried again
	for {
		wait := n.options.Lease / reads
		if n.read(ctx) {
			claim, at := n.turn()
			if claim != nil {
				if n.take(ctx, claim) {
					return claim, end, nil
				}
				continue
			}
			wait = min(wait, max(at, time.Millisecond))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-n.wake:
		case err := <-following:
			if fatal(err) {
				following = nil
				return nil, nil, err
			}
			if ctx.Err() == nil {
				n.log.Warn("this node can't follow the owner", "error", err)
				n.rest(fmt.Sprintf("it can't follow: %v", err))
			}
			following = nil
			again = time.After(n.resting())
		case <-again:
			again, following = nil, make(chan error, 1)
			begin()
		case <-n.stopping:
			timer.Stop()
			return nil, nil, errStop
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, ctx.Err()
		}
		timer.Stop()
	}
}

// read reads the record of the owner, and reports whether it could.
func (n *Node) read(ctx context.Context) bool {
	var r record
	ctx, cancel := context.WithTimeout(ctx, n.options.Lease/renewals)
	defer cancel()
	n.mu.Lock()
	sure := n.seen.stale > reads
	n.mu.Unlock()
	sequence, err := register{n.messages, n.owner}.last(ctx, &r, sure)
	if err != nil {
		n.log.Debug("the record of the owner can't be read", "error", err)
		return false
	}
	n.see(sequence, r, sure)
	return true
}

// turn returns a claim if this node may try to take over now, and otherwise how long it has to wait if nothing changes.
func (n *Node) turn() (*claim, time.Duration) {
	own, length := n.sign(), n.options.Lease
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	at, inTurn := n.seen.free(n.options.Name, n.instance, length)
	if n.seen.sequence == 0 && !own.Founder {
		at += length / founding
	}
	if inTurn {
		before, wait := n.presence.turn(own, now, length)
		at += time.Duration(before) * length / turns
		if wait {
			at += keyless * length
		}
	}
	if n.goal > n.copy.Position().Accepted+farBehind && now < at+catchUp {
		return nil, length / reads // it can follow without owning, and a node that is level may come back
	}
	if at = max(at, n.retry); now < at {
		return nil, at - now
	}
	n.epoch = max(n.epoch, n.seen.record.Epoch, n.copy.Position().Epoch) + 1
	return &claim{
		register: register{n.messages, n.owner},
		length:   length - length/margins,
		lease:    &lease{now: n.now},
		record:   record{Node: n.options.Name, Instance: n.instance, Epoch: n.epoch, Lease: length, Door: n.options.Door},
		after:    n.seen.sequence,
		begun:    make(map[uint64]time.Duration),
	}, 0
}

// take tries to make a claim an ownership, and reports whether it has. It gives up when another node owns, or a lease
// has passed.
func (n *Node) take(ctx context.Context, c *claim) bool {
	begin := n.now()
	for {
		err := n.attempt(ctx, c)
		switch {
		case err == nil:
			n.log.Info("this node takes over", "epoch", c.record.Epoch)
			n.mu.Lock()
			n.update(func() {
				n.owning = true
				n.seen.see(c.after, c.record, n.now(), n.options.Lease, true)
			})
			n.mu.Unlock()
			n.tell()
			return true
		case errors.Is(err, errTaken):
			n.log.Debug("another node was faster", "epoch", c.record.Epoch)
			return false
		case n.now()-begin > n.options.Lease || !sleep(ctx, n.options.Lease/retries):
			n.log.Info("this node couldn't take over", "epoch", c.record.Epoch, "error", err)
			return false
		}
	}
}

// attempt puts the record of a claim once, within the time between two renewals.
func (n *Node) attempt(ctx context.Context, c *claim) error {
	ctx, cancel := context.WithTimeout(ctx, n.options.Lease/renewals)
	defer cancel()
	return c.attempt(ctx)
}

// catchUp is how long a node that lacks much of the log waits until it has it, once no node owns.
const catchUp = time.Minute

// keyless is how many leases a node waits that lacks a key, or the state for a new cluster, of a candidate that is here. It gives signs of life, so it can
// take over, unless its way to the stream is cut.
const keyless = 3
