package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A move is the wish that another node owns.
type move struct {
	to   string
	done chan error // has room for one
}

// farBehind is how many groups a node may lack to be moved to: it applies them in well under a second.
const farBehind = 10_000

// Stop ends Run. If this node owns, the kernel closes, and the ownership goes to a node that is level, which takes it at
// once. It returns when the other node has taken it, if there is one, and in any case soon after the kernel has closed.
func (n *Node) Stop(ctx context.Context) error {
	n.stop()
	select {
	case <-n.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Move hands the ownership to a node. It can be called on each node, and returns when that node owns.
func (n *Node) Move(ctx context.Context, name string) error {
	owner, _ := n.Owner()
	switch {
	case owner.Name == name && name != "":
		return nil
	case owner.Name == "":
		return errors.New("no node owns at the moment; try again")
	case name != n.options.Name && !n.known(name):
		return n.unknown(name)
	case owner.Self:
		_, err := n.moveHere(ctx, name)
		return err
	}
	if err := n.ask(ctx, owner.Name, "move", name, new(struct{})); err != nil {
		return err
	}
	return n.await(ctx, name) // so that this node knows it, too
}

// known reports whether another node has a name.
func (n *Node) known(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.presence.peers[name] != nil
}

// moveHere hands the ownership of this node on.
func (n *Node) moveHere(ctx context.Context, name string) (done struct{}, err error) {
	there, err := n.askPosition(ctx, name)
	if err != nil {
		return done, err
	}
	switch behind := n.copy.Position().Accepted; {
	case there.Unable != "":
		return done, fmt.Errorf("node %s can't take over: %s", name, there.Unable)
	case there.Number+farBehind < behind:
		return done, fmt.Errorf("node %s lacks %d groups of changes; try again when it has them", name, behind-there.Number)
	}
	m := move{name, make(chan error, 1)}
	select {
	case n.moves <- m:
	case <-n.ended:
		return done, errors.New("this node stops")
	case <-ctx.Done():
		return done, ctx.Err()
	case <-time.After(n.options.Lease):
		return done, fmt.Errorf("node %s doesn't own any more, or hands the ownership on already", n.options.Name)
	}
	select {
	case err = <-m.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return done, err
}

// askPosition returns what a node says about itself now.
func (n *Node) askPosition(ctx context.Context, name string) (s sign, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.options.Lease/renewals)
	defer cancel()
	err = n.ask(ctx, name, "position", struct{}{}, &s)
	return s, err
}

// position says how far this node is.
func (n *Node) position(context.Context, struct{}) (sign, error) { return n.sign(), nil }

// successor returns who takes over from this node, whose kernel is closed: the node that is asked for, or one that has
// all keys and then all groups; "" if no node answers. It waits half a lease at most for a node that is level.
func (n *Node) successor(ctx context.Context, asked string) string {
	number, length := n.copy.Position().Accepted, n.options.Lease
	ctx, cancel := context.WithTimeout(ctx, length/2)
	defer cancel()
	for {
		best, level := n.candidate(ctx, asked, number)
		if best == "" || level || !sleep(ctx, asking) {
			return best
		}
	}
}

// asking is how long an owner waits that has handed nothing over yet until it asks again whether a node is level.
const asking = 5 * time.Millisecond

// candidate asks the other nodes where they are, and returns the one to take over, and whether it has all groups.
func (n *Node) candidate(ctx context.Context, asked string, number uint64) (best string, level bool) {
	n.mu.Lock()
	alive := n.presence.alive(n.now(), n.options.Lease)
	n.mu.Unlock()
	answers := make(chan *sign, len(alive))
	for _, p := range alive {
		n.work.Go(func() {
			s, err := n.askPosition(ctx, p.Name)
			if err != nil {
				n.log.Debug("a node can't take over", "other", p.Name, "error", err)
				answers <- nil
				return
			}
			answers <- &s
		})
	}
	var chosen *sign
	missing := 0
	for range alive {
		s := <-answers
		if s == nil || s.Role != Following || s.Unable != "" {
			continue
		}
		lack := len(lacks(s.Keys, append(alive, &peer{sign: n.sign()})))
		switch {
		case chosen == nil, chosen.Name != asked && s.Name == asked:
		case chosen.Name == asked, lack > missing, lack == missing && s.Number <= chosen.Number:
			continue
		}
		chosen, missing = s, lack
	}
	if chosen == nil {
		return "", false
	}
	return chosen.Name, chosen.Number >= number
}

// release says in the record that the kernel is closed, and who may take over at once: a node, or any if to is empty.
func (n *Node) release(c *claim, to string) error {
	c.lease.end()
	c.record.Stopping, c.record.Successor = true, to
	ctx, cancel := context.WithTimeout(context.Background(), n.options.Lease/2)
	defer cancel()
	for {
		err := n.attempt(ctx, c)
		switch {
		case err == nil:
			n.see(c.after, c.record, true)
			n.tell()
			return nil
		case errors.Is(err, errTaken):
			return nil
		case !sleep(ctx, n.options.Lease/retries):
			n.log.Warn("the ownership couldn't be given away, so another node waits for the end of the lease", "error", err)
			return err
		}
	}
}

// await waits until another node owns.
func (n *Node) await(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, n.options.Lease/2)
	defer cancel()
	for {
		if n.read(ctx) {
			if owner, _ := n.Owner(); owner.Name == to {
				return nil
			}
		}
		timer := time.NewTimer(n.options.Lease / retries)
		select {
		case <-n.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("node %s hasn't taken over yet", to)
		}
		timer.Stop()
	}
}

// disown ends an ownership on this node.
func (n *Node) disown(c *claim) {
	c.lease.end()
	n.mu.Lock()
	n.update(func() { n.owning = false })
	n.mu.Unlock()
	n.announce()
}

// rest keeps this node from taking over for a while, longer each time.
func (n *Node) rest(why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now()-n.retry > restTime {
		n.pause = 0 // the last failure was another one
	}
	n.pause = min(max(2*n.pause, n.options.Lease), restTime)
	n.unable, n.retry = why, n.now()+n.pause
}

// restTime is the longest time that a node rests.
const restTime = time.Minute

// resting returns for how long this node rests.
func (n *Node) resting() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(0, n.retry-n.now())
}
